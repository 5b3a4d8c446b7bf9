/** Where a step of each task goes: work, transfer, input, waiting and for whom; what it costs the others. */
import { Straggler, StragglerView } from '../contract';
import { arrange, Kept, mark, put, say } from '../kit/keep';
import { duration, exactly, format, shortTask } from '../kit/text';
import { Section } from '../kit/section';
import { type Figures, NumberTable } from '../kit/table';
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
    table.className = 'wb-Bars';
    const head = table.createTHead().insertRow();
    for (const [title, meaning] of [
      ['Task', 'Job and index of the task'],
      ['Median step', 'Work, transfer, input and waiting from the end of one step to that of the next, medians on one scale'],
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
    this.tools.append(this._table.button);
    this.body.append(table, this._more, this._keys, this._table.node);
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
    put(this._table.button, { hidden: !rows.length });
    this.note(rows.length ? '' : 'No step has finished yet.');
    const named = this._view?.verdict.alarm ? this._view.verdict.subject.split('|') : [];
    const kept = this._all
      ? rows
      : rows.filter((row, i) => rows.length <= ALL || i < SHOWN || named.includes(row.task) || this._lost.has(row.task));
    const most = Math.max(1e-9, ...rows.map(row => row.whole));
    const lines = this._lines.of(kept.map(row => row.task));
    lines.forEach((line, i) => line.show(kept[i], most, named.includes(kept[i].task), this._lost.has(kept[i].task)));
    arrange(
      this._rows,
      lines.map(line => line.node)
    );
    const unseen = rows.length - kept.length + (this._view?.more ?? 0);
    put(this._more, { hidden: rows.length <= ALL });
    const fewer = this._view?.more ? `Fewer (${this._view.more} more keep pace)` : 'Fewer';
    say(this._more, this._all ? fewer : `${unseen} more tasks keep pace`);
  }

  private _table = new NumberTable(() => figuresOf(this._view?.rows ?? []));
  private _lines = new Kept(() => new Line());
  private _rows = document.createElement('tbody');
  private _more = document.createElement('button');
  private _keys = document.createElement('ul');
  private _view: StragglerView | null = null;
  private _lost = new Set<string>();
  private _all = false;
}

/** The row of one task. */
class Line {
  readonly node = document.createElement('tr');

  constructor() {
    this._task.scope = 'row';
    this._bar.className = 'wb-Parts';
    this._bar.setAttribute('role', 'img');
    this._bar.append(...this._pieces);
    this._waits.append(this._whom, this._long);
    this.node.append(this._task, this._where, this._works, this._waits, this._costs);
  }

  /** A step of `most` milliseconds is as wide as the bar; `named` by the verdict. */
  show(row: Straggler, most: number, named: boolean, lost: boolean): void {
    const told = row.whole > 0; // of one that was lost before that nothing is known
    const waiting = row.wait > 0.05 * row.whole;
    put(this.node, { className: lost ? 'wb-mod-lost' : named ? 'wb-mod-slow' : '', title: row.why });
    put(this._task, { title: row.task });
    say(this._task, `${shortTask(row.task)}${lost ? ' lost' : ''}`);
    told ? arrange(this._where, [this._bar]) : say(this._where, row.why);
    mark(this._bar, 'aria-label', PARTS.map(([key, , words]) => `${words} ${duration(row[key])}`).join(', '));
    PARTS.forEach(([key], i) => {
      const width = `${Number(((100 * row[key]) / most).toFixed(2))}%`;
      if (this._pieces[i].style.width !== width) {
        this._pieces[i].style.width = width;
      }
    });
    say(this._works, told ? exactly(row.median_ms) : '–');
    put(this._waits, { className: waiting ? '' : 'wb-mod-none', title: waiting ? `Waits for ${row.waits_for}` : '' });
    say(this._whom, waiting ? row.waits_for : '–');
    say(this._long, waiting ? ` ${exactly(row.wait)}` : '');
    say(this._costs, row.share >= WORTH ? `${format(100 * row.share, 2, true)} %` : '–');
  }

  private _task = document.createElement('th');
  private _where = document.createElement('td');
  private _bar = document.createElement('div');
  private _pieces = PARTS.map(([, name]) => part(name));
  private _works = document.createElement('td');
  private _waits = document.createElement('td');
  private _whom = document.createElement('bdi');
  private _long = document.createElement('span');
  private _costs = document.createElement('td');
}

/** What the bars are made of; of a task that was lost before it told of steps nothing. */
function figuresOf(rows: Straggler[]): Figures {
  const known = (row: Straggler, value: number) => (row.whole > 0 ? value : null);
  return {
    caption: 'Median step of each task in milliseconds',
    head: ['Task', 'Works', 'Transfers', 'Input', 'Waits', 'Not recorded', 'Step', 'Waits for', 'Costs, %'],
    rows: rows.map(row => [
      shortTask(row.task),
      ...PARTS.map(([key]) => known(row, row[key])),
      known(row, row.whole),
      row.waits_for,
      known(row, 100 * row.share)
    ])
  };
}

function part(name: string): HTMLElement {
  const made = document.createElement('i');
  made.dataset.part = name;
  return made;
}

defineView({ id: 'work', title: 'Where a step goes', topic: 'work', wide: false, make: () => new StragglerSection() });
