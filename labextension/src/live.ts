/** Which kernel the panel shows: that of the notebook or console the user is in. */
import { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ISessionContext } from '@jupyterlab/apputils';
import { IConsoleTracker } from '@jupyterlab/console';
import { INotebookTracker } from '@jupyterlab/notebook';
import { Kernel } from '@jupyterlab/services';
import { Token } from '@lumino/coreutils';
import { ISignal, Signal } from '@lumino/signaling';

import { LiveLink } from './kernel';

export interface ILive {
  /** The link to the current kernel, null when no notebook or console has one. */
  readonly link: LiveLink | null;
  /** What the user calls it: the notebook's name. */
  readonly name: string;
  /** Another kernel became current, or the current one has news. */
  readonly changed: ISignal<ILive, void>;
}

export const ILive = new Token<ILive>('workbench-lab:ILive', 'The live state of the current workbench kernel.');

class Live implements ILive {
  get link(): LiveLink | null {
    const kernel = this._context?.session?.kernel;
    return kernel ? (this._links.get(kernel.id) ?? null) : null;
  }

  get name(): string {
    return this._context?.name ?? '';
  }

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** Link this session's kernel, now and whenever it gets another one. */
  follow(context: ISessionContext): void {
    const update = () => {
      const kernel = context.session?.kernel;
      if (kernel) {
        this._ensure(kernel);
      }
      this._changed.emit();
    };
    context.kernelChanged.connect(update);
    context.propertyChanged.connect(() => this._changed.emit());
    update();
  }

  focus(context: ISessionContext | null): void {
    if (context && context !== this._context) {
      this._context = context;
      context.disposed.connect(() => {
        if (this._context === context) {
          this._context = null;
          this._changed.emit();
        }
      });
      this._changed.emit();
    }
  }

  /** NOTE: notebooks that share a kernel share one link; a second comm would only double the traffic. */
  private _ensure(kernel: Kernel.IKernelConnection): void {
    const known = this._links.get(kernel.id);
    if (known && !known.isDisposed) {
      return;
    }
    const link = new LiveLink(kernel);
    this._links.set(kernel.id, link);
    link.changed.connect(() => {
      if (this.link === link) {
        this._changed.emit();
      }
    });
  }

  private _context: ISessionContext | null = null;
  private _links = new Map<string, LiveLink>();
  private _changed = new Signal<this, void>(this);
}

export const livePlugin: JupyterFrontEndPlugin<ILive> = {
  id: 'workbench-lab:live',
  description: 'Keeps a live link to the kernel of every notebook and console.',
  autoStart: true,
  provides: ILive,
  optional: [INotebookTracker, IConsoleTracker],
  activate: (_: JupyterFrontEnd, notebooks: INotebookTracker | null, consoles: IConsoleTracker | null): ILive => {
    const live = new Live();
    for (const tracker of [notebooks, consoles]) {
      tracker?.widgetAdded.connect((_: unknown, panel: { sessionContext: ISessionContext }) => {
        live.follow(panel.sessionContext);
      });
      tracker?.currentChanged.connect((_: unknown, panel: { sessionContext: ISessionContext } | null) => {
        live.focus(panel?.sessionContext ?? null);
      });
    }
    return live;
  }
};
