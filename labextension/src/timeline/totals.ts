/** How much of a stretch of time is work, transfer and waiting, over the rows that are in sight. */
import type { TimelineView } from '../contract';
import type { Stretch } from '../kit/stretch';

/** A stretch of time on some of the rows. */
export interface Selection extends Stretch {
  readonly first: number;
  readonly last: number;
}

export interface Totals {
  /** Kind -> milliseconds, in the order of `TimelineView.kinds`; a sum over the rows. */
  kinds: number[];
  /** Spans that the marks stand for. */
  spans: number;
  rows: number;
  /** Milliseconds from the first moment to the last. */
  length: number;
}

/** What a mark that lies partly inside has covered is divided evenly. */
export function totals(view: TimelineView, chosen: Selection): Totals {
  const kinds = view.kinds.map(() => 0);
  let spans = 0;
  for (let i = 0; i < view.lane.length; i++) {
    const inside = Math.min(view.until[i], chosen.end) - Math.max(view.begin[i], chosen.start);
    const length = view.until[i] - view.begin[i];
    if (view.lane[i] < chosen.first || view.lane[i] > chosen.last || inside < 0 || (inside === 0 && length > 0)) {
      continue;
    }
    kinds[view.kind[i]] += length > 0 ? (view.busy[i] * inside) / length : 0;
    spans += view.count[i];
  }
  return { kinds, spans, rows: chosen.last - chosen.first + 1, length: chosen.end - chosen.start };
}
