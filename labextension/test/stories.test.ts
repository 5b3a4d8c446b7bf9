/// <reference types="vite/client" />
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import html from '../stories/index.html?raw';
import { SCENARIOS, snapshotOf, tell } from '../stories/story';
import type { Status } from '../src/contract';
import { Canvas } from '../src/kit/canvas';
import { Chart } from '../src/kit/chart';
import type { Page } from '../src/page';
import { shortTask } from '../src/kit/text';
import { GraphSection } from '../src/views/graph';
import type { Snapshot } from '../src/store';
import planted from './fixtures/planted.json';
import { stubOption } from './lacking';

let page: Page;
let node: HTMLElement;

/** Lays out nothing, at once: what is asked here is not where nodes stand. */
const unlaid = () => ({
  layout: async () => ({ boxes: [], lines: [], size: { x: 0, y: 0, width: 0, height: 0 } }),
  cancel: () => undefined,
  dispose: () => undefined
});

beforeEach(() => {
  stubOption();
  node = document.createElement('div');
  document.body.append(node);
});

afterEach(() => {
  vi.useRealTimers();
  page.dispose();
  node.remove();
  vi.unstubAllGlobals();
});

describe('a story', () => {
  it('says no rate while no step comes', () => {
    vi.useFakeTimers();
    page = tell(node, SCENARIOS[0], unlaid);
    const standing = { name: '', trouble: '', silence: 0 };
    const snapshot = snapshotOf(SCENARIOS[0]);
    const facts = (step: number) => {
      vi.advanceTimersByTime(1000);
      page.show({ ...snapshot, status: { ...snapshot.status!, step } }, standing);
      return node.querySelector('.wb-Facts')!.textContent;
    };
    const { step } = snapshot.status!;
    expect([facts(step), facts(step), facts(step)].join()).not.toContain('steps/s');
    expect(facts(step + 2)).toContain('steps/s');
  });

  it('keeps each fact of the header in one piece', () => {
    page = tell(node, SCENARIOS[0], unlaid);
    const first = snapshotOf(SCENARIOS[0]);
    page.show(
      { ...first, status: { ...first.status!, what: 'a/b', records_lost: 3 } as Status },
      { name: 'a.ipynb', trouble: '', silence: 0 }
    );
    const pieces = [...node.querySelectorAll('.wb-Facts span')].map(piece => piece.textContent);
    expect(pieces.slice(1)).toEqual(['in a/b · ', '3 records lost · ', 'a.ipynb']);
    expect(pieces[0]).toMatch(/^\d+ of 60 steps · $/);
  });

  it('says what went wrong in the place of the verdict, beside it where the run goes on or was stopped', () => {
    page = tell(node, SCENARIOS[0], unlaid);
    const first = snapshotOf(SCENARIOS[0]);
    const shown = (changes: Partial<Status>, silence = 0) => {
      page.show({ ...first, status: { ...first.status!, ...changes } as Status }, { name: '', trouble: '', silence });
      return ['Trouble', 'Verdict'].filter(part => !node.querySelector<HTMLElement>(`.wb-News > .wb-${part}`)!.hidden);
    };
    const cause = 'planted';
    const lost = [{ task: '/job:worker/task:1', cause: 'It ended', fix: '' }] as unknown as Status['lost'];
    expect(shown({})).toEqual(['Verdict']);
    expect(shown({}, 4)).toEqual(['Trouble']);
    expect(shown({ broken: [['loss is no finite number since step 4.', 'Stop.']] })).toEqual(['Trouble']);
    expect(shown({ state: 'recovering', cause })).toEqual(['Trouble']);
    expect(shown({ state: 'failed', cause, lost })).toEqual(['Trouble']);
    expect(shown({ state: 'stopped', cause })).toEqual(['Trouble', 'Verdict']);
    expect(shown({ lost })).toEqual(['Trouble', 'Verdict']);
  });

  it('leads from what went wrong to the operation in the graph, where one is named', () => {
    page = tell(node, SCENARIOS[0], unlaid);
    const first = snapshotOf(SCENARIOS[0]);
    const link = (changes: Partial<Status>) => {
      page.show({ ...first, status: { ...first.status!, ...changes } as Status }, { name: '', trouble: '', silence: 0 });
      return node.querySelector<HTMLElement>('.wb-Trouble button');
    };
    const failed = { state: 'failed', cause: 'the loss is nan', fix: 'lower the rate' } as const;
    expect(link(failed)).toBeNull();
    const reveal = vi.spyOn(GraphSection.prototype, 'reveal');
    const see = link({ ...failed, what: 'loss/log' })!;
    expect([see.textContent, see.title]).toEqual(['See it', 'Show loss/log in the graph']);
    expect(node.querySelector('.wb-Trouble')!.textContent).toMatch(/the loss is nan\. Lower the rate\. See it$/);
    const tab = (id: string) => node.querySelector<HTMLElement>(`[role=tab][data-tab=${id}]`)!;
    tab('timeline').click();
    see.click();
    expect(tab('graph').getAttribute('aria-selected')).toBe('true');
    expect(reveal.mock.calls).toEqual([['loss/log']]);
    expect(link({ what: 'loss/log' })).toBeNull(); // what a run is in
    reveal.mockRestore();
  });

  it('keeps the button that leads to the proof while numbers change, for whoever presses it just then', () => {
    vi.useFakeTimers();
    page = tell(node, SCENARIOS[0], unlaid);
    const first = snapshotOf(SCENARIOS[0]);
    const see = node.querySelector<HTMLElement>('.wb-Verdict button')!;
    const removed = vi.spyOn(Element.prototype, 'replaceChildren');
    vi.advanceTimersByTime(1000);
    const verdict = { ...first.stragglers!.verdict, text: 'Other.' };
    page.show({ ...first, stragglers: { ...first.stragglers!, verdict } }, { name: '', trouble: '', silence: 0 });
    expect(node.querySelector('.wb-Verdict b')!.textContent).toBe('Other.');
    expect(node.querySelector('.wb-Verdict button')).toBe(see);
    expect(removed.mock.contexts).not.toContain(see.parentElement); // a button that was taken out has no click
    removed.mockRestore();
  });

  it('keeps the button that leads to what failed while the kernel is silent for longer, and where it leads', () => {
    page = tell(node, SCENARIOS[0], unlaid);
    const first = snapshotOf(SCENARIOS[0]);
    const status: Status = { ...first.status!, state: 'failed', cause: 'the loss is nan', what: 'loss/log' };
    const reveal = vi.spyOn(GraphSection.prototype, 'reveal').mockImplementation(() => undefined);
    const silent = (silence: number, changes: Partial<Status> = {}) => {
      page.show({ ...first, status: { ...status, ...changes } }, { name: '', trouble: '', silence });
      return node.querySelector<HTMLElement>('.wb-Trouble button')!;
    };
    const see = silent(12);
    const removed = vi.spyOn(Element.prototype, 'replaceChildren');
    expect(silent(13)).toBe(see);
    expect(node.querySelector('.wb-Trouble')!.textContent).toContain('13 s');
    expect(removed.mock.contexts).not.toContain(see.parentElement); // a button that was taken out has no click
    expect(removed.mock.contexts).not.toContain(node.querySelector('.wb-Trouble'));
    removed.mockRestore();
    const other = silent(14, { what: 'loss/exp' });
    expect(other).not.toBe(see); // who was about to press one does not press the other
    other.click();
    expect([other.title, reveal.mock.calls]).toEqual(['Show loss/exp in the graph', [['loss/exp']]]);
    reveal.mockRestore();
  });

  it('offers no proof of what is not known, and says it all the same', () => {
    vi.useFakeTimers();
    page = tell(node, SCENARIOS[0], unlaid);
    const first = snapshotOf(SCENARIOS[0]);
    const verdict = { kind: 'unknown', subject: '', cost: 0, text: 'Of before.', action: '', alarm: false };
    vi.advanceTimersByTime(1000);
    page.show({ ...first, stragglers: { ...first.stragglers!, verdict } }, { name: '', trouble: '', silence: 0 });
    expect(node.querySelector('.wb-Verdict')!.textContent!.trim()).toBe('Of before.');
    expect(node.querySelector('.wb-Verdict button')).toBeNull();
  });

  it('says what is no number any more, why it recovers, and how many tasks answered while they start', () => {
    page = tell(node, SCENARIOS[0], unlaid);
    const first = snapshotOf(SCENARIOS[0]);
    const said = (changes: Partial<Status>) => {
      page.show({ ...first, status: { ...first.status!, ...changes } as Status }, { name: '', trouble: '', silence: 0 });
      return ['Trouble', 'Facts'].map(part => node.querySelector<HTMLElement>(`.wb-${part}`)!.textContent!);
    };
    expect(said({ broken: [['loss is no finite number since step 4.', 'Stop.']] })[0]).toBe(
      'loss is no finite number since step 4. Stop.'
    );
    expect(said({ broken: [] })[0]).toBe('');
    const recovering = { what: 'opening the tasks anew', part: 1, parts: 2, cause: 'worker:1 was lost', fix: 'Again' };
    const [why, how] = said({ state: 'recovering', ...recovering });
    expect(why).toBe('Worker:1 was lost. Again.');
    expect(how).toContain('opening the tasks anew (1 of 2)');
    const starting = { what: 'tasks answered', part: 1, parts: 4, cause: '', fix: '', seconds: 3 };
    expect(said({ state: 'starting', ...starting })[1]).toBe('1 of 4 tasks answered · for 3 s');
  });

  it('draws again what changed, and nothing else', () => {
    vi.useFakeTimers();
    page = tell(node, SCENARIOS[0], unlaid);
    const set = vi.spyOn(Chart.prototype, 'set');
    const drawn = (snapshot: Snapshot) => {
      set.mockClear();
      vi.advanceTimersByTime(1000);
      page.show(snapshot, { name: '', trouble: '', silence: 0 });
      return (set.mock.contexts as Chart[]).map(chart => chart.node.getAttribute('aria-label')!.split('.')[0]);
    };
    const first = snapshotOf(SCENARIOS[0]);
    const [steps, loss] = ['Work per task and step in milliseconds', 'loss by step'];
    expect(drawn(first).sort()).toEqual([steps, loss]);
    const later = { ...first, status: { ...first.status!, step: first.status!.step + 1 } };
    expect(drawn(later)).toEqual([]);
    const [one] = first.series!.series;
    const longer = { names: ['loss', 'rate'], series: [{ ...one }, { ...one, name: 'rate' }] };
    expect(drawn({ ...later, series: longer })).toEqual([loss, 'rate by step']);
    const other = { ...longer, series: [longer.series[0], { ...longer.series[1] }] };
    expect(drawn({ ...later, series: other })).toEqual(['rate by step']);
  });

  it('draws what somebody asked for at once', async () => {
    vi.useFakeTimers();
    const boxes = (items: unknown[]) => items.map((_, i) => ({ x: 0, y: 30 * i, width: 60, height: 26 }));
    const size = { x: 0, y: 0, width: 60, height: 600 };
    const layout = async (items: unknown[]) => ({ boxes: boxes(items), lines: [], size });
    page = tell(node, SCENARIOS[0], () => ({ layout, cancel: () => undefined, dispose: () => undefined }));
    await vi.advanceTimersByTimeAsync(1000);
    const first = snapshotOf(SCENARIOS[0]);
    const show = vi.spyOn(GraphSection.prototype, 'show');
    const drawn = () => {
      show.mockClear();
      page.show({ ...first, graph: { ...first.graph! } }, { name: '', trouble: '', silence: 0 });
      return show.mock.calls.length;
    };
    expect([drawn(), drawn()]).toEqual([1, 0]);
    const verdict = () => node.querySelector('.wb-Verdict b')!.textContent;
    const stragglers = { ...first.stragglers!, verdict: { ...first.stragglers!.verdict, text: 'Other.' } };
    page.show({ ...first, stragglers }, { name: '', trouble: '', silence: 0 });
    expect(verdict()).toBe(first.stragglers!.verdict.text); // as long as the bars say the same
    node.querySelector<HTMLElement>('[role=treeitem][aria-expanded]')!.click();
    expect(drawn()).toBe(1);
    await vi.advanceTimersByTimeAsync(2000);
    expect([drawn(), drawn()]).toEqual([1, 0]);
  });

  it('draws what came last, though the timer goes off a moment early', () => {
    vi.useFakeTimers();
    page = tell(node, SCENARIOS[0], unlaid);
    const set = vi.spyOn(Chart.prototype, 'set');
    const show = (snapshot: Snapshot) => page.show(snapshot, { name: '', trouble: '', silence: 0 });
    const first = snapshotOf(SCENARIOS[0]);
    vi.advanceTimersByTime(1000);
    show({ ...first, series: { ...first.series! } });
    const now = performance.now.bind(performance);
    vi.spyOn(performance, 'now').mockImplementation(() => now() - 0.5); // a browser waits whole milliseconds
    set.mockClear();
    show({ ...first, series: { names: ['rate'], series: [{ ...first.series!.series[0], name: 'rate' }] } });
    expect(set).not.toHaveBeenCalled();
    vi.advanceTimersByTime(1000);
    expect(set).toHaveBeenCalled();
  });

  it('touches no element where what it says is the same', () => {
    vi.useFakeTimers();
    page = tell(node, SCENARIOS[0], unlaid);
    const standing = { name: 'a.ipynb', trouble: '', silence: 0 };
    const touched = (snapshot: Snapshot) => {
      vi.advanceTimersByTime(1000);
      const watch = new MutationObserver(() => undefined);
      watch.observe(node, { subtree: true, childList: true, characterData: true, attributes: true });
      page.show(snapshot, standing);
      const records = watch.takeRecords().filter(one => one.attributeName !== 'data-updates'); // which count the words
      watch.disconnect();
      return records.map(({ type, attributeName, target }) => `${type} ${attributeName} ${(target as Element).outerHTML}`);
    };
    const first = snapshotOf(SCENARIOS[0]);
    touched(first);
    expect(touched(structuredClone(first))).toEqual([]);
    expect(touched({ ...first, status: { ...first.status!, state: 'paused' } })).not.toEqual([]);
  });

  it('draws a graph again when its colours differ, and says the newest times in any case', async () => {
    vi.useFakeTimers();
    const boxes = (items: unknown[]) => items.map((_, i) => ({ x: 0, y: 30 * i, width: 60, height: 26 }));
    const layout = async (items: unknown[]) => ({
      boxes: boxes(items),
      lines: [],
      size: { x: 60, y: 600, width: 60, height: 600 }
    });
    page = tell(node, SCENARIOS[0], () => ({ layout, cancel: () => undefined, dispose: () => undefined }));
    await vi.advanceTimersByTimeAsync(1000);
    const first = snapshotOf(SCENARIOS[0]);
    const view = node.querySelector<HTMLElement>('.wb-Graph-view')!;
    const draw = vi.spyOn(Canvas.prototype, 'draw');
    const drawn = async (factor: (id: string) => number) => {
      const stats = Object.fromEntries(Object.entries(first.graph!.stats).map(([id, time]) => [id, factor(id) * time]));
      draw.mockClear();
      const updates = Number(view.dataset.updates);
      page.show({ ...first, graph: { ...first.graph!, stats } }, { name: '', trouble: '', silence: 0 });
      await vi.advanceTimersByTimeAsync(1000);
      expect(Number(view.dataset.updates)).toBe(updates + 1);
      return (draw.mock.contexts as Canvas[]).filter(canvas => view.contains(canvas.node)).length;
    };
    page.show(first, { name: '', trouble: '', silence: 0 });
    await vi.advanceTimersByTimeAsync(1000);
    const [slowest] = Object.entries(first.graph!.stats).sort((a, b) => b[1] - a[1])[0];
    expect(await drawn(id => (id === slowest ? 1.001 : 1))).toBe(0);
    expect(await drawn(id => (id === slowest ? 10 : 1))).toBeGreaterThan(0);
  });

  it('stands on the ground that its theme gives', () => {
    const ground = /:root\s*\{([^}]*)\}/.exec(html)![1];
    expect(ground).toContain('background: var(--jp-layout-color0)');
    expect(ground).toContain('color-scheme: light dark');
  });

  it('of 64 tasks shows those that cost most, and a heat map of as many rows as can be told apart', () => {
    page = tell(node, 'slow worker of 60', unlaid);
    expect(snapshotOf('slow worker of 60').status!.tasks.length).toBe(64);
    expect(node.querySelectorAll('.wb-Stragglers tbody tr').length).toBe(4);
    expect(node.querySelector('.wb-Stragglers-more')!.textContent).toBe('60 more tasks keep pace');
    expect(node.querySelector<HTMLElement>('.wb-Steps .wb-Heat-rows')!.hidden).toBe(false);
    const keys = [...node.querySelectorAll('.wb-Graph .wb-Legend li')].map(key => key.textContent);
    expect(keys.slice(0, 5)).toEqual([...[0, 1, 2, 3].map(i => `ps:${i} CPU:0`), 'worker:0 CPU:0']); // all whose colour is there
    expect(keys.slice(5).join()).toContain('59 more devices · stronger colour: more time');
    const gone = snapshotOf('slow worker of 60');
    const lost = [{ task: '/job:worker/task:7', cause: '', fix: '' }];
    page.show({ ...gone, status: { ...gone.status!, lost } as Status }, { name: '', trouble: '', silence: 0 });
    expect(node.querySelector('.wb-Graph .wb-Legend li.wb-mod-lost')!.textContent).toBe('worker:7 CPU:0');
    expect(node.querySelector('.wb-Steps .wb-Heat canvas')!.getAttribute('aria-label')).toContain('worker:3: median');
  });

  it.each(SCENARIOS)('of "%s" shows every view, and all name what was planted', scenario => {
    const { subject, stragglers } = planted.find(one => one.name === scenario)!;
    const laid = vi.fn(async (items: unknown[]) => ({
      boxes: items.map(() => ({ x: 0, y: 0, width: 60, height: 26 })),
      lines: [],
      size: { x: 0, y: 0, width: 60, height: 26 }
    }));
    page = tell(node, scenario, () => ({ layout: laid, cancel: () => undefined, dispose: () => undefined }));
    const words = (selector: string) => node.querySelector(selector)!.textContent;
    expect(words('.wb-Verdict')).toContain(stragglers.verdict.text);
    for (const end of subject.startsWith('/job:') ? subject.split('|') : []) {
      expect(words('.wb-Verdict')).toContain(shortTask(end));
      expect([...node.querySelectorAll('tr.wb-mod-slow th')].map(cell => cell.textContent)).toContain(shortTask(end));
    }
    expect(node.querySelectorAll('tr.wb-mod-slow').length > 0).toBe(subject.startsWith('/job:'));
    expect(node.querySelectorAll('.wb-Knob').length).toBe(2);
    expect(words('.wb-Loss-head b')).toBe('loss');
    expect(node.querySelector('.wb-Steps canvas')).not.toBeNull();
    expect(laid).toHaveBeenCalledOnce();
    node.querySelectorAll<HTMLElement>('.wb-Tabs-bar button')[1].click();
    expect(node.querySelector('.wb-Timeline canvas')).not.toBeNull();
  });
});
