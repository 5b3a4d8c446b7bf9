import { expect, it, vi } from 'vitest';

import { StragglerSection } from '../src/views/work';
import { snapshotOf, SCENARIOS } from '../stories/story';

it('says of a task that was lost before it told of steps that it is lost, and no number', () => {
  const { stragglers, ...rest } = snapshotOf(SCENARIOS[0]);
  const task = '/job:worker/task:9';
  const why = 'Was lost before it had told of most steps.';
  const none = { median_ms: 0, transfer: 0, input: 0, wait: 0, uncovered: 0, whole: 0, share: 0, slowdown: 1, waits_for: '' };
  const section = new StragglerSection();
  const rows = [{ task, why, ...none }, ...stragglers!.rows];
  section.show({ ...rest, stragglers: { ...stragglers!, rows } }, new Set([task]));
  const [first, second] = section.node.querySelectorAll('tbody tr');
  expect([...first.children].map(cell => cell.textContent)).toEqual(['worker:9 lost', why, '–', '–', '–']);
  expect(second.querySelector('.wb-Parts')).not.toBeNull();
});

it('keeps the row of a task while its numbers change, and makes none anew', () => {
  const snapshot = snapshotOf('slow worker');
  const section = new StragglerSection();
  section.show(snapshot, new Set());
  const before = [...section.node.querySelectorAll('tbody tr')];
  const made = vi.spyOn(document, 'createElement');
  const [slowest, ...others] = snapshot.stragglers!.rows;
  const rows = [...others, { ...slowest, median_ms: 1.5, waits_for: '', wait: 0 }];
  section.show({ ...snapshot, stragglers: { ...snapshot.stragglers!, rows } }, new Set());
  expect(made).not.toHaveBeenCalled();
  const after = [...section.node.querySelectorAll('tbody tr')];
  expect(after).toEqual([...before.slice(1), before[0]]);
  expect([...before[0].children].map(cell => cell.textContent)[2]).toBe('1.50 ms');
  made.mockRestore();
});
