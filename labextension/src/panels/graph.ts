/** The dataflow graph: hue is the device, strength is the time; scopes open and close. */
import { GraphNode, GraphState } from '../contract';
import { duration, shortDevice, taskOf } from '../kit/text';
import { Layouter } from '../layout';
import { button, Section } from './section';

const FAINT = 14;
const STRONG = 56;
const SMALLEST = 0.005; // 36,000 operations opened out still fit
const REMEMBERED = 24;
const CLUSTER = 'cluster_';

export type Toggle = (command: 'expand' | 'collapse' | 'show', argument: string) => void;

export class GraphSection extends Section {
  deadline = 15000;

  constructor(private _toggle: Toggle) {
    super('Graph', 'wb-Graph');
    this._view.className = 'wb-Graph-view';
    this._view.setAttribute('role', 'group');
    this._view.setAttribute('aria-label', 'Dataflow graph; arrow keys move between operations, Enter opens or closes a scope');
    this._state.className = 'wb-Graph-state';
    this._state.setAttribute('role', 'status');
    this._legend.className = 'wb-Legend';
    this._cancel.hidden = true;
    this._choice.className = 'wb-Graph-choice';
    this._choice.setAttribute('aria-label', 'Graph to show');
    this._choice.addEventListener('change', () => this._toggle('show', this._choice.value));
    this.tools.append(
      this._choice,
      this._state,
      this._cancel,
      button('−', 'Zoom out', () => this._zoomBy(1 / 1.25)),
      button('+', 'Zoom in', () => this._zoomBy(1.25)),
      button('Fit', 'Fit the whole graph into the view', () => this._fit())
    );
    this.body.append(this._view, this._legend);
    this._listen();
  }

  /** What lies on a `lost` task is marked. */
  show(graph: GraphState | null, lost = new Set<string>()): void {
    this._graph = graph;
    this._lost = lost;
    this.note(graph?.dot ? '' : 'The graph appears with the first step.');
    if (!graph?.dot) {
      this._drawn = this._trouble = '';
      this._view.replaceChildren();
      this._state.textContent = this._state.title = '';
      this._legend.replaceChildren();
      this._legend.dataset.shown = '';
      this._choice.hidden = true;
      return;
    }
    this._choose(graph);
    if (graph.dot !== this._drawn) {
      void this._draw();
    } else {
      this._recolour();
    }
  }

  /** The run's graphs, when there is more than one. */
  private _choose(graph: GraphState): void {
    const text = graph.graphs.map(one => one.label).join('\n');
    if (text !== this._choice.dataset.shown) {
      this._choice.dataset.shown = text;
      this._choice.replaceChildren(...graph.graphs.map(one => new Option(one.label, one.key)));
    }
    this._choice.hidden = graph.graphs.length < 2;
    if (document.activeElement !== this._choice) {
      this._choice.value = graph.key;
    }
    if (graph.key !== this._shown) {
      this._shown = graph.key;
      this._touched = false;
    }
  }

  dispose(): void {
    this._layouter.dispose();
    this._sizes.disconnect();
  }

  /** One layout at a time; the newest graph follows when the current one is done. */
  private async _draw(): Promise<void> {
    if (this._busy) {
      return;
    }
    this._busy = true;
    while (this._graph?.dot && this._graph.dot !== this._drawn) {
      const dot = this._graph.dot;
      this._drawn = dot;
      await this._layOut(dot);
    }
    this._busy = false;
    this._recolour();
  }

  private async _layOut(dot: string): Promise<void> {
    const late = setTimeout(() => {
      this._state.textContent = 'Laying out…';
      this._cancel.hidden = false;
    }, 300);
    try {
      const svg = this._known.get(dot) ?? (await this._layouter.layout(dot, this.deadline));
      this._remember(dot, svg);
      this._insert(svg.cloneNode(true) as SVGSVGElement);
      this._trouble = '';
    } catch (reason) {
      this._trouble = (reason as Error).message;
    }
    clearTimeout(late);
    this._cancel.hidden = true;
  }

  private _remember(dot: string, svg: SVGSVGElement): void {
    this._known.set(dot, svg);
    if (this._known.size > REMEMBERED) {
      this._known.delete(this._known.keys().next().value!);
    }
  }

