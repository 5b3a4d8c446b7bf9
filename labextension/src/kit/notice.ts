/** What is so and what to do, with a button that leads to the proof: it stays while its words change, for whoever presses it. */
import { arrange, mark, put, say } from './keep';
import { button } from './section';

export class Notice {
  /** It is said in `node`. */
  constructor(readonly node: HTMLElement = document.createElement('p')) {}

  /** A fact, what to do, and what the button brings into sight, by whose `title` it is known: none where that is ''. */
  show(fact: string, fix: string, title = '', see = () => {}): void {
    say(this._fact, fact);
    say(this._fix, (fix && ` ${fix}`) + (title && ' '));
    put(this._see, { title });
    this._see.onclick = see;
    mark(this._see, 'aria-label', title);
    arrange(this.node, [this._fact, this._fix, ...(title ? [this._see] : [])]);
  }

  private _fact = document.createElement('b');
  private _fix = document.createElement('span');
  private _see = button('See it', '', () => {});
}
