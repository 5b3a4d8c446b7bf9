import { describe, expect, it } from 'vitest';
import type { Status } from '../src/contract';
import { merge, NOTHING } from '../src/store';
import { KnobSection } from '../src/views/knobs';

const part = (value: number, taken = true) => ({
  part: '/job:worker/task:1',
  label: 'worker:1',
  color: '#bf0080',
  value,
  taken
});
const snapshot = (value: number, more: object = {}, taken = true) => ({
  ...NOTHING,
  knobs: { knobs: [{ name: 'brake', most: 100, step: 1, parts: [part(value, taken)], fault: '', ...more }] }
});

function made() {
  const turned: [string, string, number][] = [];
  const answers: (() => void)[] = [];
  const section = new KnobSection({
    ask: () => undefined,
    jump: null,
    layouter: () => {
      throw new Error('no graph here');
    },
    turn: (knob, part, value) => {
      turned.push([knob, part, value]);
      return new Promise(resolve => answers.push(() => resolve(undefined)));
    }
  });
  const find = <T extends HTMLElement>(selector: string) => section.node.querySelector<T>(selector)!;
  const drag = (value: number) => {
    find<HTMLInputElement>('input').value = String(value);
    find('input').dispatchEvent(new Event('input'));
  };
  return { section, turned, answers, find, drag };
}

const rest = () => new Promise(resolve => setTimeout(resolve));

describe('knobs', () => {
  it('are hidden while the program has none, and again when it has closed them', () => {
    const { section } = made();
    section.show(NOTHING, new Set());
    expect(section.node.hidden).toBe(true);
    section.show(snapshot(0), new Set());
    expect(section.node.hidden).toBe(false);
    section.show(
      merge(snapshot(0), { seq: 1, status: {}, topics: { knobs: { knobs: [] } }, faults: {}, v: 3, kind: 'update' }),
      new Set()
    );
    expect(section.node.hidden).toBe(true);
  });

  it('follow the program', () => {
    const { section, find } = made();
    section.show(snapshot(3), new Set());
    const input = find<HTMLInputElement>('input');
    expect([input.value, input.max, input.getAttribute('aria-label')]).toEqual(['3', '100', 'brake of worker:1']);
    section.show(snapshot(40), new Set());
    expect(find('input')).toBe(input);
    expect([input.value, find('output').textContent]).toEqual(['40', '40']);
  });

  it('send one value at a time, the newest, and keep what the hand holds', async () => {
    const { section, turned, answers, find, drag } = made();
    section.show(snapshot(0), new Set());
    [10, 20, 30].forEach(drag);
    expect(turned).toEqual([['brake', '/job:worker/task:1', 10]]);
    section.show(snapshot(10), new Set());
    expect(find<HTMLInputElement>('input').value).toBe('30');
    expect(find('output').classList.contains('wb-mod-waits')).toBe(true);
    answers[0]();
    await rest();
    expect(turned.map(([, , value]) => value)).toEqual([10, 30]);
    answers[1]();
    await rest();
    section.show(snapshot(30), new Set());
    expect(turned.length).toBe(2);
    expect(find('output').classList.contains('wb-mod-waits')).toBe(false);
  });

  it('say why the program did not take a value', () => {
    const { section, find } = made();
    section.show(snapshot(5, { fault: 'the session is closed' }, false), new Set());
    expect([find('.wb-Knob-fault').hidden, find('.wb-Knob-fault').textContent]).toEqual([false, 'the session is closed']);
    expect(find('output').classList.contains('wb-mod-waits')).toBe(true);
    section.show(snapshot(5), new Set());
    expect(find('.wb-Knob-fault').hidden).toBe(true);
  });

  it('of a task that was lost stand still and say why, and turn again when it is back', () => {
    const { section, turned, find } = made();
    const task = '/job:worker/task:1';
    const status = { state: 'running', lost: [{ task, cause: 'its process was killed', fix: '' }] } as unknown as Status;
    section.show({ ...snapshot(40), status }, new Set([task]));
    const input = find<HTMLInputElement>('input');
    expect([input.disabled, find('.wb-Knob').className, find('.wb-Knob').title]).toEqual([
      true,
      'wb-Knob wb-mod-lost',
      'its process was killed'
    ]);
    const why = section.node.querySelector<HTMLElement>(`#${input.getAttribute('aria-describedby')}`)!;
    expect([find('.wb-Knob-name').textContent, why.textContent, why.hidden, find('output').textContent]).toEqual([
      'worker:1 lost',
      'Lost: nobody is left to take a value.',
      false,
      '40'
    ]);
    section.show(snapshot(40), new Set());
    expect([input.disabled, why.hidden, input.hasAttribute('aria-describedby'), find('.wb-Knob-name').textContent]).toEqual([
      false,
      true,
      false,
      'worker:1'
    ]);
    expect(turned).toEqual([]);
  });
});
