/** What every task did in a step: live, any recorded step, any stretch of it; sums of what is selected. */
import type { Status, TimelineParameters } from '../contract';
import { mark, put, say } from '../kit/keep';
import { WORDS } from '../kit/pattern';
import { duration } from '../kit/text';
import { button, Section, together } from '../kit/section';
import { type Context, defineView } from '../kit/view';
import { speak } from '../kit/voice';
import type { Snapshot } from '../store';
import { Board } from '../timeline/board';
import { wanted } from '../timeline/rows';
import { totals } from '../timeline/totals';
import { ofTotals } from '../timeline/words';

export class TimelineSection extends Section {
  constructor(private _context: Context) {
    super('Timeline', 'wb-Timeline');
    this._step.type = 'number';
    this._step.setAttribute('aria-label', 'Recorded step to show');
    this._step.addEventListener('change', () => this._board.pick(Number(this._step.value)));
    this._range.className = 'wb-Timeline-words';
    this._links.className = 'wb-mod-toggle';
    put(this._links, { hidden: !!this._context.kept }); // nobody answers there
    mark(this._links, 'aria-pressed', 'false');
    this._follow.className = 'wb-mod-toggle';
    this._sums.className = 'wb-Timeline-sums';
    this._path.className = 'wb-Timeline-path';
    this.tools.append(
      together(
        button('◀', 'The step before', () => this._turn(-1)),
        this._step,
        button('▶', 'The next step', () => this._turn(1))
      ),
      this._follow,
      together(
        button('−', 'Zoom out (S)', () => this._board.zoom(1 / 1.5)),
        button('+', 'Zoom in (W)', () => this._board.zoom(1.5)),
        button('Fit', 'Show the whole step (0)', () => this._board.fit())
      ),
      this._links,
      this._range // below what one can press where a line has no room for both
    );
    this._legend.className = 'wb-Legend';
    this._legend.append(
      ...Object.entries(WORDS).map(([part, words]) => key(part, words)),
      key('path', 'critical path'),
      key('message', 'message')
    );
    this.body.append(this._board.node, this._sums, this._path, this._legend);
  }

  show(snapshot: Snapshot, lost: Set<string>): void {
    const view = snapshot.timeline;
    this._status = snapshot.status;
    this.note(view ? '' : missing(snapshot));
    if (view) {
      const { alarm, subject } = snapshot.stragglers?.verdict ?? { alarm: false, subject: '' };
      this._board.show(view, lost, new Set(alarm ? subject.split('|') : []));
      this._board.node.style.setProperty('--wb-wanted', `${wanted(view)}px`);
      this._describe();
    }
  }

  /** Bring the rows of this task into sight. */
  reveal(subject: string): void {
    this._board.reveal(subject.split('|')[0]);
  }

  restyle(): void {
    this._board.restyle();
  }

  dispose(): void {
    this._board.dispose();
  }

  /** To the recorded step before or after. */
  private _turn(direction: number): void {
    const view = this._board.view;
    if (view) {
      this._board.pick(view.step + direction, direction < 0);
    }
  }

  /** Numbers and words around the drawing. */
  private _describe(): void {
    const view = this._board.view;
    if (!view) {
      return;
    }
    const pinned = this._board.pinned !== null;
    if (document.activeElement !== this._step) {
      this._step.value = String(view.step);
    }
    [this._step.min, this._step.max] = [String(view.oldest), String(view.newest)];
    const state = pinned ? '' : standing(this._status);
    const range = `of ${view.oldest.toLocaleString('en')}–${view.newest.toLocaleString('en')}`;
    say(this._range, [range, duration(view.length), state].filter(Boolean).join(' · '));
    mark(this._follow, 'aria-pressed', String(!pinned));
    const looked = this._board.looked();
    const words = looked ? ofTotals(view, totals(view, looked)) : '';
    const left = view.arrows_left_out ? ` ${view.arrows_left_out.toLocaleString('en')} shorter messages are not drawn.` : '';
    const cut = view.spans_left_out
      ? ` ${view.spans_left_out.toLocaleString('en')} older spans are not drawn: zoom in, or choose a newer step.`
      : '';
    const { rows } = this._board;
    const more =
      rows < view.lane_count ? ` Rows ${view.first + 1}–${view.first + rows} of ${view.lane_count}; scroll for more.` : '';
    if (!view.lane_count) {
      say(this._sums, 'Of this step only its length was recorded; ◀ leads to one that was recorded in full.');
      say(this._path, '');
      return;
    }
    say(this._sums, `${this._board.selection ? 'Selected' : 'In sight'}: ${words}.${left}${cut}${more}`);
    say(this._path, view.path_begin.length ? `Critical path, ${view.path}` : '');
  }

  private _board: Board = new Board({
    look: (parameters: TimelineParameters) => this._context.ask('timeline', parameters),
    selected: () => {
      this._describe();
      speak(this.node, this._sums.textContent!);
    }
  });
  private _step = document.createElement('input');
  private _range = document.createElement('span');
  private _follow = button('Newest', 'Follow the newest complete step', () => this._board.follow());
  private _links = button('Links', 'A row for each link between two tasks', () => {
    this._board.divide(!this._board.links);
    mark(this._links, 'aria-pressed', String(this._board.links));
  });
  private _sums = document.createElement('p');
  private _path = document.createElement('p');
  private _legend = document.createElement('ul');
  private _status: Status | null = null;
}

/** Why there is no timeline. */
function missing(snapshot: Snapshot): string {
  const state = snapshot.status?.state;
  const fault = snapshot.faults.timeline;
  if (fault) {
    return fault;
  }
  if (snapshot.steps?.tasks.length) {
    return 'The newest step is drawn in a moment.'; // others know of steps: its picture is on its way
  }
  if (state === 'failed' || state === 'stopped') {
    return 'The run ended before a step was complete: nothing was recorded of it.';
  }
  return state === 'running' || state === 'paused'
    ? 'The first step is drawn a moment after it is complete.'
    : 'No step was recorded yet. Run one, by Session.run or a trainer, and it appears here.';
}

/** What the newest step is while the run does not go on. */
function standing(status: Status | null): string {
  const words: Partial<Record<Status['state'], string>> = {
    paused: 'paused',
    failed: 'the run failed; this is its last complete step',
    stopped: 'stopped',
    finished: 'finished'
  };
  return (status && words[status.state]) ?? '';
}

function key(part: string, words: string): HTMLElement {
  const entry = document.createElement('li');
  const made = document.createElement('i');
  made.dataset.part = part;
  entry.append(made, words);
  return entry;
}

defineView({ id: 'timeline', title: 'Timeline', topic: 'timeline', wide: true, make: context => new TimelineSection(context) });
