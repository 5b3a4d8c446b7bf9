/** Which kernel the panel shows: that of the notebook or console the user is in. */
import { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ISessionContext } from '@jupyterlab/apputils';
import { IConsoleTracker } from '@jupyterlab/console';
import { PathExt } from '@jupyterlab/coreutils';
import { INotebookTracker } from '@jupyterlab/notebook';
import { Kernel } from '@jupyterlab/services';
import { Token } from '@lumino/coreutils';
import { IDisposable } from '@lumino/disposable';
import { ISignal, Signal } from '@lumino/signaling';

import { LiveLink } from './kernel';

/** Of words in language packs: those of menus, commands, notifications and the status bar. */
export const DOMAIN = 'workbench';

/** What is shown of one kernel. */
export interface ISubject {
  /** The link to the kernel, null when there is none. */
  readonly link: LiveLink | null;
  /** What the user calls it: the notebook's name. */
  readonly name: string;
  /** Where its notebook or console lies, '' when there is none. */
  readonly path: string;
  /** Another kernel came, or this one has news. */
  readonly changed: ISignal<ISubject, void>;
}

/** The notebook or console that the user is in. */
export interface ILive extends ISubject {
  /** One notebook, whatever the user turns to; it may be opened later, renamed, closed and opened again. */
  pinned(path: string): ISubject & IDisposable;
}

export const ILive = new Token<ILive>('workbench-lab:ILive', 'The live state of the current workbench kernel.');

export class Live implements ILive {
  get link(): LiveLink | null {
    return this.linkOf(this._context);
  }

  get name(): string {
    return this._context?.name ?? '';
  }

  get path(): string {
    return this._context?.path ?? '';
  }

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  pinned(path: string): Pinned {
    return new Pinned(this, path);
  }

  /** Any notebook or kernel has news: a link, or null when they came or went. */
  get news(): ISignal<this, LiveLink | null> {
    return this._news;
  }

  linkOf(context: ISessionContext | null): LiveLink | null {
    const kernel = context?.session?.kernel;
    return kernel ? (this._links.get(kernel.id) ?? null) : null;
  }

  /** The open notebook or console at `path`. */
  at(path: string): ISessionContext | null {
    return [...this._contexts].find(context => context.path === path) ?? null;
  }

  /** Link this session's kernel, now and whenever it gets another one. */
  follow(context: ISessionContext): void {
    this._contexts.add(context);
    context.disposed.connect(() => {
      this._contexts.delete(context);
      this._news.emit(null);
      if (this._context === context) {
        this._context = null;
        this._changed.emit();
      }
    });
    const update = () => {
      const kernel = context.session?.kernel;
      if (kernel) {
        this._ensure(kernel);
      }
      this._turned();
    };
    context.kernelChanged.connect(update);
    context.propertyChanged.connect(() => this._turned());
    update();
  }

  focus(context: ISessionContext | null): void {
    if (context && context !== this._context) {
      this._context = context;
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
      this._news.emit(link);
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
    this._turned();
  }

  /** Somebody came or went. */
  private _turned(): void {
    this._news.emit(null);
    this._changed.emit();
  }

  private _contexts = new Set<ISessionContext>();
  private _seen = new WeakSet<Kernel.IKernelConnection>();
  private _context: ISessionContext | null = null;
  private _links = new Map<string, LiveLink>();
  private _changed = new Signal<this, void>(this);
  private _news = new Signal<this, LiveLink | null>(this);
}

/** One notebook, found again by where it lies when it is opened. */
export class Pinned implements ISubject, IDisposable {
  constructor(
    private _live: Live,
    private _path: string
  ) {
    _live.news.connect(this._heard, this);
    this._find();
  }

  get link(): LiveLink | null {
    return this._live.linkOf(this._context);
  }

  get name(): string {
    return PathExt.basename(this._path);
  }

  get path(): string {
    return this._path;
  }

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    this._isDisposed = true;
    this._live.news.disconnect(this._heard, this);
    Signal.clearData(this);
  }

  private _heard(_: Live, link: LiveLink | null): void {
    if (!link) {
      this._find();
    }
    if (!link || link === this.link) {
      this._changed.emit();
    }
  }

  /** The notebook; one that is renamed stays the same. */
  private _find(): void {
    if (!this._context || this._context.isDisposed) {
      this._context = this._live.at(this._path);
    }
    this._path = this._context?.path || this._path;
  }

  private _context: ISessionContext | null = null;
  private _isDisposed = false;
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
      tracker?.forEach((panel: { sessionContext: ISessionContext }) => live.follow(panel.sessionContext)); // opened before us
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
