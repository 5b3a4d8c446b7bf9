/** How much of a stretch of time is work, transfer and waiting, over the rows that are in sight. */
import type { Lane, TimelineView } from '../contract';
import type { Stretch } from '../kit/stretch';

/** A stretch of time on some of the rows. */
export interface Selection extends Stretch {
  readonly first: number;
  readonly last: number;
}

export interface Totals {
  /** Kind -> milliseconds, in the order of `TimelineView.kinds`; a sum over the rows, on each of which a moment counts once. */
  kinds: number[];
  /** Spans that the marks stand for. */
  spans: number;
  rows: number;
  /** Milliseconds from the first moment to the last. */
  length: number;
}

/** The same rows among others; null where its first or its last one is not among them. */
export function carried(selection: Selection, from: Lane[], to: Lane[]): Selection | null {
  const [first, last] = [selection.first, selection.last].map(row =>
    to.findIndex(lane => lane.task === from[row]?.task && lane.label === from[row].label)
  );
  return first < 0 || last < 0 ? null : { ...selection, first, last };
}

/** What a mark that lies partly inside has covered is divided evenly; marks of a row come by their beginnings. */
export function totals(view: TimelineView, chosen: Selection): Totals {
  const kinds = view.kinds.map(() => 0);
  const reached = new Map<number, number>(); // by row and kind: until when it is summed up
  let spans = 0;
  for (let i = 0; i < view.lane.length; i++) {
    const inside = Math.min(view.until[i], chosen.end) - Math.max(view.begin[i], chosen.start);
    const length = view.until[i] - view.begin[i];
    if (view.lane[i] < chosen.first || view.lane[i] > chosen.last || inside < 0 || (inside === 0 && length > 0)) {
      continue;
    }
    spans += view.count[i];
    const [end, key] = [Math.min(view.until[i], chosen.end), view.lane[i] * kinds.length + view.kind[i]];
    const begin = Math.max(view.begin[i], chosen.start, reached.get(key) ?? -Infinity);
    if (end > begin) {
      kinds[view.kind[i]] += (view.busy[i] * (end - begin)) / length;
      reached.set(key, end);
    }
  }
  return { kinds, spans, rows: chosen.last - chosen.first + 1, length: chosen.end - chosen.start };
}
