/** Where everything of a graph lies: each open scope is laid out by itself, from the inside out, and layouts are remembered. */
import type { Box } from '../kit/camera';
import { describe, type Local, read, type Scope } from './dot';

/** What is laid out. An open scope's own size follows from what is in it. */
export interface Item {
  /** The open scope it lies in, as its place in the list, -1 for none. */
  scope: number;
  open: boolean;
  width: number;
  height: number;
}

export interface Flow {
  source: number;
  target: number;
  /** 0 tensors, 1 control, 2 not drawn. */
  kind: number;
  label: string;
}

export interface Line {
  /** x and y of a Bézier curve: start, then two control points and an end for each piece. */
  points: number[];
  /** The flows that take this way, by their place in the list; none for the last stretch inside of a scope. */
  flows: number[];
  control: boolean;
  /** Where the label stands. */
  label: string;
  x: number;
  y: number;
}

export interface Geometry {
  boxes: Box[];
  lines: Line[];
  size: Box;
}

/** Lays out a digraph given in the DOT language; answers in Graphviz's plain format. */
export type Engine = (dot: string) => string | Promise<string>;

export const HEAD = 20; // of an open scope, for its name
const PAD = 6;
const GAP = 14;
const PORTS = 16; // lines from the border of a scope to what is in it; more would only hide it
const KEPT = 200; // layouts that are remembered

export class Layout {
  constructor(private _engine: Engine) {}

  /** How often the engine was asked: the rest was remembered. */
  asked = 0;

  async place(items: Item[], flows: Flow[]): Promise<Geometry> {
    const scopes = gather(items, flows);
    const locals = new Map<number, Local>();
    const boxes: Box[] = items.map(item => ({ x: 0, y: 0, width: item.width, height: item.height }));
    await this._inside(-1, items, flows, scopes, boxes, locals);
    const geometry: Geometry = { boxes, lines: [], size: { x: 0, y: 0, width: 0, height: 0 } };
    flatten(-1, 0, 0, flows, items, scopes, locals, geometry);
    const root = locals.get(-1)!;
    geometry.size = { x: 0, y: 0, width: root.width, height: root.height };
    return geometry;
  }

  private async _inside(
    at: number,
    items: Item[],
    flows: Flow[],
    scopes: Map<number, Scope>,
    boxes: Box[],
    locals: Map<number, Local>
  ): Promise<void> {
    const scope = scopes.get(at)!;
    for (const child of scope.children) {
      if (items[child].open) {
        await this._inside(child, items, flows, scopes, boxes, locals);
        const { width, height } = locals.get(child)!;
        boxes[child].width = Math.max(items[child].width, width + 2 * PAD);
        boxes[child].height = height + HEAD + 2 * PAD;
      }
    }
    locals.set(at, await this._arranged(scope, items, flows, boxes));
  }

  private async _arranged(scope: Scope, items: Item[], flows: Flow[], boxes: Box[]): Promise<Local> {
    const text = describe(scope, items, flows, boxes);
    const known = this._known.get(text);
    if (known) {
      return known;
    }
    this.asked++;
    const made = read(await this._engine(text), scope.children.length);
    arrangeLoose(made, scope, boxes);
    this._known.set(text, made);
    if (this._known.size > KEPT) {
      this._known.delete(this._known.keys().next().value!);
    }
    return made;
  }

  private _known = new Map<string, Local>();
}

/** Each flow belongs to the innermost scope that holds both ends; scopes on its way are entered and left. */
function gather(items: Item[], flows: Flow[]): Map<number, Scope> {
  const scopes = new Map<number, Scope>();
  const open = (at: number) => scopes.set(at, { children: [], between: new Map(), enters: new Set(), leaves: new Set() });
  open(-1);
  items.forEach((item, i) => item.open && open(i));
  items.forEach((item, i) => scopes.get(item.scope)!.children.push(i));
  const ways = items.map((_, i) => way(items, i));
  flows.forEach(({ source, target, kind }, number) => {
    if (kind === 2) {
      return;
    }
    const [from, to] = [ways[source], ways[target]];
    let shared = 0;
    while (shared < from.length - 1 && shared < to.length - 1 && from[shared] === to[shared]) {
      shared++;
    }
    const inside = scopes.get(shared ? from[shared - 1] : -1)!;
    const key = `${from[shared]}>${to[shared]}`;
    inside.between.set(key, [...(inside.between.get(key) ?? []), number]);
    from.slice(shared, -1).forEach((at, i) => scopes.get(at)!.leaves.add(from[shared + i + 1]));
    to.slice(shared, -1).forEach((at, i) => scopes.get(at)!.enters.add(to[shared + i + 1]));
  });
  return scopes;
}

