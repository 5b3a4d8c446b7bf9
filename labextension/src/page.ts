/** The page of one kernel: state and buttons, what is wrong, the verdict, then every view; in a panel or in a cell. */
import { State, Status, StragglerView, Topic } from './contract';
import { ended, format, inside, losses, sentence, span, steps } from './kit/text';
import { Kept, alike, arrange, mark, put, say } from './kit/keep';
import { Notice } from './kit/notice';
import { button } from './kit/section';
import { Tabs } from './kit/tabs';
import { type Context, type Shown, type ViewKind, VIEWS } from './kit/view';
import { Voice } from './kit/voice';
import type { Snapshot } from './store';
import './views';

/** What a page may ask of those around it. */
export interface Host extends Context {
  command(command: 'pause' | 'resume' | 'stop'): Promise<unknown>;
  /** Other topics can be seen. */
  attend(): void;
  /** Keep a page with this kernel, where one can. */
  pin?(): void;
}

/** What is known of the kernel beside what it said. */
export interface Standing {
  /** What the user calls it. */
  name: string;
  /** Why nothing can be shown. */
  trouble: string;
  /** Seconds without a word. */
  silence: number;
}

const WORDS: Record<State, string> = {
  empty: 'Waiting',
  starting: 'Starting',
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
const CALM = 250; // milliseconds between two drawings of what moves
const CALM_VERDICT = 10_000; // milliseconds between two verdicts that are said aloud
const AWAITED = 1000; // milliseconds for which a view that asked is drawn as soon as its picture comes
/** States in which something goes on that Stop can end. */
const BUSY: State[] = ['building', 'rewriting', 'compiling', 'running', 'paused', 'waiting', 'recovering'];

const SILENT = 'It is stopped, or busy in a library call; what is shown below is what it said last.';

/** Which view the verdict belongs to. */
const WORK = VIEWS.findIndex(kind => kind.topic === 'work');

export class Page {
  /** Stands instead of the views while there is nothing to show. */
  readonly empty = document.createElement('div');

  /** Everything goes into `node`. */
  constructor(
    readonly node: HTMLElement,
    private _host: Host
  ) {
    node.classList.add('wb-Page');
    node.setAttribute('role', 'region');
    node.setAttribute('aria-label', 'Workbench');
    this._buildHeader();
    this.empty.className = 'wb-Empty';
    this._body.className = 'wb-Body';
    const side = document.createElement('div');
    side.className = 'wb-Side';
    VIEWS.forEach((kind, i) => kind.wide || side.append(this._views[i].node));
    this._body.append(this._stage.node, side);
    this._verdict.className = 'wb-Verdict';
    const news = document.createElement('div');
    news.className = 'wb-News';
    news.append(this._trouble, this._verdict);
    node.append(this._header, news, this.empty, this._body);
    this._voice = new Voice(node);
  }

  set deadline(milliseconds: number) {
    this._views.forEach(view => 'deadline' in view && (view.deadline = milliseconds));
  }

  /** What can be seen: a view behind another tab costs the kernel nothing. */
  get topics(): Topic[] {
    return VIEWS.filter(kind => this._inSight(kind)).map(kind => kind.topic);
  }

  /** The theme changed: canvases read their colours again. */
  restyle(): void {
    this._views.forEach(view => view.restyle?.());
  }

  dispose(): void {
    clearTimeout(this._later);
    this._voice.dispose();
    this._views.forEach(view => view.dispose?.());
  }

  /** Everything that `snapshot` holds; false when that is nothing yet. */
  show(snapshot: Snapshot | null, standing: Standing): boolean {
    this._snapshot = snapshot;
    this._standing = standing;
    const status = snapshot?.status ?? null;
    const nothing = !status || (status.state === 'empty' && !snapshot?.graph && !snapshot?.steps);
    mark(this.node, 'data-state', nothing ? 'empty' : status.state);
    put(this._header, { hidden: nothing });
    put(this._body, { hidden: nothing });
    put(this.empty, { hidden: !nothing });
    this._showTrouble(status);
    if (nothing) {
      put(this._verdict, { hidden: true });
      return false;
    }
    this._showStatus(status);
    this._showViews({ ...snapshot!, status });
    this._showVerdict((this._pictures[WORK] as StragglerView | null) ?? null); // with the bars, that say the same
    return true;
  }

  /**
   * What a view shows is drawn again when it changed, not with every word; what moves is drawn a few times a second, what
   * somebody asked for at once.
   */
  private _showViews(snapshot: Snapshot): void {
    const { status, faults, stragglers } = snapshot;
    const lost = status!.lost.map(one => one.task);
    const named = stragglers?.verdict.alarm ? stragglers.verdict.subject : '';
    const around = [status!.state, lost.join(), this._stage.current, named, faults];
    const turned = !alike(around, this._around);
    const pictures = VIEWS.map(kind => snapshot[kind.topic === 'work' ? 'stragglers' : kind.topic]);
    const moved = this._views.filter((_, i) => this._inSight(VIEWS[i]) && (turned || pictures[i] !== this._pictures[i]));
    const came = pictures.some((one, i) => one && !this._pictures[i]);
    const now = performance.now();
    const awaited = ({ topic }: ViewKind) => now - (this._awaited.get(topic) ?? -Infinity) < AWAITED;
    const asked = VIEWS.some((kind, i) => pictures[i] !== this._pictures[i] && awaited(kind));
    const wait = this._drawn + CALM - now;
    if (moved.length && !turned && !came && !asked && wait > 0) {
      this._later ||= setTimeout(() => {
        this._later = undefined; // it may go off a part of a millisecond early: then another one waits for the rest
        this._again();
      }, wait);
    } else if (moved.length) {
      clearTimeout(this._later);
      [this._around, this._pictures, this._drawn, this._later] = [around, pictures, performance.now(), undefined];
      moved.forEach(view => view.show(snapshot, new Set(lost)));
    }
  }

  private _inSight(kind: ViewKind): boolean {
    return !kind.wide || kind.id === this._stage.current;
  }

  /** The state alone, at once; pictures can wait for the next repaint. */
  showState(status: Status): void {
    if (status.state !== this.node.dataset.state && !this._header.hidden) {
      this.node.dataset.state = status.state;
      this._showStatus(status);
    }
  }

  private _buildHeader(): void {
    this._header.className = 'wb-Header';
    this._trouble.className = 'wb-Trouble';
    this._pill.className = 'wb-Pill';
    this._facts.className = 'wb-Facts';
    const tools = document.createElement('div');
    tools.className = 'wb-Tools';
    this._link.className = 'wb-Link';
    this._link.target = '_blank';
    this._link.rel = 'noopener';
    this._link.textContent = 'Dask ↗';
    this._link.title = "This run's page in the dashboard of the Dask cluster, in another tab of the browser";
    tools.append(this._link, this._pause, this._stop);
    if (this._host.pin) {
      tools.append(button('Pin', 'Keep a panel with this notebook, whatever you turn to', () => this._host.pin!()));
    }
    this._header.append(this._pill, this._facts, tools);
  }

  private _showStatus(status: Status): void {
    const word = WORDS[status.state] ?? status.state;
    if (this._pill.textContent !== word) {
      this._pill.textContent = word;
      this._pill.dataset.state = status.state;
    }
    this._voice.tell('state', `${word}.`);
    const running = status.state === 'running';
    const rate = running ? this._rate(status.step) : '';
    const begins = status.state === 'starting'; // a cluster: there is no step yet
    const lasts = (begins || BUSY.includes(status.state)) && status.seconds >= 1 && !(running && status.counted);
    const long = lasts ? `for ${span(status.seconds)}` : '';
    const lost = status.records_lost ? `${status.records_lost.toLocaleString('en')} records lost` : '';
    const facts = [begins ? '' : steps(status), rate, inside(status), long, lost, this._standing.name].filter(Boolean);
    const pieces = this._pieces.of(facts.map((_, i) => String(i)));
    const named = this._standing.name ? facts.length - 1 : -1;
    pieces.forEach((piece, i) => {
      say(piece, `${facts[i]}${i < facts.length - 1 ? ' · ' : ''}`);
      put(piece, { className: i === named ? 'wb-Name' : '' });
    });
    arrange(this._facts, pieces);
    put(this._facts, { title: this._facts.textContent! });
    put(this._link, { hidden: !/^https?:/.test(status.page) });
    mark(this._link, 'href', String(status.page));
    const paused = status.state === 'paused';
    if (this._asked !== null && paused === this._asked) {
      this._asked = null;
    }
    const target = this._asked ?? paused;
    say(this._pause, target ? 'Resume' : 'Pause');
    const title = target ? 'Resume training' : 'Pause training before the next step';
    const disabled = !BUSY.includes(status.state);
    mark(this._pause, 'aria-label', title);
    put(this._pause, { title, disabled });
    put(this._stop, { disabled });
    this._pauses = !target;
  }

  /**
   * What keeps the panel from showing the truth, and what went wrong: cause first, then what to do. It stands in the place of
   * the verdict, so that nothing below moves when it comes and goes, but where the run goes on or its reader has stopped it.
   */
  private _showTrouble(status: Status | null): void {
    const { trouble, silence } = this._standing;
    const lines: [string, string, string?][] = trouble ? [[trouble, '']] : []; // what is so, what to do, which operation it was
    if (silence) {
      lines.push([`No word from the kernel for ${span(silence)}.`, SILENT]);
    }
    const end = () => [sentence(ended(WORDS[status!.state], status!)), sentence(status!.fix)] as [string, string];
    if (status?.state === 'failed') {
      lines.push([...end(), status.what]);
    }
    const recovers = status?.state === 'recovering' && !!status.cause;
    if (recovers) {
      lines.push([sentence(status.cause), sentence(status.fix)]);
    }
    const broken = status?.broken ?? []; // a cell that was saved by an older kernel has none
    lines.push(...broken);
    this._instead = lines.length > 0;
    if (status?.state === 'stopped' && status.cause) {
      lines.push(end());
    }
    for (const [topic, why] of Object.entries(this._snapshot?.faults ?? {}).filter(([, why]) => why)) {
      lines.push([`The view "${topic}" cannot be shown.`, why]);
    }
    lines.push(...losses(status?.lost ?? [], lines.flat().join())); // but for those that the step tells of that they ended
    put(this._trouble, { hidden: !lines.length });
    const bad = status?.state === 'failed' || !!status?.lost.length || !!silence || recovers || broken.length > 0;
    put(this._trouble, { className: `wb-Trouble${bad ? ' wb-mod-bad' : ''}` });
    const aloud = lines.map(([fact, fix]) => (fix === SILENT ? `No word from the kernel. ${fix}` : `${fact} ${fix}`)); // said once
    this._voice.alarm(aloud);
    const notices = this._notices.of(lines.map(([, , what], i) => what || String(i)));
    lines.forEach(([fact, fix, what], i) => {
      notices[i].show(fact, fix, what && `Show ${what} in the graph`, () => this.lead('graph', what));
    });
    arrange(
      this._trouble,
      notices.map(notice => notice.node)
    );
  }

  /** The answer to "what is slow, and why": a number and an action; a click leads to the view that proves it. */
  private _showVerdict(view: StragglerView | null): void {
    const verdict = view?.verdict;
    put(this._verdict, { hidden: !verdict?.text || this._instead });
    put(this._verdict, { className: verdict?.alarm ? 'wb-Verdict wb-mod-alarm' : 'wb-Verdict' });
    const text = [verdict?.text, verdict?.action].filter(Boolean).join(' ');
    this._voice.tell('verdict', this._instead ? '' : text, `${verdict?.kind} ${verdict?.subject}`, CALM_VERDICT);
    put(this._verdict, { title: text });
    const proof = verdict?.kind === 'unknown' ? '' : 'Show the newest step in the timeline, which proves it';
    this._answer.show(verdict?.text ?? '', verdict?.action ?? '', proof, () => this.lead('timeline', verdict?.subject ?? ''));
  }

  /** A view brought into sight, and in it what a sentence is about. */
  lead(view: string, subject?: string): void {
    const at = VIEWS.findIndex(kind => kind.id === view);
    VIEWS[at].wide && this._stage.select(view);
    subject === undefined || this._views[at].reveal?.(subject);
    (VIEWS[at].wide ? this._stage : this._views[at]).node.scrollIntoView({ block: 'nearest' });
  }

  /** Steps per second over the last few seconds, nothing where none came. */
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
    const rate = seconds > 0.5 ? (step - first.step) / seconds : 0;
    return rate ? `${rate >= 10 ? Math.round(rate) : format(rate, 2)} steps/s` : '';
  }

  private _asks(pause: boolean): void {
    this._asked = pause;
    void this._host.command(pause ? 'pause' : 'resume').then(() => {
      this._asked = null;
      this._again();
    });
    this._again();
  }

  private _again(): void {
    this.show(this._snapshot, this._standing);
  }

  private _voice: Voice;
  private _snapshot: Snapshot | null = null;
  private _pictures: unknown[] = []; // what the views show
  private _around: unknown[] = []; // what all of them mark in it
  private _drawn = -Infinity; // when
  private _later: ReturnType<typeof setTimeout> | undefined;
  private _standing: Standing = { name: '', trouble: '', silence: 0 };
  private _header = document.createElement('header');
  private _verdict = document.createElement('p');
  private _answer = new Notice(this._verdict);
  private _instead = false; // does what went wrong stand in the place of the verdict?
  private _pauses = true;
  private _trouble = document.createElement('div');
  private _notices = new Kept(() => new Notice()); // one a line of it
  private _body = document.createElement('div');
  private _pill = document.createElement('span');
  private _link = document.createElement('a');
  private _facts = document.createElement('span');
  private _pieces = new Kept(() => document.createElement('span')); // one a fact
  private _pause = button('Pause', 'Pause training', () => this._asks(this._pauses));
  private _stop = button('Stop', 'Stop training: the next step raises CancelledError', () => void this._host.command('stop'));
  private _awaited = new Map<Topic, number>(); // topic -> when a view asked for another picture of it
  private _context: Context = {
    ...this._host,
    ask: (topic, parameters) => {
      this._awaited.set(topic, performance.now());
      this._host.ask(topic, parameters);
    }
  };
  private _views: Shown[] = VIEWS.map(kind => kind.make(this._context));
  private _stage = new Tabs(
    VIEWS.map(({ id, title }, i) => ({ id, title, node: this._views[i].node })).filter((_, i) => VIEWS[i].wide),
    'What runs',
    () => {
      this._host.attend();
      this._again();
    }
  );
  private _history: { time: number; step: number }[] = [];
  private _asked: boolean | null = null;
}
