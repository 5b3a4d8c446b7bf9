/** The graph as something to walk through: canvas, camera, overview in the corner, pointer, keys, and a tree for screen readers. */
import type { GraphNode, GraphState } from '../contract';
import { Camera, contains } from '../kit/camera';
import { Canvas } from '../kit/canvas';
import type { Theme } from '../kit/colour';
import { count, duration, shortDevice } from '../kit/text';
import type { Geometry } from './geometry';
import type { Heat } from './heat';
import { Layouter } from './layouter';
import { paint, type Picture } from './paint';
import { FONT, sizeOf } from './sizes';

export interface Listener {
  /** A scope is to be opened or closed. */
  toggle(id: string, open: boolean): void;
  /** A node was chosen, null for none. */
  choose(node: GraphNode | null): void;
  /** What keeps the newest graph from being drawn, '' for nothing. */
  trouble(text: string, busy: boolean): void;
}

const STEP = 60; // pixels that a key pans
const CLICK = 4; // pixels of movement up to which a press is a click

export class Explorer {
  readonly node = document.createElement('div');
  deadline = 15000;

  constructor(private _listener: Listener) {
    this.node.className = 'wb-Graph-view';
    const canvas = this._canvas.node;
    canvas.tabIndex = 0;
    canvas.setAttribute('role', 'tree');
    canvas.setAttribute(
      'aria-label',
      'Dataflow graph: arrow keys follow the edges, Enter opens or closes a scope, Escape leaves a node'
    );
    this._overview.node.className = 'wb-Graph-overview';
    this._overview.node.setAttribute('aria-hidden', 'true');
    this.node.append(canvas, this._overview.node);
    this._listen();
  }

  /** Draw `graph`; what lies on a `lost` task is crossed out. */
  show(graph: GraphState, heat: Heat, lost: Set<string>): void {
    const fresh = graph.nodes !== this._wanted?.nodes;
    if (this._wanted && graph.key !== this._wanted.key) {
      this._camera.touched = false;
      this._anchor = this._chosen = '';
    }
    this._wanted = graph;
    [this._heat, this._lost] = [heat, lost];
    if (fresh) {
      void this._layOut();
    } else if (this._picture && this._picture.graph.nodes === graph.nodes) {
      this._dress(this._picture.graph, this._picture.geometry);
    }
  }

  /** Nothing to draw. */
  clear(): void {
    this._wanted = this._picture = null;
    this._chosen = this._anchor = '';
    this._layouter.cancel();
    this._items.replaceChildren();
    this._draw();
  }

  fit(): void {
    if (this._picture && this._canvas.width) {
      this._camera.fit(this._picture.geometry.size, this._canvas.width, this._canvas.height);
      this._draw();
    }
  }

  zoom(factor: number): void {
    this._camera.zoomBy(factor, this._canvas.width / 2, this._canvas.height / 2);
    this._draw();
  }

  cancel(): void {
    this._layouter.cancel();
  }

  /** Choose node `id` and bring it into the middle, as soon as it is drawn. */
  go(id: string): void {
    this._chosen = this._goal = id;
    if (this._picture) {
      this._dress(this._picture.graph, this._picture.geometry);
      this._arrive();
    }
  }

  /** Choose nothing. */
  leave(): void {
    this._choose(-1);
  }

  get chosen(): string {
    return this._chosen;
  }

  restyle(): void {
    this._canvas.restyle();
    this._overview.restyle();
  }

  dispose(): void {
    this._layouter.dispose();
    this._canvas.dispose();
    this._overview.dispose();
  }

  /** One layout at a time; the newest graph follows when the current one is done. */
  private async _layOut(): Promise<void> {
    if (this._busy) {
      return;
    }
    this._busy = true;
    while (this._wanted && this._wanted.nodes !== this._laid) {
      const graph = this._wanted;
      this._laid = graph.nodes;
      const late = setTimeout(() => this._listener.trouble('Laying out…', true), 300);
      try {
        const geometry = await this._layouter.layout(this._sized(graph), flowsOf(graph), this.deadline);
        if (this._wanted?.nodes === graph.nodes) {
          this._enter(this._wanted, geometry);
        }
        this._listener.trouble('', false);
      } catch (reason) {
        this._listener.trouble((reason as Error).message, false);
      }
      clearTimeout(late);
    }
    this._busy = false;
  }

