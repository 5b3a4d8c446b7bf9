/** One live link per kernel: updates in, requests out and answered, found again after a reload or a restart. */
import { Kernel, KernelMessage } from '@jupyterlab/services';
import { IDisposable } from '@lumino/disposable';
import { ISignal, Signal } from '@lumino/signaling';

import { Notification } from '@jupyterlab/apputils';

import { Answer, CONTRACT, Hello, Parameters, TARGET, Topic, VERSION } from './contract';
import { Snapshot } from './store';
import { Asked, Talk } from './talk';

const PATIENCE = 1000; // milliseconds for what a kernel says at once where it can
const LATEST = 10 * PATIENCE; // for a way beside the cell: a machine that others use too takes long to make one

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
    return this._talk.snapshot;
  }

  /** A kernel answers on this link. */
  get connected(): boolean {
    return this._comm !== null;
  }

  /** Why nothing can be shown although a kernel answers, '' when all is well. */
  get trouble(): string {
    return this._talk.trouble;
  }

  /** Seconds since the kernel said something, 0 while it speaks as often as it should. */
  get silence(): number {
    return this._talk.silence;
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

  /** `who` wants to hear of these topics from now on; where nobody wants any, only the status comes, once a second. */
  watch(who: object, topics: Topic[]): void {
    if (topics.length) {
      this._watchers.set(who, topics);
    } else {
      this._watchers.delete(who);
    }
    this._talk.watch([...new Set([...this._watchers.values()].flat())]);
  }

  /** Pause, resume or stop the run that is shown; what cannot be done is said. */
  async command(command: 'pause' | 'resume' | 'stop'): Promise<void> {
    this._refused(await this._talk.command(command));
  }

  /** Turn a knob of the program; what cannot be done is said. */
  async turn(knob: string, part: string, value: number): Promise<void> {
    this._refused(await this._talk.turn(knob, part, value));
  }

  private _refused(answer: Answer): void {
    if (!answer.ok) {
      Notification.warning(answer.error, { autoClose: 6000 });
    }
  }

  /** Hear of `topic` with these parameters. */
  parameters<T extends Topic>(topic: T, given: Parameters[T]): void {
    this._talk.parameters(topic, given);
  }

  /** The kernel announced itself. */
  private _opened(comm: Kernel.IComm, message: KernelMessage.ICommOpenMsg): void {
    this._adopt(comm);
    const { v: version, contract } = message.content.data as Partial<Hello>;
    if (version !== VERSION || contract !== CONTRACT) {
      this._talk.trouble =
        `This panel speaks version ${VERSION} (${CONTRACT}), the kernel's workbench ${version} (${contract}). ` +
        'Update the older one, then reload the page and restart the kernel.';
      this._changed.emit();
    }
    this._talk.again();
  }

  /**
   * Look for a kernel that announced itself before this page was loaded.
   *
   * Whoever answers another page announces itself no more. Where a cell holds up what we ask, we ask beside it.
   */
  private async _greet(): Promise<void> {
    const kernel = this.kernel;
    const subshell =
      (await this._busy(2 * PATIENCE)) && !this._isDisposed && !this._comm
        ? await this._ownSubshell(late => this._giveBack(late))
        : null;
    await (subshell ?? kernel.info);
    if (!(await this._open(subshell)) && subshell) {
      this._giveBack(subshell);
    }
  }

  /** Open a comm to a kernel that knows us, if none came meanwhile; beside the cell that runs there, on a subshell. */
  private async _open(subshell: string | null): Promise<boolean> {
    const kernel = this.kernel;
    if (this._isDisposed || this._comm) {
      return false;
    }
    const reply = await (subshell ? this._commsBeside(subshell) : kernel.requestCommInfo({ target_name: TARGET }));
    const known = reply.content.status === 'ok' && Object.keys(reply.content.comms).length > 0;
    if (!known || this._isDisposed || this._comm) {
      return false;
    }
    const comm = kernel.createComm(TARGET);
    this._adopt(comm, subshell);
    await this._route;
    if (!this.connected || comm.isDisposed) {
      return false;
    }
    if (subshell) {
      this._send('comm_open', { comm_id: comm.commId, target_name: TARGET, data: { v: VERSION } }, subshell);
    } else {
      comm.open({ v: VERSION });
    }
    this._talk.again();
    return true;
  }

  private async _commsBeside(subshell: string): Promise<KernelMessage.ICommInfoReplyMsg> {
    const future = this._send('comm_info_request', { target_name: TARGET }, subshell, true);
    return (await future.done) as unknown as KernelMessage.ICommInfoReplyMsg;
  }

  private _adopt(comm: Kernel.IComm, subshell: string | null = null): void {
    const old = this._comm;
    this._comm = comm;
    // a kernel that goes meanwhile has none to give
    this._route = subshell ? Promise.resolve(subshell) : this._subshell(comm).catch(() => null);
    comm.onMsg = ({ content, buffers }) => this._talk.receive(content.data, buffers ?? [], () => this._comm === comm);
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
    if (!(await this._busy(PATIENCE))) {
      if (!this.kernel.supportsSubshells) {
        return null;
      }
      await Promise.race([ours.subshellStarted, pause(PATIENCE)]);
    }
    return ours.subshellId ?? this._ownSubshell(late => this._turn(comm, late));
  }

  /** Where commands go from now on: until then they were held up by the cell. */
  private _turn(comm: Kernel.IComm, subshell: string): void {
    if (this._isDisposed || this._comm !== comm) {
      this._giveBack(subshell);
      return;
    }
    this._route = Promise.resolve(subshell);
    this._talk.again();
  }

  /** Whether the kernel does not say within `patience` milliseconds who it is. */
  private _busy(patience: number): Promise<boolean> {
    return Promise.race([this.kernel.info.then(() => false), pause(patience).then(() => true)]);
  }

  private _giveBack(subshell: string): void {
    if (!this.kernel.isDisposed && this.kernel.status !== 'dead') {
      const request = KernelMessage.createMessage<KernelMessage.IDeleteSubshellRequestMsg>({
        msgType: 'delete_subshell_request',
        channel: 'control',
        username: this.kernel.username,
        session: this.kernel.clientId,
        content: { subshell_id: subshell }
      });
      this.kernel.sendControlMessage(request, false, true);
    }
  }

  /** A subshell of our own, null where the kernel gives none in time: one that comes after that goes to `late`. */
  private async _ownSubshell(late: (subshell: string) => void): Promise<string | null> {
    const request = KernelMessage.createMessage<KernelMessage.ICreateSubshellRequestMsg>({
      msgType: 'create_subshell_request',
      channel: 'control',
      username: this.kernel.username,
      session: this.kernel.clientId,
      content: {}
    });
    const future = this.kernel.sendControlMessage(request, true, true);
    const made = future.done.then(reply => (reply as KernelMessage.ICreateSubshellReplyMsg).content.subshell_id ?? null);
    const inTime = await Promise.race([made, pause(LATEST)]);
    if (inTime === undefined) {
      // a kernel that goes meanwhile cancels what it was asked
      made.then(subshell => subshell && late(subshell)).catch(() => undefined);
    }
    return inTime ?? null;
  }

  private _post(subshellId: string | null, request: Asked): void {
    const comm = this._comm;
    if (!comm || comm.isDisposed || this.kernel.isDisposed || this.kernel.status === 'dead') {
      return;
    }
    this._send('comm_msg', { comm_id: comm.commId, data: request }, subshellId);
  }

  private _send(
    msgType: 'comm_msg' | 'comm_open' | 'comm_info_request',
    content: object,
    subshellId: string | null,
    answered = false
  ) {
    const message = KernelMessage.createMessage<any>({
      msgType,
      channel: 'shell',
      username: this.kernel.username,
      session: this.kernel.clientId,
      subshellId,
      content
    });
    return this.kernel.sendShellMessage(message, answered, true);
  }

  private _statusChanged(_: Kernel.IKernelConnection, status: Kernel.Status): void {
    if (status === 'restarting' || status === 'autorestarting' || status === 'dead') {
      this._forget();
    }
  }

  private _forget(): void {
    this._life++;
    this._comm = null;
    this._talk.forget();
    if (!this._isDisposed) {
      this._changed.emit();
    }
  }

  private _comm: Kernel.IComm | null = null;
  private _watchers = new Map<object, Topic[]>();
  /** How often the kernel has gone. */
  private _life = 0;
  private _timer: ReturnType<typeof setInterval>;
  private _wasSilent = false;
  private _route: Promise<string | null> = Promise.resolve(null);
  /** Requests are answered at once, even while a cell is running. */
  private _talk = new Talk(
    request => void (this._comm && this._route.then(subshell => this._post(subshell, request))),
    () => this._changed.emit()
  );
  private _isDisposed = false;
  private _changed = new Signal<this, void>(this);
}

function pause(milliseconds: number): Promise<void> {
  return new Promise(resolve => setTimeout(resolve, milliseconds));
}
