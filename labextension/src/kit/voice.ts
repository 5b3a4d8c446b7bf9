/** What a page says to readers of screens: one region for what can wait, one for alarms. Nothing else speaks by itself. */

const EVENT = 'wb-speak';
const TOGETHER = 150; // milliseconds in which what comes is said together: it waits for a pause of so many,
const HELD = 2000; // but no longer than this: while a key is held down there is none

interface Speech {
  text: string;
  urgent: boolean;
}

/** Have it said by whoever hears for the page that `from` stands in: what a hand asked for, the newest of it. */
export function speak(from: HTMLElement, text: string, urgent = false): void {
  text && from.dispatchEvent(new CustomEvent<Speech>(EVENT, { bubbles: true, detail: { text, urgent } }));
}

export class Voice {
  /** Hears what is spoken below `root`, and says it there. */
  constructor(root: HTMLElement) {
    const node = document.createElement('div');
    node.className = 'wb-Voice';
    this._calm.setAttribute('role', 'status');
    this._urgent.setAttribute('role', 'alert');
    node.append(this._calm, this._urgent);
    root.append(node);
    root.addEventListener(EVENT, event => {
      const { text, urgent } = (event as CustomEvent<Speech>).detail;
      urgent ? this._alarms.push(text) : this._waiting.set('', { key: null, text, due: 0 });
      this._plan();
    });
  }

  /**
   * What is so of a `topic`: said when its `key` is another one than was said before, after `rest` milliseconds at the earliest.
   * Numbers that change belong into the text, not into the key.
   */
  tell(topic: string, text: string, key = text, rest = 0): void {
    const said = this._said.get(topic);
    if (!text || said?.key === key) {
      this._waiting.delete(topic);
    } else {
      this._waiting.set(topic, { key, text, due: said ? said.at + rest : 0 });
      this._plan();
    }
  }

  /** All that is wrong now: what was not wrong before is said at once, before everything else. */
  alarm(texts: string[]): void {
    const fresh = texts.filter(text => !this._wrong.includes(text));
    this._wrong = texts;
    if (fresh.length) {
      this._alarms.push(...fresh);
      this._plan();
    }
  }

  dispose(): void {
    clearTimeout(this._due);
  }

  private _plan(): void {
    const now = performance.now();
    const next = this._alarms.length ? now : Math.min(...[...this._waiting.values()].map(one => one.due));
    if (next <= now) {
      const held = this._alarms.length ? TOGETHER : HELD; // no key holds up an alarm
      this._until = Math.min(this._until, now + held);
    }
    clearTimeout(this._due);
    this._due = setTimeout(() => this._speak(), Math.min(Math.max(TOGETHER, next - now), this._until - now));
  }

  private _speak(): void {
    const now = performance.now();
    this._until = Infinity;
    const ready = [...this._waiting].filter(([, { due }]) => due <= now + 1);
    for (const [topic, { key }] of ready) {
      this._waiting.delete(topic);
      key === null || this._said.set(topic, { key, at: now });
    }
    put(this._calm, ready.map(([, { text }]) => text).join(' '));
    put(this._urgent, this._alarms.splice(0).join(' '));
    this._waiting.size && this._plan();
  }

  private _calm = document.createElement('div');
  private _urgent = document.createElement('div');
  private _waiting = new Map<string, { key: string | null; text: string; due: number }>();
  private _said = new Map<string, { key: string; at: number }>();
  private _alarms: string[] = [];
  private _wrong: string[] = [];
  private _until = Infinity; // when what there is to say is said at the latest
  private _due: ReturnType<typeof setTimeout> | undefined;
}

/** A new element: what is said again is heard again. */
function put(region: HTMLElement, textContent: string): void {
  textContent && region.replaceChildren(Object.assign(document.createElement('p'), { textContent }));
}
