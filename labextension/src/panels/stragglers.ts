/** Which task is slow, by how much, how much of the waiting it causes, and why. */
import { duration, format } from '../chart';
import { StragglerView } from '../contract';
import { Section } from './section';
import { shortTask } from './steps';

const COLUMNS = [
  ['Task', 'Job and index of the task'],
  ['Works', 'Median working time in a step, waiting excluded'],
  ['Against peers', 'Working time against the median of the other tasks of its job'],
  ['Costs', 'Part of each step that would be saved without the delay of this task'],
  ['Why', 'What the records show']
];

export class StragglerSection extends Section {
  constructor() {
    super('Stragglers', 'wb-Stragglers');
    const table = document.createElement('table');
    const head = table.createTHead().insertRow();
    for (const [title, meaning] of COLUMNS) {
      const cell = document.createElement('th');
      cell.scope = 'col';
      cell.textContent = title;
      cell.title = meaning;
      head.append(cell);
    }
    table.append(this._rows);
    this.body.append(table);
  }

  /** Rows whose slowdown reaches `factor` are marked, in words too. */
  show(view: StragglerView | null, factor: number): void {
    const rows = view?.rows ?? [];
    this.note(rows.length ? '' : 'No step has finished yet.');
    this._rows.replaceChildren(...rows.map(row => {
      const slow = row.slowdown >= factor;
      const line = document.createElement('tr');
      line.className = slow ? 'wb-mod-slow' : '';
      const task = document.createElement('th');
      task.scope = 'row';
      task.title = row.task;
      task.textContent = shortTask(row.task);
      const share = document.createElement('td');
      const bar = document.createElement('meter');
      bar.max = 1;
      bar.value = row.share;
      bar.setAttribute('aria-label', `${format(100 * row.share, 2)} %`);
      share.append(bar, ` ${format(100 * row.share, 2)} %`);
      line.append(task, cell(duration(row.median_ms)), cell(`${format(row.slowdown, 2)}×${slow ? ' slow' : ''}`), share, cell(row.why || '–'));
      return line;
    }));
  }

  private _rows = document.createElement('tbody');
}

function cell(text: string): HTMLTableCellElement {
  return Object.assign(document.createElement('td'), { textContent: text });
}
