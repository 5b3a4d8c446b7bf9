/** The work of every task step by step: one line each, with median and 95th percentile; a heat map where there are many. */
import type { TaskSteps } from '../contract';
import { Chart } from '../kit/chart';
import { HeatMap } from '../kit/heatmap';
import { CROWDED } from '../kit/lines';
import { arrange, Kept, put, say } from '../kit/keep';
import { duration, exactly, jobOf, shortTask } from '../kit/text';
import { Section } from '../kit/section';
import { byStep, type Figures, NumberTable } from '../kit/table';
import { type Context, defineView } from '../kit/view';
import type { Snapshot } from '../store';

/** Tasks up to which each has a line; more lines cannot be told apart. */
const LINES = 8;

/** Rows of the heat map: folded, and when all are asked for. */
const FOLDED = 32;
const ALL = 400;

export class StepsSection extends Section {
  constructor(private _context: Context) {
    super('Work per step', 'wb-Steps');
    this._legend.className = 'wb-Legend';
    this._rows.className = 'wb-Heat-rows';
    this._rows.append(this._map.node);
    this._more.className = 'wb-Stragglers-more';
    this._more.type = 'button';
    this._more.hidden = true;
    this._more.addEventListener('click', () => {
      this._all = !this._all;
      this._context.ask('steps', { tasks: this._all ? ALL : FOLDED });
    });
    this.tools.append(this._table.button);
    this.body.append(this._chart.node, this._rows, this._more, this._legend, this._table.node);
  }

  show(snapshot: Snapshot, lost: Set<string>): void {
    const view = snapshot.steps;
    const tasks = view?.tasks ?? [];
    this._tasks = tasks;
    put(this._table.button, { hidden: !tasks.length });
    this.note(tasks.length ? '' : 'No step has finished yet.');
    const many = tasks.length > LINES;
    put(this._chart.node, { hidden: many });
    put(this._rows, { hidden: !many });
    const words = `${tasks.map(numbersOf).join('; ')}${view?.cuts.length ? '. Where nothing stepped the lines are cut' : ''}`;
    const { alarm, subject } = snapshot.stragglers?.verdict ?? { alarm: false, subject: '' };
    const named = alarm ? subject.split('|') : [];
    if (many) {
      this._map.set(
        tasks.map(task => ({
          name: shortTask(task.task),
          group: jobOf(task.task),
          color: task.device_color,
          xs: task.steps,
          ys: task.times,
          marked: named.includes(task.task),
          lost: lost.has(task.task)
        })),
        words
      );
    } else {
      const lines = tasks.map(task => ({
        name: shortTask(task.task),
        color: task.device_color,
        xs: task.ends,
        ys: task.times
      }));
      this._chart.set(lines, words, view?.cuts ?? []);
    }
    const more = view?.more ?? 0;
    put(this._more, { hidden: !many || (!more && tasks.length <= FOLDED) });
    say(this._more, more ? `${more} more tasks, which work less` : 'Fewer');
    this._showLegend(many ? [] : tasks, lost, named);
  }

  restyle(): void {
    this._chart.draw();
    this._map.restyle();
  }

  dispose(): void {
    this._chart.dispose();
    this._map.dispose();
  }

  private _showLegend(tasks: TaskSteps[], lost: Set<string>, named: string[]): void {
    const entries = this._entries.of(tasks.map(task => task.task));
    entries.forEach((entry, i) => entry.show(tasks[i], lost.has(tasks[i].task), named.includes(tasks[i].task)));
    const crowded = tasks.some(task => task.steps.length >= CROWDED);
    arrange(this._legend, [...entries.map(entry => entry.node), ...(crowded ? [this._hint] : [])]);
  }

  private _tasks: TaskSteps[] = [];
  private _table = new NumberTable(() => figuresOf(this._tasks));
  private _entries = new Kept(() => new Entry());
  private _hint = Object.assign(document.createElement('li'), {
    className: 'wb-Legend-hint',
    textContent: 'thin: each step · bold: running median'
  });
  private _chart = new Chart({
    label: 'Work per task and step in milliseconds',
    across: 'seconds',
    unit: 'ms',
    fromZero: true,
    height: 190
  });
  private _rows = document.createElement('div');
  private _more = document.createElement('button');
  private _all = false;
  private _map = new HeatMap('Work of each task over the steps');
  private _legend = document.createElement('ul');
}

/** A task in the legend. */
class Entry {
  readonly node = document.createElement('li');

  constructor() {
    this.node.append(this._key, this._name, this._median, this._most);
  }

  show(task: TaskSteps, lost: boolean, named: boolean): void {
    const className = [lost && 'wb-mod-lost', named && 'wb-mod-slow'].filter(Boolean).join(' ');
    put(this.node, { title: task.task, className });
    this._key.style.background ||= task.device_color;
    say(this._name, shortTask(task.task));
    say(this._median, `median ${exactly(task.median)},`);
    say(this._most, `95 % below ${exactly(task.p95)}`);
  }

  private _key = document.createElement('i');
  private _name = document.createElement('b');
  private _median = document.createElement('span');
  private _most = document.createElement('span');
}

function numbersOf(task: TaskSteps): string {
  return `${shortTask(task.task)}: median ${duration(task.median)}, 95th percentile ${duration(task.p95)}`;
}

/** Of all tasks that are told of, as lines or as rows of the heat map. */
function figuresOf(tasks: TaskSteps[]): Figures {
  return {
    caption: 'Work of each task in milliseconds, by step',
    head: ['Step', ...tasks.map(task => shortTask(task.task))],
    sums: [
      ['Median', ...tasks.map(task => task.median)],
      ['95 % below', ...tasks.map(task => task.p95)]
    ],
    rows: byStep(tasks.map(({ steps, times }) => ({ xs: steps, ys: times })))
  };
}

defineView({ id: 'steps', title: 'Work per step', topic: 'steps', wide: false, make: context => new StepsSection(context) });
