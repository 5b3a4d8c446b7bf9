import { describe, expect, it } from 'vitest';
import { Status, TaskSteps, Update } from '../src/contract';
import { merge, NOTHING } from '../src/store';

const UPDATE: Update = { seq: 1, status: {}, topics: {}, faults: {}, v: 3, kind: 'update' };
const LINE: TaskSteps = {
  task: 'w',
  device_color: '#000000',
  times: [1, 2],
  steps: [0, 1],
  ends: [0.5, 1.5],
  median: 1,
  p95: 2,
  count: 2,
  fresh: true
};

describe('merge', () => {
  it('keeps what an update does not name', () => {
    const first = merge(NOTHING, { ...UPDATE, status: { state: 'running', step: 3 } as Status });
    const second = merge(first, { ...UPDATE, status: { step: 4 } });
    expect(second.status).toEqual({ state: 'running', step: 4 });
    expect(second.graph).toBeNull();
  });

  it('puts new points behind the ones it has, the newest within the window', () => {
    const view = { more: 0, window: 3, cuts: [] };
    let now = merge(NOTHING, { ...UPDATE, topics: { steps: { ...view, tasks: [LINE] } } });
    const news = { ...LINE, times: [3, 4], steps: [2, 3], ends: [2.5, 3.5], count: 4, fresh: false };
    now = merge(now, { ...UPDATE, topics: { steps: { ...view, tasks: [news] } } });
    expect([...(now.steps!.tasks[0].times as Float64Array)]).toEqual([2, 3, 4]);
    now = merge(now, { ...UPDATE, topics: { steps: { ...view, tasks: [LINE] } } });
    expect(now.steps!.tasks[0].times).toEqual([1, 2]);
  });

  it('appends to the series with news and keeps the others; no number is NaN', () => {
    const curve = { name: 'loss', unit: '', steps: [0], values: [1], count: 1, fresh: true };
    const other = { ...curve, name: 'accuracy' };
    let now = merge(NOTHING, { ...UPDATE, topics: { series: { series: [curve, other], names: ['loss', 'accuracy'] } } });
    const news = { ...curve, steps: [1], values: [null] as unknown as number[], count: 2, fresh: false };
    now = merge(now, { ...UPDATE, topics: { series: { series: [news], names: ['loss', 'accuracy'] } } });
    expect(now.series!.series.map(one => [...Array.from(one.values)])).toEqual([[1, NaN], [1]]);
  });

  it('gives times to the nodes of the picture it has, whatever their names', () => {
    const node = { kind: 'op', form: 'op', type: 'add', device: '', count: 1, alike: 1, scope: -1, open: false, like: 0 };
    const picture = {
      edges: { sources: [], targets: [], nbytes: [], kinds: [], labels: [] },
      nodes: [
        { ...node, id: 'constructor' },
        { ...node, id: 'a' }
      ],
      devices: [],
      marks: [0, 1]
    };
    const graph = {
      key: 'k',
      picture,
      times: [2, NaN],
      note: '',
      graphs: [{ key: 'k', label: 'k' }],
      details: null,
      found: null,
      stages: [{ name: 'fold', note: '', count: 2 }],
      stage: 0,
      rewrite: 'Removed 1 operation.',
      failed: { what: 'a', key: 'k', id: 'a', at: 1 }
    };
    let now = merge(NOTHING, { ...UPDATE, topics: { graph } });
    expect(now.graph!.failed).toEqual(graph.failed);
    const times = { picture: null, graphs: null, stages: null, times: [3, 1], failed: null };
    now = merge(now, { ...UPDATE, topics: { graph: { ...graph, ...times } } });
    expect(now.graph!.failed).toBeNull();
    expect({ ...now.graph!.stats }).toEqual({ constructor: 3, a: 1 });
    expect([now.graph!.edges, now.graph!.graphs.length]).toEqual([picture.edges, 1]);
    expect([now.graph!.marks, now.graph!.stages.length, now.graph!.rewrite]).toEqual([[0, 1], 1, 'Removed 1 operation.']);
  });
});
