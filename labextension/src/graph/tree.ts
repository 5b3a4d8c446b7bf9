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

  /** `failed`: the node with the operation that ended the run, -1 for none. */
  show(graph: GraphState | null, failed: number): void {
    this._items.replaceChildren(...(graph?.nodes.map((node, i) => this._item(node, i, graph, failed)) ?? []));
    this.choose(-1);
  }

  /** This node is the chosen one, -1 for none. */
  choose(at: number): void {
    at < 0
      ? this._canvas.removeAttribute('aria-activedescendant')
      : this._canvas.setAttribute('aria-activedescendant', `${this._family}-${at}`);
  }

  private _item(node: GraphNode, at: number, graph: GraphState, failed: number): HTMLElement {
    const item = document.createElement('div');
    item.id = `${this._family}-${at}`;
    item.dataset.at = String(at);
    item.dataset.id = node.id;
    item.setAttribute('role', 'treeitem');
    item.setAttribute('aria-level', String(node.id.split('/').length));
    node.kind === 'scope' && item.setAttribute('aria-expanded', String(node.open));
    item.setAttribute('aria-label', describe(graph, at, failed));
    return item;
  }

  private _items = document.createElement('div');
  private _family = `wb-tree-${++trees}`;
}

/** The node at this place, in words; `failed` is the place of the one with the operation that ended the run. */
export function describe(graph: GraphState, at: number, failed: number): string {
  const node = graph.nodes[at];
  const [milliseconds, mark] = [graph.stats[node.id], graph.marks[at]];
  const what =
    node.kind === 'scope'
      ? `scope ${node.id}, ${node.alike > 1 ? `${node.alike} equal blocks, ` : ''}${count(node.count, 'operation')}${node.open ? ', open' : ''}`
      : `${node.id}: ${node.type}`;
  const where = node.device ? `, on ${shortDevice(node.device)}` : '';
  const time = milliseconds === undefined ? '' : `, ${duration(milliseconds)}`;
  const rewritten = mark ? `, ${REWRITTEN[mark][0]} by this rewrite` : '';
  return `${what}${where}${time}${rewritten}${at === failed ? `, ${failure(graph)}` : ''}`;
}

/** What the mark of the operation that ended the run says: whether it is here itself, or in what is drawn here. */
export function failure({ nodes, failed }: GraphState): string {
  const node = failed && nodes[failed.at];
  const itself = node && node.kind === 'op' && `/${node.id}`.endsWith(`/${failed.what}`); // on its device, where these are told apart
  return itself ? 'failed here' : node ? `failed in here: ${failed.what}` : '';
}
