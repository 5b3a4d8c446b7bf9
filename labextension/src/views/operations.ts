/** Which operations take the time, and what lies on which device. */
import type { OperationsView } from '../contract';
import { arrange, become, Kept, put, say } from '../kit/keep';
import { bytes, count, exactly, format, shortDevice, taskOf } from '../kit/text';
import { Section } from '../kit/section';
import { defineView } from '../kit/view';
import type { Snapshot } from '../store';

export class OperationsSection extends Section {
  constructor() {
    super('Operations', 'wb-Operations');
    this._lead.className = 'wb-Operations-lead';
    this._hint.className = 'wb-Section-note';
    this.body.append(this._lead, this._times, this._placed, this._hint);
  }

  /** What lies on a `lost` task is marked, in both tables. */
  show(snapshot: Snapshot, lost: Set<string>): void {
    const view = snapshot.operations;
    const coming = !view && snapshot.steps?.tasks.length; // its picture is on its way
    this.note(view?.devices.length || coming ? '' : 'The operations appear with the first step.');
    if (view && (view !== this._view || [...lost].join() !== [...this._lost].join())) {
      this._view = view;
      this._lost = lost;
      say(this._lead, leadOf(view));
      put(this._times, { hidden: !view.rows.length });
      const times = this._timesOf.of(view.rows.map(({ name, type, device }) => [name, type, device].join('\n')));
      times.forEach((line, i) => {
        const row = view.rows[i];
        const texts = [row.runs.toLocaleString('en'), exactly(row.median), exactly(row.longest)];
        line.show([named(row.name, row.type), placed(row.device, row.color, lost), ...texts, share(row.share)]);
      });
      arrange(this._times, [this._timesHead, ...times.map(line => line.node)]);
      const devices = this._devicesOf.of(view.devices.map(one => one.device));
      devices.forEach((line, i) => {
        const one = view.devices[i];
        const amounts = [one.operations.toLocaleString('en'), bytes(one.state_bytes), bytes(one.received_bytes)];
        line.show([placed(one.device, one.color, lost), ...amounts, one.scopes]);
      });
      arrange(this._placed, [this._placedHead, ...devices.map(line => line.node)]);
      say(this._hint, noteOf(view));
      put(this._hint, { hidden: !this._hint.textContent });
    }
  }

  private _view: OperationsView | null = null;
  private _lost = new Set<string>();
  private _lead = document.createElement('p');
  private _times = document.createElement('table');
  private _timesHead = headOf('Operation', 'Device', 'Runs', 'Median', 'Longest', 'Share of all');
  private _timesOf = new Kept(() => new Line());
  private _placed = document.createElement('table');
  private _placedHead = headOf('Device', 'Operations', 'Variables', 'Receives a step', 'Scopes');
  private _devicesOf = new Kept(() => new Line());
  private _hint = document.createElement('p');
}

/** "3 of 16 operations take 58 % of the time." */
function leadOf({ rows, more }: OperationsView): string {
  if (!rows.length) {
    return 'No single operations were recorded yet: steps are recorded in detail only now and then.';
  }
  let [many, sum] = [0, 0];
  while (many < rows.length && sum < 0.5) {
    sum += rows[many++].share;
  }
  const part = `${format(100 * sum, 2)} % of the time (runs × median).`;
  return sum < 0.5 && more
    ? `Time is spread widely: the longest ${many} of ${(rows.length + more).toLocaleString('en')} operations take ${part}`
    : `${many} of ${count(rows.length + more, 'operation')} ${many === 1 ? 'takes' : 'take'} ${part}`;
}

function noteOf({ more, crossing, unknown }: OperationsView): string {
  return [
    more ? `${more.toLocaleString('en')} operations that take less are not listed.` : '',
    crossing ? `${count(crossing, 'tensor')} cross devices in each step.` : 'No tensor leaves its device.',
    unknown ? 'Bytes are lower bounds: a dimension that only a step knows counts as 1.' : ''
  ]
    .filter(Boolean)
    .join(' ');
}

function headOf(...titles: string[]): HTMLTableRowElement {
  const row = document.createElement('tr');
  row.append(...titles.map(textContent => Object.assign(document.createElement('th'), { textContent, scope: 'col' })));
  return row;
}

/** A row that stays while its numbers change. */
class Line {
  readonly node = document.createElement('tr');

  show(cells: (string | HTMLElement)[]): void {
    cells.forEach((cell, i) => {
      const place = this._cells[i] ?? this._add();
      if (typeof cell === 'string') {
        say(place, cell);
      } else {
        place.firstChild ? become(place.firstChild, cell) : place.append(cell);
      }
    });
  }

  private _add(): HTMLTableCellElement {
    const cell = document.createElement(this._cells.length ? 'td' : 'th');
    if (!this._cells.length) {
      cell.scope = 'row';
    }
    this._cells.push(cell);
    this.node.append(cell);
    return cell;
  }

  private _cells: HTMLTableCellElement[] = [];
}

/** A name that may be broken after its slashes, its type as a hint. */
function named(name: string, type: string): HTMLElement {
  const made = document.createElement('span');
  made.title = `${name}: ${type}`;
  made.append(...name.split('/').flatMap((part, i) => (i ? ['/', document.createElement('wbr'), part] : [part])));
  return made;
}

function placed(device: string, color: string, lost: Set<string>): HTMLElement {
  const gone = lost.has(taskOf(device));
  const made = document.createElement('span');
  made.className = gone ? 'wb-Device wb-mod-lost' : 'wb-Device';
  made.title = device;
  const key = document.createElement('i');
  key.style.background = color;
  made.append(key, `${shortDevice(device)}${gone ? ' lost' : ''}`);
  return made;
}

function share(part: number): HTMLElement {
  const made = document.createElement('span');
  made.className = 'wb-Share';
  const bar = document.createElement('i');
  bar.style.width = `${(60 * Math.min(1, part)).toFixed(1)}px`;
  made.append(bar, `${format(100 * part, 2, true)} %`);
  return made;
}

defineView({ id: 'operations', title: 'Operations', topic: 'operations', wide: true, make: () => new OperationsSection() });
