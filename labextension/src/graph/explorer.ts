/** The graph as something to walk through: what is drawn of it, where, what is chosen, and how one gets from here to there. */
import type { GraphNode, GraphState } from '../contract';
import { type Box, Camera, contains, overlaps } from '../kit/camera';
import { Canvas, type Pen } from '../kit/canvas';
import type { Theme } from '../kit/colour';
import { alike } from '../kit/keep';
import type { Geometry } from './geometry';
import { type Hands, listen } from './hands';
import type { Heat } from './heat';
import type { Layouter } from './layouter';
import { Overview } from './overview';
import { paint, type Picture } from './paint';
import { flowsOf, sized } from './sizes';
import { describe, Tree } from './tree';
import { hit, indexOf, next } from './walk';

export interface Listener {
  /** A scope, which is chosen next, is to be opened or closed. */
  toggle(id: string, open: boolean): void;
  /** A node was chosen, null for none. */
  choose(node: GraphNode | null): void;
  /** What keeps the newest graph from being drawn, '' for nothing. */
  trouble(text: string, busy: boolean): void;
}

const CLOSE = 0.8; // zoom at which one arrives

export class Explorer implements Hands {
  readonly node = document.createElement('div');
  readonly camera = new Camera();
  picture: Picture | null = null;
  deadline = 15000;

  constructor(
    private _listener: Listener,
    private _layouter: Layouter
  ) {
    this.node.className = 'wb-Graph-view';
    this.node.append(this._canvas.node, this._overview.node);
    listen(this._canvas.node, this);
  }

  get width(): number {
    return this._canvas.width;
  }

  get height(): number {
    return this._canvas.height;
  }

  /** Draw `graph`; what lies on a `lost` task is crossed out, operation `ended` by which the run ended is marked. */
  show(graph: GraphState, heat: Heat, lost: Set<string>, ended: string): void {
    const fresh = graph.nodes !== this._wanted?.nodes;
    if (this._wanted && (graph.key !== this._wanted.key || graph.stage !== this._wanted.stage)) {
      this.camera.touched = false;
      this._anchor = this._chosen = '';
    }
    this._wanted = graph;
    [this._heat, this._lost, this._ended] = [heat, lost, ended];
    if (this.picture && this.picture.graph.nodes === graph.nodes) {
      this._freshen(this.picture, graph);
    } else if (this.picture) {
      this._warn(this.picture) || this._draw();
    }
    if (fresh) {
      void this._layOut();
    }
  }

  /** Nothing to draw. */
  clear(): void {
    this._wanted = this.picture = null;
    this._chosen = this._anchor = '';
    this._layouter.cancel();
    this._tree.show(null, -1);
    this._draw();
  }

  fit(): void {
    if (this.picture && this.width) {
      this.camera.fit(this.picture.geometry.size, this.width, this.height);
      this._draw();
    }
  }

  zoom(factor: number, x = this.width / 2, y = this.height / 2): void {
    this.camera.zoomBy(factor, x, y);
    this._draw();
  }

  cancel(): void {
    this._layouter.cancel();
  }

