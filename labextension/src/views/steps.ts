/** The work of every task step by step: one line each, with median and 95th percentile. */
import { Chart, CROWDED } from '../chart';
import { duration, shortTask } from '../kit/text';
import { Section } from '../kit/section';
import { defineView } from '../kit/view';
import type { Snapshot } from '../store';

/** Tasks in the legend; more would push everything else off the screen. */
const LISTED = 12;

export class StepsSection extends Section {
  constructor() {
    super('Work per step', 'wb-Steps');
    this._legend.className = 'wb-Legend';
    this.body.append(this._chart.node, this._legend);
  }

  show(snapshot: Snapshot, lost: Set<string>): void {
    const view = snapshot.steps;
    const tasks = view?.tasks ?? [];
    this.note(tasks.length ? '' : 'No step has finished yet.');
    const lines = tasks.map(task => ({
      name: shortTask(task.task),
      color: task.device_color,
      xs: task.ends,
      ys: task.times
    }));
    const words = tasks.map(
      task => `${shortTask(task.task)}: median ${duration(task.median)}, 95th percentile ${duration(task.p95)}`
    );
    this._chart.set(lines, words.join('; '));
    const hint = document.createElement('li');
    hint.className = 'wb-Legend-hint';
    hint.textContent = 'thin: each step · bold: running median';
    hint.hidden = !tasks.some(task => task.steps.length >= CROWDED);
    const listed = tasks.slice(0, LISTED);
    const more = document.createElement('li');
    more.className = 'wb-Legend-hint';
    const unseen = tasks.length - listed.length + (view?.more ?? 0);
    more.textContent = `and ${unseen} more tasks`;
    more.hidden = !unseen;
    this._legend.replaceChildren(
      ...listed.map(task => {
        const entry = document.createElement('li');
        entry.title = task.task;
        entry.classList.toggle('wb-mod-lost', lost.has(task.task));
        const key = document.createElement('i');
        key.style.background = task.device_color;
        const numbers = [`median ${duration(task.median)},`, `95 % below ${duration(task.p95)}`].map(textContent =>
          Object.assign(document.createElement('span'), { textContent })
        );
        entry.append(key, Object.assign(document.createElement('b'), { textContent: shortTask(task.task) }), ...numbers);
        return entry;
      }),
      more,
      hint
    );
  }

  restyle(): void {
    this._chart.draw();
  }

  dispose(): void {
    this._chart.dispose();
  }

  private _chart = new Chart({
    label: 'Work per task and step in milliseconds',
    across: 'seconds',
    unit: 'ms',
    fromZero: true,
    height: 180
  });
  private _legend = document.createElement('ul');
}

defineView({ id: 'steps', title: 'Work per step', topic: 'steps', wide: false, make: () => new StepsSection() });
