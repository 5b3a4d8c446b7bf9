/** Numbers, units and names as people read them: the only place where text is made of values. */

/** `whole`: with the zeros at the end, as numbers below each other need them. */
export function format(value: number, digits = 3, whole = false): string {
  if (!Number.isFinite(value)) {
    return '–';
  }
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-4 || size >= 1e7)) {
    return value.toExponential(1);
  }
  if (size >= 10 ** digits) {
    return Math.round(value).toLocaleString('en');
  }
  const text = value.toPrecision(digits);
  return whole && size && !text.includes('e') ? text : String(Number(text));
}

/** Milliseconds in the unit that reads best, as the report writes them: "870 µs", "9.8 ms", "1.25 s". */
export function duration(milliseconds: number): string {
  return timed(milliseconds, format);
}

/** The same with all of its digits, as numbers below each other need them: "9.80 ms". */
export function exactly(milliseconds: number): string {
  return timed(milliseconds, value => format(value, 3, true));
}

function timed(milliseconds: number, said: (value: number) => string): string {
  if (Math.abs(milliseconds) >= 1000) {
    return `${said(milliseconds / 1000)} s`;
  }
  return Math.abs(milliseconds) >= 1 || milliseconds === 0 ? `${said(milliseconds)} ms` : `${said(1000 * milliseconds)} µs`;
}

/** How long something goes on, as exactly as one wants to know: "8 s", "12 min", "1 h 20 min". */
export function span(seconds: number): string {
  const minutes = Math.round(seconds / 60);
  if (minutes < 2) {
    return `${Math.round(seconds)} s`;
  }
  return minutes < 60 ? `${minutes} min` : `${Math.floor(minutes / 60).toLocaleString('en')} h ${minutes % 60} min`;
}

/** "40 B", "31 kB", "1.2 GB". */
export function bytes(count: number): string {
  const power = Math.min(4, Math.max(0, Math.floor(Math.log10(Math.max(1, count)) / 3)));
  return `${format(count / 1000 ** power)} ${['B', 'kB', 'MB', 'GB', 'TB'][power]}`;
}

/** "1 operation", "1,200 operations". */
export function count(number: number, thing: string): string {
  return `${number.toLocaleString('en')} ${thing}${number === 1 ? '' : 's'}`;
}

/** Numbers in three digits, or in as many as it takes to tell them apart. */
export function labels(values: number[]): string[] {
  const texts = [3, 5, 7, 9].map(digits => values.map(value => format(value, digits)));
  return texts.find(made => new Set(made).size === values.length) ?? values.map(String);
}

/**
 * What a training loop has done, "1,200 of 2,000 steps", where one counts; else the number that the records of the newest step
 * carry, "step 1,213". They differ: a session's initialisations and evaluations are steps as well.
 */
export function steps({ step, of, counted }: { step: number; of: number; counted: boolean }): string {
  if (counted) {
    return of ? `${step.toLocaleString('en')} of ${count(of, 'step')}` : count(step, 'step');
  }
  return `step ${step.toLocaleString('en')}`;
}

/** What it is in, and how far: "in train/while", "1 of 4 tasks answered", "restoring model-100 (2 of 2)". */
export function inside({ state, what, part, parts }: { state: string; what: string; part: number; parts: number }): string {
  const of = parts ? `${part.toLocaleString('en')} of ${parts.toLocaleString('en')}` : '';
  if (state === 'starting') {
    return `${of} ${what}`;
  }
  const words = what && state === 'running' ? `in ${what}` : what;
  return [words, of && (words ? `(${of})` : of)].filter(Boolean).join(' ');
}

/**
 * "Failed at step 213: why", by the number that error, records and timeline have of the step, said once; where a training loop
 * counts what is done, "Failed after 200 of 1,000 steps: step 213: why".
 */
export function ended(word: string, status: { step: number; of: number; counted: boolean; cause: string }): string {
  const { step, counted, cause } = status;
  if (counted) {
    return `${word} after ${steps(status)}: ${cause}`;
  }
  return `${word} at step ${step.toLocaleString('en')}: ${cause.replace(`step ${step}: `, '')}`;
}

const NAMED = 4; // tasks of which each is named

/**
 * Cause and fix of each group of lost tasks with the same of both but for their names, without those that are in `said`: as
 * workbench/viz/lost.py says it.
 */
export function losses(lost: readonly { task: string; cause: string; fix: string }[], said: string): [string, string][] {
  const groups = new Map<string, (typeof lost)[number][]>();
  for (const one of lost.filter(({ cause }) => cause && !said.includes(cause))) {
    const key = JSON.stringify([one.cause.replaceAll(one.task, ''), one.fix]);
    groups.set(key, [...(groups.get(key) ?? []), one]);
  }
  return [...groups.values()].map(([{ cause, fix }, ...others]) => {
    const names = others.map(one => shortTask(one.task));
    const shown = names.length > NAMED ? [...names.slice(0, NAMED - 1), `${names.length - NAMED + 1} more`] : names;
    const all = [shown.slice(0, -1).join(', '), shown[shown.length - 1]].filter(Boolean).join(' and ');
    return [sentence(cause) + (all && ` The same happened to ${all}.`), sentence(fix)];
  });
}

/** "/job:worker/task:1" reads better as "worker:1". */
export function shortTask(task: string): string {
  const parts = /job:([^/]+)\/(?:replica:\d+\/)?task:(\d+)/.exec(task);
  return parts ? `${parts[1]}:${parts[2]}` : task;
}

/** "worker" of "/job:worker/task:1". */
export function jobOf(task: string): string {
  return shortTask(task).split(':')[0];
}

/** "/job:ps/replica:0/task:1/device:CPU:0" reads better as "ps:1 CPU:0". */
export function shortDevice(device: string): string {
  const parts = /(?:\/job:([^/]+))?(?:\/replica:\d+)?(?:\/task:(\d+))?(?:\/(?:device:)?([a-z]+:\d+|\*))?$/i.exec(device);
  const words = parts ? [parts[1] && `${parts[1]}:${parts[2] ?? 0}`, parts[3]].filter(Boolean).join(' ') : '';
  return words || device || 'not placed';
}

/** The task of a device. */
export function taskOf(device: string): string {
  return device.split('/device:')[0];
}

/** "A sentence." of "a sentence", and of itself. */
export function sentence(text: string): string {
  return text ? `${text[0].toUpperCase()}${text.slice(1).replace(/\.$/, '')}.` : '';
}

/** As much of `text` as `width` has room for, by `measure`. */
export function clipped(text: string, width: number, measure: (text: string) => number): string {
  if (measure(text) <= width) {
    return text;
  }
  let [low, high] = [0, text.length];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    measure(`${text.slice(0, middle)}…`) <= width ? (low = middle) : (high = middle - 1);
  }
  return low ? `${text.slice(0, low)}…` : '';
}
