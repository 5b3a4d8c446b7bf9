/** Work of many tasks over many steps as cells of equal width: what a heat map shows. */

export interface Course {
  name: string;
  /** Rows of one group share a scale: those that do the same. */
  group: string;
  xs: ArrayLike<number>;
  ys: ArrayLike<number>;
}

export interface Cells {
  /** One row per task, from left to right; NaN where nothing is known. */
  rows: Float64Array[];
  /** First and last recorded step of each column. */
  columns: [number, number][];
  /**
   * Group -> the value of its strongest colour: what is slower, an outlier or two, is as strong. Twice of what is usual in the
   * group at least: who does what the others do is pale, however little that is.
   */
  tops: Map<string, number>;
  /** Rows that stand out, the strongest of each group: one that works as long as its like does not. */
  strong: Set<number>;
}

const MOST = 0.99; // part of a group's cells that lie below its strongest colour
const STRONG = 2; // times what is usual
const OUT = 1.5; // times what is usual, from which on the longest row of a group has its name

/** At most `most` columns of as many recorded steps each, however far apart; a cell is the mean of its steps. */
export function cellsOf(courses: readonly Course[], most: number): Cells {
  const steps = [...new Set(courses.flatMap(({ xs }) => Array.from(xs)))].sort((a, b) => a - b);
  const wide = Math.max(1, Math.ceil(steps.length / Math.max(1, most)));
  const columns: [number, number][] = [];
  const place = new Map<number, number>();
  steps.forEach((step, i) => {
    const at = Math.floor(i / wide);
    place.set(step, at);
    columns[at] = [columns[at]?.[0] ?? step, step];
  });
  const rows = courses.map(course => meansOf(course, place, columns.length));
  const groups = new Map<string, number[]>();
  courses.forEach(({ group }, i) => groups.set(group, [...(groups.get(group) ?? []), ...rows[i].filter(Number.isFinite)]));
  const tops = new Map([...groups].map(([group, values]) => [group, topOf(values)]));
  return { rows, columns, tops, strong: strongOf(courses, rows, groups) };
}

/** Of each group the row that works most, if that is much beside what is usual there. */
function strongOf(courses: readonly Course[], rows: Float64Array[], groups: Map<string, number[]>): Set<number> {
  const means = rows.map(row => {
    const known = row.filter(Number.isFinite);
    return known.reduce((sum, value) => sum + value, 0) / known.length;
  });
  const strong = new Set<number>();
  for (const [group, values] of groups) {
    const mine = courses.map((_, i) => i).filter(i => courses[i].group === group && Number.isFinite(means[i]));
    const most = mine.reduce((best, i) => (best < 0 || means[i] > means[best] ? i : best), -1);
    if (most >= 0 && means[most] >= OUT * values[Math.floor(0.5 * (values.length - 1))]) {
      strong.add(most);
    }
  }
  return strong;
}

const APART = 70; // pixels between the beginnings of two names of an axis, and
const BETWEEN = 8; // at least between them

/** Names of columns that are `wide` pixels each, with their places: as many as have room, none beyond the last column. */
export function axisOf(names: readonly string[], wide: number, measure: (text: string) => number): [string, number][] {
  const every = Math.max(1, Math.ceil(APART / wide));
  const room = names.length * wide;
  const found: [string, number][] = [];
  let free = 0;
  for (let at = 0; at < names.length; at += every) {
    const width = measure(names[at]);
    const x = Math.max(0, Math.min(at * wide, room - width));
    if (x >= free) {
      found.push([names[at], x]);
      free = x + width + BETWEEN;
    }
  }
  return found;
}

function topOf(values: number[]): number {
  values.sort((a, b) => a - b);
  const at = (part: number) => values[Math.floor(part * (values.length - 1))] ?? 0;
  return Math.max(at(MOST), STRONG * at(0.5)) || 1;
}

function meansOf({ xs, ys }: Course, place: Map<number, number>, count: number): Float64Array {
  const [sums, counts] = [new Float64Array(count), new Float64Array(count)];
  for (let i = 0; i < xs.length; i++) {
    if (Number.isFinite(ys[i])) {
      const at = place.get(xs[i])!;
      sums[at] += ys[i];
      counts[at]++;
    }
  }
  return sums.map((sum, at) => (counts[at] ? sum / counts[at] : NaN));
}
