import { describe, expect, it } from 'vitest';
import {
  bytes,
  clipped,
  count,
  duration,
  ended,
  exactly,
  format,
  labels,
  losses,
  sentence,
  shortDevice,
  shortTask,
  span,
  steps,
  taskOf
} from '../src/kit/text';

describe('how far a run is', () => {
  it('is counted by a training loop, and else the number that its records carry', () => {
    expect(steps({ step: 938, of: 4000, counted: true })).toBe('938 of 4,000 steps');
    expect(steps({ step: 1, of: 0, counted: true })).toBe('1 step');
    expect(steps({ step: 1213, of: 0, counted: false })).toBe('step 1,213');
  });
});

describe('the end of a run', () => {
  it('numbers the step that failed as its error does, once, and counts what a training loop has done', () => {
    const cause = 'step 1213: no answer within 5 s';
    expect(ended('Failed', { step: 1213, of: 0, counted: false, cause })).toBe('Failed at step 1,213: no answer within 5 s');
    expect(ended('Failed', { step: 4, of: 0, counted: false, cause: 'it is empty' })).toBe('Failed at step 4: it is empty');
    expect(ended('Failed', { step: 200, of: 1000, counted: true, cause })).toBe(`Failed after 200 of 1,000 steps: ${cause}`);
    expect(ended('Stopped', { step: 1, of: 0, counted: true, cause: 'by hand' })).toBe('Stopped after 1 step: by hand');
  });
});

describe('losses', () => {
  const lost = (task: string, why = 'EOF') => ({ task, cause: `${task} was lost (${why})`, fix: 'restart it.' });
  const tasks = Array.from({ length: 9 }, (_, i) => `/job:worker/task:${i}`);

  it('are told in one sentence where they are alike', () => {
    const alike = '/job:worker/task:0 was lost (EOF). The same happened to worker:1, worker:2, worker:3 and 5 more.';
    const other = '/job:ps/task:0 was lost (killed).';
    expect(losses([...tasks.map(task => lost(task)), lost('/job:ps/task:0', 'killed')], '')).toEqual([
      [alike, 'Restart it.'],
      [other, 'Restart it.']
    ]);
    const two = '/job:worker/task:0 was lost (EOF). The same happened to worker:1.';
    expect(losses([lost(tasks[0]), lost(tasks[1])], '')).toEqual([[two, 'Restart it.']]);
    expect(losses([lost(tasks[0])], `Failed at step 3: ${lost(tasks[0]).cause}`)).toEqual([]);
  });
});

describe('numbers', () => {
  it('keeps three digits and the unit that reads best', () => {
    expect([0.00087, 0.87, 9.8, 1250].map(duration)).toEqual(['0.87 µs', '870 µs', '9.8 ms', '1.25 s']);
    expect([0, 0.00512, 5.1, 12, 999.6, 1250].map(exactly)).toEqual([
      '0 ms',
      '5.12 µs',
      '5.10 ms',
      '12.0 ms',
      '1000 ms',
      '1.25 s'
    ]);
    expect([0, 40, 31360, 1.2e9].map(bytes)).toEqual(['0 B', '40 B', '31.4 kB', '1.2 GB']);
    expect([format(NaN), format(1e-7), format(12345)]).toEqual(['–', '1.0e-7', '12,345']);
  });

  it('says how long something goes on as exactly as one wants to know', () => {
    expect([0.4, 8.2, 89, 121, 3540, 4830, 4e6].map(span)).toEqual([
      '0 s',
      '8 s',
      '89 s',
      '2 min',
      '59 min',
      '1 h 21 min',
      '1,111 h 7 min'
    ]);
  });

  it('tells neighbours on an axis apart', () => {
    expect(labels([1000, 1000.5, 1001])).toEqual(['1000', '1000.5', '1001']);
  });

  it('counts in English', () => {
    expect([count(1, 'operation'), count(36000, 'operation')]).toEqual(['1 operation', '36,000 operations']);
  });
});

describe('names', () => {
  it('shortens tasks and devices, and leaves what it does not know', () => {
    expect(shortTask('/job:worker/replica:0/task:12')).toBe('worker:12');
    expect(shortTask('me')).toBe('me');
    expect(shortDevice('/job:ps/replica:0/task:1/device:CPU:0')).toBe('ps:1 CPU:0');
    expect(shortDevice('')).toBe('not placed');
    expect(taskOf('/job:ps/task:1/device:CPU:0')).toBe('/job:ps/task:1');
  });

  it('clips at the end, and says so', () => {
    expect(clipped('gradients', 5, text => text.length)).toBe('grad…');
    expect(clipped('add', 5, text => text.length)).toBe('add');
    expect(clipped('add', 0, text => text.length)).toBe('');
  });

  it('makes sentences', () => {
    expect(['run it again', 'Run it again.', ''].map(sentence)).toEqual(['Run it again.', 'Run it again.', '']);
  });
});
