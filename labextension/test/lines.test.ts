import { describe, expect, it } from 'vitest';
import { cellsOf } from '../src/kit/cells';
import { bounds, CROWDED, CutAxis, nearest, running, smoothed } from '../src/kit/lines';
import planted from './fixtures/planted.json';

const line = (ys: number[], xs = ys.map((_, i) => i)) => ({ name: 'a', color: '#000000', xs, ys });

describe('trend', () => {
  it('is left out where each point can be seen by itself', () => {
    expect(running(line(Array.from({ length: CROWDED - 1 }, () => 1)))).toBeNull();
  });

  it('ignores spikes, keeps the ends and never mixes what lies on both sides of a cut', () => {
    const ys = Array.from({ length: 200 }, (_, i) => (i === 50 ? 1000 : i < 100 ? 1 : 5));
    const whole = running(line(ys), [{ start: 99.2, end: 99.8 }])!;
    expect([...new Set(whole.ys)]).toEqual([1, 5]);
    expect([whole.xs[0], whole.xs[whole.xs.length - 1]]).toEqual([0, 199]);
    whole.xs.forEach((x, i) => expect(whole.ys[i]).toBe(x < 100 ? 1 : 5));
  });
});

describe('smoothing', () => {
  it('starts where the values start, follows them, and passes over what is no number', () => {
    expect(smoothed([4, 4, NaN, 4], 0.9).map(value => Number(value.toFixed(9)))).toEqual([4, 4, NaN, 4]);
    const steps = smoothed([0, 10, 10, 10], 0.5);
    expect(steps[1]).toBeGreaterThan(steps[0]);
    expect(steps[3]).toBeLessThan(10);
    expect(smoothed([3, 1], 0)).toEqual([3, 1]);
  });
});

describe('bounds', () => {
  it('of times begin at zero and are not stretched by one outlier', () => {
    const [low, high] = bounds([line([...Array.from({ length: 99 }, () => 10), 900])], true, false);
    expect(low).toBe(0);
    expect(high).toBeLessThan(20);
  });

  it('of other series hold all of them; a logarithmic axis holds the positive ones', () => {
    const [low, high] = bounds([line([1, NaN, 3])], false, false);
    expect([low < 1, high > 3]).toEqual([true, true]);
    expect(bounds([line([-5, 0, 0.01, 2])], false, true)[0]).toBeGreaterThan(0);
    expect(bounds([], false, true)[0]).toBeGreaterThan(0);
  });
});

describe('an axis without the gaps', () => {
  const axis = new CutAxis([{ start: 10, end: 110 }], 0, 130);

  it('puts the run after a gap close behind the one before it, in order', () => {
    expect([axis.place(0), axis.place(10)]).toEqual([0, 10]);
    expect(axis.place(110) - axis.place(10)).toBeLessThan(1);
    expect(axis.place(120) - axis.place(110)).toBeCloseTo(10);
    expect(axis.place(60)).toBe(10);
    expect(axis.breaks[0]).toBeGreaterThan(axis.place(10));
    expect(axis.breaks[0]).toBeLessThan(axis.place(110));
  });

  it('has round marks in every run and none in the gap', () => {
    const marks = axis.ticks(6);
    expect(marks.some(mark => mark <= 10) && marks.some(mark => mark >= 110)).toBe(true);
    expect(marks.filter(mark => mark > 10 && mark < 110)).toEqual([]);
  });

  it('knows only gaps that are in sight', () => {
    expect(new CutAxis([{ start: -5, end: 3 }], 0, 10).breaks).toEqual([]);
  });
});

describe('nearest', () => {
  it('is the closest entry, or none', () => {
    expect([0.4, 0.6, 99, -3].map(x => nearest([0, 1, 5], x))).toEqual([0, 1, 2, 0]);
    expect(nearest([], 1)).toBe(-1);
  });
});

describe('cells of a heat map', () => {
  it('are means of as many steps as there is room for, and unknown where nothing was recorded', () => {
    const row = (...given: Parameters<typeof line>) => ({ ...line(...given), group: 'worker' });
    const rows = [row([1, 3, 5, 7]), row([2], [3])];
    const { rows: cells, columns } = cellsOf(rows, 2);
    expect(cells.map(row => [...row])).toEqual([
      [2, 6],
      [NaN, 2]
    ]);
    expect(columns).toEqual([
      [0, 1],
      [2, 3]
    ]);
    expect(cellsOf([row([1, 1], [3, 900])], 9).columns).toEqual([
      [3, 3],
      [900, 900]
    ]);
    expect(cellsOf([], 10)).toEqual({ rows: [], columns: [], tops: new Map(), strong: new Set() });
  });

  it('are as strong as they stand out among their like', () => {
    const row = (group: string, ys: number[]) => ({ ...line(ys), group });
    const { tops, strong } = cellsOf(
      [row('ps', [50, 51]), row('worker', [5, 5]), row('worker', [15, 15]), row('worker', [5])],
      9
    );
    expect([...strong]).toEqual([2]); // which is named, whichever rows between have no room
    expect([...tops]).toEqual([
      ['ps', 100],
      ['worker', 15]
    ]);
  });

  it.each(planted.filter(run => run.kind === 'worker').map(run => run.name))('show who is slow in "%s"', name => {
    const run = planted.find(one => one.name === name)!;
    const workers = run.steps.tasks.filter(task => task.task.includes('worker'));
    const cells = cellsOf(
      workers.map(task => ({ name: task.task, group: 'worker', xs: task.steps, ys: task.times })),
      20
    );
    const mean = (row: Float64Array) => row.reduce((sum, value) => sum + (value || 0), 0) / row.length;
    const strongest = cells.rows.map(mean).reduce((best, value, i, all) => (value > all[best] ? i : best), 0);
    expect(workers[strongest].task).toBe(run.subject);
  });
});