  private _insert(svg: SVGSVGElement): void {
    const focused = (document.activeElement as HTMLElement | null)?.dataset?.id;
    const hadFocus = this._view.contains(document.activeElement);
    const nodes = new Map((this._graph?.nodes ?? []).map(node => [node.id, node]));
    const box = svg.viewBox.baseVal;
    this._size = { width: box.width || 1, height: box.height || 1 };
    svg.removeAttribute('width');
    svg.removeAttribute('height');
    this._shapes.clear();
    svg.querySelectorAll<SVGGElement>('g.node, g.cluster').forEach(group => {
      const title = group.querySelector(':scope > title')?.textContent ?? '';
      const cluster = group.classList.contains('cluster');
      const id = cluster && title.startsWith(CLUSTER) ? title.slice(CLUSTER.length) : title;
      const node = nodes.get(id) ?? (cluster ? undefined : nodes.get(group.id));
      this._equip(group, node?.id ?? id, node, cluster);
    });
    this._view.replaceChildren(svg);
    squeeze(svg);
    this._first()?.setAttribute('tabindex', '0');
    this._touched ? this._resize() : this._fit();
    if (hadFocus) {
      (this._find(focused ?? '') ?? this._first())?.focus();
    }
  }

  private _equip(group: SVGGElement, id: string, node: GraphNode | undefined, cluster: boolean): void {
    group.dataset.id = id;
    group.setAttribute('tabindex', '-1');
    const scope = cluster || node?.kind === 'scope';
    group.setAttribute('role', scope ? 'button' : 'img');
    group.classList.toggle('wb-mod-scope', scope && !cluster);
    if (scope) {
      group.setAttribute('aria-expanded', String(cluster));
    }
    if (!cluster) {
      this._shapes.set(id, group);
    }
    const stroke = group
      .querySelector(':scope > :is(path, polygon, ellipse), :scope > g :is(path, polygon, ellipse)')
      ?.getAttribute('stroke');
    if (stroke && !cluster) {
      group.style.setProperty('--wb-device', stroke.slice(0, 7));
    }
    const words = cluster ? `scope ${id}, open` : describe(node, id);
    group.setAttribute('aria-label', words);
    const title = group.querySelector(':scope > title');
    if (title) {
      title.textContent = cluster ? `${id} (click to close)` : words;
    }
  }

  /** Timings change colours and titles, never the layout. */
  private _recolour(): void {
    const graph = this._graph;
    if (!graph || this._busy) {
      return;
    }
    const colors = new Map(graph.devices.map(device => [device.name, device.color]));
    const times = graph.nodes.map(node => graph.stats[node.id] ?? 0);
    const most = Math.max(1e-9, ...times);
    graph.nodes.forEach((node, i) => {
      const shape = this._shapes.get(node.id);
      if (!shape) {
        return;
      }
      shape.classList.toggle('wb-mod-lost', this._lost.has(taskOf(node.device)));
      shape.style.setProperty('--wb-device', colors.get(node.device) ?? 'var(--jp-border-color0)');
      shape.style.setProperty('--wb-strength', `${(FAINT + (STRONG - FAINT) * (times[i] / most)).toFixed(1)}%`);
      const words = describe(node, node.id, graph.stats[node.id]);
      shape.setAttribute('aria-label', words);
      shape.querySelector(':scope > title')!.textContent = words;
    });
    this._state.textContent = this._state.title = this._trouble || (graph.note ?? '');
    this._view.dataset.updates = String(Number(this._view.dataset.updates ?? 0) + 1);
    this._showLegend(graph);
  }

  private _showLegend(graph: GraphState): void {
    const text = graph.devices.map(device => device.name + device.color + this._lost.has(taskOf(device.name))).join();
    if (text === this._legend.dataset.shown) {
      return;
    }
    this._legend.dataset.shown = text;
    const entries = graph.devices.map(device => {
      const entry = document.createElement('li');
      const key = document.createElement('i');
      key.style.background = device.color;
      entry.append(key, shortDevice(device.name));
      entry.title = device.name;
      entry.classList.toggle('wb-mod-lost', this._lost.has(taskOf(device.name)));
      return entry;
    });
    const hint = document.createElement('li');
    hint.className = 'wb-Legend-hint';
    hint.textContent = 'stronger colour: more time · thick border: a scope, click to open it';
    this._legend.replaceChildren(...entries, hint);
  }

  private _listen(): void {
    this._cancel.addEventListener('click', () => this._layouter.cancel());
    this._view.addEventListener('click', event => {
      const group = (event.target as Element).closest<SVGGElement>('g.node, g.cluster');
      if (group && !this._dragged) {
        this._activate(group);
      }
    });
    this._view.addEventListener('keydown', event => this._key(event));
    this._view.addEventListener(
      'wheel',
      event => {
        if (event.ctrlKey || event.metaKey) {
          event.preventDefault();
          this._zoomBy(event.deltaY < 0 ? 1.1 : 1 / 1.1);
        }
      },
      { passive: false }
    );
    this._view.addEventListener('pointerdown', event => this._drag(event));
    this._sizes.observe(this._view);
  }

  private _activate(group: SVGGElement): void {
    if (group.getAttribute('role') === 'button') {
      this._toggle(group.classList.contains('cluster') ? 'collapse' : 'expand', group.dataset.id!);
    }
  }

