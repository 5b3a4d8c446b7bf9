/** Finding a node by a part of its name or type: hits below the field, arrows and Enter go to one. */
import type { Found } from '../contract';

export interface Seeker {
  /** The text changed. */
  search(text: string): void;
  go(id: string): void;
}

const PAUSE = 150; // milliseconds without a key before the kernel is asked

export class Search {
  readonly node = document.createElement('div');

  constructor(private _seeker: Seeker) {
    this.node.className = 'wb-Search';
    this._field.type = 'search';
    this._field.placeholder = 'Find…';
    this._field.title = 'A part of a name or type; /…/ is a regular expression';
    this._field.setAttribute('role', 'combobox');
    this._field.setAttribute('aria-label', 'Find an operation by name or type');
    this._field.setAttribute('aria-autocomplete', 'list');
    this._hits.setAttribute('role', 'listbox');
    this._hits.setAttribute('aria-label', 'Found');
    this._hits.hidden = true;
    this.node.append(this._field, this._hits);
    this._field.addEventListener('input', () => this._typed());
    this._field.addEventListener('keydown', event => this._key(event));
    this._field.addEventListener('blur', () => (this._hits.hidden = true));
    this._field.addEventListener('focus', () => (this._hits.hidden = !this._hits.childElementCount));
    this._hits.addEventListener('pointerdown', event => {
      event.preventDefault();
      this._take((event.target as Element).closest<HTMLElement>('[data-id]')?.dataset.id);
    });
  }

  get text(): string {
    return this._field.value.trim();
  }

  /** An answer; one to an older question is not shown. */
  show(found: Found | null): void {
    if (!found || found === this._shown || found.asked !== this.text) {
      return;
    }
    this._shown = found;
    this._at = -1;
    const rows = found.hits.map(({ id, text }) => {
      const row = document.createElement('li');
      row.dataset.id = id;
      row.setAttribute('role', 'option');
      row.append(id, Object.assign(document.createElement('span'), { textContent: text }));
      return row;
    });
    const words = found.wrong
      ? found.wrong
      : found.more
        ? `and ${found.more.toLocaleString('en')} more`
        : rows.length
          ? ''
          : `Nothing is called “${found.asked}”.`;
    const last = Object.assign(document.createElement('li'), {
      textContent: words,
      className: 'wb-Search-more',
      hidden: !words
    });
    this._hits.replaceChildren(...rows, last);
    this._hits.hidden = this._taken || document.activeElement !== this._field;
    if (this._hurried) {
      this._hurried = false;
      this._take(found.hits[0]?.id);
    }
  }

  private _typed(): void {
    clearTimeout(this._timer);
    this._taken = this._hurried = false;
    if (!this.text) {
      this._hits.replaceChildren();
      this._hits.hidden = true;
    }
    this._timer = setTimeout(() => this._seeker.search(this.text), PAUSE);
  }

  private _key(event: KeyboardEvent): void {
    const rows = [...this._hits.querySelectorAll<HTMLElement>('[data-id]')];
    const move = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (move && rows.length) {
      this._hits.hidden = this._taken = false;
      this._at = (this._at + move + rows.length) % rows.length;
      rows.forEach((row, i) => row.setAttribute('aria-selected', String(i === this._at)));
      rows[this._at].scrollIntoView({ block: 'nearest' });
    } else if (event.key === 'Enter') {
      this._enter(rows[Math.max(0, this._at)]?.dataset.id);
    } else if (event.key === 'Escape') {
      this._hits.hidden = true;
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  }

  /** Go to this hit; where the hits are those of an older text, to the first one of the new text as soon as it is known. */
  private _enter(id: string | undefined): void {
    if (this._shown?.asked === this.text) {
      this._take(id);
    } else if (this.text) {
      clearTimeout(this._timer);
      this._hurried = true;
      this._seeker.search(this.text);
    }
  }

  private _take(id: string | undefined): void {
    if (id) {
      this._taken = true; // the same hits come once more with the graph that opens
      this._hits.hidden = true;
      this._seeker.go(id);
    }
  }

  private _field = document.createElement('input');
  private _hits = document.createElement('ul');
  private _shown: Found | null = null;
  private _at = -1;
  private _taken = false;
  private _hurried = false; // Enter came before the answer
  private _timer: ReturnType<typeof setTimeout> | undefined;
}