/** The scopes around item `i` from the outside in, and itself. */
function way(items: Item[], i: number): number[] {
  const found = [];
  for (let at = i; at >= 0; at = items[at].scope) {
    found.push(at);
  }
  return found.reverse();
}

/** Children with a line; the others stand in rows below. */
function tiedTo(scope: Scope): Set<number> {
  const tied = new Set<number>();
  for (const key of scope.between.keys()) {
    key.split('>').forEach(end => tied.add(Number(end)));
  }
  return tied;
}

/** What no line touches would make one endless row: it stands in rows about as wide as the rest. */
function arrangeLoose(made: Local, scope: Scope, boxes: Box[]): void {
  const tied = tiedTo(scope);
  const loose = scope.children.map((child, i) => ({ child, i })).filter(({ child }) => !tied.has(child));
  if (loose.length < 4) {
    return;
  }
  const bound = scope.children.map((child, i) => ({ child, i })).filter(({ child }) => tied.has(child));
  const right = Math.max(0, ...bound.map(({ i }) => made.boxes[i].x + made.boxes[i].width));
  const left = Math.min(right, ...bound.map(({ i }) => made.boxes[i].x));
  const bottom = bound.length ? Math.max(...bound.map(({ i }) => made.boxes[i].y + made.boxes[i].height)) + 2 * GAP : 0;
  bound.forEach(({ i }) => (made.boxes[i].x -= left));
  made.lines.forEach(line => {
    line.points = line.points.map((value, k) => (k % 2 ? value : value - left));
    line.x -= left;
  });
  const area = loose.reduce((sum, { child }) => sum + (boxes[child].width + GAP) * (boxes[child].height + GAP), 0);
  const wide = Math.max(right - left, Math.sqrt(1.6 * area), ...loose.map(({ child }) => boxes[child].width));
  let [x, y, tall] = [0, bottom, 0];
  for (const { child, i } of loose) {
    const { width, height } = boxes[child];
    if (x && x + width > wide) {
      [x, y, tall] = [0, y + tall + GAP, 0];
    }
    made.boxes[i] = { x, y, width, height };
    [x, tall] = [x + width + GAP, Math.max(tall, height)];
  }
  made.width = Math.max(...made.boxes.map(box => box.x + box.width));
  made.height = y + tall;
}

function flatten(
  at: number,
  x: number,
  y: number,
  flows: Flow[],
  items: Item[],
  scopes: Map<number, Scope>,
  locals: Map<number, Local>,
  into: Geometry
): void {
  const [scope, local] = [scopes.get(at)!, locals.get(at)!];
  scope.children.forEach((child, i) => {
    const box = into.boxes[child];
    [box.x, box.y] = [local.boxes[i].x + x, local.boxes[i].y + y];
    if (items[child].open) {
      const inner = locals.get(child)!;
      flatten(child, box.x + (box.width - inner.width) / 2, box.y + HEAD + PAD, flows, items, scopes, locals, into);
    }
  });
  if (at >= 0) {
    into.lines.push(...tie(scope, into.boxes[at], into.boxes));
  }
  for (const line of local.lines) {
    const [source, target] = line.ends.map(end => scope.children[Number(end.slice(1))]);
    const members = scope.between.get(`${source}>${target}`) ?? [];
    const points = line.points.map((value, k) => value + (k % 2 ? y : x));
    into.lines.push({
      points,
      flows: members,
      control: members.length > 0 && members.every(member => flows[member].kind === 1),
      label: line.label,
      x: line.x + x,
      y: line.y + y
    });
  }
}

/** From the middle of the upper edge of an open scope to what something outside reaches, and on to the middle of the lower. */
function tie(scope: Scope, box: Box, boxes: Box[]): Line[] {
  const middle = box.x + box.width / 2;
  const line = (x0: number, y0: number, x1: number, y1: number): Line => {
    const half = (y0 + y1) / 2;
    return { points: [x0, y0, x0, half, x1, half, x1, y1], flows: [], control: false, label: '', x: 0, y: 0 };
  };
  const top = (child: Box) => line(middle, box.y + HEAD, child.x + child.width / 2, child.y);
  const bottom = (child: Box) => line(child.x + child.width / 2, child.y + child.height, middle, box.y + box.height);
  const few = (children: Set<number>) => (children.size <= PORTS ? [...children].map(child => boxes[child]) : []);
  return [...few(scope.enters).map(top), ...few(scope.leaves).map(bottom)];
}
