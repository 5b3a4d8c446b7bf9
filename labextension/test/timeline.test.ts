import { describe, expect, it } from 'vitest';
import type { TimelineView } from '../src/contract';
import { moved, place, timeAt, zoomed } from '../src/kit/stretch';
import { ticks } from '../src/kit/ticks';
import { HeatMap } from '../src/kit/heatmap';
import { Board } from '../src/timeline/board';
import { arrow, arrowAt, type Frame, markAt, next } from '../src/timeline/hit';
import { selected } from '../src/timeline/hands';
import { unitOf } from '../src/timeline/paint';
import { heightOf, labelOf, layRows, rowAt } from '../src/timeline/rows';
import { totals } from '../src/timeline/totals';
import saved from './fixtures/timelines.json';
import { snapshotOf } from '../stories/story';
import { TimelineSection } from '../src/views/timeline';
import { ofArrow, ofMark, ofTotals, summary } from '../src/timeline/words';

interface Planted {
  name: string;
  kind: string;
  subject: string;
  view: TimelineView;
}
const PLANTED = saved as unknown as Planted[];
const NAMES = PLANTED.map(one => one.name);
const named = (name: string) => PLANTED.find(one => one.name === name)!;

function frameOf(view: TimelineView): Frame {
  return { view, rows: layRows(view.lanes), stretch: { start: view.start, end: view.end }, left: 100, right: 1100 };
}

/** Milliseconds of the critical path on each task. */
function shares({ view }: Planted): Map<string, number> {
  const found = new Map<string, number>();
  for (let i = 0; i < view.path_lane.length; i++) {
    const task = view.lanes[view.path_lane[i]]?.task ?? '';
    found.set(task, (found.get(task) ?? 0) + view.path_until[i] - view.path_begin[i]);
  }
  return found;
}

describe('stretch of time', () => {
  const stretch = { start: 2, end: 12 };

  it('knows what lies under a pixel, there and back', () => {
    expect(place(stretch, 100, 200, 7)).toBe(150);
    expect(timeAt(stretch, 100, 200, 150)).toBe(7);
    expect(moved(stretch, -3)).toEqual({ start: -1, end: 9 });
  });

  it('keeps what is under the pointer in its place, and ends neither at nothing nor at everything', () => {
    const near = zoomed(stretch, 4, 3, 1000);
    expect([near.end - near.start, place(near, 0, 1, 3)]).toEqual([2.5, place(stretch, 0, 1, 3)]);
    const [all, none] = [zoomed(stretch, 1e-9, 3, 1000), zoomed(stretch, 1e9, 3, 1000)];
    expect(all.end - all.start).toBeCloseTo(1000);
    expect(none.end - none.start).toBeGreaterThan(0);
  });
});

describe('ticks', () => {
  it.each([
    [0, 6.6, 5],
    [-3e-4, 1e-3, 7],
    [0, 0, 4],
    [1e6, 1e6 + 1, 3]
  ])('of %f to %f are round, inside and about as many as wanted', (low, high, count) => {
    const found = ticks(low, high, count);
    expect(found.length).toBeGreaterThan(0);
    expect(found.length).toBeLessThanOrEqual(count + 2);
    expect(Math.min(...found)).toBeGreaterThanOrEqual(low - 1e-9);
    expect(Math.max(...found)).toBeLessThanOrEqual(high + 1e-9);
    expect(found.some(value => Object.is(value, -0))).toBe(false);
  });

  it.each([
    [0, 4.33, 2, 3],
    [0, 4.33, 1, 1],
    [0.9, 1.7, 2, 2]
  ])('of %f to %f are at least two where %i are wanted', (low, high, count, least) => {
    expect(ticks(low, high, count).length).toBeGreaterThanOrEqual(least);
  });

  it('say times in the unit that the longest has', () => {
    expect([unitOf(0.4), unitOf(6.6), unitOf(25_000)].map(([unit]) => unit)).toEqual(['µs', 'ms', 's']);
  });
});

