import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { byStep, type Figures, NumberTable } from '../src/kit/table';
import type { Page } from '../src/page';
import { snapshotOf, tell } from '../stories/story';
import { stubOption } from './lacking';

const laid = () => ({
  layout: async () => ({ boxes: [], lines: [], size: { x: 0, y: 0, width: 0, height: 0 } }),
  cancel: () => undefined,
  dispose: () => undefined
});
const texts = (node: Element) =>
  [...node.querySelectorAll('tr')].map(row => [...row.children].map(cell => cell.textContent).join(' '));
let copied: string[];

beforeEach(() => {
  stubOption();
  copied = [];
  vi.stubGlobal('navigator', { clipboard: { writeText: async (text: string) => void copied.push(text) } });
});

afterEach(() => vi.unstubAllGlobals());

describe('a table of numbers', () => {
  const press = (table: NumberTable, label: string) =>
    [...table.node.querySelectorAll('button')].find(one => one.textContent === label)!.click();

  it('has a row for each step of any course, and nothing where a course has none', () => {
    const ys = new Float64Array([2, NaN, 0.5]);
    expect(
      byStep([
        { xs: [1, 3, 9], ys },
        { xs: [2, 3], ys: [7, 8] }
      ])
    ).toEqual([
      [1, 2, null],
      [2, null, 7],
      [3, null, 8],
      [9, 0.5, null]
    ]);
  });

  it('opens by its button, stands still while one reads, and holds the newest when asked', async () => {
    let figures: Figures = {
      caption: 'Loss, by step',
      head: ['Step', 'loss'],
      sums: [['Median', null]],
      rows: [[1213, 0.123456789]]
    };
    const table = new NumberTable(() => figures);
    const { button, node } = table;
    expect([node.hidden, button.getAttribute('aria-expanded'), button.getAttribute('aria-controls')]).toEqual([
      true,
      'false',
      node.id
    ]);
    button.click();
    expect([node.hidden, button.getAttribute('aria-expanded')]).toEqual([false, 'true']);
    expect(texts(node)).toEqual(['Step loss', 'Median –', '1,213 0.1235']);
    const place = node.querySelector<HTMLElement>('[role=region]')!;
    expect([place.tabIndex, place.getAttribute('aria-label')]).toEqual([0, 'Loss, by step']);
    expect([...node.querySelectorAll('th')].map(cell => cell.scope)).toEqual(['col', 'col', 'row', 'row']);
    figures = { ...figures, sums: [], rows: [[1214, 0.1]] };
    press(table, 'Copy');
    await vi.waitFor(() => expect(copied).toEqual(['Step\tloss\nMedian\t\n1213\t0.123456789']));
    press(table, 'Update');
    expect(texts(node)).toEqual(['Step loss', '1,214 0.1000']);
    button.click();
    expect([node.hidden, texts(node)]).toEqual([true, []]);
  });

  it('shows the last of many rows, says how many there are, and copies all', async () => {
    const rows = Array.from({ length: 9000 }, (_, i) => [i, i]);
    const table = new NumberTable(() => ({ caption: 'Loss', head: ['Step', 'loss'], rows }));
    table.button.click();
    expect(table.node.querySelector('.wb-Numbers-bar span')!.textContent).toBe('Loss: the last 2,000 of 9,000 rows');
    expect(texts(table.node).length).toBe(2001);
    expect(texts(table.node)[2000]).toBe('8,999 8999');
    press(table, 'Copy');
    await vi.waitFor(() => expect(copied[0].split('\n').length).toBe(9001));
  });

  it('is selected where a page may not use the clipboard', async () => {
    vi.stubGlobal('navigator', {});
    const table = new NumberTable(() => ({ caption: 'Loss', head: ['Step', 'loss'], rows: [[1, 2]] }));
    document.body.append(table.node);
    table.button.click();
    press(table, 'Copy');
    await vi.waitFor(() => expect(table.node.querySelectorAll('button')[1].textContent).toBe('Press Ctrl+C'));
    expect(document.getSelection()!.anchorNode).toBe(table.node.querySelector('table'));
    table.node.remove();
  });
});

describe('charts as tables', () => {
  let page: Page;
  const node = document.createElement('div');
  const opened = (scenario: string, section: string) => {
    page = tell(node, scenario, laid);
    const place = node.querySelector(`.wb-${section}`)!;
    [...place.querySelectorAll<HTMLElement>('.wb-Section-tools button')].find(one => one.textContent === 'Table')!.click();
    return texts(place.querySelector('.wb-Numbers')!);
  };

  afterEach(() => {
    page.dispose();
    node.replaceChildren();
  });

  it('tell the parts of each bar', () => {
    const [head, first] = opened('slow worker', 'Stragglers');
    expect(head).toBe('Task Works Transfers Input Waits Not recorded Step Waits for Costs, %');
    const row = snapshotOf('slow worker').stragglers!.rows[0];
    const numbers = [row.median_ms, row.transfer, row.input, row.wait, row.uncovered, row.whole].map(value =>
      value ? value.toPrecision(4) : '0'
    );
    expect(first).toBe(`worker:3 ${numbers.join(' ')} ${row.waits_for} ${(100 * row.share).toPrecision(4)}`);
  });

  it.each(['slow worker', 'slow worker of 60'])('tell each step of %s: lines and heat map', scenario => {
    const [head, ...rows] = opened(scenario, 'Steps');
    const { tasks } = snapshotOf(scenario).steps!;
    expect(head.split(' ').length).toBe(tasks.length + 1);
    expect(rows.length).toBe(tasks[0].steps.length + 2);
    const [step, one] = rows[2].split(' ');
    expect([step, one]).toEqual([String(tasks[0].steps[0]), tasks[0].times[0].toPrecision(4)]);
    expect(rows[0].split(' ').slice(0, 2)).toEqual(['Median', tasks[0].median.toPrecision(4)]);
  });

  it('tell every recorded value', () => {
    const [head, ...rows] = opened('slow worker', 'Loss');
    const [{ steps, values }] = snapshotOf('slow worker').series!.series;
    expect([head, rows.length, rows[0]]).toEqual(['Step loss', steps.length, `${steps[0]} ${values[0].toPrecision(4)}`]);
  });
});