  /** Choose node `id` and bring it into the middle, as soon as it is drawn. */
  go(id: string): void {
    this._chosen = this._goal = id;
    if (this.picture) {
      this._dress(this.picture.graph, this.picture.geometry);
      this._arrive();
    }
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
        const geometry = await this._layouter.layout(sized(graph, this.node), flowsOf(graph), this.deadline);
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

  /** A new layout: what was opened or closed stays where it was on the screen, into which it comes if nothing else is left there. */
  private _enter(graph: GraphState, geometry: Geometry): void {
    const before = this.picture;
    const old = before ? indexOf(before.graph, this._anchor) : -1;
    const now = indexOf(graph, this._anchor);
    this._dress(graph, geometry);
    if (before && old >= 0 && now >= 0) {
      const [a, b] = [before.geometry.boxes[old], geometry.boxes[now]];
      const zoom = this.camera.zoom;
      this.camera.pan((a.x + a.width / 2 - b.x - b.width / 2) * zoom, (a.y - b.y) * zoom);
      const seen = this.camera.seen(this.width, this.height);
      this.width && !geometry.boxes.some(box => overlaps(box, seen)) && this.camera.centre(b, this.width, this.height);
    } else if (!this.camera.touched) {
      this.fit();
    }
    this._tree.show(graph, this.picture!.failed);
    this._arrive();
    this.node.dataset.layouts = String(Number(this.node.dataset.layouts ?? 0) + 1);
  }

  /** Newer times on what stands already; what is under the pointer stays marked, and what looks the same is not drawn again. */
  private _freshen(picture: Picture, graph: GraphState): void {
    const { colours, heat } = this._heat;
    const same = alike(colours, picture.colours) && alike(heat, picture.heat) && alike([...this._lost], [...picture.lost]);
    Object.assign(picture, { graph, colours, heat, lost: this._lost });
    this._count();
    (this._warn(picture) && same) || this._draw();
  }

  /** Mark where the run ended, as far as `picture` shows that; true when it is so already. */
  private _warn(picture: Picture): boolean {
    const failed = this._failedIn(picture.graph);
    const told = failed === picture.failed;
    if (!told) {
      picture.failed = failed;
      this._tree.show(picture.graph, failed);
      this._tree.choose(picture.chosen);
    }
    return told;
  }

  private _failedIn({ failed }: GraphState): number {
    return failed && failed.what === this._ended ? failed.at : -1;
  }

  private _count(): void {
    this.node.dataset.updates = String(Number(this.node.dataset.updates ?? 0) + 1);
  }

  private _dress(graph: GraphState, geometry: Geometry): void {
    this.picture = {
      graph,
      geometry,
      colours: this._heat.colours,
      heat: this._heat.heat,
      lost: this._lost,
      failed: this._failedIn(graph),
      chosen: indexOf(graph, this._chosen),
      hovered: -1,
      focused: false
    };
    this._count();
    this._draw();
  }

  private _arrive(): void {
    const at = this._goal && this.picture ? indexOf(this.picture.graph, this._goal) : -1;
    if (at >= 0) {
      this._goal = '';
      this.camera.zoom = Math.max(this.camera.zoom, CLOSE);
      const box = this.picture!.geometry.boxes[at];
      this.camera.centre(box, this.width, this.height);
      this._unseen = this.width ? null : box; // behind a tab that is just opened
      this._choose(at);
    }
  }

  private _draw(): void {
    this._canvas.draw();
    this._overview.draw();
  }

  // hands
  pan(dx: number, dy: number): void {
    this.camera.pan(dx, dy);
    this._draw();
  }

  point(x: number, y: number): void {
    const at = this._at(x, y);
    if (this.picture && at !== this.picture.hovered) {
      this.picture.hovered = at;
      const node = this.picture.graph.nodes[at];
      this._canvas.node.title = node ? describe(this.picture.graph, at, this.picture.failed) : '';
      this._canvas.node.style.cursor = node ? 'pointer' : '';
      this._draw();
    }
  }

  click(x: number, y: number): void {
    this._activate(this._at(x, y));
  }

  twice(x: number, y: number): void {
    this._at(x, y) < 0 && this.fit();
  }

  walk(dx: number, dy: number): void {
    if (this.picture) {
      const at = next(this.picture.graph, this.picture.geometry, this.picture.chosen, dx, dy);
      if (at >= 0) {
        this._choose(at);
        this._keepInSight(at);
      }
    }
  }

  enter(): boolean {
    const { chosen = -1 } = this.picture ?? {};
    chosen >= 0 && this._activate(chosen);
    return chosen >= 0;
  }

  /** Choose nothing; false when nothing was chosen. */
  leave(): boolean {
    const { chosen = -1 } = this.picture ?? {};
    this._choose(-1);
    return chosen >= 0;
  }

  /** The node under (x, y) of the canvas. */
  private _at(x: number, y: number): number {
    return this.picture && x >= 0 ? hit(this.picture.geometry, ...this.camera.at(x, y)) : -1;
  }

  /** A scope opens or closes, an operation is chosen, the ground chooses nothing. */
  private _activate(at: number): void {
    const node = this.picture?.graph.nodes[at];
    if (node?.kind === 'scope') {
      this._anchor = node.id;
      this._listener.toggle(node.id, !node.open);
    }
    this._choose(node ? at : -1);
  }

  private _choose(at: number): void {
    const node = this.picture?.graph.nodes[at] ?? null;
    this._chosen = node?.id ?? '';
    if (this.picture) {
      this.picture.chosen = at;
    }
    this._tree.choose(node ? at : -1);
    this._listener.choose(node);
    this._draw();
  }

  private _keepInSight(at: number): void {
    const box = this.picture!.geometry.boxes[at];
    const seen = this.camera.seen(this.width, this.height);
    if (!contains(seen, box.x, box.y) || !contains(seen, box.x + box.width, box.y + box.height)) {
      this.camera.centre(box, this.width, this.height);
    }
  }

  private _paint = (pen: Pen, theme: Theme): void => {
    if (this.picture) {
      paint(pen, theme, this.camera, this.width, this.height, this.picture);
    }
  };

  private _resized(): void {
    if (this._unseen && this.width) {
      this.camera.centre(this._unseen, this.width, this.height);
      this._unseen = null;
    } else if (this.picture && !this.camera.touched) {
      this.camera.fit(this.picture.geometry.size, this.width, this.height);
    }
    this._overview.draw();
  }

  private _canvas: Canvas = new Canvas(this._paint, () => this._resized());
  private _tree = new Tree(this._canvas.node, at => this._activate(at));
  private _overview = new Overview(this, (x, y) => {
    this.camera.centre({ x, y, width: 0, height: 0 }, this.width, this.height);
    this._draw();
  });
  private _wanted: GraphState | null = null;
  private _laid: GraphNode[] | null = null;
  private _heat: Heat = { colours: [], heat: [], legend: [], hint: '' };
  private _lost = new Set<string>();
  private _ended = ''; // the operation that ended the run
  private _unseen: Box | null = null; // is to be in the middle when there is room to see it
  private _chosen = '';
  private _goal = ''; // to be brought into the middle when it is drawn
  private _anchor = ''; // opened or closed last: stays where it is
  private _busy = false;
}
