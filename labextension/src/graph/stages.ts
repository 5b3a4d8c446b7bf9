/** How the graph came to be: which stage of it is drawn, before or after its rewrite, and what the rewrite did. */
import type { GraphState } from '../contract';
import { put, say } from '../kit/keep';
import { count } from '../kit/text';
import { button } from '../kit/section';
import { speak } from '../kit/voice';

export class Stages {
  /** Which stage. */
  readonly choice = document.createElement('select');
  /** What it did; hidden for the graph as it runs. */
  readonly node = document.createElement('div');

  /** `ask` hears that another stage is wanted, -1 for the newest; or what it was made of. */
  constructor(private _ask: (stage: number, before: boolean) => void) {
    this.choice.className = 'wb-Graph-choice';
    this.choice.setAttribute('aria-label', 'Stage of the graph');
    this.choice.addEventListener('change', () => {
      this._turn(false);
      this._ask(Number(this.choice.value), false);
    });
    this.node.className = 'wb-Graph-rewrite';
    this.node.append(this._side, this._sentence);
    this.show(null);
  }

  show(graph: GraphState | null): void {
    const stages = graph?.stages ?? [];
    const shown = graph?.stage ?? -1;
    const texts = ['As it runs', ...stages.map(({ name, count: many }, i) => `${i} ${name}: ${count(many, 'operation')}`)];
    if (texts.join('\n') !== this.choice.dataset.shown) {
      this.choice.dataset.shown = texts.join('\n');
      this.choice.replaceChildren(...texts.map((text, i) => option(text, String(i - 1))));
    }
    put(this.choice, { hidden: stages.length < 2 });
    if (document.activeElement !== this.choice || !graph) {
      put(this.choice, { value: String(shown) });
    }
    // what is chosen may have more letters than room
    put(this.choice, { title: `${this.choice.selectedOptions[0]?.text ?? ''}: each rewrite of the graph, and its partition` });
    this._at = shown;
    put(this.node, { hidden: shown < 0 });
    put(this._side, { hidden: shown < 1 });
    const words = graph?.rewrite ?? '';
    if (this._sentence.textContent !== words) {
      this._sentence.textContent = words;
      this._sentence.title = stages[shown]?.note ?? '';
      speak(this.node, words);
    }
    shown < 1 && this._turn(false);
  }

  private _turn(before: boolean): void {
    this._before = before;
    say(this._side, before ? 'Show after' : 'Show before');
  }

  private _at = -1;
  private _before = false;
  private _sentence = document.createElement('span');
  private _side = button('Show before', 'Show the graph before or after this rewrite', () => {
    this._turn(!this._before);
    this._ask(this._at, this._before);
  });
}

function option(text: string, value: string): HTMLOptionElement {
  return Object.assign(document.createElement('option'), { textContent: text, value });
}
