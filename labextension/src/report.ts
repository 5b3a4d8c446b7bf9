/** The report's pictures, from the records that stand in the file: the panel's own views, without a kernel behind them. */
import type { TimelineParameters, TimelineView, Update } from './contract';
import { type Shown, VIEWS } from './kit/view';
import { merge, NOTHING } from './store';
import './views';

/** What a report holds. */
interface Kept {
  update: Update;
  /** The steps that were recorded in detail, the oldest first. */
  timelines: TimelineView[];
}

/** Give every place that names a view its picture; what stood there is for readers without scripts. */
export function tell(records: Element): void {
  const { update, timelines }: Kept = JSON.parse(records.textContent ?? '');
  const lost = new Set((update.status.lost ?? []).map(one => one.task));
  let snapshot = merge(NOTHING, update);
  snapshot = timelines.length ? { ...snapshot, timeline: chosen(timelines, {}) } : snapshot;
  for (const place of document.querySelectorAll<HTMLElement>('[data-view]')) {
    const kind = VIEWS.find(one => one.id === place.dataset.view)!;
    const view: Shown = kind.make({
      ask: (topic, parameters) => {
        if (topic === 'timeline') {
          snapshot = { ...snapshot, timeline: chosen(timelines, parameters as TimelineParameters) };
          requestAnimationFrame(() => view.show(snapshot, lost));
        }
      },
      turn: async () => undefined,
      jump: null,
      layouter: () => {
        throw new Error('a report draws no graphs');
      }
    });
    place.classList.add('wb-Page');
    place.replaceChildren(view.node);
    view.show(snapshot, lost);
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => view.restyle?.());
  }
  openScopes();
  addEventListener('beforeprint', () => document.querySelectorAll('details').forEach(one => (one.open = true)));
}

/** The step that is asked for, or the next one after it that is kept; the stretch of it that is looked at. */
function chosen(timelines: TimelineView[], { step = -1, start, end }: TimelineParameters): TimelineView {
  const newest = timelines[timelines.length - 1];
  const found = step < 0 ? newest : (timelines.find(one => one.step >= step) ?? newest);
  return start === undefined || end === undefined ? found : { ...found, start, end };
}

/** A click on a closed scope opens its drawing; the scopes are also reachable as the summaries below the graph. */
function openScopes(): void {
  for (const node of document.querySelectorAll<SVGElement>('.graph .wb-closed')) {
    node.addEventListener('click', () => {
      const details = document.getElementById(`scope-${node.dataset.id}`) as HTMLDetailsElement | null;
      if (details) {
        details.open = true;
        details.scrollIntoView({ block: 'nearest' });
        details.querySelector('summary')?.focus({ preventScroll: true });
      }
    });
  }
  for (const box of document.querySelectorAll('.graph[role=region]')) {
    box.scrollLeft = (box.scrollWidth - box.clientWidth) / 2;
  }
}
