/** A small canvas line chart: axes with units, hover and arrow keys, colours of the theme. */
import { format, labels } from './kit/text';

export interface Line {
  name: string;
  color: string;
  xs: ArrayLike<number>;
  ys: ArrayLike<number>;
}

export interface ChartOptions {
  label: string;
  /** What runs from left to right: steps, or seconds since the recording began. */
  across: 'step' | 'seconds';
  unit: string;
  /** Times start at zero and clip outliers; other series use their own range. */
  fromZero: boolean;
  height: number;
}

interface Mark {
  value: number;
  text: string;
}

const MARGIN = { right: 10, top: 8, bottom: 36 };
const LEFT = 46; // room for the labels of the vertical axis; more where they are longer

/** From so many points a line gets a running median. */
export const CROWDED = 60;

export class Chart {
  readonly node = document.createElement('figure');

  constructor(private _options: ChartOptions) {
    this.node.className = 'wb-Chart';
    this._canvas.tabIndex = 0;
    this._canvas.setAttribute('role', 'img');
    this._canvas.style.height = `${_options.height}px`;
    this._tip.className = 'wb-Chart-tip';
    this._tip.setAttribute('role', 'status');
    this._tip.hidden = true;
    this.node.append(this._canvas, this._tip);
    this._canvas.addEventListener('pointermove', event => this._point(event.offsetX));
    this._canvas.addEventListener('pointerleave', () => this._select(null));
    this._canvas.addEventListener('blur', () => this._select(null));
    this._canvas.addEventListener('keydown', event => this._key(event));
    this._observer = new ResizeObserver(() => this.draw());
    this._observer.observe(this._canvas);
  }

  set(lines: Line[], summary: string): void {
    this._lines = lines;
    this._canvas.setAttribute('aria-label', `${this._options.label}. ${summary}`);
    this.draw();
  }

  dispose(): void {
    this._observer.disconnect();
  }

  draw(): void {
    const { clientWidth: width, clientHeight: height } = this._canvas;
    if (!width || !height) {
      return;
    }
    const ratio = window.devicePixelRatio || 1;
    this._canvas.width = Math.round(width * ratio);
    this._canvas.height = Math.round(height * ratio);
    const pen = this._canvas.getContext('2d')!;
    pen.scale(ratio, ratio);
    const style = getComputedStyle(this.node);
    pen.font = `11px ${style.fontFamily}`;
    this._measure();
    const marks = this._marks(height);
    this._left = Math.max(LEFT, ...marks.map(mark => pen.measureText(mark.text).width + 8));
    this._scale(width, height);
    this._drawAxes(pen, style, width, height, marks);
    for (const line of this._lines) {
      this._drawLine(pen, line);
    }
    this._drawCursor(pen, style, height);
  }

  private _measure(): void {
    let [x0, x1, y0, y1] = [Infinity, -Infinity, Infinity, -Infinity];
    for (const { xs, ys } of this._lines) {
      for (let i = 0; i < xs.length; i++) {
        x0 = Math.min(x0, xs[i]);
        x1 = Math.max(x1, xs[i]);
        if (Number.isFinite(ys[i])) {
          y0 = Math.min(y0, ys[i]);
          y1 = Math.max(y1, ys[i]);
        }
      }
    }
    if (!Number.isFinite(y0)) {
      [y0, y1] = [0, 1];
    }
    if (!Number.isFinite(x0)) {
      [x0, x1] = [0, 1];
    }
    if (this._options.fromZero) {
      y0 = 0;
      y1 = Math.min(y1, 1.6 * this._typical()) || 1;
    }
    const pad = y1 > y0 ? 0.06 * (y1 - y0) : Math.abs(y1) * 0.1 || 1;
    this._range = { x0, x1: x1 > x0 ? x1 : x0 + 1, y0: this._options.fromZero ? 0 : y0 - pad, y1: y1 + pad };
  }

  /** Where the horizontal lines are, and what stands beside them; the topmost says the unit. */
  private _marks(height: number): Mark[] {
    const { y0, y1 } = this._range;
    const values = ticks(y0, y1, Math.max(2, Math.floor((height - MARGIN.bottom - MARGIN.top) / 28)));
    return labels(values).map((text, i) => ({
      value: values[i],
      text: i === values.length - 1 ? `${text} ${this._options.unit}`.trim() : text
    }));
  }

  private _scale(width: number, height: number): void {
    const plot = { width: width - this._left - MARGIN.right, height: height - MARGIN.top - MARGIN.bottom };
    const { x0, x1: right, y0: low, y1: high } = this._range;
    this._x = x => this._left + ((x - x0) / (right - x0)) * plot.width;
    this._y = y => MARGIN.top + plot.height - ((y - low) / (high - low)) * plot.height;
  }

