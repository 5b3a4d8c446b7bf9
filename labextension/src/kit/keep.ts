/** Elements that stay while what they say changes: a page lays out what moved, and nothing else. */

/** `node` says `text`; nothing happens where it does already, and what a person selected in it stays selected. */
export function say(node: HTMLElement, text: string): void {
  if (node.textContent === text) {
    return;
  }
  const { firstChild } = node;
  if (text && firstChild instanceof Text && firstChild === node.lastChild) {
    selecting(firstChild, () => (firstChild.data = text));
  } else {
    node.textContent = text;
  }
}

/**
 * Does it, and selects again what of `within` was selected, to the end of a text where that was to its end.
 *
 * NOTE: never ask a selection for `isCollapsed`, `type` or `rangeCount`: the page is laid out to answer, once for each word that
 * changes. Where it begins and ends is known without.
 */
function selecting(within: Node, does: () => void): void {
  const { anchorNode, anchorOffset, focusNode, focusOffset } = document.getSelection() ?? {};
  const held =
    anchorNode &&
    focusNode &&
    (anchorNode !== focusNode || anchorOffset !== focusOffset) &&
    [anchorNode, focusNode].some(node => within.contains(node));
  if (!held) {
    does();
    return;
  }
  const places = [
    { node: anchorNode, offset: anchorOffset!, end: lengthOf(anchorNode) },
    { node: focusNode, offset: focusOffset!, end: lengthOf(focusNode) }
  ];
  does();
  const [from, to] = places.map(({ node, offset, end }) =>
    offset === end ? lengthOf(node) : Math.min(offset, lengthOf(node))
  );
  if (anchorNode.isConnected && focusNode.isConnected) {
    document.getSelection()!.setBaseAndExtent(anchorNode, from, focusNode, to);
  }
}

/** `node` becomes like `wanted`, as far as the two are built alike by staying; what is built otherwise is put in its place. */
export function become(node: Node, wanted: Node): void {
  const { childNodes: parts } = node;
  if (node instanceof Text && wanted instanceof Text) {
    node.data === wanted.data || selecting(node, () => (node.data = wanted.data));
  } else if (node.nodeName === wanted.nodeName && parts.length === wanted.childNodes.length) {
    for (const name of ['class', 'title', 'style']) {
      const value = (wanted as Element).getAttribute(name);
      value === null ? (node as Element).removeAttribute(name) : mark(node as HTMLElement, name, value);
    }
    [...wanted.childNodes].forEach((part, i) => become(parts[i], part));
  } else {
    node.parentNode!.replaceChild(wanted, node);
  }
}

function lengthOf(node: Node): number {
  return node instanceof Text ? node.data.length : node.childNodes.length;
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

/** `parent` holds `nodes` and nothing else; nothing happens where it does already, and what is selected in them stays so. */
export function arrange(parent: HTMLElement, nodes: HTMLElement[]): void {
  const { children } = parent;
  if (children.length !== nodes.length || nodes.some((node, i) => children[i] !== node)) {
    selecting(parent, () => parent.replaceChildren(...nodes));
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
