/** Loss, accuracy and every other recorded series: one small chart each, smoothed and on a logarithmic axis when wanted. */
import type { Series } from '../contract';
import { Chart } from '../kit/chart';
import { INKS } from '../kit/colour';
import { alike, put, say } from '../kit/keep';
import { type Line, smoothed } from '../kit/lines';
import { format } from '../kit/text';
import { button, Section } from '../kit/section';
import { byStep, type Figures, NumberTable } from '../kit/table';
import { defineView } from '../kit/view';
import type { Snapshot } from '../store';

interface Cell {
  node: HTMLElement;
  value: HTMLElement;
  chart: Chart;
  log: HTMLButtonElement;
  /** The smoothing and the series that the chart shows. */
  drawn: unknown[];
}

export class LossSection extends Section {
  constructor() {
    super('Training', 'wb-Loss');
    this._charts.className = 'wb-Loss-cells';
    this.body.append(this._charts, this._table.node);
    this._smooth.type = 'range';
    [this._smooth.min, this._smooth.max, this._smooth.step, this._smooth.value] = ['0', '0.99', '0.01', '0'];
    this._smooth.setAttribute('aria-label', 'Smoothing');
    this._smooth.title = 'Smoothing: the average of a line with what came before; the values stay behind it';
    this._smooth.addEventListener('input', () => this._draw());
    const label = document.createElement('label');
    label.className = 'wb-Loss-smooth';
    label.append('Smooth', this._smooth);
    this.tools.append(label, this._table.button);
  }

  show(snapshot: Snapshot): void {
    this._series = snapshot.series?.series ?? [];
    put(this._table.button, { hidden: !this._series.length });
    this.note(
      this._series.length
        ? ''
        : 'Nothing recorded yet. A loss records itself in each step that fetches it, if it is called loss or given to minimize, as the trainers do; anything else by wb.journal.point("loss", step, value).'
    );
    this._draw();
  }

  restyle(): void {
    this._cells.forEach(cell => cell.chart.draw());
  }

  dispose(): void {
    this._cells.forEach(cell => cell.chart.dispose());
  }

  private _draw(): void {
    const shown = this._series.filter(one => !this._base(one));
    const names = shown.map(one => one.name);
    if (names.join('\n') !== [...this._cells.keys()].join('\n')) {
      this._arrange();
    }
    const weight = Number(this._smooth.value);
    shown.forEach((one, i) => {
      const cell = this._cells.get(one.name)!;
      const tests = this._series.filter(test => this._base(test) === one.name);
      const drawing = [weight, one, ...tests];
      if (alike(drawing, cell.drawn)) {
        return;
      }
      cell.drawn = drawing;
      const last = one.values[one.values.length - 1];
      const text = `${format(last, 4)}${one.unit ? ` ${one.unit}` : ''}`;
      say(cell.value, text);
      const line = { name: one.name, color: INKS[i % INKS.length], xs: one.steps, ys: one.values };
      const drawn = weight ? { ...line, name: `${one.name}, smoothed`, ys: smoothed(one.values, weight) } : line;
      cell.chart.set([drawn, ...tests.map(marksOf)], `Latest ${text}`, [], weight ? [line] : []);
      const positive = Array.prototype.some.call(one.values, (value: number) => value > 0);
      put(cell.log, { disabled: !positive });
    });
  }

  private _arrange(): void {
    this.dispose();
    this._cells.clear();
    for (const one of this._series.filter(one => !this._base(one))) {
      this._cells.set(one.name, this._cell(one));
    }
    this._charts.replaceChildren(...[...this._cells.values()].map(cell => cell.node));
  }

  /** The series beside which this one is drawn: "accuracy" of "accuracy (test)", '' for those with a chart of their own. */
  private _base(one: Series): string {
    const base = one.name.replace(/ \(test\)$/, '');
    return base !== one.name && this._series.some(other => other.name === base) ? base : '';
  }

  private _cell(one: Series): Cell {
    const node = document.createElement('div');
    const head = document.createElement('div');
    const value = document.createElement('output');
    value.setAttribute('aria-live', 'off'); // it changes with every step
    const chart = new Chart({
      label: `${one.name}${one.unit ? ` in ${one.unit}` : ''} by step`,
      across: 'step',
      unit: one.unit,
      fromZero: false,
      height: 140
    });
    const log = button('log', `Logarithmic axis for ${one.name}`, () => {
      chart.log = !chart.log;
      log.setAttribute('aria-pressed', String(chart.log));
    });
    log.className = 'wb-mod-toggle';
    log.setAttribute('aria-pressed', 'false');
    head.className = 'wb-Loss-head';
    head.append(Object.assign(document.createElement('b'), { textContent: one.name }), log, value);
    node.append(head, chart.node);
    return { node, value, chart, log, drawn: [] };
  }

  private _series: Series[] = [];
  private _charts = document.createElement('div');
  private _table = new NumberTable(() => figuresOf(this._series));
  private _smooth = document.createElement('input');
  private _cells = new Map<string, Cell>();
}

function figuresOf(series: Series[]): Figures {
  return {
    caption: 'Recorded values, by step',
    head: ['Step', ...series.map(({ name, unit }) => (unit ? `${name}, ${unit}` : name))],
    rows: byStep(series.map(({ steps, values }) => ({ xs: steps, ys: values })))
  };
}

/** What was measured on other data is never joined with the course of training: marks of another colour. */
function marksOf(test: Series): Line {
  return { name: test.name, color: INKS[1], xs: test.steps, ys: test.values, marks: true };
}

defineView({ id: 'series', title: 'Training', topic: 'series', wide: false, make: () => new LossSection() });
