/** What of a timeline lies under a point, and what lies next to a mark. */
import type { TimelineView } from '../contract';
import { place, type Stretch } from '../kit/stretch';
import { type Row, rowAt } from './rows';

/** How a timeline lies on its canvas: times between two pixels, rows below each other. */
export interface Frame {
  view: TimelineView;
  rows: Row[];
  stretch: Stretch;
  left: number;
  right: number;
}

const REACH = 3; // pixels beside a mark or an arrow that still count as on it

/** The narrowest mark of the row under (x, y), -1 for none. */
export function markAt(frame: Frame, x: number, y: number): number {
  const row = rowAt(frame.rows, y);
  const { lane, begin, until } = frame.view;
  let [found, narrowest] = [-1, Infinity];
  for (let i = 0; row >= 0 && i < lane.length; i++) {
    const [a, b] = ends(frame, begin[i], until[i]);
    if (lane[i] === row && x >= a - REACH && x <= b + REACH && b - a < narrowest) {
      [found, narrowest] = [i, b - a];
    }
  }
  return found;
}

/** The arrow next to (x, y), -1 for none. */
export function arrowAt(frame: Frame, x: number, y: number): number {
  let [found, least] = [-1, REACH + 0.5];
  for (let i = 0; i < frame.view.arrow_begin.length; i++) {
    const line = arrow(frame, i);
    const far = line ? distance(x, y, ...line) : Infinity;
    if (far < least) {
      [found, least] = [i, far];
    }
  }
  return found;
}

/** x and y of both ends of an arrow; null when an end is not in sight. */
export function arrow(frame: Frame, i: number): [number, number, number, number] | null {
  const { arrow_source, arrow_target, arrow_begin, arrow_until } = frame.view;
  const [from, to] = [frame.rows[arrow_source[i]], frame.rows[arrow_target[i]]];
  if (!from || !to) {
    return null;
  }
  const [x0, x1] = ends(frame, arrow_begin[i], arrow_until[i]);
  return [x0, from.top + from.height / 2, x1, to.top + to.height / 2];
}

/** The mark before or after mark `at` in its row, or the one beside it in the next row with any; -1 for none. */
export function next(frame: Frame, at: number, dx: number, dy: number): number {
  const { lane, begin, until } = frame.view;
  const middle = (i: number) => (begin[i] + until[i]) / 2;
  let [found, least] = [-1, Infinity];
  for (let i = 0; i < lane.length; i++) {
    const ahead = dx ? (lane[i] === lane[at] ? (middle(i) - middle(at)) * dx : 0) : (lane[i] - lane[at]) * dy;
    const far = dx ? ahead : ahead * 1e9 + Math.abs(middle(i) - middle(at));
    if (i !== at && ahead > 0 && far < least) {
      [found, least] = [i, far];
    }
  }
  return found;
}

function ends(frame: Frame, begin: number, until: number): [number, number] {
  const at = (time: number) => place(frame.stretch, frame.left, frame.right, time);
  return [at(begin), at(until)];
}

/** From a point to a stretch of a line. */
function distance(x: number, y: number, x0: number, y0: number, x1: number, y1: number): number {
  const length = (x1 - x0) ** 2 + (y1 - y0) ** 2;
  const part = length ? Math.min(1, Math.max(0, ((x - x0) * (x1 - x0) + (y - y0) * (y1 - y0)) / length)) : 0;
  return Math.hypot(x - x0 - part * (x1 - x0), y - y0 - part * (y1 - y0));
}
