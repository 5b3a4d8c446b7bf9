/** The dataflow graph: any size, any of the run's graphs; find, open, colour, choose and follow. */
import type { GraphNode, GraphParameters, GraphState } from '../contract';
import { put } from '../kit/keep';
import { shortDevice, taskOf } from '../kit/text';
import { button, Section, together } from '../kit/section';
import { type Context, defineView } from '../kit/view';
import { speak } from '../kit/voice';
import type { Snapshot } from '../store';
import { Explorer } from '../graph/explorer';
import { type By, CHOICES, heatOf } from '../graph/heat';
import { Pane } from '../graph/pane';
import { Search } from '../graph/search';
import { Stages } from '../graph/stages';

export class GraphSection extends Section {
  constructor(private _context: Context) {
    super('Graph', 'wb-Graph');
    this._state.className = 'wb-Graph-state';
    this._legend.className = 'wb-Legend';
    this._trail.className = 'wb-Graph-trail';
    this._trail.setAttribute('aria-label', 'Where the chosen node lies');
    this._cancel.hidden = true;
    this._search.node.hidden = !!this._context.kept;
    this._choice.className = this._by.className = 'wb-Graph-choice';
    this._choice.setAttribute('aria-label', 'Graph to show');
    this._choice.addEventListener('change', () => this._ask({ key: this._choice.value }));
    this._by.setAttribute('aria-label', 'Colour by');
    this._by.classList.add('wb-mod-whole');
    this._by.title = 'What the colours say';
    this._by.append(...CHOICES.map(([by, words]) => new Option(words, by)));
    this._by.addEventListener('change', () => this._graph && this._draw(this._graph));
    this.tools.append(this._search.node, this._choice, this._stages.choice, this._by, this._state, this._cancel);
    // in the picture, so that lists have the line to themselves
    const zoom = together(
      button('−', 'Zoom out', () => this._explorer.zoom(1 / 1.25)),
      button('+', 'Zoom in', () => this._explorer.zoom(1.25)),
      button('Fit', 'Fit the whole graph into the view', () => this._explorer.fit())
    );
    zoom.classList.add('wb-Graph-zoom');
    this._explorer.node.append(zoom);
    const stage = document.createElement('div');
    stage.className = 'wb-Graph-stage';
    stage.append(this._explorer.node, this._pane.node);
    this.body.append(this._trail, this._stages.node, stage, this._legend);
  }

  set deadline(milliseconds: number) {
    this._explorer.deadline = milliseconds;
  }

  /** What lies on a `lost` task is crossed out, the operation that ended a failed run is marked. */
  show(snapshot: Snapshot, lost: Set<string>): void {
    const graph = snapshot.graph;
    this.note(graph ? '' : 'The graph appears with the first step.');
    const ended = snapshot.status?.state === 'failed' ? snapshot.status.what : '';
    const same = graph === this._graph && [...lost].join() === [...this._lost].join() && ended === this._ended;
    [this._lost, this._ended] = [lost, ended];
    this._sought = ended ? this._sought : '';
    if (!graph) {
      this._graph && this._explorer.clear();
      this._graph = null;
      this._asked = {};
      this._legend.replaceChildren();
      this._legend.dataset.shown = this._state.textContent = this._state.title = '';
      this._choice.hidden = true;
      this._stages.show(null);
      return;
    }
    this._graph = graph;
    if (!same) {
      this._choose(graph);
      this._stages.show(graph);
      this._draw(graph);
      this._pane.show(this._explorer.chosen, graph.details, graph);
      this._search.show(graph.found);
      this._lead();
      this._sought = graph.failed ? this._sought : ''; // nothing is left of it
    }
  }

  /** Bring the operation that ended the run into sight, in the graph that has it, as soon as it is known where it lies. */
  reveal(what: string): void {
    const { key, stage, failed } = this._graph ?? { key: '', stage: -1, failed: null };
    this._sought = what;
    stage >= 0 && !failed ? this._ask({ key }) : this._lead(); // as it runs, where nothing is left of it at this stage
  }

  restyle(): void {
    this._explorer.restyle();
  }

  dispose(): void {
    this._explorer.dispose();
  }

  private _draw(graph: GraphState): void {
    const heat = heatOf(graph, this._by.value as By, this._lost);
    this._explorer.show(graph, heat, this._lost, this._ended);
    this._tell(this._trouble);
    const opens = graph.nodes.some(node => node.kind === 'scope') ? 'thick border: a scope, click to open it' : '';
    this._showLegend(heat.legend, this._failed(graph), [heat.hint, opens].filter(Boolean).join(' · '));
  }

  /** The run's graphs, when there is more than one. */
  private _choose(graph: GraphState): void {
    const text = graph.graphs.map(one => one.label).join('\n');
    if (text !== this._choice.dataset.shown) {
      this._choice.dataset.shown = text;
      this._choice.replaceChildren(...graph.graphs.map(one => new Option(one.label, one.key)));
    }
    put(this._choice, { hidden: graph.graphs.length < 2 });
    if (document.activeElement !== this._choice) {
      put(this._choice, { value: graph.key });
    }
    put(this._choice, { title: this._choice.selectedOptions[0]?.text ?? '' });
  }

