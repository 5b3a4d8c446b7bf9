/** Views that share a place: one is shown, the others are a click or an arrow key away. */

export interface Tab {
  id: string;
  title: string;
  node: HTMLElement;
}

let groups = 0;

export class Tabs {
  readonly node = document.createElement('div');

  /** `chosen` hears of another tab that is shown. */
  constructor(
    private _tabs: Tab[],
    label: string,
    private _chosen: (id: string) => void
  ) {
    const family = `wb-tabs-${++groups}`;
    this.node.className = 'wb-Tabs';
    this._bar.className = 'wb-Tabs-bar';
    this._bar.setAttribute('role', 'tablist');
    this._bar.setAttribute('aria-label', label);
    for (const tab of _tabs) {
      const button = document.createElement('button');
      button.type = 'button';
      button.id = `${family}-${tab.id}`;
      button.dataset.tab = tab.id;
      button.textContent = tab.title;
      button.setAttribute('role', 'tab');
      tab.node.setAttribute('role', 'tabpanel');
      tab.node.setAttribute('aria-labelledby', button.id);
      button.addEventListener('click', () => this.select(tab.id));
      this._bar.append(button);
    }
    this._bar.addEventListener('keydown', event => this._key(event));
    this.node.append(this._bar, ..._tabs.map(tab => tab.node));
    this._show(_tabs[0].id);
  }

  /** The one that is shown. */
  get current(): string {
    return this._current;
  }

  select(id: string): void {
    if (id !== this._current) {
      this._show(id);
      this._chosen(id);
    }
  }

  private _show(id: string): void {
    this._current = id;
    this._tabs.forEach((tab, i) => {
      const shown = tab.id === id;
      const button = this._bar.children[i] as HTMLButtonElement;
      tab.node.hidden = !shown;
      button.setAttribute('aria-selected', String(shown));
      button.tabIndex = shown ? 0 : -1;
    });
  }

  private _key(event: KeyboardEvent): void {
    const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (move) {
      const now = this._tabs.findIndex(tab => tab.id === this._current);
      const next = (now + move + this._tabs.length) % this._tabs.length;
      this.select(this._tabs[next].id);
      (this._bar.children[next] as HTMLButtonElement).focus();
      event.preventDefault();
      event.stopPropagation();
    }
  }

  private _bar = document.createElement('div');
  private _current = '';
}
