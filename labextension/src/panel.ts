/** The Workbench panel: header with the buttons, then graph, step times, training and stragglers. */
import { Message } from '@lumino/messaging';
import { Widget } from '@lumino/widgets';

import { State, Status, StragglerView, Topic } from './contract';
import { workbenchIcon } from './icon';
import { LiveLink } from './kernel';
import { duration, sentence, steps } from './kit/text';
import { ILive } from './live';
import { button } from './kit/section';
import { Tabs } from './kit/tabs';
import { type Shown, VIEWS } from './kit/view';
import './views';

const WORDS: Record<State, string> = {
  empty: 'Waiting',
  ready: 'Ready',
  building: 'Building',
  rewriting: 'Rewriting',
  compiling: 'Compiling',
  running: 'Running',
  paused: 'Paused',
  waiting: 'Waiting',
  recovering: 'Recovering',
  finished: 'Finished',
  stopped: 'Stopped',
  failed: 'Failed'
};
/** States in which something goes on that Stop can end. */
const BUSY: State[] = ['building', 'rewriting', 'compiling', 'running', 'paused', 'waiting', 'recovering'];

export class WorkbenchPanel extends Widget {
  constructor(
    private _live: ILive,
    private _tour: () => void,
    private _jump: (source: string) => void
  ) {
    super();
    this.id = 'workbench-panel';
    this.addClass('wb-Panel');
    this.title.label = 'Workbench';
    this.title.caption = 'Workbench: the running kernel, live';
    this.title.icon = workbenchIcon;
    this.title.closable = true;
    this.node.setAttribute('role', 'region');
    this.node.setAttribute('aria-label', 'Workbench');
    this._buildHeader();
    this._empty.className = 'wb-Empty';
    this._body.className = 'wb-Body';
    const side = document.createElement('div');
    side.className = 'wb-Side';
    VIEWS.forEach((kind, i) => kind.wide || side.append(this._views[i].node));
    this._body.append(this._stage.node, side);
    this._verdict.className = 'wb-Verdict';
    this._verdict.setAttribute('aria-live', 'polite');
    this.node.append(this._header, this._trouble, this._verdict, this._empty, this._body);
    _live.changed.connect(this._changed, this);
    document.addEventListener('visibilitychange', this._attend);
    this.update();
  }

  configure(deadline: number): void {
    this._views.forEach(view => 'deadline' in view && (view.deadline = deadline));
    this.update();
  }

  /** The theme changed: canvases read their colours again. */
  restyle(): void {
    this._views.forEach(view => view.restyle?.());
  }

