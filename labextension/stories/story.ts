/** A planted run as the page that JupyterLab shows of it: every view, from saved records, without a kernel. */
import type { GraphUpdate, StepView, StragglerView, TimelineView, Update } from '../src/contract';
import type { Layouter } from '../src/graph/layouter';
import { shortTask } from '../src/kit/text';
import { Page } from '../src/page';
import { merge, NOTHING, type Snapshot } from '../src/store';
import graphs from '../test/fixtures/graphs.json';
import planted from '../test/fixtures/planted.json';
import timelines from '../test/fixtures/timelines.json';

export const SCENARIOS = planted.map(one => one.name);

/** The tasks of a scenario. */
export function tasksOf(scenario: string): string[] {
  return planted[SCENARIOS.indexOf(scenario)].stragglers.rows.map(row => row.task);
}

/** What a page that watches everything has of a scenario; `lost`, as "worker:3", was lost in it. */
export function snapshotOf(scenario: string, lost = ''): Snapshot {
  const at = SCENARIOS.indexOf(scenario);
  const { steps, stragglers } = planted[at] as unknown as { steps: StepView; stragglers: StragglerView };
  const tasks = steps.tasks.map(one => one.task);
  const loss = steps.tasks[0].steps as number[];
  const status = {
    state: 'running',
    step: loss[loss.length - 1] + 1,
    of: 60,
    counted: true,
    session: 'session_0',
    tasks: tasksOf(scenario),
    lost: tasksOf(scenario)
      .filter(task => shortTask(task) === lost)
      .map(task => ({ task, cause: `${task} was lost (its process was killed)`, fix: 'restart it' }))
  };
  const timeline = timelines[at].view as unknown as TimelineView;
  const values = loss.map(step => 2.3 * Math.exp(-step / 20));
  const series = {
    names: ['loss'],
    series: [{ name: 'loss', unit: '', steps: loss, values, count: loss.length, fresh: true }]
  };
  const knob = tasks.map(part => ({
    part,
    label: shortTask(part),
    color: '',
    value: 0,
    taken: true
  }));
  const topics = {
    graph: graphs[at] as unknown as GraphUpdate,
    steps,
    series,
    work: stragglers,
    timeline,
    knobs: { knobs: [{ name: 'brake', most: 100, step: 1, parts: knob.slice(-2), fault: '' }] }
  };
  return merge(NOTHING, { seq: 1, status, topics, faults: {}, v: 3, kind: 'update' } as unknown as Update);
}

/** Shows `scenario` in `node`; what the reader asks a kernel for stays as it was saved. */
export function tell(node: HTMLElement, scenario: string, layouter: () => Layouter, lost = ''): Page {
  const snapshot = snapshotOf(scenario, lost);
  const standing = { name: scenario, trouble: '', silence: 0 };
  const page: Page = new Page(node, {
    ask: () => undefined,
    turn: async () => undefined,
    command: async () => undefined,
    attend: () => requestAnimationFrame(() => page.show(snapshot, standing)),
    layouter,
    jump: null
  });
  page.show(snapshot, standing);
  return page;
}
