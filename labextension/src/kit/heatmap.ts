/** Many tasks over many steps: a row each, the stronger the longer a task worked beside its like; readable at any number of tasks. */
import { Canvas, type Pen } from './canvas';
import { axisOf, type Cells, cellsOf, type Course } from './cells';
import { mix, type Theme, WARM } from './colour';
import { put } from './keep';
import { clipped, duration } from './text';
import { speak } from './voice';

export interface HeatRow extends Course {
  /** Of the task, beside its name. */
  color: string;
  marked: boolean;
  lost: boolean;
}

const SIDE = 84; // pixels for the names
const FOOT = 30; // for the axis
const TALLEST = 15;
const LOWEST = 5;
const ROOM = 300; // pixels for all rows together
const NAMED = 10; // height of a row from which each has its name
const COLUMN = 4;

export class HeatMap {
  readonly node = document.createElement('figure');

  constructor(private _label: string) {
    this.node.className = 'wb-Chart wb-Heat';
    this._canvas.node.tabIndex = 0;
    this._canvas.node.setAttribute('role', 'img');
    this._tip.className = 'wb-Chart-tip';
    this._tip.hidden = true;
    this.node.append(this._canvas.node, this._tip);
    const canvas = this._canvas.node;
    canvas.addEventListener('pointermove', event => this._point(event.offsetX, event.offsetY));
    canvas.addEventListener('pointerleave', () => this._choose(-1, -1));
    canvas.addEventListener('blur', () => this._choose(-1, -1));
    canvas.addEventListener('keydown', event => this._key(event));
  }

  set(rows: HeatRow[], summary: string): void {
    this._rows = rows;
    this._tall = Math.max(LOWEST, Math.min(TALLEST, Math.floor(ROOM / Math.max(1, rows.length))));
    this._canvas.node.style.height = `${this._tall * rows.length + FOOT}px`;
    this._canvas.node.setAttribute('aria-label', `${this._label}. ${summary}`);
    this._count();
    this._canvas.draw();
  }

  restyle(): void {
    this._canvas.restyle();
  }

  dispose(): void {
    this._canvas.dispose();
  }

  private _count(): void {
    this._cells = cellsOf(this._rows, Math.max(1, Math.floor((this._canvas.width - SIDE - 8) / COLUMN)));
  }

  private get _wide(): number {
    return (this._canvas.width - SIDE - 8) / Math.max(1, this._cells.columns.length);
  }

  private _paint = (pen: Pen, theme: Theme): void => {
    const { rows, columns, tops } = this._cells;
    const wide = this._wide;
    rows.forEach((row, i) => {
      const top = tops.get(this._rows[i].group) ?? 1;
      row.forEach((value, at) => {
        if (Number.isFinite(value)) {
          pen.fillStyle = mix(WARM, theme.paper, 0.06 + 0.94 * Math.min(1, value / top));
          pen.fillRect(SIDE + at * wide, i * this._tall, wide + 0.5, this._tall - (this._tall > 7 ? 1 : 0));
        }
      });
    });
    this._names(pen, theme);
    this._axis(pen, theme, columns);
    if (this._row >= 0) {
      pen.strokeStyle = theme.brand;
      pen.lineWidth = 2;
      pen.strokeRect(SIDE + this._column * wide, this._row * this._tall, Math.max(3, wide), this._tall);
    }
  };

  private _names(pen: Pen, theme: Theme): void {
    const every = Math.max(1, Math.ceil(NAMED / this._tall));
    const said = this._rows.map((row, i) => row.marked || row.lost || this._cells.strong.has(i));
    const crowded = (i: number) => said.some((one, k) => one && Math.abs(k - i) < every); // by a name that must be there
    pen.textBaseline = 'middle';
    pen.textAlign = 'left';
    this._rows.forEach((row, i) => {
      const middle = (i + 0.5) * this._tall;
      pen.fillStyle = row.color;
      pen.fillRect(0, i * this._tall, 4, this._tall);
      if (said[i] || (i % every === 0 && !crowded(i))) {
        pen.font = `${row.marked ? 700 : 400} ${Math.min(11, Math.max(9, this._tall))}px ${theme.font}`;
        pen.fillStyle = row.lost ? theme.error : theme.ink;
        const words = `${row.marked ? '▲ ' : ''}${row.name}${row.lost ? ' lost' : ''}`;
        pen.fillText(
          clipped(words, SIDE - 14, text => pen.measureText(text).width),
          8,
          middle
        );
      }
    });
  }

  /** Recorded steps stand side by side: the axis names those that are there. */
  private _axis(pen: Pen, theme: Theme, columns: [number, number][]): void {
    const y = this._tall * this._rows.length + 8;
    pen.font = `11px ${theme.font}`;
    pen.fillStyle = theme.ink;
    pen.textAlign = 'left';
    const measure = (text: string) => pen.measureText(text).width;
    const names = columns.map(([first]) => first.toLocaleString('en'));
    for (const [text, x] of axisOf(names, this._wide, measure)) {
      pen.fillText(text, SIDE + x, y);
    }
    pen.textAlign = 'right';
    const strongest = `full colour: ${[...this._cells.tops].map(([group, top]) => `${group} ${duration(top)}`).join(', ')}`;
    const room = this._canvas.width - 8;
    const whole = `recorded step · ${strongest}`;
    pen.fillText(measure(whole) <= room ? whole : clipped(strongest, room, measure), this._canvas.width - 4, y + 14);
  }

  private _point(x: number, y: number): void {
    const [row, column] = [Math.floor(y / this._tall), Math.floor((x - SIDE) / this._wide)];
    const named = x < SIDE ? this._rows[row] : undefined; // there is little room for it
    put(this._canvas.node, { title: named?.name ?? '' });
    const inside = row < this._rows.length && column >= 0 && column < this._cells.columns.length;
    this._choose(inside ? row : -1, inside ? column : -1);
  }

  private _key(event: KeyboardEvent): void {
    const move = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    const columns = this._cells.columns.length;
    if (move && columns > 0) {
      const within = (value: number, count: number) => Math.min(count - 1, Math.max(0, value));
      this._row < 0
        ? this._choose(0, columns - 1)
        : this._choose(within(this._row + move[0], this._rows.length), within(this._column + move[1], columns));
      speak(this.node, this._tip.textContent!);
      event.preventDefault();
      event.stopPropagation();
    }
  }

  private _choose(row: number, column: number): void {
    if (row === this._row && column === this._column) {
      return;
    }
    [this._row, this._column] = [row, column];
    this._tip.hidden = row < 0;
    if (row >= 0) {
      const [from, to] = this._cells.columns[column];
      const value = this._cells.rows[row][column];
      const when = from === to ? `step ${from}` : `steps ${from}–${to}, mean`;
      const what = Number.isFinite(value) ? duration(value) : 'not recorded';
      this._tip.textContent = `${this._rows[row].name}, ${when}: ${what}`;
      const x = SIDE + column * this._wide;
      const right = x > this._canvas.width / 2;
      this._tip.style.left = right ? 'auto' : `${x + 14}px`;
      this._tip.style.right = right ? `${this._canvas.width - x + 14}px` : 'auto';
      this._tip.style.top = `${Math.min((row + 1) * this._tall + 4, this._canvas.height - 34)}px`;
    }
    this._canvas.draw();
  }

  private _canvas: Canvas = new Canvas(this._paint, () => this._count());
  private _tip = document.createElement('div');
  private _rows: HeatRow[] = [];
  private _cells: Cells = { rows: [], columns: [], tops: new Map(), strong: new Set() };
  private _tall = TALLEST;
  private _row = -1;
  private _column = -1;
}
