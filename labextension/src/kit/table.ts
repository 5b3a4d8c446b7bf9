/** The numbers of a chart as a table: read by keyboard and by readers of screens, and copied into a spreadsheet. */
import { put, say } from './keep';
import { button } from './section';
import { count, format } from './text';
import { speak } from './voice';

/** Words, numbers, and null where nothing is known. The first of a row says what the row is of. */
export type Cell = string | number | null;

export interface Figures {
  caption: string;
  head: string[];
  /** What is said of all rows, above them. */
  sums?: Cell[][];
  rows: Cell[][];
}

const MOST = 4000; // cells of a table that are shown; all of them are copied
const LEAST = 20; // rows that are shown, however wide they are

let tables = 0;

/** It stands still while somebody reads it, and holds what the chart showed when it was opened or brought up to date. */
export class NumberTable {
  /** Among the tools of the chart. */
  readonly button = button('Table', 'Show these numbers as a table', () => this._turn());
  /** Below the chart. */
  readonly node = document.createElement('div');

  constructor(private _read: () => Figures) {
    this.node.className = 'wb-Numbers';
    this.node.id = `wb-numbers-${++tables}`;
    this.node.hidden = true;
    this.button.classList.add('wb-mod-toggle');
    this.button.setAttribute('aria-expanded', 'false');
    this.button.setAttribute('aria-pressed', 'false');
    this.button.setAttribute('aria-controls', this.node.id);
    const bar = document.createElement('div');
    bar.className = 'wb-Numbers-bar';
    bar.append(this._caption, this._renew, this._copy);
    this._place.className = 'wb-Numbers-place';
    this._place.tabIndex = 0; // it scrolls by keys
    this._place.setAttribute('role', 'region');
    this._place.append(this._table);
    this.node.append(bar, this._place);
  }

  private _turn(): void {
    const shown = this.node.hidden;
    put(this.node, { hidden: !shown });
    this.button.setAttribute('aria-expanded', String(shown));
    this.button.setAttribute('aria-pressed', String(shown));
    shown ? this._fill() : this._table.replaceChildren();
  }

  private _fill(): void {
    this._figures = this._read();
    const { caption, head, rows, sums = [] } = this._figures;
    const room = Math.max(LEAST, Math.floor(MOST / Math.max(1, head.length)));
    const kept = rows.slice(-room);
    const left =
      rows.length > kept.length ? `: the last ${kept.length.toLocaleString('en')} of ${count(rows.length, 'row')}` : '';
    say(this._caption, `${caption}${left}`);
    this._place.setAttribute('aria-label', this._caption.textContent!);
    const top = document.createElement('thead');
    top.append(rowOf(head, 'col'));
    const body = document.createElement('tbody');
    body.append(...[...sums, ...kept].map(([first, ...cells]) => rowOf([named(first), ...cells.map(shown)], 'row')));
    this._table.replaceChildren(top, body);
    say(this._copy, 'Copy');
  }

  /** All of it, as columns between tabs and numbers with all their digits. */
  private async _take(): Promise<void> {
    const { head, rows, sums = [] } = this._figures;
    const lines = [head, ...sums, ...rows].map(row => row.map(cell => (cell === null ? '' : String(cell))).join('\t'));
    try {
      await navigator.clipboard.writeText(lines.join('\n'));
      say(this._copy, 'Copied');
      speak(this.node, `Copied ${count(rows.length, 'row')}.`);
    } catch {
      document.getSelection()?.selectAllChildren(this._table); // a page that is not trusted with the clipboard
      say(this._copy, 'Press Ctrl+C');
      speak(this.node, 'The table is selected: press Ctrl and C.');
    }
  }

  private _figures: Figures = { caption: '', head: [], rows: [] };
  private _caption = document.createElement('span');
  private _renew = button('Update', 'Show the newest numbers in the table', () => this._fill());
  private _copy = button('Copy', 'Copy the whole table', () => void this._take());
  private _place = document.createElement('div');
  private _table = document.createElement('table');
}

/** Steps and what is known at each: one column for each course, one row for each step that one of them has. */
export function byStep(courses: readonly { xs: ArrayLike<number>; ys: ArrayLike<number> }[]): Cell[][] {
  const rows = new Map<number, Cell[]>();
  courses.forEach(({ xs, ys }, at) => {
    for (let i = 0; i < xs.length; i++) {
      const row = rows.get(xs[i]) ?? [xs[i], ...courses.map(() => null)];
      row[at + 1] = Number.isNaN(ys[i]) ? null : ys[i];
      rows.set(xs[i], row);
    }
  });
  return [...rows].sort(([a], [b]) => a - b).map(([, row]) => row);
}

function rowOf(texts: string[], scope: 'row' | 'col'): HTMLTableRowElement {
  const row = document.createElement('tr');
  row.append(
    ...texts.map((textContent, i) =>
      scope === 'col' || !i
        ? Object.assign(document.createElement('th'), { textContent, scope })
        : Object.assign(document.createElement('td'), { textContent })
    )
  );
  return row;
}

function named(cell: Cell): string {
  return typeof cell === 'number' ? cell.toLocaleString('en') : (cell ?? '–');
}

function shown(cell: Cell): string {
  return typeof cell === 'number' ? format(cell, 4, true) : cell || '–';
}