  /** The 95th percentile of all values: one slow first step must not flatten the rest. */
  private _typical(): number {
    const all: number[] = [];
    for (const { ys } of this._lines) {
      for (let i = 0; i < ys.length; i++) {
        all.push(ys[i]);
      }
    }
    all.sort((a, b) => a - b);
    return all[Math.floor(0.95 * (all.length - 1))] ?? 1;
  }

  private _drawAxes(
    pen: CanvasRenderingContext2D,
    style: CSSStyleDeclaration,
    width: number,
    height: number,
    marks: Mark[]
  ): void {
    const text = style.getPropertyValue('--jp-ui-font-color1').trim() || style.color;
    const grid = style.getPropertyValue('--jp-border-color2').trim() || 'gray';
    const bottom = height - MARGIN.bottom;
    const { x0, x1 } = this._range;
    pen.lineWidth = 1;
    pen.strokeStyle = grid;
    pen.fillStyle = text;
    pen.textAlign = 'right';
    pen.textBaseline = 'middle';
    for (const mark of marks) {
      const y = Math.round(this._y(mark.value)) + 0.5;
      pen.globalAlpha = 0.6;
      pen.beginPath();
      pen.moveTo(this._left, y);
      pen.lineTo(width - MARGIN.right, y);
      pen.stroke();
      pen.globalAlpha = 1;
      pen.fillText(mark.text, this._left - 6, y);
    }
    pen.textBaseline = 'top';
    pen.textAlign = 'center';
    const right = width - MARGIN.right;
    const name = this._options.across;
    const places = ticks(x0, x1, Math.max(2, Math.floor(width / 90))).filter(
      tick => name === 'seconds' || Number.isInteger(tick)
    );
    labels(places).forEach((label, i) => {
      pen.fillText(label, Math.min(this._x(places[i]), width - pen.measureText(label).width / 2), bottom + 6);
    });
    pen.textAlign = 'right';
    pen.fillText(name, right, bottom + 21);
  }

  /** Many points are noise to the eye: they stay as a thin line, and their running median leads. */
  private _drawLine(pen: CanvasRenderingContext2D, line: Line): void {
    const { xs, ys, color } = line;
    const trend = running(xs, ys);
    const top = this._range.y1;
    pen.strokeStyle = pen.fillStyle = color;
    pen.lineJoin = 'round';
    pen.globalAlpha = trend ? 0.22 : 1;
    this._stroke(pen, xs, ys, trend ? 1 : 1.5);
    for (let i = 0; i < xs.length; i++) {
      if (ys[i] > top) {
        arrow(pen, this._x(xs[i]), MARGIN.top);
      }
    }
    pen.globalAlpha = 1;
    if (trend) {
      this._stroke(pen, trend.xs, trend.ys, 2);
    }
    if (xs.length === 1) {
      disc(pen, this._x(xs[0]), this._y(Math.min(ys[0], top)), 2.5);
    }
  }

  private _stroke(pen: CanvasRenderingContext2D, xs: ArrayLike<number>, ys: ArrayLike<number>, width: number): void {
    pen.lineWidth = width;
    pen.beginPath();
    let gap = true;
    for (let i = 0; i < xs.length; i++) {
      if (Number.isFinite(ys[i])) {
        const [x, y] = [this._x(xs[i]), this._y(Math.min(ys[i], this._range.y1))];
        gap ? pen.moveTo(x, y) : pen.lineTo(x, y);
      }
      gap = !Number.isFinite(ys[i]);
    }
    pen.stroke();
  }

  private _drawCursor(pen: CanvasRenderingContext2D, style: CSSStyleDeclaration, height: number): void {
    if (this._cursor === null) {
      return;
    }
    const x = Math.round(this._x(this._cursor)) + 0.5;
    pen.strokeStyle = style.getPropertyValue('--jp-ui-font-color2').trim() || 'gray';
    pen.lineWidth = 1;
    pen.beginPath();
    pen.moveTo(x, MARGIN.top);
    pen.lineTo(x, height - MARGIN.bottom);
    pen.stroke();
    for (const { xs, ys, color } of this._lines) {
      const i = nearest(xs, this._cursor);
      if (i >= 0 && Number.isFinite(ys[i])) {
        pen.fillStyle = color;
        disc(pen, this._x(xs[i]), this._y(Math.min(ys[i], this._range.y1)), 3.5);
      }
    }
  }

