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

export class Live implements ILive {
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
    this._contexts.add(context);
    context.disposed.connect(() => this._contexts.delete(context));
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

  /**
   * NOTE: notebooks that share a kernel share one link; a second comm would only double the traffic. JupyterLab gives comms to
   * the first connection of a kernel alone: where that one has gone, the link gets a connection of its own.
   */
  private _ensure(kernel: Kernel.IKernelConnection): void {
    const known = this._links.get(kernel.id);
    if (!known || known.isDisposed || known.kernel.isDisposed) {
      this._link(kernel.handleComms ? kernel : kernel.clone({ handleComms: true }));
    }
    if (!this._seen.has(kernel)) {
      this._seen.add(kernel);
      kernel.disposed.connect(() => this._left(kernel.id));
    }
  }

  private _link(kernel: Kernel.IKernelConnection): void {
    const link = new LiveLink(kernel);
    this._links.set(kernel.id, link);
    link.changed.connect(() => {
      if (this.link === link) {
        this._changed.emit();
      }
    });
  }

  /** A connection has gone: whoever else shows this kernel goes on, with the next one; where nobody does, the link has gone too. */
  private _left(id: string): void {
    const kernels = [...this._contexts].map(context => context.session?.kernel);
    const other = kernels.find(kernel => kernel?.id === id && !kernel.isDisposed);
    if (other) {
      this._ensure(other);
    } else {
      const own = this._links.get(id)?.kernel;
      own?.isDisposed || own?.dispose();
      this._links.delete(id);
    }
    this._changed.emit();
  }

  private _contexts = new Set<ISessionContext>();
  private _seen = new WeakSet<Kernel.IKernelConnection>();
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