  private _sized(graph: GraphState) {
    this._ruler ??= document.createElement('canvas').getContext('2d');
    if (this._ruler) {
      this._ruler.font = `600 ${FONT}px ${getComputedStyle(this.node).fontFamily || 'sans-serif'}`;
    }
    const measure = (text: string) => this._ruler?.measureText(text).width ?? 6 * text.length;
    return graph.nodes.map(node => ({ scope: node.scope, open: node.open, ...sizeOf(node, measure) }));
  }

  /** A new layout: what was opened or closed stays where it was on the screen, else all is fitted. */
  private _enter(graph: GraphState, geometry: Geometry): void {
    const before = this._picture;
    const old = before ? indexOf(before.graph, this._anchor) : -1;
    const now = indexOf(graph, this._anchor);
    this._dress(graph, geometry);
    if (before && old >= 0 && now >= 0) {
      const [a, b] = [before.geometry.boxes[old], geometry.boxes[now]];
      const zoom = this._camera.zoom;
      this._camera.pan((a.x + a.width / 2 - b.x - b.width / 2) * zoom, (a.y - b.y) * zoom);
    } else if (!this._camera.touched) {
      this.fit();
    }
    this._describe(graph);
    this._arrive();
    this.node.dataset.layouts = String(Number(this.node.dataset.layouts ?? 0) + 1);
  }

  private _dress(graph: GraphState, geometry: Geometry): void {
    this._picture = {
      graph,
      geometry,
      colours: this._heat.colours,
      heat: this._heat.heat,
      lost: this._lost,
      chosen: indexOf(graph, this._chosen),
      hovered: -1,
      focused: false
    };
    this.node.dataset.updates = String(Number(this.node.dataset.updates ?? 0) + 1);
    this._draw();
  }

  private _arrive(): void {
    const at = this._goal && this._picture ? indexOf(this._picture.graph, this._goal) : -1;
    if (at >= 0) {
      this._goal = '';
      this._camera.zoom = Math.max(this._camera.zoom, 0.8);
      this._camera.centre(this._picture!.geometry.boxes[at], this._canvas.width, this._canvas.height);
      this._choose(at);
    }
  }

  private _draw(): void {
    this._canvas.draw();
    this._overview.draw();
  }

  private _paint = (pen: CanvasRenderingContext2D, theme: Theme): void => {
    if (this._picture) {
      paint(pen, theme, this._camera, this._canvas.width, this._canvas.height, this._picture);
    }
  };

  /** Where one is in a drawing that does not fit. */
  private _paintOverview = (pen: CanvasRenderingContext2D, theme: Theme): void => {
    const size = this._picture?.geometry.size;
    const seen = this._camera.seen(this._canvas.width, this._canvas.height);
    const whole =
      !size || (seen.x <= 0 && seen.y <= 0 && seen.x + seen.width >= size.width && seen.y + seen.height >= size.height);
    this._overview.node.classList.toggle('wb-mod-hidden', whole);
    if (whole) {
      return;
    }
    this._map.fit(size, this._overview.width, this._overview.height, 3);
    const { x, y, zoom } = this._map;
    this._picture!.graph.nodes.forEach((node, i) => {
      const box = this._picture!.geometry.boxes[i];
      pen.fillStyle = node.open ? theme.panel : this._picture!.colours[i];
      pen.fillRect(x + box.x * zoom, y + box.y * zoom, Math.max(1, box.width * zoom), Math.max(1, box.height * zoom));
    });
    pen.strokeStyle = theme.brand;
    pen.lineWidth = 1.5;
    pen.strokeRect(x + seen.x * zoom, y + seen.y * zoom, seen.width * zoom, seen.height * zoom);
  };

  /** The node under (x, y) of the canvas: the innermost one. */
  private _hit(x: number, y: number): number {
    if (!this._picture) {
      return -1;
    }
    const [px, py] = this._camera.at(x, y);
    const { boxes } = this._picture.geometry;
    let found = -1;
    const area = (i: number) => boxes[i].width * boxes[i].height;
    for (let i = 0; i < boxes.length; i++) {
      if (contains(boxes[i], px, py) && (found < 0 || area(i) <= area(found))) {
        found = i;
      }
    }
    return found;
  }

