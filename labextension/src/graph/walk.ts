/** Which node is meant: under the pointer, along an edge, or beside another one. */
import type { GraphNode, GraphState } from '../contract';
import { contains } from '../kit/camera';
import type { Geometry } from './geometry';

/** The place of a node, -1 for none; an open scope before an operation of the same name. */
export function indexOf(graph: GraphState, id: string): number {
  return id ? graph.nodes.findIndex(node => node.id === id) : -1;
}

/** The innermost node at (x, y) of the drawing, -1 for none. */
export function hit({ boxes }: Geometry, x: number, y: number): number {
  let found = -1;
  const area = (i: number) => boxes[i].width * boxes[i].height;
  for (let i = 0; i < boxes.length; i++) {
    if (contains(boxes[i], x, y) && (found < 0 || area(i) <= area(found))) {
      found = i;
    }
  }
  return found;
}

/** Down and up follow the edges, left and right go to the neighbour on that side; -1 where there is none. */
export function next(graph: GraphState, geometry: Geometry, from: number, dx: number, dy: number): number {
  const { sources, targets } = graph.edges;
  if (from < 0) {
    return graph.nodes.findIndex(node => !node.open);
  }
  const [here, there] = dy > 0 ? [sources, targets] : [targets, sources];
  const along = dy ? (there[Array.prototype.indexOf.call(here, from)] ?? -1) : -1;
  return along >= 0 ? along : nearest(graph.nodes, geometry, from, dx, dy);
}

/** The closest node in a direction, those straight ahead first. */
export function nearest(nodes: GraphNode[], geometry: Geometry, from: number, dx: number, dy: number): number {
  const middle = (i: number) => [
    geometry.boxes[i].x + geometry.boxes[i].width / 2,
    geometry.boxes[i].y + geometry.boxes[i].height / 2
  ];
  const [x, y] = middle(from);
  let [best, found] = [Infinity, -1];
  nodes.forEach((node, i) => {
    const [nx, ny] = middle(i);
    const along = (nx - x) * dx + (ny - y) * dy;
    const across = Math.abs((nx - x) * dy) + Math.abs((ny - y) * dx);
    if (i !== from && !node.open && along > 1 && along + 2 * across < best) {
      [best, found] = [along + 2 * across, i];
    }
  });
  return found;
}