describe.each(NAMES)('timeline of "%s"', name => {
  const { view } = named(name);
  const frame = frameOf(view);

  it('has rows that neither overlap nor stand in the axis', () => {
    frame.rows.forEach((row, i) => i && expect(row.top).toBeGreaterThan(frame.rows[i - 1].top + frame.rows[i - 1].height));
    expect(heightOf(frame.rows)).toBeGreaterThan(frame.rows[frame.rows.length - 1].top);
    expect(rowAt(frame.rows, 3)).toBe(-1);
  });

  it('says of every mark under its own middle what it is', () => {
    for (let i = 0; i < view.lane.length; i++) {
      const row = frame.rows[view.lane[i]];
      const x = place(frame.stretch, frame.left, frame.right, (view.begin[i] + view.until[i]) / 2);
      const found = markAt(frame, x, row.top + 2);
      expect(view.lane[found]).toBe(view.lane[i]);
      expect(view.until[found] - view.begin[found]).toBeLessThanOrEqual(view.until[i] - view.begin[i]);
      const [what, long, where] = ofMark(view, found);
      expect(what).toContain(view.names[view.name[found]]);
      expect(long).toMatch(/(works|transfers|waits|beside).* (ms|µs|s)$/);
      expect(where).toContain(view.lanes[view.lane[found]].label);
    }
  });

  it('finds every message on its line, with bytes and both ends', () => {
    for (let i = 0; i < view.arrow_begin.length; i++) {
      const line = arrow(frame, i);
      const inSight = view.arrow_source[i] >= 0 && view.arrow_target[i] >= 0;
      expect(line !== null).toBe(inSight);
      if (!line) {
        continue;
      }
      const [x0, y0, x1, y1] = line;
      const found = arrowAt(frame, (x0 + x1) / 2, (y0 + y1) / 2);
      expect(found).toBeGreaterThanOrEqual(0);
      expect(ofArrow(view, i)[1]).toMatch(/^1 kB from (ps|worker):\d+ to (ps|worker):\d+ in /);
    }
  });

  it('sums up what it shows, and half of the time to no more', () => {
    const [start, end] = [Math.min(...Array.from(view.begin)), Math.max(...Array.from(view.until))];
    const all = { start, end, first: 0, last: view.lanes.length - 1 };
    const sums = totals(view, all);
    expect(sums.spans).toBe(Array.from(view.count).reduce((a, b) => a + b));
    const rows = view.kinds.map((_, kind) => new Set(Array.from(view.lane).filter((_, i) => view.kind[i] === kind)).size);
    const works = view.kinds.indexOf('work'); // on a row of its own for each thread: nothing lies upon it
    expect(sums.kinds[works]).toBeCloseTo(
      Array.from(view.busy).reduce((sum, busy, i) => sum + (view.kind[i] === works ? busy : 0), 0),
      3
    );
    sums.kinds.forEach((sum, kind) => expect(sum).toBeLessThanOrEqual(rows[kind] * (end - start) + 1e-6));
    const middle = (start + end) / 2;
    const halves = [totals(view, { ...all, end: middle }), totals(view, { ...all, start: middle })];
    sums.kinds.forEach((value, kind) => expect(halves[0].kinds[kind] + halves[1].kinds[kind]).toBeCloseTo(value, 3));
    expect(ofTotals(view, sums)).toMatch(/on \d+ rows, \d+ spans: works /);
  });

  it('counts a moment once however many spans of a row lie in it', () => {
    const [lane, kind] = [
      [0, 0, 0, 1],
      [1, 1, 1, 1]
    ];
    const [begin, until] = [
      [0, 1, 6, 0],
      [4, 3, 8, 4]
    ];
    const busy = until.map((end, i) => end - begin[i]);
    const crowded = { ...view, lane, kind, begin, until, busy, count: [1, 1, 1, 1] };
    const sums = totals(crowded, { start: 0, end: 8, first: 0, last: 1 });
    expect([sums.kinds[1], sums.spans]).toEqual([4 + 2 + 4, 4]);
    expect(totals(crowded, { start: 2, end: 7, first: 0, last: 0 }).kinds[1]).toBe(2 + 1);
  });

  it('leads from mark to mark along a row, and to other rows, without end', () => {
    const seen = new Set<number>();
    for (let at = 0; at >= 0; at = next(frame, at, 1, 0)) {
      expect(seen.has(at)).toBe(false);
      seen.add(at);
    }
    expect(seen.size).toBe(Array.from(view.lane).filter(lane => lane === view.lane[0]).length);
    const below = next(frame, 0, 0, 1);
    expect(view.lane[below]).toBeGreaterThan(view.lane[0]);
  });

  it('says in words what it is', () => {
    expect(summary(view)).toContain(`step ${view.step}`);
    expect(summary(view)).toContain(view.path);
  });
});