  private _key(event: KeyboardEvent): void {
    const all = [...this._view.querySelectorAll<SVGGElement>('g.node, g.cluster')];
    const now = all.indexOf(document.activeElement as unknown as SVGGElement);
    const move = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (move && all.length) {
      const next = all[(now + move + all.length) % all.length];
      all.forEach(group => group.setAttribute('tabindex', group === next ? '0' : '-1'));
      next.focus();
    } else if ((event.key === 'Enter' || event.key === ' ') && now >= 0) {
      this._activate(all[now]);
    } else if (event.key === '+' || event.key === '-') {
      this._zoomBy(event.key === '+' ? 1.25 : 1 / 1.25);
    } else if (event.key === '0') {
      this._fit();
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  }

  private _drag(down: PointerEvent): void {
    const { scrollLeft, scrollTop } = this._view;
    this._dragged = false;
    const move = (event: PointerEvent) => {
      const [dx, dy] = [event.clientX - down.clientX, event.clientY - down.clientY];
      this._dragged = this._dragged || Math.abs(dx) + Math.abs(dy) > 5;
      this._view.scrollTo(scrollLeft - dx, scrollTop - dy);
    };
    const up = () => {
      window.removeEventListener('pointermove', move);
      window.removeEventListener('pointerup', up);
    };
    window.addEventListener('pointermove', move);
    window.addEventListener('pointerup', up);
  }

  /** What is in the middle stays there. */
  private _zoomBy(factor: number): void {
    const { clientWidth, clientHeight, scrollLeft, scrollTop } = this._view;
    const [x, y] = [scrollLeft + clientWidth / 2, scrollTop + clientHeight / 2];
    const before = this._zoom;
    this._touched = true;
    this._zoom = Math.min(4, Math.max(SMALLEST, this._zoom * factor));
    this._resize();
    this._view.scrollTo((x * this._zoom) / before - clientWidth / 2, (y * this._zoom) / before - clientHeight / 2);
  }

  /** The whole graph, in the middle, at any size. */
  private _fit(): void {
    this._touched = false;
    const { clientWidth, clientHeight } = this._view;
    if (clientWidth) {
      const whole = Math.min((clientWidth - 16) / this._size.width, (clientHeight - 16) / this._size.height);
      this._zoom = Math.min(1.4, Math.max(SMALLEST, whole));
      this._resize();
      this._view.scrollLeft = (this._view.scrollWidth - clientWidth) / 2;
      this._view.scrollTop = (this._view.scrollHeight - clientHeight) / 2;
    }
  }

  private _resize(): void {
    const svg = this._view.querySelector('svg');
    if (svg) {
      svg.style.width = `${this._size.width * this._zoom}px`;
      svg.style.height = `${this._size.height * this._zoom}px`;
    }
  }

  private _first(): SVGGElement | null {
    return this._view.querySelector<SVGGElement>('g.node');
  }

  private _find(id: string): SVGGElement | null {
    return this._view.querySelector<SVGGElement>(`g[data-id="${CSS.escape(id)}"]`);
  }

  private _view = document.createElement('div');
  private _state = document.createElement('span');
  private _legend = document.createElement('ul');
  private _cancel = button('Cancel', 'Cancel the layout', () => undefined);
  private _lost = new Set<string>();
  private _choice = document.createElement('select');
  private _shown = ''; // of the graph that is shown
  private _layouter = new Layouter();
  private _sizes = new ResizeObserver(() => this._touched || this._fit());
  private _known = new Map<string, SVGSVGElement>();
  private _shapes = new Map<string, SVGGElement>();
  private _graph: GraphState | null = null;
  private _drawn = '';
  private _trouble = ''; // why the newest graph is not drawn
  private _busy = false;
  private _touched = false;
  private _dragged = false;
  private _zoom = 1;
  private _size = { width: 1, height: 1 };
}

/** The layout engine knows other fonts than the browser: words wider than their shape are set narrower. */
function squeeze(svg: SVGSVGElement): void {
  const words = [...svg.querySelectorAll<SVGTextElement>('g.node text')].map(text => {
    const shape = text.parentElement?.querySelector<SVGGraphicsElement>(':scope > :is(path, polygon, ellipse)');
    return { text, room: (shape?.getBBox().width ?? Infinity) - 6, width: text.getComputedTextLength() };
  });
  for (const { text, room, width } of words) {
    if (width > room && room > 0) {
      text.setAttribute('textLength', room.toFixed(1));
      text.setAttribute('lengthAdjust', 'spacingAndGlyphs');
    }
  }
}

function describe(node: GraphNode | undefined, id: string, milliseconds?: number): string {
  if (!node) {
    return id;
  }
  const what = node.kind === 'scope' ? `scope ${node.id}, ${node.count} operations` : node.title || node.id;
  const where = node.device ? `, on ${shortDevice(node.device)}` : '';
  const time = milliseconds === undefined ? '' : `, ${duration(milliseconds)}`;
  return what + where + time;
}
