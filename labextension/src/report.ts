/** The report's pictures, from the records that stand in the file: the panel's own views, without a kernel behind them. */
import type { GraphParameters, TimelineParameters, TimelineView, Update } from './contract';
import { Album, type Kept as KeptGraph } from './graph/album';
import { type Shown, VIEWS } from './kit/view';
import { Voice } from './kit/voice';
import { merge, NOTHING, type Snapshot } from './store';
import './views';

/** What a report holds. */
interface Kept {
  update: Update;
  /** The steps that were recorded in detail, the oldest first. */
  timelines: TimelineView[];
  /** null where no graph was recorded. */
  graph: KeptGraph | null;
}

/** Give every place that names a view its picture; what stood there is for readers without scripts. */
export function tell(records: Element): void {
  const { update, timelines, graph }: Kept = JSON.parse(records.textContent ?? '');
  const album = graph && new Album(graph);
  new Voice(document.body);
  const lost = new Set((update.status.lost ?? []).map(one => one.task));
  let snapshot = merge(NOTHING, update);
  snapshot = timelines.length ? { ...snapshot, timeline: chosen(timelines, {}) } : snapshot;
  snapshot = album ? shown(snapshot, album, {}) : snapshot;
  for (const place of document.querySelectorAll<HTMLElement>('[data-view]')) {
    const kind = VIEWS.find(one => one.id === place.dataset.view)!;
    const view: Shown = kind.make({
      ask: (topic, parameters) => {
        if (topic === 'timeline') {
          snapshot = { ...snapshot, timeline: chosen(timelines, parameters as TimelineParameters) };
        } else if (topic === 'graph' && album) {
          snapshot = shown(snapshot, album, parameters as GraphParameters);
        }
        requestAnimationFrame(() => view.show(snapshot, lost));
      },
      turn: async () => undefined,
      jump: null,
      kept: true,
      layouter: () => album!
    });
    place.classList.add('wb-Page');
    place.replaceChildren(view.node);
    view.show(snapshot, lost);
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => view.restyle?.());
  }
  addEventListener('beforeprint', () => document.querySelectorAll('details').forEach(one => (one.open = true)));
}

/** The step that is asked for, or the next one after it that is kept; the stretch of it that is looked at. */
function chosen(timelines: TimelineView[], { step = -1, start, end }: TimelineParameters): TimelineView {
  const newest = timelines[timelines.length - 1];
  const found = step < 0 ? newest : (timelines.find(one => one.step >= step) ?? newest);
  return start === undefined || end === undefined ? found : { ...found, start, end };
}

/** With the picture of the graph that is asked for. */
function shown(snapshot: Snapshot, album: Album, parameters: GraphParameters): Snapshot {
  return merge(snapshot, { topics: { graph: album.answer(parameters) }, status: {}, faults: {} } as unknown as Update);
}
