import { describe, expect, it } from 'vitest';

import { NOTHING } from '../src/store';
import { OperationsSection } from '../src/views/operations';

const row = (name: string, share: number) => ({
  name,
  type: 'matmul',
  device: '/job:worker/task:0/device:CPU:0',
  color: '#aa77cc',
  runs: 1200,
  median: 0.5,
  longest: 2,
  share
});
const operations = {
  rows: [row('layer/matmul', 0.4), row('layer/add', 0.2), row('x', 0.1)],
  more: 7,
  devices: [
    {
      device: '/job:ps/task:0/device:CPU:0',
      color: '#dd5500',
      operations: 3,
      state_bytes: 31360,
      received_bytes: 0,
      scopes: 'train 3'
    }
  ],
  crossing: 2,
  unknown: 1
};
const texts = (section: OperationsSection, selector: string) =>
  [...section.node.querySelectorAll(selector)].map(node => node.textContent);

describe('operations and devices', () => {
  it('say how few take half of the time, and what lies where', () => {
    const section = new OperationsSection();
    section.show({ ...NOTHING, operations }, new Set());
    expect(texts(section, '.wb-Operations-lead')).toEqual(['2 of 10 operations take 60 % of the time (runs × median).']);
    expect(texts(section, 'tr th[scope=row]')).toEqual(['layer/matmul', 'layer/add', 'x', 'ps:0 CPU:0']);
    expect(texts(section, 'table:first-of-type tr:nth-child(2) td')).toEqual([
      'worker:0 CPU:0',
      '1,200',
      '500 µs',
      '2.00 ms',
      '40 %'
    ]);
    expect(section.node.textContent).toContain(
      '7 operations that take less are not listed. 2 tensors cross devices in each step.'
    );
  });

  it('keep what a person has selected while numbers and order change', () => {
    const section = new OperationsSection();
    document.body.append(section.node);
    section.show({ ...NOTHING, operations }, new Set());
    const rows = [...section.node.querySelectorAll('table:first-of-type tr')];
    const text = (node: Node): Node => (node.lastChild ? text(node.lastChild) : node);
    const selection = document.getSelection()!;
    selection.setBaseAndExtent(text(rows[2].children[2]), 1, text(rows[3].children[5]), 4);
    const more = {
      ...operations,
      rows: [row('x', 0.5), { ...row('layer/matmul', 0.3), runs: 9 }, { ...row('layer/add', 0.125), runs: 99 }]
    };
    section.show(
      { ...NOTHING, operations: { ...more, rows: more.rows.map(one => ({ ...one, runs: one.runs + 1 })) } },
      new Set()
    );
    expect([selection.isCollapsed, selection.anchorNode!.textContent, selection.focusNode!.textContent]).toEqual([
      false,
      '100',
      '50 %'
    ]);
    expect([selection.anchorOffset, selection.focusOffset]).toEqual([1, 4]);
    section.node.remove();
  });

  it('say what is missing', () => {
    const section = new OperationsSection();
    section.show(NOTHING, new Set());
    expect(section.node.textContent).toContain('The operations appear with the first step.');
    section.show({ ...NOTHING, operations: { ...operations, rows: [], more: 0 } }, new Set());
    expect(texts(section, '.wb-Operations-lead')).toEqual([
      'No single operations were recorded yet: steps are recorded in detail only now and then.'
    ]);
    expect(section.node.querySelector<HTMLElement>('table')!.hidden).toBe(true);
  });

  it('mark what lies on a task that is lost, and no longer once it is back', () => {
    const section = new OperationsSection();
    const marked = (...lost: string[]) => {
      section.show({ ...NOTHING, operations }, new Set(lost));
      return texts(section, '.wb-mod-lost');
    };
    expect(marked()).toEqual([]);
    expect(marked('/job:ps/task:0')).toEqual(['ps:0 CPU:0 lost']);
    expect(marked('/job:worker/task:0')).toEqual(Array(3).fill('worker:0 CPU:0 lost'));
    expect(marked()).toEqual([]);
  });
});
