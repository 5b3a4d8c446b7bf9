/** Elements that stay while what they say changes: a page lays out what moved, and nothing else. */

/** `node` says `text`; nothing happens where it does already. */
export function say(node: HTMLElement, text: string): void {
  if (node.textContent !== text) {
    node.textContent = text;
  }
}

/** `node` is so; nothing happens where it is already: what is set anew is styled and painted anew. */
export function put<T extends HTMLElement>(node: T, properties: Partial<T>): void {
  for (const name of Object.keys(properties) as (keyof T)[]) {
    if (node[name] !== properties[name]) {
      node[name] = properties[name]!;
    }
  }
}

/** What readers of screens and styles go by, in the same way. */
export function mark(node: HTMLElement, name: string, value: string): void {
  if (node.getAttribute(name) !== value) {
    node.setAttribute(name, value);
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
