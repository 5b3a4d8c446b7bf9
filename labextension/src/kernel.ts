/** One live link per kernel: updates in, requests out and answered, found again after a reload or a restart. */
import { Kernel, KernelMessage } from '@jupyterlab/services';
import { IDisposable } from '@lumino/disposable';
import { ISignal, Signal } from '@lumino/signaling';

import { Notification } from '@jupyterlab/apputils';

import { Answer, Command, CONTRACT, Parameters, Hello, TARGET, Topic, unpack, Update, VERSION } from './contract';
import { merge, NOTHING, Snapshot } from './store';

const PATIENCE = 1000;
/** Milliseconds without a word from a kernel that speaks once a second, from which this is said. */
const SILENT = 3000;

export class LiveLink implements IDisposable {
  constructor(readonly kernel: Kernel.IKernelConnection) {
    this._opened = this._opened.bind(this);
    kernel.registerCommTarget(TARGET, this._opened);
    kernel.statusChanged.connect(this._statusChanged, this);
    kernel.disposed.connect(this.dispose, this);
    this._timer = setInterval(() => {
      const silent = this.silence > 0;
      if (silent || this._wasSilent) {
        this._wasSilent = silent;
        this._changed.emit();
      }
    }, 1000);
    const life = this._life;
    this._greet().catch(reason => {
      // A kernel that restarts meanwhile cancels what it was asked, and announces itself when it is back.
      if (life === this._life) {
        console.error('workbench: the kernel could not be asked whether it has a workbench', reason);
      }
    });
  }

  get snapshot(): Snapshot {
    return this._snapshot;
  }

  /** A kernel answers on this link. */
  get connected(): boolean {
    return this._comm !== null;
  }

  /** Why nothing can be shown although a kernel answers, '' when all is well. */
  get trouble(): string {
    return this._trouble;
  }

