import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { SCENARIOS, snapshotOf } from '../stories/story';
import { GraphSection } from '../src/views/graph';
import { TimelineSection } from '../src/views/timeline';
import type { Context } from '../src/kit/view';
import { stubOption } from './lacking';

const around = (ask: (topic: string, parameters: unknown) => void) =>
  ({
    ask,
    jump: null,
    layouter: () => ({
      layout: async (items: unknown[]) => ({
        boxes: items.map((_, i) => ({ x: 0, y: 30 * i, width: 60, height: 26 })),
        lines: [],
        size: { x: 0, y: 0, width: 60, height: 600 }
      }),
      cancel: () => undefined,
      dispose: () => undefined
    })
  }) as unknown as Context;

beforeEach(() => {
  stubOption();
});

afterEach(() => vi.unstubAllGlobals());

describe('the graph', () => {
  it('asks once for a scope that is opened or closed and for what is known of it', async () => {
    const ask = vi.fn();
    const section = new GraphSection(around(ask));
    const { graph } = snapshotOf(SCENARIOS[0]);
    const { id, open } = graph!.nodes.find(node => node.kind === 'scope')!;
    section.show(snapshotOf(SCENARIOS[0]), new Set());
    await vi.waitFor(() => expect(section.node.querySelector(`[data-id="${id}"]`)).not.toBeNull());
    section.node.querySelector<HTMLElement>(`[data-id="${id}"]`)!.click();
    expect(ask.mock.calls.map(([topic, { chosen }]) => [topic, chosen])).toEqual([['graph', id]]);
    expect(ask.mock.calls[0][1][open ? 'closed' : 'opened']).toContain(id);
    section.dispose();
  });
});

describe('the timeline', () => {
  it('says so where nothing but the length of a step was recorded', () => {
    const section = new TimelineSection(around(() => undefined));
    const snapshot = snapshotOf(SCENARIOS[0]);
    const words = () =>
      ['sums', 'path'].map(name => section.node.querySelector(`.wb-Timeline-${name}`)!.textContent!.split(/[,:;]/)[0]);
    section.show(snapshot, new Set());
    expect(words()).toEqual(['In sight', 'Critical path']);
    const none = Object.fromEntries(
      Object.entries(snapshot.timeline!).map(([name, value]) => [name, Array.isArray(value) && name !== 'kinds' ? [] : value])
    );
    section.show({ ...snapshot, timeline: { ...none, lane_count: 0 } as unknown as typeof snapshot.timeline }, new Set());
    expect(words()).toEqual(['Of this step only its length was recorded', '']);
    section.dispose();
  });
});
