/** Loss, accuracy and every other recorded series: one small chart each. */
import { Chart } from '../chart';
import { Series } from '../contract';
import { INKS } from '../kit/colour';
import { format } from '../kit/text';
import { Section } from '../kit/section';
import { defineView } from '../kit/view';
import type { Snapshot } from '../store';

interface Cell {
  node: HTMLElement;
  value: HTMLElement;
  chart: Chart;
}

export class LossSection extends Section {
  constructor() {
    super('Training', 'wb-Loss');
    this.body.classList.add('wb-Loss-cells');
  }

  show(snapshot: Snapshot): void {
    const view = snapshot.series;
    const series = view?.series ?? [];
    this.note(
      series.length
        ? ''
        : 'Nothing recorded yet. The trainers of workbench record loss and accuracy; a loop of your own does it by wb.journal.point("loss", step, value).'
    );
    const names = series.map(one => one.name);
    if (names.join('\n') !== [...this._cells.keys()].join('\n')) {
      this._arrange(series);
    }
    series.forEach((one, i) => {
      const cell = this._cells.get(one.name)!;
      const last = one.values[one.values.length - 1];
      cell.value.textContent = `${format(last, 4)}${one.unit ? ` ${one.unit}` : ''}`;
      cell.chart.set(
        [{ name: one.name, color: INKS[i % INKS.length], xs: one.steps, ys: one.values }],
        `Latest ${cell.value.textContent}`
      );
    });
  }

  restyle(): void {
    this._cells.forEach(cell => cell.chart.draw());
  }

  dispose(): void {
    this._cells.forEach(cell => cell.chart.dispose());
  }

  private _arrange(series: Series[]): void {
    this.dispose();
    this._cells.clear();
    for (const one of series) {
      const node = document.createElement('div');
      const head = document.createElement('div');
      const value = document.createElement('output');
      head.className = 'wb-Loss-head';
      head.append(Object.assign(document.createElement('b'), { textContent: one.name }), value);
      const chart = new Chart({
        label: `${one.name}${one.unit ? ` in ${one.unit}` : ''} by step`,
        across: 'step',
        unit: one.unit,
        fromZero: false,
        height: 130
      });
      node.append(head, chart.node);
      this._cells.set(one.name, { node, value, chart });
    }
    this.body.replaceChildren(...[...this._cells.values()].map(cell => cell.node));
  }

  private _cells = new Map<string, Cell>();
}

defineView({ id: 'series', title: 'Training', topic: 'series', wide: false, make: () => new LossSection() });
