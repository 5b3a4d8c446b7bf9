/** The nodes of a graph as a tree that screen readers read, inside of the canvas that shows them. */
import type { GraphNode, GraphState } from '../contract';
import { REWRITTEN } from '../kit/colour';
import { count, duration, shortDevice } from '../kit/text';

let trees = 0;

export class Tree {
  /** `activate` hears which node a screen reader clicks. */
  constructor(
    private _canvas: HTMLCanvasElement,
    activate: (at: number) => void
  ) {
    _canvas.tabIndex = 0;
    _canvas.setAttribute('role', 'tree');
    _canvas.setAttribute(
      'aria-label',
      'Dataflow graph: arrow keys follow the edges, Enter opens or closes a scope, Escape leaves a node'
    );
    this._items.addEventListener('click', event => {
      const item = (event.target as Element).closest<HTMLElement>('[data-at]');
      item && activate(Number(item.dataset.at));
    });
    _canvas.append(this._items);
  }

  show(graph: GraphState | null): void {
    this._items.replaceChildren(...(graph?.nodes.map((node, i) => this._item(node, i, graph)) ?? []));
    this.choose(-1);
  }

  /** This node is the chosen one, -1 for none. */
  choose(at: number): void {
    at < 0
      ? this._canvas.removeAttribute('aria-activedescendant')
      : this._canvas.setAttribute('aria-activedescendant', `${this._family}-${at}`);
  }

  private _item(node: GraphNode, at: number, graph: GraphState): HTMLElement {
    const item = document.createElement('div');
    item.id = `${this._family}-${at}`;
    item.dataset.at = String(at);
    item.dataset.id = node.id;
    item.setAttribute('role', 'treeitem');
    item.setAttribute('aria-level', String(node.id.split('/').length));
    node.kind === 'scope' && item.setAttribute('aria-expanded', String(node.open));
    item.setAttribute('aria-label', describe(node, graph.stats[node.id], graph.marks[at]));
    return item;
  }

  private _items = document.createElement('div');
  private _family = `wb-tree-${++trees}`;
}

export function describe(node: GraphNode, milliseconds?: number, mark = 0): string {
  const what =
    node.kind === 'scope'
      ? `scope ${node.id}, ${node.alike > 1 ? `${node.alike} equal blocks, ` : ''}${count(node.count, 'operation')}${node.open ? ', open' : ''}`
      : `${node.id}: ${node.type}`;
  const where = node.device ? `, on ${shortDevice(node.device)}` : '';
  const time = milliseconds === undefined ? '' : `, ${duration(milliseconds)}`;
  return `${what}${where}${time}${mark ? `, ${REWRITTEN[mark][0]} by this rewrite` : ''}`;
}