describe('planted cause', () => {
  it.each(PLANTED.filter(one => one.kind === 'worker').map(one => one.name))('"%s" is where the critical path is', name => {
    const one = named(name);
    const found = [...shares(one)].filter(([task]) => task.includes('worker')).sort((a, b) => b[1] - a[1]);
    expect(found[0][0]).toBe(one.subject);
  });
});

describe('rows', () => {
  it('say a task once', () => {
    const { lanes } = named('all even').view;
    expect([0, 1, 2].map(i => labelOf(lanes, i))).toEqual(['ps:0 CPU:0', 'transfers', 'waiting']);
    expect(labelOf(lanes.slice(1), 0)).toBe('ps:0 transfers');
    const { lanes: threads } = named('all even').view;
    const rows = ['CPU:0 thread 2', 'CPU:0 thread 5', 'GPU:0 thread 1', 'transfers'];
    const more = rows.map((row, i) => ({ ...threads[0], label: `ps:0 ${row}`, track: i < 3 ? 'work' : 'transfer' }));
    expect(more.map((_, i) => labelOf(more, i))).toEqual(['ps:0 CPU:0', 'thread 5', 'ps:0 GPU:0', 'transfers']);
  });

  it('are selected by what a pointer spans, whatever the direction, and not beyond the drawing', () => {
    const frame = frameOf(named('all even').view);
    const [second, fifth] = [frame.rows[1].top + 2, frame.rows[4].top + 2];
    const there = selected(frame, [300, second], [600, fifth])!;
    expect(selected(frame, [600, fifth], [300, second])).toEqual(there);
    expect([there.first, there.last]).toEqual([1, 4]);
    const all = selected(frame, [-50, -50], [5000, 5000])!;
    expect(all).toEqual({ start: frame.view.start, end: frame.view.end, first: 0, last: frame.rows.length - 1 });
    expect(selected({ ...frame, rows: [] }, [0, 0], [1, 1])).toBeNull();
  });
});

describe('what is selected', () => {
  const { view } = named('all even');
  const board = new Board({ look: () => undefined, selected: () => undefined });
  const rows = (first: number, lanes: TimelineView['lanes']) =>
    board.show({ ...view, first, lanes, lane_count: view.lane_count + 1 }, new Set(), new Set());

  it('stays on its rows where others come above them or are scrolled away, until one of them goes or another step comes', () => {
    rows(0, view.lanes);
    const tops = layRows(view.lanes).map(row => row.top + 2);
    board.select([300, tops[2]], [600, tops[4]]);
    expect(board.selection).toMatchObject({ first: 2, last: 4 });
    rows(0, [{ ...view.lanes[0], label: 'a late thread' }, ...view.lanes]);
    expect(board.selection).toMatchObject({ first: 3, last: 5 });
    rows(2, view.lanes.slice(2));
    expect(board.selection).toMatchObject({ first: 0, last: 2 });
    rows(3, view.lanes.slice(3));
    expect(board.selection).toBeNull();
    rows(0, view.lanes);
    board.select([300, tops[2]], [600, tops[4]]);
    board.pick(view.step + 1);
    board.show({ ...view, step: view.step + 1 }, new Set(), new Set());
    expect(board.selection).toBeNull();
    board.dispose();
  });
});

const none = () => {
  throw new Error('nothing is asked for');
};
const NOTHING_ASKED = { ask: none, jump: null, layouter: none, turn: none };

