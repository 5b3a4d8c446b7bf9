/** Elements that stay while what they say changes: a page lays out what moved, and nothing else. */

/** `node` says `text`; nothing happens where it does already. */
export function say(node: HTMLElement, text: string): void {
  if (node.textContent !== text) {
    node.textContent = text;
  }
}

/** The same ones in the same order. */
export function alike<T>(some: readonly T[], others: readonly T[]): boolean {
  return some.length === others.length && some.every((one, i) => one === others[i]);
}

/** `parent` holds `nodes` and nothing else; nothing happens where it does already. */
export function arrange(parent: HTMLElement, nodes: HTMLElement[]): void {
  const { children } = parent;
  if (children.length !== nodes.length || nodes.some((node, i) => children[i] !== node)) {
    parent.replaceChildren(...nodes);
  }
}

/** One `T` for each name, made when the name first comes and forgotten when it has gone. */
export class Kept<T> {
  constructor(private _make: () => T) {}

  /** Those of `names`, in their order. */
  of(names: string[]): T[] {
    this._known = new Map(names.map(name => [name, this._known.get(name) ?? this._make()]));
    return [...this._known.values()];
  }

  private _known = new Map<string, T>();
}
