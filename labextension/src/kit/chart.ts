/** A line chart, drawn by uPlot: axes with units, gaps cut, a logarithmic scale, hover and arrow keys, colours of the theme. */
import uPlot from 'uplot';

import type { Cut } from '../contract';
import { themeOf } from './colour';
import { mark } from './keep';
import { bounds, CutAxis, FAINT, type Line, mapped, nearest, type Stroke, strokesOf } from './lines';
import { format, labels } from './text';
import { ticks } from './ticks';
import { speak } from './voice';

export interface ChartOptions {
  label: string;
  /** What runs from left to right: steps, or seconds since the recording began. */
  across: 'step' | 'seconds';
  unit: string;
  /** Times start at zero and clip outliers; other series use their own range. */
  fromZero: boolean;
  height: number;
}

/** Pixels at the right, at least. */
const MARGIN = 12;
const SAID = { step: 'step', seconds: 's since the recording began' };

export class Chart {
  readonly node = document.createElement('figure');

  constructor(private _options: ChartOptions) {
    this.node.className = 'wb-Chart';
    this.node.tabIndex = 0;
    this.node.setAttribute('role', 'img');
    this.node.style.minHeight = `${_options.height}px`;
    this._tip.className = 'wb-Chart-tip';
    this._tip.hidden = true;
    this.node.append(this._tip);
    this.node.addEventListener('keydown', event => this._key(event));
    this.node.addEventListener('blur', () => this._tell(null));
    this._sizes = new ResizeObserver(() => this._resize());
    this._sizes.observe(this.node);
  }

  /** Show these lines; `faint` ones lie behind them and are not read off. */
  set(lines: Line[], summary: string, cuts: Cut[] = [], faint: Line[] = []): void {
    mark(this.node, 'aria-label', `${this._options.label}. ${summary}`);
    [this._lines, this._cuts] = [lines, cuts];
    this._strokes = [
      ...faint.map(line => ({ ...line, color: line.color + FAINT, width: 1, quiet: true })),
      ...lines.flatMap(line => strokesOf(line, cuts))
    ];
    this._later();
  }

  /** A logarithmic axis; values that are not positive are not drawn on it. */
  set log(on: boolean) {
    if (on !== this._log) {
      this._log = on;
      this._form = '';
      this._later();
    }
  }

  get log(): boolean {
    return this._log;
  }

  /** The theme changed. */
  draw(): void {
    this._plot?.redraw();
  }

  dispose(): void {
    cancelAnimationFrame(this._due);
    this._sizes.disconnect();
    this._plot?.destroy();
  }

  private _later(): void {
    this._due ||= requestAnimationFrame(() => {
      this._due = 0;
      this._drawNow();
    });
  }

  private _drawNow(): void {
    const width = this.node.clientWidth;
    if (!width) {
      return;
    }
    const data = this._aligned();
    const form = this._strokes.map(({ name, color, quiet, xs }) => `${name} ${color} ${quiet} ${xs.length < 3}`).join('\n');
    if (form !== this._form || !this._plot) {
      this._form = form;
      this._plot?.destroy();
      this._plot = new uPlot(this._described(width), data, (plot, ready) => {
        this.node.prepend(plot.root);
        ready();
      });
    } else {
      this._plot.setData(data);
    }
  }

  /** Columns over one axis: what a line does not have is left out of it, what is no number interrupts it. */
  private _aligned(): uPlot.AlignedData {
    let [first, last] = [Infinity, -Infinity];
    for (const { xs } of this._strokes) {
      first = Math.min(first, xs.length ? xs[0] : Infinity);
      last = Math.max(last, xs.length ? xs[xs.length - 1] : -Infinity);
    }
    this._axis = new CutAxis(this._cuts, first, last);
    this._bounds = bounds(this._lines, this._options.fromZero, this._log);
    const { breaks } = this._axis;
    const positive = (y: number) => Number.isFinite(y) && (!this._log || y > 0);
    const tables = this._strokes.map(({ xs, ys }) => {
      const places = this._axis.places(xs);
      const values = mapped(ys, y => (positive(y) ? y : null));
      const ordered = places.every((x, i) => !i || places[i - 1] <= x);
      const inside = places.length > 1 ? breaks : [];
      return (ordered && !inside.length ? [places, values] : interrupted(places, values, inside)) as uPlot.AlignedData;
    });
    return tables.length ? uPlot.join(tables) : [[]];
  }

