/** A titled part of the panel with room for a note when it has nothing to show. */
import { put, say } from './keep';

export class Section {
  readonly node = document.createElement('section');
  readonly body = document.createElement('div');
  readonly tools = document.createElement('div');

  constructor(title: string, className: string) {
    this.node.className = `wb-Section ${className}`;
    this.node.setAttribute('aria-label', title);
    const bar = document.createElement('div');
    bar.className = 'wb-Section-bar';
    this.tools.className = 'wb-Section-tools';
    bar.append(Object.assign(document.createElement('h3'), { textContent: title }), this.tools);
    this._note.className = 'wb-Section-note';
    this.body.className = 'wb-Section-body';
    this.node.append(bar, this._note, this.body);
  }

  /** Say why there is nothing to see; '' shows the body. */
  note(text: string): void {
    say(this._note, text);
    put(this._note, { hidden: !text });
    put(this.body, { hidden: !!text });
  }

  private _note = document.createElement('p');
}

/** Buttons that stay beside each other where a row has no room for all. */
export function together(...buttons: HTMLElement[]): HTMLElement {
  const made = document.createElement('span');
  made.className = 'wb-Together';
  made.append(...buttons);
  return made;
}

export function button(label: string, title: string, action: () => void): HTMLButtonElement {
  const made = document.createElement('button');
  made.type = 'button';
  made.textContent = label;
  made.title = title;
  made.setAttribute('aria-label', title);
  made.addEventListener('click', action);
  return made;
}