  dispose(): void {
    if (this.isDisposed) {
      return;
    }
    this._live.changed.disconnect(this._changed, this);
    document.removeEventListener('visibilitychange', this._attend);
    this._watched?.watch([]);
    this._views.forEach(view => view.dispose?.());
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

  /** Watch the kernel that is shown while one can see it: a hidden panel costs the kernel nothing. */
  private _attend = (): void => {
    const link = this.isVisible && !document.hidden ? this._live.link : null;
    if (link !== this._watched) {
      this._watched?.watch([]);
      this._watched = link;
    }
    link?.watch(this._topics());
  };

  /** What can be seen: a view behind another tab costs the kernel nothing. */
  private _topics(): Topic[] {
    return VIEWS.filter(kind => !kind.wide || kind.id === this._stage.current).map(kind => kind.topic);
  }

  protected onActivateRequest(_: Message): void {
    (this.node.querySelector<HTMLElement>('button:not([disabled]):not([hidden])') ?? this.node).focus();
  }

  protected onUpdateRequest(_: Message): void {
    const link = this._live.link;
    const snapshot = link?.snapshot;
    const status = snapshot?.status ?? null;
    const nothing = !status || (status.state === 'empty' && !snapshot?.graph && !snapshot?.steps);
    this.node.dataset.state = nothing ? 'empty' : status.state;
    this._header.hidden = this._body.hidden = this._verdict.hidden = nothing;
    this._empty.hidden = !nothing;
    this._showTrouble(status, link?.trouble ?? '', link?.silence ?? 0);
    if (nothing) {
      this._showEmpty(Boolean(link), Boolean(status));
      return;
    }
    this._showStatus(status);
    const lost = new Set(status.lost.map(one => one.task));
    this._views.forEach((view, i) => {
      if (!VIEWS[i].wide || VIEWS[i].id === this._stage.current) {
        view.show(snapshot!, lost);
      }
    });
    this._showVerdict(snapshot!.stragglers);
  }

  /** The state shows at once, the pictures with the next repaint. */
  private _changed(): void {
    this._attend();
    const status = this._live.link?.snapshot.status;
    if (status && status.state !== this.node.dataset.state && !this._header.hidden) {
      this.node.dataset.state = status.state;
      this._showStatus(status);
    }
    this.update();
  }

  private _buildHeader(): void {
    this._header.className = 'wb-Header';
    this._trouble.className = 'wb-Trouble';
    this._trouble.setAttribute('role', 'alert');
    this._pill.className = 'wb-Pill';
    this._pill.setAttribute('role', 'status');
    this._facts.className = 'wb-Facts';
    const tools = document.createElement('div');
    tools.className = 'wb-Tools';
    tools.append(this._pause, this._stop);
    this._header.append(this._pill, this._facts, tools);
  }

  private _showStatus(status: Status): void {
    const word = WORDS[status.state] ?? status.state;
    if (this._pill.textContent !== word) {
      this._pill.textContent = word;
      this._pill.dataset.state = status.state;
    }
    const running = status.state === 'running';
    const rate = running ? this._rate(status.step) : '';
    const part = status.parts ? `${status.part} of ${status.parts}` : '';
    const long =
      running && status.counted
        ? ''
        : BUSY.includes(status.state) && status.seconds >= 1
          ? `for ${duration(1000 * status.seconds)}`
          : '';
    const inside = status.what ? (running ? `in ${status.what}` : status.what) : '';
    const lost = status.records_lost ? `${status.records_lost.toLocaleString('en')} records lost` : '';
    const facts = [steps(status), rate, part, inside, long, lost, this._live.name];
    this._facts.textContent = facts.filter(Boolean).join(' · ');
    this._facts.title = this._facts.textContent;
    const paused = status.state === 'paused';
    if (this._asked !== null && paused === this._asked) {
      this._asked = null;
    }
    const target = this._asked ?? paused;
    this._pause.textContent = target ? 'Resume' : 'Pause';
    this._pause.setAttribute('aria-label', target ? 'Resume training' : 'Pause training before the next step');
    this._pause.title = this._pause.getAttribute('aria-label')!;
    this._pauses = !target;
    this._pause.disabled = this._stop.disabled = !BUSY.includes(status.state);
  }

  /** What keeps the panel from showing the truth, and what went wrong: cause first, then what to do. */
  private _showTrouble(status: Status | null, trouble: string, silence: number): void {
    const lines: [string, string][] = trouble ? [[trouble, '']] : [];
    if (silence) {
      lines.push([
        `No word from the kernel for ${Math.round(silence)} s.`,
        'It is stopped, or busy in a library call; what is shown below is what it said last.'
      ]);
    }
    if (status?.state === 'failed' || (status?.state === 'stopped' && status.cause)) {
      lines.push([`${WORDS[status.state]} at ${steps(status)}: ${status.cause}.`, sentence(status.fix)]);
    }
    for (const [topic, why] of Object.entries(this._live.link?.snapshot.faults ?? {}).filter(([, why]) => why)) {
      lines.push([`The view "${topic}" cannot be shown.`, why]);
    }
    for (const lost of status?.lost.filter(one => one.cause) ?? []) {
      lines.push([`${lost.cause}.`, lost.fix]);
    }
    const text = lines.flat().join('\n');
    this._trouble.hidden = !text;
    this._trouble.classList.toggle('wb-mod-bad', status?.state === 'failed' || !!status?.lost.length || !!silence);
    if (text !== this._troubleText) {
      this._troubleText = text;
      this._trouble.replaceChildren(
        ...lines.map(([fact, fix]) => {
          const line = document.createElement('p');
          line.append(Object.assign(document.createElement('b'), { textContent: fact }), fix ? ` ${fix}` : '');
          return line;
        })
      );
    }
  }

  /** The answer to "what is slow, and why": a number and an action; a click leads to the view that proves it. */
  private _showVerdict(view: StragglerView | null): void {
    const verdict = view?.verdict;
    this._verdict.hidden = !verdict?.text || verdict.kind === 'unknown';
    this._verdict.classList.toggle('wb-mod-alarm', !!verdict?.alarm);
    const text = [verdict?.text, verdict?.action].filter(Boolean).join(' ');
    if (text !== this._verdict.title) {
      this._verdict.title = text;
      this._verdict.replaceChildren(
        Object.assign(document.createElement('b'), { textContent: verdict?.text ?? '' }),
        ` ${verdict?.action ?? ''} `,
        button('See it', 'Show the newest step in the timeline, which proves it', () => this._prove())
      );
    }
  }

  /** The view that shows why: the timeline, brought into sight. */
  private _prove(): void {
    this._stage.select('timeline');
    const subject = this._live.link?.snapshot.stragglers?.verdict.subject ?? '';
    this._views[VIEWS.findIndex(kind => kind.id === 'timeline')].reveal?.(subject);
    this._stage.node.scrollIntoView({ block: 'nearest' });
  }

  /** Steps per second over the last few seconds. */
  private _rate(step: number): string {
    const now = performance.now();
    const last = this._history[this._history.length - 1];
    if (last && step < last.step) {
      this._history = [];
    }
    if (!last || step !== last.step || now - last.time > 500) {
      this._history.push({ time: now, step });
    }
    this._history = this._history.filter(entry => now - entry.time < 3000);
    const first = this._history[0];
    const seconds = (now - (first?.time ?? now)) / 1000;
    const rate = seconds > 0.5 ? (step - first.step) / seconds : NaN;
    return Number.isFinite(rate) ? `${rate >= 10 ? Math.round(rate) : rate.toFixed(1)} steps/s` : '';
  }

  private _showEmpty(linked: boolean, started: boolean): void {
    const reason = started ? 'started' : linked ? 'linked' : 'nothing';
    if (this._empty.dataset.reason === reason) {
      return;
    }
    this._empty.dataset.reason = reason;
    const [title, text] = EMPTY[reason];
    const icon = workbenchIcon.element({ tag: 'div', className: 'wb-Empty-icon' });
    const go = button('Open the tour', 'Open notebooks/00_tour.ipynb', this._tour);
    this._empty.replaceChildren(
      icon,
      Object.assign(document.createElement('h2'), { textContent: title }),
      Object.assign(document.createElement('p'), { textContent: text }),
      go
    );
  }

  private _asks(pause: boolean): void {
    this._asked = pause;
    void this._live.link?.command(pause ? 'pause' : 'resume').then(() => {
      this._asked = null;
      this.update();
    });
    this.update();
  }

  private _header = document.createElement('header');
  private _verdict = document.createElement('p');
  private _troubleText = '';
  private _pauses = true;
  private _trouble = document.createElement('div');
  private _empty = document.createElement('div');
  private _body = document.createElement('div');
  private _pill = document.createElement('span');
  private _facts = document.createElement('span');
  private _pause = button('Pause', 'Pause training', () => this._asks(this._pauses));
  private _stop = button(
    'Stop',
    'Stop training: the next step raises CancelledError',
    () => void this._live.link?.command('stop')
  );
  private _views: Shown[] = VIEWS.map(kind =>
    kind.make({
      ask: (topic, parameters) => this._live.link?.parameters(topic, parameters),
      jump: source => this._jump(source)
    })
  );
  private _stage = new Tabs(
    VIEWS.map(({ id, title }, i) => ({ id, title, node: this._views[i].node })).filter((_, i) => VIEWS[i].wide),
    'What runs',
    () => {
      this._attend();
      this.update();
    }
  );
  private _history: { time: number; step: number }[] = [];
  private _asked: boolean | null = null;
  private _watched: LiveLink | null = null;
}

const EMPTY = {
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