  private _listen(): void {
    const canvas = this._canvas.node;
    canvas.addEventListener('wheel', event => this._wheel(event), { passive: false });
    canvas.addEventListener('pointerdown', event => this._press(event));
    canvas.addEventListener('pointermove', event => this._hover(event));
    canvas.addEventListener('pointerleave', () => this._point(-1));
    canvas.addEventListener('dblclick', event => this._hit(event.offsetX, event.offsetY) < 0 && this.fit());
    canvas.addEventListener('keydown', event => this._key(event));
    this._items.addEventListener('click', event => {
      const item = (event.target as Element).closest<HTMLElement>('[data-at]');
      item && this._activate(Number(item.dataset.at));
    });
    canvas.append(this._items);
    this._overview.node.addEventListener('pointerdown', event => this._jump(event));
    this._overview.node.addEventListener('pointermove', event => event.buttons && this._jump(event));
  }

  /** Two fingers pan; with Ctrl, Cmd or a mouse wheel's coarse steps they zoom. */
  private _wheel(event: WheelEvent): void {
    event.preventDefault();
    const coarse =
      event.deltaMode !== 0 || (event.deltaX === 0 && Math.abs(event.deltaY) >= 80 && Number.isInteger(event.deltaY));
    if (event.ctrlKey || event.metaKey || coarse) {
      const lines = event.deltaMode ? event.deltaY * 30 : event.deltaY;
      this._camera.zoomBy(Math.exp(-Math.max(-120, Math.min(120, lines)) / 400), event.offsetX, event.offsetY);
    } else {
      this._camera.pan(-event.deltaX, -event.deltaY);
    }
    this._draw();
  }

  private _press(down: PointerEvent): void {
    const canvas = this._canvas.node;
    const [x, y] = [down.offsetX, down.offsetY];
    let [lastX, lastY, moved] = [down.clientX, down.clientY, false];
    canvas.setPointerCapture(down.pointerId);
    const move = (event: PointerEvent) => {
      moved ||= Math.abs(event.clientX - down.clientX) + Math.abs(event.clientY - down.clientY) > CLICK;
      if (moved) {
        this._camera.pan(event.clientX - lastX, event.clientY - lastY);
        [lastX, lastY] = [event.clientX, event.clientY];
        this._draw();
      }
    };
    const up = () => {
      canvas.removeEventListener('pointermove', move);
      canvas.removeEventListener('pointerup', up);
      canvas.removeEventListener('pointercancel', up);
      moved || this._activate(this._hit(x, y));
    };
    canvas.addEventListener('pointermove', move);
    canvas.addEventListener('pointerup', up);
    canvas.addEventListener('pointercancel', up);
  }

  private _hover(event: PointerEvent): void {
    event.buttons || this._point(this._hit(event.offsetX, event.offsetY));
  }

  private _point(at: number): void {
    if (this._picture && at !== this._picture.hovered) {
      this._picture.hovered = at;
      const node = this._picture.graph.nodes[at];
      this._canvas.node.title = node ? describe(node, this._picture.graph.stats[node.id]) : '';
      this._canvas.node.style.cursor = node ? 'pointer' : '';
      this._draw();
    }
  }

  private _jump(event: PointerEvent): void {
    const [x, y] = this._map.at(event.offsetX, event.offsetY);
    this._camera.centre({ x, y, width: 0, height: 0 }, this._canvas.width, this._canvas.height);
    this._draw();
  }

  /** A scope opens or closes, an operation is chosen, the ground chooses nothing. */
  private _activate(at: number): void {
    const node = this._picture?.graph.nodes[at];
    this._choose(node ? at : -1);
    if (node?.kind === 'scope') {
      this._anchor = node.id;
      this._listener.toggle(node.id, !node.open);
    }
  }

  private _choose(at: number): void {
    const node = this._picture?.graph.nodes[at] ?? null;
    this._chosen = node?.id ?? '';
    if (this._picture) {
      this._picture.chosen = at;
    }
    node
      ? this._canvas.node.setAttribute('aria-activedescendant', itemId(at))
      : this._canvas.node.removeAttribute('aria-activedescendant');
    this._listener.choose(node);
    this._draw();
  }

