/** The timeline as something to look around in: which step, which stretch of time, which rows; asks for what it lacks. */
import type { TimelineParameters, TimelineView } from '../contract';
import { Canvas, type Pen } from '../kit/canvas';
import type { Theme } from '../kit/colour';
import { put } from '../kit/keep';
import { moved, type Stretch, timeAt, zoomed } from '../kit/stretch';
import { speak } from '../kit/voice';
import { type Hands, listen, selected } from './hands';
import { arrowAt, type Frame, markAt, next } from './hit';
import { paint } from './paint';
import { asked, AXIS, layRows, LOW, rowAt, SIDE } from './rows';
import { Tip } from './tip';
import { carried, type Selection } from './totals';
import { ofArrow, ofMark, summary } from './words';

export interface Listener {
  /** Other marks are needed. */
  look(parameters: TimelineParameters): void;
  /** What is selected changed, or is looked at. */
  selected(): void;
}

const CALM = 120; // milliseconds after a movement, before the kernel is asked
const BEYOND = 40; // lengths of the step that can be seen at once
const SPOKEN = 5000; // milliseconds between two summaries for screen readers

export class Board implements Hands {
  readonly node = document.createElement('div');

  constructor(private _listener: Listener) {
    this.node.className = 'wb-Timeline-view';
    const canvas = this._canvas.node;
    canvas.tabIndex = 0;
    canvas.setAttribute('role', 'application');
    canvas.setAttribute('aria-roledescription', 'timeline');
    canvas.setAttribute('aria-keyshortcuts', 'W A S D 0 ArrowLeft ArrowRight ArrowUp ArrowDown Escape');
    this.node.append(canvas, this._tip.node);
    listen(canvas, this);
  }

  /** The step that is looked at whatever else comes, null while the newest is followed. */
  pinned: { run: string; step: number; before?: number } | null = null;
  /** The pinned step is in sight: updates of other steps are still on their way, and not wanted. */
  private _held = false;
  selection: Selection | null = null;
  view: TimelineView | null = null;

  /** Draw `view`; tasks that are `lost` are crossed out, those that are `named` marked. */
  show(view: TimelineView, lost: Set<string>, named: Set<string>): void {
    if (this._held && this.pinned?.step !== view.step) {
      return;
    }
    if (view !== this.view) {
      const other = view.step !== this.view?.step || view.run !== this.view?.run;
      this.selection = other || !this.selection ? null : carried(this.selection, this.view!.lanes, view.lanes);
      if (!this.pinned || !this._stretch) {
        this._stretch = { start: view.start, end: view.end };
      }
      if (this._task) {
        this._scrolled = this._first = view.first;
      }
      this.view = view;
      this._rows = layRows(view.lanes);
      this._mark = this._arrow = null;
    }
    if ([...lost].join() !== [...this._lost].join()) {
      this._spoke = -Infinity; // who is lost is said at once
    }
    [this._lost, this._named] = [lost, named];
    this._describe();
    this._canvas.draw();
    this.node.dataset.updates = String(Number(this.node.dataset.updates ?? 0) + 1);
    this.node.dataset.step = String(view.step);
  }

  /** The whole of the newest step from now on. */
  follow(): void {
    this.pinned = null;
    this._held = false;
    this._stretch = this.selection = null;
    this._ask();
  }

  /** The whole of this step, or of the next one that is recorded; or of the last one `before` it. */
  pick(step: number, before = false): void {
    if (this.view) {
      this.pinned = { run: this.view.run, step, before: Number(before) };
      this._held = false;
      this._stretch = this.selection = null;
      this._ask();
    }
  }

  /** Whether what comes to a task has a row for each task that it comes from. */
  links = false;

  /** Links are told apart, or not any more. */
  divide(links: boolean): void {
    this.links = links;
    this.selection = null; // of rows that are others now
    this._ask();
  }

  /** Show the rows of this task, wherever they are. */
  reveal(task: string): void {
    this._task = task;
    this._ask();
  }

  /** What is selected, else all that is in sight. */
  looked(): Selection | null {
    const stretch = this._stretch;
    return this.selection ?? (stretch && this._rows.length ? { ...stretch, first: 0, last: this.rows - 1 } : null);
  }

  /** Rows that the canvas has room for. */
  get rows(): number {
    const fitting = this._rows.filter(row => row.top + row.height <= this._canvas.height).length;
    return Math.max(1, Math.min(fitting || this._rows.length, this._rows.length));
  }

  restyle(): void {
    this._canvas.restyle();
  }

  dispose(): void {
    clearTimeout(this._due);
    this._canvas.dispose();
  }

  // hands
  frame(): Frame | null {
    return this.view && this._stretch
      ? { view: this.view, rows: this._rows, stretch: this._stretch, left: SIDE, right: this._canvas.width - 4 }
      : null;
  }

  zoom(factor: number, x = (SIDE + this._canvas.width) / 2): void {
    const frame = this.frame();
    if (frame) {
      const time = timeAt(frame.stretch, frame.left, frame.right, Math.max(x, frame.left));
      this._go(zoomed(frame.stretch, factor, time, BEYOND * frame.view.length));
    }
  }

  pan(pixels: number): void {
    const frame = this.frame();
    if (frame) {
      const { start, end } = frame.stretch;
      this._go(moved(frame.stretch, (pixels * (end - start)) / (frame.right - frame.left)));
    }
  }