  private _tell(trouble: string): void {
    trouble === this._trouble || speak(this.node, trouble);
    this._trouble = trouble;
    const text = trouble || (this._graph?.note ?? '');
    if (this._state.textContent !== text) {
      this._state.textContent = this._state.title = text;
    }
  }

  private _showLegend(legend: [string, string][], failed: string, hint: string): void {
    const text = `${legend.join()}${failed}${hint}${[...this._lost].join()}`;
    if (text === this._legend.dataset.shown) {
      return;
    }
    this._legend.dataset.shown = text;
    const entries = legend.map(([name, color]) => {
      const entry = document.createElement('li');
      const key = document.createElement('i');
      key.style.background = color;
      entry.append(key, name.startsWith('/job:') || name.includes('device:') ? shortDevice(name) : name);
      entry.title = name;
      entry.classList.toggle('wb-mod-lost', this._lost.has(taskOf(name)));
      return entry;
    });
    const words = (className: string, textContent: string) =>
      Object.assign(document.createElement('li'), { className, textContent });
    const alarm = failed ? [words('wb-mod-failed', `! ${failed} ended the run`)] : [];
    this._legend.replaceChildren(...alarm, ...entries, words('wb-Legend-hint', hint));
  }

  /** Open or close a scope, which is chosen with it: what is open now stays open, whatever opened it. */
  private _toggle(id: string, open: boolean): void {
    const now = (this._graph?.nodes ?? []).filter(node => node.open).map(node => node.id);
    const opened = [...now.filter(one => one !== id), ...(open ? [id] : [])];
    const closed = (this._asked.closed ?? []).filter(one => !opened.includes(one) && one !== id);
    const { key, stage, before } = this._asked;
    this._ask({ key, stage, before, opened, closed: open ? closed : [...closed, id], chosen: id });
  }

  /** Another stage of the same graph: what it did is what one wants to see first. */
  private _turn(stage: number, before: boolean): void {
    this._by.value = stage < 0 ? 'device' : stage === this._asked.stage ? this._by.value : 'rewrite';
    this._explorer.leave();
    this._ask({ key: this._graph?.key, stage, before: Number(before) });
  }

  private _chosen(node: GraphNode | null): void {
    this._pane.show(node?.id ?? '', this._graph?.details ?? null, this._graph);
    this._showTrail(node);
    if ((node?.id ?? '') !== (this._asked.chosen ?? '')) {
      this._ask({ ...this._asked, chosen: node?.id ?? '' });
    }
  }

  /** "graph › layer1 › matmul": each part leads there. */
  private _showTrail(node: GraphNode | null): void {
    const parts: GraphNode[] = [];
    for (let at = node; at; at = this._graph?.nodes[at.scope] ?? null) {
      parts.unshift(at);
    }
    this._trail.hidden = !node;
    this._trail.replaceChildren(
      button('graph', 'Show the whole graph', () => this._explorer.fit()),
      ...parts.flatMap(part => [
        '›',
        button(part.id.slice(part.id.lastIndexOf('/') + 1), `Go to ${part.id}`, () => this._explorer.go(part.id))
      ])
    );
  }

  /** Bring a node into sight, opening what it lies in. */
  private _reveal(id: string): void {
    this._explorer.go(id);
    if (!this._graph?.nodes.some(node => node.id === id)) {
      this._ask({ ...this._asked, shown: id, chosen: id });
    }
  }

  /** The operation that ended the run, where the graph shows it. */
  private _failed({ failed }: GraphState): string {
    return failed && failed.at >= 0 && failed.what === this._ended ? failed.what : '';
  }

  private _lead(): void {
    const failed = this._graph?.failed;
    if (!failed || failed.what !== this._sought) {
      return;
    }
    if (failed.at >= 0) {
      this._sought = '';
      this._reveal(failed.id);
    } else {
      this._ask({ key: failed.key });
    }
  }

  private _ask(parameters: GraphParameters): void {
    this._asked = { ...parameters, search: this._search.text };
    this._context.ask('graph', this._asked);
  }

  private _graph: GraphState | null = null;
  private _lost = new Set<string>();
  private _ended = ''; // the operation that ended the run
  private _sought = ''; // the operation that is to be brought into sight
  private _asked: GraphParameters = {};
  private _trouble = '';
  private _state = document.createElement('span');
  private _legend = document.createElement('ul');
  private _trail = document.createElement('nav');
  private _choice = document.createElement('select');
  private _by = document.createElement('select');
  private _explorer = new Explorer(
    {
      toggle: (id, open) => this._toggle(id, open),
      choose: node => this._chosen(node),
      trouble: (text, busy) => {
        this._cancel.hidden = !busy;
        this._tell(text);
      }
    },
    this._context.layouter()
  );
  private _stages = new Stages((stage, before) => this._turn(stage, before));
  private _cancel = button('Cancel', 'Cancel the layout', () => this._explorer.cancel());
  private _pane = new Pane({
    go: id => this._reveal(id),
    jump: this._context.jump,
    close: () => this._explorer.leave()
  });
  private _search = new Search({
    search: () => this._ask(this._asked),
    go: id => this._reveal(id)
  });
}

defineView({ id: 'graph', title: 'Graph', topic: 'graph', wide: true, make: context => new GraphSection(context) });
