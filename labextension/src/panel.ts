/** The Workbench panel: the page of the kernel that the user is in, and what to do while there is none. */
import { Message } from '@lumino/messaging';
import { Widget } from '@lumino/widgets';

import { WorkerLayouter } from './graph/worker';
import { workbenchIcon } from './icon';
import { LiveLink } from './kernel';
import { button } from './kit/section';
import { ISubject } from './live';
import { Page } from './page';

/** What a panel asks of the application. */
export interface Asks {
  tour(): void;
  /** Show the line of the program of the notebook at `path`. */
  jump(source: string, path: string): void;
  /** Keep a panel with the notebook at `path`. */
  pin(path: string): void;
}

let made = 0; // pinned panels

export class WorkbenchPanel extends Widget {
  /** `pinned`: `live` is one notebook, not the one that the user is in. */
  constructor(
    private _live: ISubject,
    readonly pinned: boolean,
    private _asks: Asks
  ) {
    super();
    this.id = pinned ? `workbench-panel-${++made}` : 'workbench-panel';
    this.addClass('wb-Panel');
    this.node.dataset.pinned = String(pinned);
    this.title.icon = workbenchIcon;
    this.title.closable = true;
    this._page = new Page(this.node, {
      ask: (topic, parameters) => this._live.link?.parameters(topic, parameters),
      turn: async (knob, part, value) => this._live.link?.turn(knob, part, value),
      command: async command => this._live.link?.command(command),
      attend: () => this._attend(),
      layouter: () => new WorkerLayouter(),
      jump: source => this._asks.jump(source, this._live.path),
      pin: pinned ? undefined : () => this._asks.pin(this._live.path)
    });
    this._name();
    _live.changed.connect(this._changed, this);
    document.addEventListener('visibilitychange', this._attend);
    this.update();
  }

  /** Where the notebook lies that the panel stays with, '' of one that follows the user. */
  get path(): string {
    return this.pinned ? this._live.path : '';
  }

  /** In a sidebar there is no room for words. */
  set wordless(value: boolean) {
    this._wordless = value;
    this._name();
  }

  configure(deadline: number): void {
    this._page.deadline = deadline;
    this.update();
  }

  /** The theme changed: canvases read their colours again. */
  restyle(): void {
    this._page.restyle();
  }

  dispose(): void {
    if (this.isDisposed) {
      return;
    }
    this._live.changed.disconnect(this._changed, this);
    document.removeEventListener('visibilitychange', this._attend);
    this._watched?.watch(this, []);
    this._page.dispose();
    super.dispose();
  }

  protected onAfterAttach(_: Message): void {
    this._attend();
  }

  protected onAfterShow(_: Message): void {
    this._attend();
    this.update();
  }

  protected onAfterHide(_: Message): void {
    this._attend();
  }

  protected onAfterDetach(_: Message): void {
    this._attend();
  }

  protected onActivateRequest(_: Message): void {
    (this.node.querySelector<HTMLElement>('button:not([disabled]):not([hidden])') ?? this.node).focus();
  }

  protected onUpdateRequest(_: Message): void {
    const link = this._live.link;
    const standing = { name: this._live.name, trouble: link?.trouble ?? '', silence: link?.silence ?? 0 };
    if (!this._page.show(link?.snapshot ?? null, standing)) {
      this._showEmpty(Boolean(link), Boolean(link?.snapshot.status), /tour\.ipynb$/.test(this._live.name));
    }
  }

  /** Watch the kernel that is shown while one can see it: a hidden panel costs the kernel nothing. */
  private _attend = (): void => {
    const link = this.isVisible && !document.hidden ? this._live.link : null;
    if (link !== this._watched) {
      this._watched?.watch(this, []);
      this._watched = link;
    }
    link?.watch(this, this._page.topics);
  };

  private _changed(): void {
    this._attend();
    this._name();
    const status = this._live.link?.snapshot.status;
    status && this._page.showState(status);
    this.update();
  }

  private _name(): void {
    const subject = this.pinned ? this._live.name : 'Workbench';
    this.title.label = this._wordless ? '' : subject;
    this.title.caption = this.pinned
      ? `Workbench: ${this._live.path}, whatever you turn to`
      : 'Workbench: the running kernel, live';
  }

  private _showEmpty(linked: boolean, started: boolean, inTour: boolean): void {
    const reason = started ? 'started' : linked ? 'linked' : this.pinned ? 'closed' : 'nothing';
    const { empty } = this._page;
    if (empty.dataset.reason === reason && empty.dataset.tour === String(inTour)) {
      return;
    }
    [empty.dataset.reason, empty.dataset.tour] = [reason, String(inTour)];
    const [title, text] = EMPTY[reason];
    empty.replaceChildren(
      workbenchIcon.element({ tag: 'div', className: 'wb-Empty-icon' }),
      Object.assign(document.createElement('h2'), { textContent: title }),
      Object.assign(document.createElement('p'), { textContent: text }),
      ...(inTour || this.pinned ? [] : [button('Open the tour', 'Open notebooks/00_tour.ipynb', this._asks.tour)])
    );
  }

  private _page: Page;
  private _wordless = false;
  private _watched: LiveLink | null = null;
}

const EMPTY = {
  closed: [
    'This notebook has no kernel',
    'The panel stays with it: open the notebook and start its kernel, and what it runs appears here. Close the panel to let it go.'
  ],
  nothing: [
    'No kernel is running',
    'Open a notebook that uses workbench and start its kernel, or begin with the tour: it builds a graph, trains it and shows it here.'
  ],
  linked: [
    'No workbench program is running in this kernel yet',
    'Run the tour, or run a cell that imports workbench and starts a session. The graph, step times and loss appear here by themselves.'
  ],
  started: [
    'Workbench is loaded; no session has run yet',
    'Run a cell that calls Session.run. The graph, step times and loss appear here by themselves.'
  ]
} as const;
