/** What a page and a kernel say to each other, whatever carries it: updates merged, requests sent and answered. */
import { Answer, Command, Parameters, Topic, unpack, Update, VERSION } from './contract';
import { merge, NOTHING, Snapshot } from './store';

/** What a page sends. */
export interface Asked {
  v: number;
  id: number;
  command: Command;
  run: string;
  argument: unknown;
}

/** Milliseconds without a word from a kernel that speaks once a second, from which this is said. */
const SILENT = 3000;
/**
 * Updates with pictures that are acknowledged together; of others one word is said so many milliseconds after the last one: at
 * each acknowledgement the kernel looks busy, idle and busy again, and JupyterLab draws that. The kernel sends six pictures
 * before it waits for a word, and takes a page for gone that says none for 20 s.
 */
const TOGETHER = 4;
const CALM = 8000;

export class Talk {
  /** Why nothing can be shown although a kernel answers, '' when all is well. */
  trouble = '';

  /** `post` carries a request to the kernel, `changed` is called when there is news. */
  constructor(
    private _post: (request: Asked) => void,
    private _changed: () => void
  ) {}

  get snapshot(): Snapshot {
    return this._snapshot;
  }

  /** Seconds since the kernel said something, 0 while it speaks as often as it should. */
  get silence(): number {
    const quiet = performance.now() - this._heard;
    return this._snapshot.status && quiet > SILENT ? quiet / 1000 : 0;
  }

  /** Hear of these topics from now on, of none: only the status, once a second. */
  watch(topics: Topic[]): void {
    if (topics.join() !== this._topics.join()) {
      this._topics = topics;
      this.again();
    }
  }

  /** Hear of `topic` with these parameters. */
  parameters<T extends Topic>(topic: T, given: Parameters[T]): void {
    this._parameters = { ...this._parameters, [topic]: given };
    this.again();
  }

  /** Say what is watched, to a kernel that may not know. */
  again(): void {
    void this._ask('watch', Object.fromEntries(this._topics.map(topic => [topic, this._parameters[topic] ?? {}])));
  }

  /** Pause, resume or stop the run that is shown; what cannot be done is answered with the reason. */
  command(command: 'pause' | 'resume' | 'stop'): Promise<Answer> {
    return this._ask(command, null, this._snapshot.status?.session);
  }

  /** Turn a knob of the program, whatever runs. */
  turn(knob: string, part: string, value: number): Promise<Answer> {
    return this._ask('turn', { knob, part, value });
  }

  /** A message came. They are unpacked one after the other: an update that takes longer is not overtaken. */
  receive(data: unknown, buffers: (ArrayBuffer | ArrayBufferView)[], wanted: () => boolean = () => true): void {
    this._heard = performance.now();
    this._order = this._order
      .then(() => unpack(data, buffers))
      .then(said => wanted() && this._take(said as Update | Answer))
      .catch(reason => console.error('workbench: a message of the kernel could not be read', reason));
  }

  /** The kernel has gone: what it said is no longer true, and nobody answers. */
  forget(): void {
    [this._acknowledged, this._pictures] = [-Infinity, 0];
    this.trouble = '';
    this._snapshot = NOTHING;
    this._parameters = {};
    this._waiting.forEach((resolve, id) =>
      resolve({ id, ok: false, error: 'The kernel has gone; start it again', status: {}, v: VERSION, kind: 'answer' })
    );
    this._waiting.clear();
  }

  private async _ask(command: Command, argument: unknown, run = ''): Promise<Answer> {
    const id = ++this._asked;
    const answer = new Promise<Answer>(resolve => this._waiting.set(id, resolve));
    this._post({ v: VERSION, id, command, argument, run });
    return answer;
  }

  private _take(said: Update | Answer): void {
    if (said.v !== VERSION) {
      this.trouble = `This panel speaks version ${VERSION}, the kernel's workbench version ${said.v}: update the older one.`;
    } else if (said.kind === 'answer') {
      const answer = said as Answer;
      this._waiting.get(answer.id)?.(answer);
      this._waiting.delete(answer.id);
      this._snapshot = merge(this._snapshot, { ...answer, seq: 0, topics: {}, faults: {} });
    } else {
      const update = said as Update;
      this._snapshot = merge(this._snapshot, update);
      this._acknowledge(update);
    }
    this._changed();
  }

  /** All until this one: when enough pictures have come, or when the last time is long ago. */
  private _acknowledge({ seq, topics }: Update): void {
    this._pictures += Object.keys(topics).length ? 1 : 0;
    if (this._pictures >= TOGETHER || performance.now() - this._acknowledged >= CALM) {
      [this._acknowledged, this._pictures] = [performance.now(), 0];
      this._post({ v: VERSION, id: 0, command: 'ack', argument: seq, run: '' });
    }
  }

  private _heard = 0;
  private _acknowledged = -Infinity; // when
  private _pictures = 0; // since then
  private _snapshot: Snapshot = NOTHING;
  private _topics: Topic[] = [];
  private _parameters: Partial<Parameters> = {};
  private _asked = 0;
  private _waiting = new Map<number, (answer: Answer) => void>();
  private _order: Promise<unknown> = Promise.resolve();
}