  private _key(event: KeyboardEvent): void {
    const move = { ArrowDown: [0, 1], ArrowUp: [0, -1], ArrowRight: [1, 0], ArrowLeft: [-1, 0] }[event.key];
    const { chosen = -1 } = this._picture ?? {};
    if (move && event.shiftKey) {
      this._camera.pan(-STEP * move[0], -STEP * move[1]);
    } else if (move) {
      this._step(chosen, move[0], move[1]);
    } else if ((event.key === 'Enter' || event.key === ' ') && chosen >= 0) {
      this._activate(chosen);
    } else if (event.key === 'Escape' && chosen >= 0) {
      this._choose(-1);
    } else if (event.key === '+' || event.key === '-') {
      this.zoom(event.key === '+' ? 1.25 : 1 / 1.25);
    } else if (event.key === '0') {
      this.fit();
    } else {
      return;
    }
    this._draw();
    event.preventDefault();
    event.stopPropagation();
  }

  /** Down and up follow the edges, left and right go to the neighbour on that side. */
  private _step(from: number, dx: number, dy: number): void {
    if (!this._picture) {
      return;
    }
    const { graph, geometry } = this._picture;
    const { sources, targets } = graph.edges;
    let next = -1;
    if (from < 0) {
      next = graph.nodes.findIndex(node => !node.open);
    } else if (dy) {
      const [here, there] = dy > 0 ? [sources, targets] : [targets, sources];
      next = there[Array.prototype.indexOf.call(here, from)] ?? -1;
    }
    next = next >= 0 ? next : nearest(graph.nodes, geometry, from, dx, dy);
    if (next >= 0) {
      this._choose(next);
      this._keepInSight(next);
    }
  }

  private _keepInSight(at: number): void {
    const box = this._picture!.geometry.boxes[at];
    const seen = this._camera.seen(this._canvas.width, this._canvas.height);
    if (!contains(seen, box.x, box.y) || !contains(seen, box.x + box.width, box.y + box.height)) {
      this._camera.centre(box, this._canvas.width, this._canvas.height);
    }
  }

  /** The same nodes as a tree that screen readers read. */
  private _describe(graph: GraphState): void {
    this._items.replaceChildren(
      ...graph.nodes.map((node, i) => {
        const item = document.createElement('div');
        item.id = itemId(i);
        item.dataset.at = String(i);
        item.dataset.id = node.id;
        item.setAttribute('role', 'treeitem');
        item.setAttribute('aria-level', String(node.id.split('/').length));
        node.kind === 'scope' && item.setAttribute('aria-expanded', String(node.open));
        item.setAttribute('aria-label', describe(node, graph.stats[node.id]));
        return item;
      })
    );
    this._canvas.node.removeAttribute('aria-activedescendant');
  }

  private _resized(): void {
    if (this._picture && !this._camera.touched) {
      this._camera.fit(this._picture.geometry.size, this._canvas.width, this._canvas.height);
    }
    this._overview.draw();
  }

  private _camera = new Camera();
  private _map = new Camera();
  private _canvas: Canvas = new Canvas(this._paint, () => this._resized());
  private _overview: Canvas = new Canvas(this._paintOverview);
  private _items = document.createElement('div');
  private _layouter = new Layouter();
  private _ruler: CanvasRenderingContext2D | null = null;
  private _wanted: GraphState | null = null;
  private _picture: Picture | null = null;
  private _laid: GraphNode[] | null = null;
  private _heat: Heat = { colours: [], heat: [], legend: [], hint: '' };
  private _lost = new Set<string>();
  private _chosen = '';
  private _goal = ''; // to be brought into the middle when it is drawn
  private _anchor = ''; // opened or closed last: stays where it is
  private _busy = false;
}

let explorers = 0;
const family = `wb-node-${++explorers}`;

function itemId(at: number): string {
  return `${family}-${at}`;
}

/** An open scope before an operation of the same name. */
function indexOf(graph: GraphState, id: string): number {
  return id ? graph.nodes.findIndex(node => node.id === id) : -1;
}

function flowsOf(graph: GraphState) {
  const { sources, targets, kinds, labels } = graph.edges;
  return Array.from(sources, (source, i) => ({ source, target: targets[i], kind: kinds[i], label: labels[i] }));
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

export function describe(node: GraphNode, milliseconds?: number): string {
  const what =
    node.kind === 'scope'
      ? `scope ${node.id}, ${node.alike > 1 ? `${node.alike} equal blocks, ` : ''}${count(node.count, 'operation')}${node.open ? ', open' : ''}`
      : `${node.id}: ${node.type}`;
  const where = node.device ? `, on ${shortDevice(node.device)}` : '';
  return `${what}${where}${milliseconds === undefined ? '' : `, ${duration(milliseconds)}`}`;
}
