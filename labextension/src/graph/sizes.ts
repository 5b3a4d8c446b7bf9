/** How large a node is drawn, from its words alone. */
import type { GraphNode, GraphState } from '../contract';
import { count } from '../kit/text';

export const FONT = 11;
const READABLE = 5.5; // pixels on the screen below which letters are left out
const FAR = 8; // pixels that a name keeps from far away, as long as its box is as high
const FILLED = 0.8; // part of a box's height that a name may fill
const NARROWEST = 44;
const WIDEST = 190;
const PADDING = 18;

/** The last part of its name. */
export function labelOf(node: GraphNode): string {
  return node.id.slice(node.id.lastIndexOf('/') + 1);
}

/** What stands below the name: the size of a scope, the type of an operation that is not named after it. */
export function secondOf(node: GraphNode): string {
  if (node.kind === 'scope') {
    return node.alike > 1
      ? `${node.alike} × ${count(Math.round(node.count / node.alike), 'operation')}`
      : count(node.count, 'operation');
  }
  const plain = (text: string) => text.toLowerCase().replace(/[_\d]/g, '');
  if (node.type === 'argument') {
    return 'fed';
  }
  const [label, type] = [plain(labelOf(node)), plain(node.type)];
  return label.startsWith(type) || type.startsWith(label) ? '' : node.type;
}

/** How large the name in a box of this height is written, in units of the drawing; 0 where nobody could read it. */
export function lettersAt(zoom: number, height: number): number {
  const size = Math.max(FONT, Math.min(FAR / zoom, FILLED * height));
  return size * zoom >= READABLE ? size : 0;
}

/** `size`, or smaller so that a name that is `wide` at it has room, as far as it can be read: whole names say more than large ones. */
export function fitted(size: number, wide: number, room: number, zoom: number): number {
  return wide > room ? Math.min(size, Math.max(READABLE / zoom, (size * room) / wide)) : size;
}

/** The nodes of `graph` as they are laid out, in the letters that `place` has. */
export function sized(graph: GraphState, place: Element) {
  ruler ??= document.createElement('canvas').getContext('2d');
  if (ruler) {
    ruler.font = `600 ${FONT}px ${getComputedStyle(place).fontFamily || 'sans-serif'}`;
  }
  const measure = (text: string) => ruler?.measureText(text).width ?? 6 * text.length;
  return graph.nodes.map(node => ({ scope: node.scope, open: node.open, ...sizeOf(node, measure) }));
}

let ruler: CanvasRenderingContext2D | null = null;

/** What flows between them. */
export function flowsOf(graph: GraphState) {
  const { sources, targets, kinds, labels } = graph.edges;
  return Array.from(sources, (source, i) => ({ source, target: targets[i], kind: kinds[i], label: labels[i] }));
}

/** `measure` gives the width of a text at FONT pixels. */
export function sizeOf(node: GraphNode, measure: (text: string) => number): { width: number; height: number } {
  const second = node.open ? '' : secondOf(node);
  const words = Math.max(measure(labelOf(node)), 0.9 * measure(second));
  const width = Math.min(WIDEST, Math.max(NARROWEST, Math.ceil((words + PADDING) / 4) * 4));
  return { width: node.open ? width + 30 : width, height: second ? 36 : 24 };
}