describe('a name without room', () => {
  it('is said whole where the pointer is on it, in the timeline and in the heat map', () => {
    const board = new Board({ look: () => undefined, selected: () => undefined });
    const { view } = PLANTED[0];
    board.show(view, new Set(), new Set());
    const { rows } = board.frame()!;
    const canvas = board.node.querySelector('canvas')!;
    board.point(5, rows[1].top + 1);
    expect(canvas.title).toBe(`${view.lanes[1].label}: ${view.lanes[1].task}`);
    board.point(5, 1);
    expect(canvas.title).toBe('');
    board.dispose();
    const map = new HeatMap('Work');
    map.set([{ name: 'a_long_job:12', group: 'a', color: '', xs: [1], ys: [1], marked: false, lost: false }], '');
    const drawn = map.node.querySelector('canvas')!;
    drawn.dispatchEvent(Object.assign(new Event('pointermove'), { offsetX: 5, offsetY: 3 }));
    expect(drawn.title).toBe('a_long_job:12');
    map.dispose();
  });
});

describe('what is said beside the step', () => {
  it('tells in a legend what each pattern means', () => {
    const section = new TimelineSection(NOTHING_ASKED);
    const keys = [...section.node.querySelectorAll<HTMLElement>('.wb-Legend i')].map(key => key.dataset.part);
    expect(keys).toEqual([...named('all even').view.kinds, 'path', 'message']);
    section.dispose();
  });

  it('says no untruth until the picture comes: others know of steps', () => {
    const section = new TimelineSection(NOTHING_ASKED);
    const snapshot = { ...snapshotOf(NAMES[0]), timeline: null };
    const words = () => section.node.querySelector('.wb-Section-note')!.textContent;
    for (const state of ['running', 'finished', 'failed'] as const) {
      section.show({ ...snapshot, status: { ...snapshot.status!, state } }, new Set());
      expect(words()).toBe('The newest step is drawn in a moment.');
    }
    section.show({ ...snapshot, steps: null, status: { ...snapshot.status!, state: 'ready' } }, new Set());
    expect(words()).toContain('No step was recorded yet');
    section.dispose();
  });

  it('of a run that failed does not say that a complete step did', () => {
    const snapshot = snapshotOf(NAMES[0]);
    const section = new TimelineSection(NOTHING_ASKED);
    const words = () => section.node.querySelector('.wb-Timeline-words')!.textContent;
    section.show({ ...snapshot, status: { ...snapshot.status!, state: 'failed' } }, new Set());
    expect(words()).toMatch(/ · the run failed; this is its last complete step$/);
    section.show(snapshot, new Set());
    expect(words()).toMatch(/^of [\d,–]+ · [\d.]+ m?s$/);
    section.dispose();
  });

  it('goes back one step whatever pictures of the step before are still on their way', () => {
    const questions: unknown[] = [];
    const ask = (_: string, { step, before }: { step?: number; before?: number }) => questions.push([step, before]);
    const section = new TimelineSection({ ...NOTHING_ASKED, ask } as typeof NOTHING_ASKED);
    const snapshot = snapshotOf(NAMES[0]);
    const { step } = snapshot.timeline!;
    const back = [...section.node.querySelectorAll('button')].find(one => one.textContent === '◀')!;
    section.show(snapshot, new Set());
    back.click();
    section.show({ ...snapshot, timeline: { ...snapshot.timeline! } }, new Set());
    expect(questions).toEqual([[step - 1, 1]]);
    section.dispose();
  });

  it('asks for a row for each link, and for one for all of them again', () => {
    const questions: unknown[] = [];
    const ask = (topic: string, { links }: { links?: number }) => questions.push([topic, links]);
    const section = new TimelineSection({ ...NOTHING_ASKED, ask } as typeof NOTHING_ASKED);
    section.show(snapshotOf(NAMES[0]), new Set());
    const links = [...section.node.querySelectorAll('button')].find(one => one.textContent === 'Links')!;
    const pressed = () => links.getAttribute('aria-pressed');
    expect(pressed()).toBe('false');
    links.click();
    expect([pressed(), questions.pop()]).toEqual(['true', ['timeline', 1]]);
    links.click();
    expect([pressed(), questions.pop()]).toEqual(['false', ['timeline', undefined]]);
    section.dispose();
    const kept = new TimelineSection({ ...NOTHING_ASKED, kept: true });
    expect([...kept.node.querySelectorAll('button')].find(one => one.textContent === 'Links')!.hidden).toBe(true);
    kept.dispose();
  });
});
