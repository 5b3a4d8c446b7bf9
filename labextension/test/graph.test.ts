import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { SCENARIOS, snapshotOf } from '../stories/story';
import type { Failed, Status } from '../src/contract';
import { paint } from '../src/graph/paint';
import { Camera } from '../src/kit/camera';
import type { Snapshot } from '../src/store';
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

describe('the operation that ended a run', () => {
  const planted = snapshotOf(SCENARIOS[0]);
  const scope = planted.graph!.nodes.findIndex(node => node.kind === 'scope');
  const closed = planted.graph!.nodes.map((node, i) => (i === scope ? { ...node, open: false } : node));
  const first = { ...planted, graph: { ...planted.graph!, nodes: closed } };
  const op = first.graph!.nodes.findIndex(node => node.kind === 'op');
  const [inside, operation] = [`${first.graph!.nodes[scope].id}/log`, first.graph!.nodes[op].id];
  const ended = (what: string, failed: Partial<Failed> | null, state = 'failed', graph = first.graph!): Snapshot => ({
    ...first,
    status: { ...first.status!, state, what } as Status,
    graph: { ...graph, failed: failed && { what, key: graph.key, id: what, at: -1, ...failed } }
  });
  const marked = (section: GraphSection) =>
    [
      ...[...section.node.querySelectorAll('[role=treeitem]')].map(item => item.getAttribute('aria-label')!),
      ...[...section.node.querySelectorAll('.wb-Legend .wb-mod-failed')].map(item => item.textContent!)
    ].filter(words => /failed|ended/.test(words));
  const shown = async (ask: (topic: string, parameters: unknown) => void = () => undefined) => {
    const section = new GraphSection(around(ask));
    section.show(first, new Set());
    await vi.waitFor(() => expect(section.node.querySelector('[role=treeitem]')).not.toBeNull());
    return section;
  };

  it('is marked in words, as is the closed scope that holds it, until the next state', async () => {
    const section = await shown();
    expect(marked(section)).toEqual([]);
    section.show(ended(operation, { at: op }), new Set());
    const [here, legend, ...others] = marked(section);
    expect(here).toMatch(new RegExp(`^${operation}: .*, failed here$`));
    expect([legend, others]).toEqual([`! ${operation} ended the run`, []]);
    section.show(ended(inside, { at: scope }), new Set());
    expect(marked(section)[0]).toMatch(new RegExp(`^scope .*, failed in here: ${inside}$`));
    section.show({ ...ended(inside, { at: scope }), status: { ...first.status!, state: 'running', what: inside } }, new Set());
    expect(marked(section)).toEqual([]); // the graph of before, as long as there is no other
    section.dispose();
  });

  it('is nowhere where the graph does not have it, or tells of another one', async () => {
    const section = await shown();
    section.show(ended('elsewhere/log', null), new Set());
    expect(marked(section)).toEqual([]);
    section.show(ended('elsewhere/log', { what: operation, at: op }), new Set());
    expect(marked(section)).toEqual([]);
    section.show(ended('elsewhere/log', { key: 'another', at: -1 }), new Set());
    expect(marked(section)).toEqual([]);
    section.dispose();
  });

  it('is told apart from what it was fused into, and known by its name on a device', async () => {
    const section = await shown();
    section.show(ended('before/log', { id: operation, at: op }), new Set());
    expect(marked(section)[0]).toMatch(/, failed in here: before\/log$/);
    const nodes = first.graph!.nodes.map((node, i) => (i === op ? { ...node, id: `ps:0 CPU:0/${operation}` } : node));
    section.show(ended(operation, { at: op }, 'failed', { ...first.graph!, nodes }), new Set());
    await vi.waitFor(() => expect(marked(section)[0]).toMatch(/^ps:0 CPU:0.*, failed here$/));
    section.dispose();
  });

  it('is led to, in the graph and the scope that hold it, also when these come later', async () => {
    const ask = vi.fn();
    const section = await shown(ask);
    section.reveal(inside); // from behind another tab: nothing is known yet
    expect(ask).not.toHaveBeenCalled();
    section.show(ended(inside, { key: 'another', at: -1 }), new Set());
    expect(ask.mock.calls.map(([, asked]) => asked)).toEqual([{ key: 'another', search: '' }]);
    section.show(ended(inside, { at: scope }, 'failed', { ...first.graph!, key: 'another' }), new Set());
    expect(ask.mock.lastCall![1]).toMatchObject({ key: 'another', shown: inside, chosen: inside });
    const nodes = [...first.graph!.nodes, { ...first.graph!.nodes[op], id: inside }];
    const at = nodes.length - 1;
    section.show(ended(inside, { at }, 'failed', { ...first.graph!, key: 'another', nodes }), new Set());
    await vi.waitFor(() => expect(section.node.querySelector('.wb-Graph-trail')!.textContent).toContain('log'));
    const chosen = section.node.querySelector('canvas')!.getAttribute('aria-activedescendant')!;
    expect(section.node.querySelector<HTMLElement>(`#${chosen}`)!.dataset.id).toBe(inside);
    expect(ask).toHaveBeenCalledTimes(2);
    section.dispose();
  });

  it('is shown as the graph runs where a stage has nothing of it, and sought no longer where there is nothing at all', async () => {
    const ask = vi.fn();
    const section = await shown(ask);
    const stage = { ...first.graph!, stage: 3 };
    section.show(ended(inside, null, 'failed', stage), new Set());
    section.reveal(inside);
    expect(ask.mock.calls.map(([, asked]) => asked)).toEqual([{ key: stage.key, search: '' }]);
    section.show(ended(inside, null), new Set());
    section.show(ended(inside, { at: scope }, 'failed', stage), new Set());
    expect(ask).toHaveBeenCalledTimes(1);
    section.dispose();
  });

  it('has a frame and a flag in the colour of failures, readable from far away', () => {
    const drawn: [string, string, number][] = []; // what was drawn, in which colour, how large on the screen
    const pen: any = new Proxy({ measureText: () => ({ width: 40 }) } as Record<string, unknown>, {
      get: (state, name: string) =>
        state[name] ??
        ((...given: unknown[]) => {
          name === 'fillText' &&
            drawn.push([String(given[0]), String(state.fillStyle), parseFloat(String(state.font).split(' ').at(-2)!)]);
          name === 'stroke' && drawn.push(['frame', String(state.strokeStyle), Number(state.lineWidth)]);
        })
    });
    const theme = { paper: '#ffffff', ink: '#000000', soft: '#555555', line: '#bbbbbb', panel: '#eeeeee' };
    const { graph } = ended(operation, { at: op });
    const box = { x: 0, y: 0, width: 60, height: 26 };
    const camera = Object.assign(new Camera(), { zoom: 0.1 });
    const painted = (failed: number) => {
      drawn.length = 0;
      const geometry = { boxes: graph!.nodes.map(() => box), lines: [], size: box };
      const colours = { colours: graph!.nodes.map(() => '#2b7bba'), heat: graph!.nodes.map(() => 0) };
      const picture = {
        graph: graph!,
        geometry,
        ...colours,
        lost: new Set<string>(),
        failed,
        chosen: -1,
        hovered: -1,
        focused: false
      };
      paint(
        pen,
        { ...theme, brand: '#1976d2', warn: '#f57c00', error: '#d32f2f', font: 'sans-serif' },
        camera,
        100,
        100,
        picture
      );
      return drawn.filter(([words, colour]) => colour === '#d32f2f' || words.includes('failed'));
    };
    expect(painted(-1)).toEqual([]);
    const [[, , wide], [words, , size]] = painted(op);
    expect(painted(op).map(([what]) => what)).toEqual(['frame', '! failed here']);
    expect(words).toBe('! failed here');
    expect([wide * camera.zoom >= 2, size * camera.zoom]).toEqual([true, 10]);
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