  private _described(width: number): uPlot.Options {
    const theme = () => themeOf(this.node);
    const ink = () => theme().ink;
    const grid = { stroke: () => theme().panel, width: 1 };
    const font = `11px ${theme().font}`;
    const { across, unit, height } = this._options;
    return {
      width,
      height,
      legend: { show: false },
      padding: [8, plot => roomFor(labels(this._marks(plot.width)), text => widthOf(plot.ctx, font, text)), 0, 0],
      cursor: { y: false, drag: { x: false, y: false }, points: { size: 7 } },
      scales: {
        x: { time: false, range: (_, low, high) => [low, high > low ? high : low + 1] },
        y: { distr: this._log ? 3 : 1, range: () => this._bounds }
      },
      axes: [
        {
          stroke: ink,
          font,
          grid: { show: false },
          ticks: { show: false },
          size: 26,
          label: SAID[across],
          labelFont: font,
          labelSize: 16,
          splits: plot => this._marks(plot.width).map(time => this._axis.place(time)),
          values: plot => labels(this._marks(plot.width))
        },
        {
          stroke: ink,
          font,
          grid,
          ticks: { show: false },
          size: (_, values) => Math.max(44, ...(values ?? []).map(text => 7 * String(text ?? '').length + 8)),
          ...(this._log ? {} : { splits: (_: uPlot, __: number, low: number, high: number) => ticks(low, high, height / 36) }),
          values: (_, values) => named(values, unit, this._log)
        }
      ],
      series: [
        {},
        ...this._strokes.map(stroke => ({
          stroke: stroke.color,
          width: stroke.width,
          ...(stroke.marks ? { paths: () => null } : {}),
          points: { show: stroke.marks || stroke.xs.length < 3, size: stroke.marks ? 7 : 5, fill: stroke.color }
        }))
      ],
      hooks: { draw: [plot => this._mark(plot)], setCursor: [plot => this._tell(plot)] }
    };
  }

  private _marks(width: number): number[] {
    const found = this._axis.ticks(Math.max(2, Math.floor(width / 90)));
    return this._options.across === 'step' ? found.filter(Number.isInteger) : found;
  }

  /** Cuts are dashed lines; what lies above the scale is a triangle at its edge. */
  private _mark(plot: uPlot): void {
    const pen = plot.ctx;
    const { top, height } = plot.bbox;
    const ratio = uPlot.pxRatio;
    pen.save();
    pen.strokeStyle = themeOf(this.node).soft;
    pen.lineWidth = ratio;
    pen.setLineDash([3 * ratio, 3 * ratio]);
    for (const at of this._axis.breaks) {
      const x = Math.round(plot.valToPos(at, 'x', true));
      pen.beginPath();
      pen.moveTo(x, top);
      pen.lineTo(x, top + height);
      pen.stroke();
    }
    pen.setLineDash([]);
    for (const { xs, ys, color } of this._lines) {
      pen.fillStyle = color + FAINT;
      for (let i = 0; i < xs.length; i++) {
        ys[i] > this._bounds[1] && triangle(pen, plot.valToPos(this._axis.place(xs[i]), 'x', true), top, ratio);
      }
    }
    pen.restore();
  }

