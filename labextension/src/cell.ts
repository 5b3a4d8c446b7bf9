/** The page in a cell of any notebook, as anywidget loads it; `workbench/widgets/live.py` is its other end. */
import type { Answer } from './contract';
import { RemoteLayouter } from './graph/layouter';
import { say } from './kit/keep';
import { Page } from './page';
import { Talk } from './talk';

/** What anywidget gives of a widget's model. */
interface Model {
  get(name: string): any;
  send(content: unknown): void;
  on(name: 'msg:custom', heard: (content: any, buffers?: DataView[]) => void): void;
  off(name: 'msg:custom', heard: (content: any, buffers?: DataView[]) => void): void;
}

/** One widget's line to the kernel, however many cells show it. */
class Line {
  /** What could not be done when it was asked for. */
  refused = '';

  constructor(private _model: Model) {
    _model.on('msg:custom', this._heard);
    this._timer = setInterval(() => this._tell(), 1000);
  }

  readonly talk = new Talk(
    request => this._model.send({ page: this._page, ...request }),
    () => this._tell()
  );
  readonly cells = new Set<Cell>();

  async command(command: 'pause' | 'resume' | 'stop'): Promise<void> {
    this._hear(await this.talk.command(command));
  }

  async turn(knob: string, part: string, value: number): Promise<void> {
    this._hear(await this.talk.turn(knob, part, value));
  }

  /** Hear of what any of the cells shows. */
  attend(): void {
    this.talk.watch([...new Set([...this.cells].flatMap(cell => cell.topics))]);
  }

  /** Graphviz's plain text of a digraph, laid out by the kernel. */
  layOut(dot: string): Promise<string> {
    const id = ++this._asked;
    this._model.send({ page: this._page, command: 'layout', id, argument: dot });
    return new Promise((resolve, reject) => this._drawing.set(id, { resolve, reject }));
  }

  dispose(): void {
    clearInterval(this._timer);
    this._model.off('msg:custom', this._heard);
  }

  private _heard = (content: any, buffers: DataView[] = []): void => {
    if (content.page !== this._page) {
      return;
    }
    if (content.said) {
      this.talk.receive(content.said, buffers);
    } else if (content.kind === 'again') {
      this.talk.again();
    } else {
      const drawing = this._drawing.get(content.id);
      this._drawing.delete(content.id);
      content.error ? drawing?.reject(new Error(content.error)) : drawing?.resolve(content.plain);
    }
  };

  private _hear(answer: Answer): void {
    this.refused = answer.ok ? '' : answer.error;
    this._tell();
  }

  private _tell(): void {
    this.cells.forEach(cell => cell.show());
  }

  /** Pages that show the same widget hear each other's answers. */
  private _page = Math.random().toString(36);
  private _timer: ReturnType<typeof setInterval>;
  private _asked = 0;
  private _drawing = new Map<number, { resolve: (plain: string) => void; reject: (reason: Error) => void }>();
}

/** One place that shows it; it is watched only while it is in sight. */
class Cell {
  constructor(
    private _line: Line,
    node: HTMLElement
  ) {
    this._page = new Page(node, {
      ask: (topic, parameters) => _line.talk.parameters(topic, parameters),
      turn: (knob, part, value) => _line.turn(knob, part, value),
      command: command => _line.command(command),
      attend: () => _line.attend(),
      layouter: () => new RemoteLayouter(dot => _line.layOut(dot)),
      jump: null
    });
    node.classList.add('wb-Cell');
    this._page.empty.append(this._words);
    _line.cells.add(this);
    this._sight.observe(node);
    this._themes.observe(document.body, { attributes: true });
    this._dark.addEventListener('change', this._restyle);
    document.addEventListener('visibilitychange', this._attend);
    this.show();
  }

  get topics() {
    return this._seen && !document.hidden ? this._page.topics : [];
  }

  show(): void {
    const { talk, refused } = this._line;
    say(this._words, talk.snapshot.status ? NOTHING_YET : NOTHING_HEARD);
    this._page.show(talk.snapshot, { name: '', trouble: talk.trouble || refused, silence: talk.silence });
  }

  dispose(): void {
    this._line.cells.delete(this);
    this._line.attend();
    this._sight.disconnect();
    this._themes.disconnect();
    this._dark.removeEventListener('change', this._restyle);
    document.removeEventListener('visibilitychange', this._attend);
    this._page.dispose();
  }

  private _attend = () => this._line.attend();
  private _restyle = () => this._page.restyle();
  private _words = document.createElement('p');
  private _seen = false;
  private _page: Page;
  private _sight = new IntersectionObserver(entries => {
    this._seen = entries[entries.length - 1].isIntersecting;
    this._attend();
  });
  private _themes = new MutationObserver(this._restyle);
  private _dark = matchMedia('(prefers-color-scheme: dark)');
}

/** A cell that comes into sight knows nothing of what runs. */
const NOTHING_HEARD = 'Asking the kernel what runs…';
const NOTHING_YET =
  'Nothing ran yet. Run a cell that calls Session.run: the graph, step times and loss appear here by themselves.';

/** By the widgets' own names: the model that anywidget hands out is another object each time. */
const lines = new Map<string, Line>();

export const cell = {
  initialize({ model }: { model: Model }): () => void {
    const name = model.get('name');
    const line = new Line(model);
    lines.set(name, line);
    return () => {
      line.dispose();
      lines.delete(name);
    };
  },
  render({ model, el }: { model: Model; el: HTMLElement }): () => void {
    const shown = new Cell(lines.get(model.get('name'))!, el);
    return () => shown.dispose();
  }
};