  private _point(offset: number): void {
    const { x0, x1 } = this._range;
    const share = (offset - this._left) / (this._canvas.clientWidth - this._left - MARGIN.right);
    this._select(share < -0.02 || share > 1.02 ? null : x0 + share * (x1 - x0));
  }

  private _key(event: KeyboardEvent): void {
    const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const xs = this._lines[0]?.xs;
    if (!move || !xs?.length) {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
    const now = this._cursor === null ? xs.length - 1 - Math.max(0, move) : nearest(xs, this._cursor);
    this._select(xs[Math.min(xs.length - 1, Math.max(0, now + move))]);
  }

  private _select(x: number | null): void {
    if (x === null) {
      this._cursor = null;
    } else {
      const xs = this._lines[0]?.xs ?? [];
      const i = nearest(xs, x);
      this._cursor = i < 0 ? null : xs[i];
    }
    this.draw();
    this._explain();
  }

  private _explain(): void {
    this._tip.hidden = this._cursor === null;
    if (this._cursor === null) {
      return;
    }
    const cursor = this._cursor;
    const rows = this._lines.map(({ name, color, xs, ys }) => {
      const i = nearest(xs, cursor);
      const row = document.createElement('div');
      const key = document.createElement('i');
      key.style.background = color;
      row.append(
        key,
        `${name} `,
        Object.assign(document.createElement('b'), {
          textContent: i < 0 ? '–' : `${format(ys[i], 4)} ${this._options.unit}`
        })
      );
      return row;
    });
    this._tip.replaceChildren(
      Object.assign(document.createElement('div'), {
        textContent: this._options.across === 'step' ? `step ${format(cursor, 9)}` : `at ${cursor.toFixed(2)} s`
      }),
      ...rows
    );
    const x = this._x(cursor);
    const leftHalf = x < this._canvas.clientWidth / 2;
    this._tip.style.left = leftHalf ? `${x + 10}px` : '';
    this._tip.style.right = leftHalf ? '' : `${this._canvas.clientWidth - x + 10}px`;
  }

  private _canvas = document.createElement('canvas');
  private _tip = document.createElement('figcaption');
  private _lines: Line[] = [];
  private _left = LEFT;
  private _cursor: number | null = null;
  private _observer: ResizeObserver;
  private _range = { x0: 0, x1: 1, y0: 0, y1: 1 };
  private _x: (x: number) => number = x => x;
  private _y: (y: number) => number = y => y;
}

/** The running median of many points, at a hundred places; null when each point can be seen by itself. */
function running(xs: ArrayLike<number>, ys: ArrayLike<number>): { xs: number[]; ys: number[] } | null {
  if (xs.length < CROWDED) {
    return null;
  }
  const reach = Math.max(4, Math.round(xs.length / 40));
  const stride = Math.max(1, Math.floor(xs.length / 100));
  const trend = { xs: [] as number[], ys: [] as number[] };
  for (let i = 0; i < xs.length; i = i === xs.length - 1 ? xs.length : Math.min(i + stride, xs.length - 1)) {
    const near = Array.prototype.slice.call(ys, Math.max(0, i - reach), i + reach + 1).filter(Number.isFinite);
    near.sort((a: number, b: number) => a - b);
    trend.xs.push(xs[i]);
    trend.ys.push(near.length ? near[near.length >> 1] : NaN);
  }
  return trend;
}

/** Index of the value closest to `x` in an ascending list, -1 when it is empty. */
function nearest(xs: ArrayLike<number>, x: number): number {
  let [low, high] = [0, xs.length - 1];
  while (low < high) {
    const middle = (low + high) >> 1;
    xs[middle] < x ? (low = middle + 1) : (high = middle);
  }
  return low > 0 && x - xs[low - 1] < xs[low] - x ? low - 1 : Math.min(low, xs.length - 1);
}

/** Round numbers between two values, about `count` of them. */
export function ticks(low: number, high: number, count: number): number[] {
  const rough = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 5, 10].find(factor => factor * power >= rough) ?? 10);
  const first = Math.ceil(low / step);
  return Array.from({ length: Math.floor(high / step) - first + 1 }, (_, i) => Number(((first + i) * step).toPrecision(12)));
}

function disc(pen: CanvasRenderingContext2D, x: number, y: number, radius: number): void {
  pen.beginPath();
  pen.arc(x, y, radius, 0, 7);
  pen.fill();
}

/** A value above the scale. */
function arrow(pen: CanvasRenderingContext2D, x: number, y: number): void {
  pen.beginPath();
  pen.moveTo(x, y - 3);
  pen.lineTo(x + 4, y + 4);
  pen.lineTo(x - 4, y + 4);
  pen.fill();
}