  private _key(event: KeyboardEvent): void {
    const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const xs = this._lines[0]?.xs;
    if (!move || !xs?.length || !this._plot) {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
    const now = this._at === null ? xs.length - 1 - Math.max(0, move) : nearest(xs, this._at);
    const next = xs[Math.min(xs.length - 1, Math.max(0, now + move))];
    this._plot.setCursor({ left: this._plot.valToPos(this._axis.place(next), 'x'), top: 10 });
    speak(this.node, Array.from(this._tip.children, row => row.textContent).join(', '));
  }

  /** What the lines are at the cursor. */
  private _tell(plot: uPlot | null): void {
    const index = plot?.cursor.idx ?? null;
    const first = this._lines.find(line => line.xs.length);
    this._tip.hidden = index === null || !first;
    if (index === null || !plot || !first) {
      this._at = null;
      return;
    }
    const place = plot.data[0][index];
    const near = nearest(this._axis.places(first.xs), place);
    this._at = first.xs[near];
    const head = this._options.across === 'step' ? `step ${format(this._at, 9)}` : `at ${this._at.toFixed(2)} s`;
    const rows = this._lines.map(line => {
      const value = format(line.ys[nearest(line.xs, this._at!)], 4);
      const row = document.createElement('div');
      const key = document.createElement('i');
      key.style.background = line.color;
      row.append(key, `${line.name}: ${value} ${this._options.unit}`.trim());
      return row;
    });
    this._tip.replaceChildren(Object.assign(document.createElement('b'), { textContent: head }), ...rows);
    const x = (plot.cursor.left ?? 0) + plot.over.offsetLeft;
    const right = x > this.node.clientWidth / 2;
    this._tip.style.left = right ? 'auto' : `${x + 12}px`;
    this._tip.style.right = right ? `${this.node.clientWidth - x + 12}px` : 'auto';
  }

  private _resize(): void {
    if (this._plot && this.node.clientWidth) {
      this._plot.setSize({ width: this.node.clientWidth, height: this._options.height });
    } else {
      this._later();
    }
  }

  private _tip = document.createElement('div');
  private _lines: Line[] = [];
  private _strokes: Stroke[] = [];
  private _cuts: Cut[] = [];
  private _axis = new CutAxis([], 0, 1);
  private _bounds: [number, number] = [0, 1];
  private _plot: uPlot | null = null;
  private _form = '';
  private _log = false;
  private _at: number | null = null;
  private _due = 0;
  private _sizes: ResizeObserver;
}

/** The points of a line from left to right, with nothing at each of its breaks. */
function interrupted(xs: number[], ys: (number | null)[], breaks: number[]): [number[], (number | null)[]] {
  const points = [...xs.map((x, i) => [x, ys[i]] as const), ...breaks.map(at => [at, null] as const)];
  points.sort((a, b) => a[0] - b[0]);
  return [points.map(([x]) => x), points.map(([, y]) => y)];
}

/** The topmost mark says the unit; a logarithmic axis names powers of ten only. */
function named(values: (number | null)[], unit: string, log: boolean): string[] {
  const shown = values.filter((value): value is number => value !== null);
  const kept = log ? shown.filter(value => Math.abs(Math.log10(value) - Math.round(Math.log10(value))) < 1e-6) : shown;
  const some = kept.length > 1 ? kept : shown;
  const texts = new Map(labels(some).map((text, i) => [some[i], i === some.length - 1 ? `${text} ${unit}`.trim() : text]));
  return values.map(value => (value === null ? '' : (texts.get(value) ?? '')));
}

/** Pixels at the right of a chart that half of its last label needs, wherever in the chart it stands. */
export function roomFor(texts: string[], measure: (text: string) => number): number {
  return Math.max(MARGIN, Math.ceil(measure(texts[texts.length - 1] ?? '') / 2) + 1);
}

function widthOf(pen: CanvasRenderingContext2D, font: string, text: string): number {
  pen.save();
  pen.font = font;
  const { width } = pen.measureText(text);
  pen.restore();
  return width;
}

function triangle(pen: CanvasRenderingContext2D, x: number, y: number, ratio: number): void {
  pen.beginPath();
  pen.moveTo(x, y);
  pen.lineTo(x + 4 * ratio, y + 6 * ratio);
  pen.lineTo(x - 4 * ratio, y + 6 * ratio);
  pen.fill();
}
