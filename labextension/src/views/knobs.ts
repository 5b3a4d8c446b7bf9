/** Sliders for the numbers that the program lets a person turn while it runs. */
import type { KnobPart, KnobView } from '../contract';
import { mark, put, say } from '../kit/keep';
import { format, taskOf } from '../kit/text';
import { Section } from '../kit/section';
import { type Context, defineView } from '../kit/view';
import { speak } from '../kit/voice';
import type { Snapshot } from '../store';

let sliders = 0; // that were made

/** One slider. It sends one value at a time: of what is dragged over meanwhile the newest. */
class Slider {
  readonly node = document.createElement('label');

  constructor(
    private _knob: KnobView,
    private _part: KnobPart,
    private _turn: Context['turn']
  ) {
    const name = document.createElement('span');
    name.className = 'wb-Knob-name';
    if (_part.color) {
      const key = document.createElement('i');
      key.style.background = _part.color;
      name.append(key);
    }
    name.append(this._name);
    this._why.className = 'wb-Knob-why';
    this._why.id = `wb-knob-why-${++sliders}`;
    this._value.setAttribute('aria-live', 'off'); // the slider says it
    this._input.type = 'range';
    [this._input.min, this._input.max, this._input.step] = ['0', String(_knob.most), String(_knob.step)];
    this._input.setAttribute('aria-label', `${_knob.name} of ${_part.label}`);
    this._input.addEventListener('input', () => this._moved());
    this.node.append(name, this._input, this._value, this._why);
    this.show(_part, null);
  }

  /**
   * What the program says; where the hand is on the slider, only whether it has that value. Of a task that was lost, with its
   * cause, there is nothing to turn.
   */
  show(part: KnobPart, cause: string | null): void {
    const lost = cause !== null;
    if (this._wanted === null) {
      this._input.value = String(part.value);
    }
    const waits = !lost && (this._wanted !== null || !part.taken);
    say(this._value, format(Number(this._input.value), 4));
    const title = lost ? 'What it had last' : waits ? 'The program has not taken this value yet' : 'The program has this value';
    put(this._value, { className: waits ? 'wb-mod-waits' : '', title });
    put(this.node, { className: `wb-Knob${lost ? ' wb-mod-lost' : ''}`, title: cause ?? '' });
    put(this._input, { disabled: lost });
    say(this._name, `${part.label}${lost ? ' lost' : ''}`);
    say(this._why, lost ? 'Lost: nobody is left to take a value.' : '');
    put(this._why, { hidden: !lost });
    lost ? mark(this._input, 'aria-describedby', this._why.id) : this._input.removeAttribute('aria-describedby');
    this._cause = cause;
  }

  private _moved(): void {
    const idle = this._wanted === null;
    this._wanted = Number(this._input.value);
    this.show(this._part, this._cause);
    if (idle) {
      void this._send();
    }
  }

  private async _send(): Promise<void> {
    for (let sent: number | null = null; sent !== this._wanted;) {
      sent = this._wanted;
      await this._turn(this._knob.name, this._part.part, sent!);
    }
    this._wanted = null;
  }

  private _name = document.createElement('b');
  private _input = document.createElement('input');
  private _value = document.createElement('output');
  private _why = document.createElement('span');
  private _cause: string | null = null;
  /** What was asked for and not answered yet. */
  private _wanted: number | null = null;
}

export class KnobSection extends Section {
  constructor(private _context: Context) {
    super('Knobs', 'wb-Knobs');
    this.node.hidden = true;
    this.note('');
  }

  /** The knobs of a `lost` task stand still, and say why. */
  show(snapshot: Snapshot, lost: Set<string>): void {
    const knobs = snapshot.knobs?.knobs ?? [];
    this.node.hidden = !knobs.length;
    const made = JSON.stringify(knobs.map(({ name, most, step, parts }) => [name, most, step, parts.map(one => one.part)]));
    if (made !== this._made) {
      this._made = made;
      this._sliders = knobs.map(knob => knob.parts.map(part => new Slider(knob, part, this._context.turn)));
      this._faults = knobs.map(() => Object.assign(document.createElement('p'), { className: 'wb-Knob-fault' }));
      this.body.replaceChildren(...knobs.map((knob, i) => this._group(knob, i)));
    }
    knobs.forEach((knob, i) => {
      knob.fault === this._faults[i].textContent || speak(this.node, knob.fault, true);
      say(this._faults[i], knob.fault);
      put(this._faults[i], { hidden: !knob.fault });
      knob.parts.forEach((part, k) => this._sliders[i][k].show(part, causeOf(taskOf(part.part), snapshot, lost)));
    });
  }

  private _group(knob: KnobView, i: number): HTMLElement {
    const group = document.createElement('fieldset');
    group.append(Object.assign(document.createElement('legend'), { textContent: knob.name }));
    group.append(...this._sliders[i].map(slider => slider.node), this._faults[i]);
    return group;
  }

  private _made = '';
  private _sliders: Slider[][] = [];
  private _faults: HTMLElement[] = [];
}

/** Why `task` was lost, null while it is there. */
function causeOf(task: string, { status }: Snapshot, lost: Set<string>): string | null {
  return lost.has(task) ? (status?.lost.find(one => one.task === task)?.cause ?? '') : null;
}

defineView({ id: 'knobs', title: 'Knobs', topic: 'knobs', wide: false, make: context => new KnobSection(context) });