  /** Seconds since the kernel said something, 0 while it speaks as often as it should. */
  get silence(): number {
    const quiet = performance.now() - this._heard;
    return this._comm && this._snapshot.status && quiet > SILENT ? quiet / 1000 : 0;
  }

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    if (this._isDisposed) {
      return;
    }
    this._isDisposed = true;
    clearInterval(this._timer);
    this.kernel.removeCommTarget(TARGET, this._opened);
    this.kernel.statusChanged.disconnect(this._statusChanged, this);
    this.kernel.disposed.disconnect(this.dispose, this);
    this._forget();
    Signal.clearData(this);
  }

  /** Hear of these topics from now on, of none: only the status, once a second. */
  watch(topics: Topic[]): void {
    if (topics.join() !== this._topics.join()) {
      this._topics = topics;
      this._watch();
    }
  }

  /** Pause, resume or stop the run that is shown; what cannot be done is said. */
  async command(command: 'pause' | 'resume' | 'stop'): Promise<void> {
    const answer = await this._ask(command, null, this._snapshot.status?.session);
    if (!answer.ok) {
      Notification.warning(answer.error, { autoClose: 6000 });
    }
  }

  /** Hear of `topic` with these parameters. */
  parameters<T extends Topic>(topic: T, given: Parameters[T]): void {
    this._parameters = { ...this._parameters, [topic]: given };
    this._watch();
  }

  private _watch(): void {
    if (this._comm) {
      void this._ask('watch', Object.fromEntries(this._topics.map(topic => [topic, this._parameters[topic] ?? {}])));
    }
  }

  /** Answered at once even while a cell is running. */
  private async _ask(command: Command, argument: unknown, run = ''): Promise<Answer> {
    const id = ++this._asked;
    const answer = new Promise<Answer>(resolve => this._waiting.set(id, resolve));
    this._send({ id, command, argument, run });
    return answer;
  }

  private _send(request: { id: number; command: Command; argument: unknown; run: string }): void {
    void this._route.then(subshell => this._post(subshell, { v: VERSION, ...request }));
  }

  /** The kernel announced itself. */
  private _opened(comm: Kernel.IComm, message: KernelMessage.ICommOpenMsg): void {
    this._adopt(comm);
    const { v: version, contract } = message.content.data as Partial<Hello>;
    if (version !== VERSION || contract !== CONTRACT) {
      this._trouble =
        `This panel speaks version ${VERSION} (${CONTRACT}), the kernel's workbench ${version} (${contract}). ` +
        'Update the older one, then reload the page and restart the kernel.';
      this._changed.emit();
    }
    this._watch();
  }

  /** Look for a kernel that announced itself before this page was loaded. */
  private async _greet(): Promise<void> {
    const kernel = this.kernel;
    await kernel.info;
    if (this._isDisposed || this._comm) {
      return;
    }
    const reply = await kernel.requestCommInfo({ target_name: TARGET });
    const known = reply.content.status === 'ok' && Object.keys(reply.content.comms).length > 0;
    if (known && !this._isDisposed && !this._comm) {
      const comm = kernel.createComm(TARGET);
      this._adopt(comm);
      await this._route;
      if (this.connected && !comm.isDisposed) {
        comm.open({ v: VERSION });
        this._watch();
      }
    }
  }

  private _adopt(comm: Kernel.IComm): void {
    const old = this._comm;
    this._comm = comm;
    this._route = this._subshell(comm).catch(() => null); // a kernel that goes meanwhile has none to give
    comm.onMsg = message => this._received(comm, message);
    comm.onClose = () => {
      if (this._comm === comm) {
        this._forget();
      }
    };
    if (old && !old.isDisposed) {
      old.onClose = () => undefined;
      old.close();
    }
  }

  /**
   * Where commands go so that a running cell cannot hold them up.
   *
   * The page starts a subshell per comm target by itself once it knows the kernel. After a reload in the middle of a
   * long cell it does not know it (that answer waits for the cell): then we ask for one on the control channel.
   */
  private async _subshell(comm: Kernel.IComm): Promise<string | null> {
    const ours = comm as Kernel.IComm & { subshellId?: string | null; subshellStarted?: Promise<void> };
    const theirs = this.kernel.info.then(async () => {
      if (!this.kernel.supportsSubshells) {
        return null;
      }
      await Promise.race([ours.subshellStarted, pause(PATIENCE)]);
      return ours.subshellId ?? this._ownSubshell();
    });
    return Promise.race([theirs, pause(PATIENCE).then(() => ours.subshellId ?? this._ownSubshell())]);
  }

  private async _ownSubshell(): Promise<string | null> {
    const request = KernelMessage.createMessage<KernelMessage.ICreateSubshellRequestMsg>({
      msgType: 'create_subshell_request',
      channel: 'control',
      username: this.kernel.username,
      session: this.kernel.clientId,
      content: {}
    });
    const future = this.kernel.sendControlMessage(request, true, true);
    const reply = await Promise.race([future.done, pause(PATIENCE)]);
    const content = (reply as KernelMessage.ICreateSubshellReplyMsg | undefined)?.content;
    return content?.subshell_id ?? null;
  }

  private _post(subshellId: string | null, request: object): void {
    const comm = this._comm;
    if (!comm || comm.isDisposed || this.kernel.isDisposed || this.kernel.status === 'dead') {
      return;
    }
    const message = KernelMessage.createMessage<KernelMessage.ICommMsgMsg<'shell'>>({
      msgType: 'comm_msg',
      channel: 'shell',
      username: this.kernel.username,
      session: this.kernel.clientId,
      subshellId,
      content: { comm_id: comm.commId, data: request as any }
    });
    this.kernel.sendShellMessage(message, false, true);
  }

  /** Messages are unpacked one after the other: an update that takes longer is not overtaken. */
  private _received(comm: Kernel.IComm, message: KernelMessage.ICommMsgMsg): void {
    this._heard = performance.now();
    this._order = this._order
      .then(() => unpack(message.content.data, message.buffers ?? []))
      .then(said => this._comm === comm && this._take(said as Update | Answer))
      .catch(reason => console.error('workbench: a message of the kernel could not be read', reason));
  }

  private _take(said: Update | Answer): void {
    if (said.v !== VERSION) {
      this._trouble = `This panel speaks version ${VERSION}, the kernel's workbench version ${said.v}: update the older one.`;
    } else if (said.kind === 'answer') {
      const answer = said as Answer;
      this._waiting.get(answer.id)?.(answer);
      this._waiting.delete(answer.id);
      this._snapshot = merge(this._snapshot, { ...answer, seq: 0, topics: {}, faults: {} });
    } else {
      const update = said as Update;
      this._send({ id: 0, command: 'ack', argument: update.seq, run: '' });
      this._snapshot = merge(this._snapshot, update);
    }
    this._changed.emit();
  }

  private _statusChanged(_: Kernel.IKernelConnection, status: Kernel.Status): void {
    if (status === 'restarting' || status === 'autorestarting' || status === 'dead') {
      this._forget();
    }
  }

  private _forget(): void {
    this._life++;
    this._comm = null;
    this._trouble = '';
    this._snapshot = NOTHING;
    this._parameters = {};
    this._waiting.forEach((resolve, id) =>
      resolve({ id, ok: false, error: 'The kernel has gone; start it again', status: {}, v: VERSION, kind: 'answer' })
    );
    this._waiting.clear();
    if (!this._isDisposed) {
      this._changed.emit();
    }
  }

  private _comm: Kernel.IComm | null = null;
  /** How often the kernel has gone. */
  private _life = 0;
  private _timer: ReturnType<typeof setInterval>;
  private _heard = 0;
  private _wasSilent = false;
  private _route: Promise<string | null> = Promise.resolve(null);
  private _snapshot: Snapshot = NOTHING;
  private _topics: Topic[] = [];
  private _parameters: Partial<Parameters> = {};
  private _asked = 0;
  private _waiting = new Map<number, (answer: Answer) => void>();
  private _order: Promise<unknown> = Promise.resolve();
  private _trouble = '';
  private _isDisposed = false;
  private _changed = new Signal<this, void>(this);
}

function pause(milliseconds: number): Promise<void> {
  return new Promise(resolve => setTimeout(resolve, milliseconds));
}
