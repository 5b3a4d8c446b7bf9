/** What a page knows of a kernel: updates merged into whole pictures. */
import {
  GraphState,
  GraphUpdate,
  KnobsView,
  OperationsView,
  Series,
  SeriesView,
  Status,
  StepView,
  StragglerView,
  TaskSteps,
  TimelineView,
  Update
} from './contract';

export interface Snapshot {
  readonly status: Status | null;
  readonly graph: GraphState | null;
  readonly steps: StepView | null;
  readonly series: SeriesView | null;
  readonly stragglers: StragglerView | null;
  readonly timeline: TimelineView | null;
  readonly knobs: KnobsView | null;
  readonly operations: OperationsView | null;
  /** Topic -> why it cannot be shown. */
  readonly faults: Readonly<Record<string, string>>;
}

export const NOTHING: Snapshot = {
  status: null,
  graph: null,
  steps: null,
  series: null,
  stragglers: null,
  timeline: null,
  knobs: null,
  operations: null,
  faults: {}
};

/** The snapshot after `update`; parts without news stay the same objects. */
export function merge(before: Snapshot, update: Update): Snapshot {
  const { graph, knobs, operations, steps, series, timeline, work } = update.topics;
  return {
    status: { ...before.status, ...update.status } as Status,
    graph: graph ? mergeGraph(before.graph, graph) : before.graph,
    steps: steps ? mergeSteps(before.steps, steps) : before.steps,
    series: series ? mergeSeries(before.series, series) : before.series,
    stragglers: work ?? before.stragglers,
    timeline: timeline ?? before.timeline,
    knobs: knobs ?? before.knobs,
    operations: operations ?? before.operations,
    faults: Object.keys(update.faults).length ? { ...before.faults, ...update.faults } : before.faults
  };
}

function mergeGraph(before: GraphState | null, news: GraphUpdate): GraphState | null {
  const picture = news.picture ?? before;
  if (!picture) {
    return null;
  }
  const details = news.details ?? before?.details ?? null;
  const found = news.found ?? before?.found ?? null;
  const stats: Record<string, number> = Object.create(null);
  picture.nodes.forEach((node, i) => {
    if (Number.isFinite(news.times[i])) {
      stats[node.id] = news.times[i];
    }
  });
  const { nodes, edges, devices, marks } = picture;
  const graphs = news.graphs ?? before?.graphs ?? [];
  const stages = news.stages ?? before?.stages ?? [];
  const { key, note, stage, rewrite, failed = null } = news; // a cell that was saved by an older kernel has no `failed`
  return { key, nodes, edges, devices, marks, stats, note, graphs, details, found, stages, stage, rewrite, failed };
}

function mergeSteps(before: StepView | null, news: StepView): StepView {
  const known = new Map(before?.tasks.map(task => [task.task, task]));
  return { ...news, tasks: news.tasks.map(task => (task.fresh ? task : mergeTask(known.get(task.task), task, news.window))) };
}

function mergeTask(before: TaskSteps | undefined, news: TaskSteps, window: number): TaskSteps {
  const longer = (name: 'times' | 'steps' | 'ends') => joined(before?.[name], news[name]).slice(-window);
  return { ...news, times: longer('times'), steps: longer('steps'), ends: longer('ends') };
}

function mergeSeries(before: SeriesView | null, news: SeriesView): SeriesView {
  const known = new Map(before?.series.map(one => [one.name, one]));
  for (const one of news.series) {
    known.set(one.name, one.fresh ? one : mergeCurve(known.get(one.name), one));
  }
  return { names: news.names, series: news.names.map(name => known.get(name)).filter((one): one is Series => !!one) };
}

function mergeCurve(before: Series | undefined, news: Series): Series {
  return { ...news, steps: joined(before?.steps, news.steps), values: joined(before?.values, news.values) };
}

/** One column after the other; null (a value that is no number) becomes NaN. */
function joined(first: ArrayLike<number> | undefined, second: ArrayLike<number>): Float64Array {
  const made = new Float64Array((first?.length ?? 0) + second.length);
  made.set(Array.from(first ?? [], number));
  made.set(Array.from(second, number), first?.length ?? 0);
  return made;
}

function number(value: number | null): number {
  return value ?? NaN;
}
