/** Where a step of each task goes: work, transfer, input, waiting and for whom; what it costs the others. */
import { Straggler, StragglerView } from '../contract';
import { duration, format, shortTask } from '../kit/text';
import { Section } from '../kit/section';
import { defineView } from '../kit/view';
import type { Snapshot } from '../store';

const PARTS = [
  ['median_ms', 'work', 'works'],
  ['transfer', 'transfer', 'transfers'],
  ['input', 'input', 'waits for input'],
  ['wait', 'wait', 'waits for others'],
  ['uncovered', 'uncovered', 'is not recorded']
] as const;
/** So many tasks are all shown; of more, the most expensive ones: the rest keeps pace. */
const ALL = 8;
const SHOWN = 4;
/** Part of a step below which a cost is nothing to tell. */
const WORTH = 0.005;

export class StragglerSection extends Section {
  constructor() {
    super('Where a step goes', 'wb-Stragglers');
    const table = document.createElement('table');
    const head = table.createTHead().insertRow();
    for (const [title, meaning] of [
      ['Task', 'Job and index of the task'],
      ['Median step', 'Work, transfer, input and waiting of a median step, all tasks on one scale'],
      ['Works', 'Median working time in a step, waiting and transfers excluded'],
      ['Waits for', 'The task, link or input at the end of the chain of its waiting'],
      ['Costs', 'Part of each step that would be saved without the delay of this task']
    ]) {
      const cell = document.createElement('th');
      cell.scope = 'col';
      cell.textContent = title;
      cell.title = meaning;
      head.append(cell);
    }
    table.append(this._rows);
    this._more.className = 'wb-Stragglers-more';
    this._more.type = 'button';
    this._more.addEventListener('click', () => {
      this._all = !this._all;
      this._draw();
    });
    this._keys.className = 'wb-Legend';
    this._keys.append(
      ...PARTS.map(([, name, words]) => {
        const key = document.createElement('li');
        key.append(part(name), words);
        return key;
      })
    );
    this.body.append(table, this._more, this._keys);
    this._draw();
  }

  /** `lost` tasks are marked; whom the verdict names is marked too, in words. */
  show(snapshot: Snapshot, lost: Set<string>): void {
    const view = snapshot.stragglers;
    if (view !== this._view || [...lost].join() !== [...this._lost].join()) {
      this._view = view;
      this._lost = lost;
      this._draw();
    }
  }

  private _draw(): void {
    const rows = this._view?.rows ?? [];
    this.note(rows.length ? '' : 'No step has finished yet.');
    const named = this._view?.verdict.alarm ? this._view.verdict.subject.split('|') : [];
    const kept = this._all
      ? rows
      : rows.filter((row, i) => rows.length <= ALL || i < SHOWN || named.includes(row.task) || this._lost.has(row.task));
    const most = Math.max(1e-9, ...rows.map(row => row.whole));
    this._rows.replaceChildren(...kept.map(row => this._row(row, most, named.includes(row.task))));
    const unseen = rows.length - kept.length + (this._view?.more ?? 0);
    this._more.hidden = rows.length <= ALL;
    this._more.textContent = this._all
      ? this._view?.more
        ? `Fewer (${this._view.more} more keep pace)`
        : 'Fewer'
      : `${unseen} more tasks keep pace`;
  }

  private _row(row: Straggler, most: number, named: boolean): HTMLTableRowElement {
    const line = document.createElement('tr');
    const dead = this._lost.has(row.task);
    line.className = dead ? 'wb-mod-lost' : named ? 'wb-mod-slow' : '';
    const told = row.whole > 0; // of one that was lost before that nothing is known
    line.title = row.why;
    const task = document.createElement('th');
    task.scope = 'row';
    task.title = row.task;
    task.textContent = `${shortTask(row.task)}${dead ? ' lost' : ''}`;
    const bar = document.createElement('div');
    bar.className = 'wb-Parts';
    bar.setAttribute('role', 'img');
    bar.setAttribute('aria-label', PARTS.map(([key, , words]) => `${words} ${duration(row[key])}`).join(', '));
    for (const [key, name] of PARTS) {
      const piece = part(name);
      piece.style.width = `${((100 * row[key]) / most).toFixed(2)}%`;
      bar.append(piece);
    }
    const where = document.createElement('td');
    where.append(told ? bar : row.why);
    const waiting = row.wait > 0.05 * row.whole;
    const waits = cell(waiting ? row.waits_for : '–');
    waits.className = waiting ? '' : 'wb-mod-none';
    waiting && waits.append(Object.assign(document.createElement('span'), { textContent: ` ${duration(row.wait)}` }));
    line.append(
      task,
      where,
      cell(told ? duration(row.median_ms) : '–'),
      waits,
      cell(row.share >= WORTH ? `${format(100 * row.share, 2)} %` : '–')
    );
    return line;
  }

  private _rows = document.createElement('tbody');
  private _more = document.createElement('button');
  private _keys = document.createElement('ul');
  private _view: StragglerView | null = null;
  private _lost = new Set<string>();
  private _all = false;
}

function part(name: string): HTMLElement {
  const made = document.createElement('i');
  made.dataset.part = name;
  return made;
}

function cell(text: string): HTMLTableCellElement {
  return Object.assign(document.createElement('td'), { textContent: text });
}

defineView({ id: 'work', title: 'Where a step goes', topic: 'work', wide: false, make: () => new StragglerSection() });