  scroll(pixels: number): boolean {
    const view = this.view;
    const last = Math.max(0, (view?.lane_count ?? 0) - this.rows);
    this._scrolled = Math.min(Math.max(0, this._scrolled + pixels / (2 * LOW)), last);
    const first = Math.round(this._scrolled);
    if (!view || !last || first === (this._first ?? view.first)) {
      return last > 0 && this._scrolled > 0 && this._scrolled < last;
    }
    this._first = first;
    this._task = '';
    this._later();
    return true;
  }

  select(from: [number, number], to: [number, number]): void {
    const frame = this.frame();
    if (frame) {
      this._pin();
      this.selection = selected(frame, from, to);
      this._point(null, null);
      this._listener.selected();
    }
  }

  point(x: number, y: number): void {
    const frame = this.frame();
    const inside = frame && x >= frame.left && y > AXIS;
    const named = frame && x < frame.left ? frame.view.lanes[rowAt(frame.rows, y)] : undefined;
    put(this._canvas.node, { title: named ? `${named.label}: ${named.task}` : '' }); // there is little room for it
    const arrow = inside ? arrowAt(frame, x, y) : -1;
    const mark = inside && arrow < 0 ? markAt(frame, x, y) : -1;
    this._point(mark >= 0 ? mark : null, arrow >= 0 ? arrow : null, x, y);
  }

  click(x: number, y: number): void {
    this.point(x, y);
    if (this.selection && this._mark === null) {
      this.leave();
    }
  }

  fit(): void {
    if (this.view) {
      this._go({ start: 0, end: this.view.length });
    }
  }

  step(dx: number, dy: number): void {
    const frame = this.frame();
    if (frame && frame.view.lane.length) {
      const found = this._mark === null ? 0 : next(frame, this._mark, dx, dy);
      const at = found >= 0 ? found : this._mark;
      this._pin();
      this._point(at, null);
      at !== null && this._keepInSight(frame, at);
      at !== null && speak(this.node, ofMark(frame.view, at).join(', '));
    }
  }

  leave(): void {
    this.selection = null;
    this._point(null, null);
    this._listener.selected();
  }

  /** The mark is shown where the stretch does not reach. */
  private _keepInSight(frame: Frame, at: number): void {
    const [begin, until] = [frame.view.begin[at], frame.view.until[at]];
    const { start, end } = frame.stretch;
    if (until < start || begin > end) {
      this._go(moved(frame.stretch, (begin + until - start - end) / 2));
    }
  }

  private _point(mark: number | null, arrow: number | null, x?: number, y?: number): void {
    if (mark !== this._mark || arrow !== this._arrow) {
      [this._mark, this._arrow] = [mark, arrow];
      this._tell(x, y);
    }
    this._canvas.draw();
  }

  /** What is under the pointer or chosen by keys, beside it. */
  private _tell(x?: number, y?: number): void {
    const frame = this.frame();
    const lines = !frame
      ? []
      : this._arrow !== null
        ? ofArrow(frame.view, this._arrow)
        : this._mark !== null
          ? ofMark(frame.view, this._mark)
          : [];
    const row = this._mark !== null && frame ? this._rows[frame.view.lane[this._mark]] : null;
    this._tip.show(lines, x ?? SIDE + 8, row ? row.top + row.height : (y ?? 0), this._canvas);
  }

  /** Looking closer holds the step: it would run away under the hands. */
  private _pin(): void {
    if (!this.pinned && this.view) {
      this.pinned = { run: this.view.run, step: this.view.step };
      this._held = true;
      this._listener.selected();
      this._later();
    }
  }

  private _go(stretch: Stretch): void {
    this._pin();
    this._stretch = stretch;
    this._tip.hide();
    this._canvas.draw();
    this._later();
    this._listener.selected();
  }

  private _later(): void {
    clearTimeout(this._due);
    this._due = setTimeout(() => this._ask(), CALM);
  }

  private _ask(): void {
    const { pinned, _stretch: stretch, _task: task, _first: first } = this;
    this._listener.look(asked(this._canvas, task || (first ?? 0), pinned, stretch, this.links));
  }

  private _resized(): void {
    const size = `${this._canvas.width} ${this._canvas.height}`;
    if (this._canvas.width && size !== this._size) {
      this._size = size;
      this._later();
    }
  }

  private _describe(): void {
    const now = performance.now();
    if (this.view && now - this._spoke > SPOKEN) {
      this._spoke = now;
      this._canvas.node.setAttribute('aria-label', summary(this.view, this._lost));
    }
  }

  private _paint = (pen: Pen, theme: Theme): void => {
    const frame = this.frame();
    if (frame) {
      const { _lost: lost, _named: named, selection } = this;
      paint(pen, theme, this._canvas.width, this._canvas.height, {
        ...frame,
        mark: this._mark ?? -1,
        arrow: this._arrow ?? -1,
        selection,
        lost,
        named
      });
    }
  };

  private _canvas: Canvas = new Canvas(this._paint, () => this._resized());
  private _tip = new Tip();
  private _rows: ReturnType<typeof layRows> = [];
  private _stretch: Stretch | null = null;
  private _mark: number | null = null;
  private _arrow: number | null = null;
  private _lost = new Set<string>();
  private _named = new Set<string>();
  private _first: number | null = null;
  private _task = ''; // whose rows are to be shown, until somebody scrolls
  private _scrolled = 0;
  private _size = '';
  private _spoke = -Infinity;
  private _due: ReturnType<typeof setTimeout> | undefined;
}
