import { describe, expect, it, vi } from 'vitest';
import type { GraphState } from '../src/contract';
import { heatOf } from '../src/graph/heat';
import { Stages } from '../src/graph/stages';

const node = { kind: 'op', form: 'op', type: 'add', device: '', count: 1, alike: 1, scope: -1, open: false };
const GRAPH = {
  key: 'k',
  nodes: [
    { ...node, id: 'a', like: 0 },
    { ...node, id: 'block_1', like: 7 },
    { ...node, id: 'block_2', like: 7 }
  ],
  edges: { sources: [], targets: [], nbytes: [], kinds: [], labels: [] },
  devices: [],
  stats: {},
  marks: [0, 1, 3],
  note: '',
  graphs: [],
  details: null,
  found: null,
  stages: [
    { name: 'built', note: 'What the fetches need.', count: 3 },
    { name: 'fold', note: 'Constants.', count: 2 }
  ],
  stage: 1,
  rewrite: 'Removed 1 operation.'
} as unknown as GraphState;

describe('stages', () => {
  it('offers every stage, says what it did, and turns to what was before', () => {
    const asked = vi.fn();
    const stages = new Stages(asked);
    stages.show(GRAPH);
    expect([...stages.choice.options].map(option => option.text)).toEqual([
      'As it runs',
      '0 built: 3 operations',
      '1 fold: 2 operations'
    ]);
    expect([stages.choice.value, stages.node.textContent]).toEqual(['1', 'Show beforeRemoved 1 operation.']);
    stages.node.querySelector('button')!.click();
    stages.choice.value = '-1';
    stages.choice.dispatchEvent(new Event('change'));
    expect(asked.mock.calls).toEqual([
      [1, true],
      [-1, false]
    ]);
    stages.show({ ...GRAPH, stage: -1, rewrite: '' });
    expect([stages.node.hidden, stages.node.textContent]).toEqual([true, 'Show before']);
  });

  it('says whole which stage is chosen, for which there may be little room', () => {
    const stages = new Stages(() => undefined);
    stages.show(GRAPH);
    expect(stages.choice.title).toContain('1 fold: 2 operations');
  });

  it('colours what a rewrite did, and what is built alike', () => {
    const done = heatOf(GRAPH, 'rewrite');
    expect(done.legend.map(([words]) => words)).toEqual(['added', 'taken away']);
    expect(new Set(done.colours).size).toBe(3);
    const alike = heatOf(GRAPH, 'structure');
    expect([alike.legend[0][0], alike.colours[1] === alike.colours[2], alike.heat]).toEqual([
      'block_1 and 1 alike',
      true,
      [0, 0.5, 0.5]
    ]);
  });
});
