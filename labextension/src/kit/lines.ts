/** Lines of a chart as numbers: trends, smoothing, bounds, and times without the gaps in which nothing stepped. */
import type { Cut } from '../contract';
import { ticks } from './ticks';

export interface Line {
  name: string;
  color: string;
  xs: ArrayLike<number>;
  ys: ArrayLike<number>;
  /** Each point by itself, not joined. */
  marks?: boolean;
}

/** A line, and how it is drawn. */
export interface Stroke extends Line {
  width: number;
  /** Not read off: it is there for another one. */
  quiet: boolean;
}

interface Points {
  xs: number[];
  ys: number[];
}

/** From so many points a line gets a running median. */
export const CROWDED = 60;
export const FAINT = '48'; // alpha of the points behind a trend
const PLACES = 100; // at which the median is taken
const FAR = 1.6; // times the 95th percentile: what is slower lies beyond the scale

/** The running median of many points; null when each can be seen by itself. Never across a cut. */
export function running({ xs, ys }: Line, cuts: readonly Cut[] = []): Points | null {
  if (xs.length < CROWDED) {
    return null;
  }
  const reach = Math.max(4, Math.round(xs.length / 40));
  const stride = Math.max(1, Math.floor(xs.length / PLACES));
  const piece = pieces(xs, cuts);
  const near = new Float64Array(2 * reach + 1); // numbers of one kind are put in order without a function of ours
  const trend: Points = { xs: [], ys: [] };
  for (let i = 0; i < xs.length; i = i === xs.length - 1 ? xs.length : Math.min(i + stride, xs.length - 1)) {
    let count = 0;
    for (let k = Math.max(0, i - reach); k <= Math.min(xs.length - 1, i + reach); k++) {
      if (piece[k] === piece[i] && Number.isFinite(ys[k])) {
        near[count++] = ys[k];
      }
    }
    trend.xs.push(xs[i]);
    trend.ys.push(count ? near.subarray(0, count).sort()[count >> 1] : NaN);
  }
  return trend;
}

/** Which run of steps each point belongs to: the number of cuts before it. */
function pieces(xs: ArrayLike<number>, cuts: readonly Cut[]): number[] {
  return cuts.length ? Array.from(xs, x => cuts.filter(cut => cut.end <= x).length) : new Array(xs.length).fill(0);
}

/** An exponential moving average without the pull of its beginning; `weight` 0 leaves values as they are, below 1. */
export function smoothed(ys: ArrayLike<number>, weight: number): number[] {
  let [sum, norm] = [0, 0];
  return Array.from(ys, y => {
    if (!Number.isFinite(y)) {
      return NaN;
    }
    [sum, norm] = [weight * sum + (1 - weight) * y, weight * norm + (1 - weight)];
    return sum / norm;
  });
}

/** What `of` makes of each number of a column: a third of the time that Array.from takes. */
export function mapped<T>(column: ArrayLike<number>, of: (value: number) => T): T[] {
  const made = new Array<T>(column.length);
  for (let i = 0; i < column.length; i++) {
    made[i] = of(column[i]);
  }
  return made;
}

/** [low, high] of the vertical axis. Times start at zero, and one slow first step does not flatten the rest. */
export function bounds(lines: readonly Line[], fromZero: boolean, log: boolean): [number, number] {
  const known = new Float64Array(lines.reduce((sum, { ys }) => sum + ys.length, 0));
  let count = 0;
  for (const { ys } of lines) {
    for (let i = 0; i < ys.length; i++) {
      if (Number.isFinite(ys[i]) && (!log || ys[i] > 0)) {
        known[count++] = ys[i];
      }
    }
  }
  const all = known.subarray(0, count).sort();
  if (!all.length) {
    return log ? [0.1, 1] : [0, 1];
  }
  const [low, high] = [all[0], all[all.length - 1]];
  if (log) {
    return [low / 1.2, high * 1.2];
  }
  const top = fromZero ? Math.min(high, FAR * all[Math.floor(0.95 * (all.length - 1))]) || high || 1 : high;
  const bottom = fromZero ? 0 : low;
  const pad = top > bottom ? 0.06 * (top - bottom) : Math.abs(top) * 0.1 || 1;
  return [fromZero ? 0 : bottom - pad, top + pad];
}

/** Index of the value closest to `x` in an ascending list, -1 when it is empty. */
export function nearest(xs: ArrayLike<number>, x: number): number {
  let [low, high] = [0, xs.length - 1];
  while (low < high) {
    const middle = (low + high) >> 1;
    xs[middle] < x ? (low = middle + 1) : (high = middle);
  }
  return low > 0 && x - xs[low - 1] < xs[low] - x ? low - 1 : Math.min(low, xs.length - 1);
}

const BREAK = 0.02; // of what is shown stands for a gap, however long it was

/** Times on an axis from which the gaps are cut out. */
export class CutAxis {
  private _cuts: Cut[];
  private _width: number;

  constructor(
    cuts: readonly Cut[],
    private _first: number,
    private _last: number
  ) {
    this._cuts = cuts.filter(cut => cut.start >= _first && cut.end <= _last).sort((a, b) => a.start - b.start);
    const gone = this._cuts.reduce((sum, cut) => sum + cut.end - cut.start, 0);
    this._width = BREAK * Math.max(_last - _first - gone, 1e-9);
  }

  /** Where a time lies on the axis; in a gap: at its beginning. */
  place(time: number): number {
    let shift = 0;
    for (const { start, end } of this._cuts) {
      if (time >= end) {
        shift += end - start - this._width;
      } else if (time > start) {
        return start - shift;
      }
    }
    return time - shift;
  }

  /** Where these times lie. */
  places(times: ArrayLike<number>): number[] {
    return mapped(times, time => this.place(time));
  }

  /** The middles of the gaps, on the axis. */
  get breaks(): number[] {
    return this._cuts.map(cut => this.place(cut.start) + this._width / 2);
  }

  /** About `count` round times in the runs between the gaps. */
  ticks(count: number): number[] {
    const edges = [this._first, ...this._cuts.flatMap(cut => [cut.start, cut.end]), this._last];
    const whole = Math.max(1e-9, this.place(this._last) - this.place(this._first));
    const found: number[] = [];
    for (let i = 0; i < edges.length; i += 2) {
      const [from, to] = [edges[i], edges[i + 1]];
      const share = Math.floor((count * (to - from)) / whole);
      found.push(...(share ? ticks(from, to, share) : [from]));
    }
    return found;
  }
}

/** Many points are noise to the eye: they stay as a thin line, and their running median leads. */
export function strokesOf(line: Line, cuts: Cut[]): Stroke[] {
  const trend = line.marks ? null : running(line, cuts);
  return trend
    ? [
        { ...line, color: line.color + FAINT, width: 1, quiet: true },
        { ...line, ...trend, width: 2, quiet: false }
      ]
    : [{ ...line, width: 1.5, quiet: false }];
}
