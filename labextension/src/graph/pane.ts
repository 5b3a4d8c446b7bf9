/** Everything known about one node, beside the graph: facts, cost, the line of the program, what flows in and out. */
import type { GraphState, NodeDetails, NodeLink } from '../contract';
import { put, say } from '../kit/keep';
import { duration, format } from '../kit/text';
import { button } from '../kit/section';

export interface Links {
  go(id: string): void;
  /** Show a line of the program, null where there is no way to it. */
  jump: ((source: string) => void) | null;
  close(): void;
}

export class Pane {
  readonly node = document.createElement('aside');

  constructor(private _links: Links) {
    this.node.className = 'wb-Pane';
    this.node.setAttribute('aria-label', 'Chosen node');
    this.node.hidden = true;
  }

  /** `details` of a node of `graph`; null while they are on their way. What is listed stays while its time changes. */
  show(id: string, details: NodeDetails | null, graph: GraphState | null): void {
    put(this.node, { hidden: !id });
    const time = graph?.stats[id];
    const known = details?.id === id ? details : null;
    const listed = JSON.stringify([id, known, time === undefined]);
    if (listed !== this._listed) {
      this._listed = listed;
      const head = document.createElement('header');
      const close = button('×', 'Close', () => this._links.close());
      head.append(Object.assign(document.createElement('b'), { textContent: id }), close);
      this.node.replaceChildren(head, ...(known ? this._body(known, time !== undefined) : []));
    }
    if (time !== undefined) {
      const whole = Object.values(graph!.stats).reduce((sum, one) => sum + one, 0);
      say(this._time, `${duration(time)}, ${format((100 * time) / (whole || 1), 2)} % of what is drawn`);
    }
  }

  private _body(details: NodeDetails, timed: boolean): HTMLElement[] {
    const list = document.createElement('dl');
    const fact = (name: string, shown: HTMLElement) =>
      list.append(Object.assign(document.createElement('dt'), { textContent: name }), shown);
    for (const { name, value } of details.facts) {
      const shown = document.createElement('dd');
      shown.append(name === 'Built at' && details.source && this._links.jump ? this._source(details.source, value) : value);
      fact(name, shown);
    }
    timed && fact('Newest step', this._time);
    const more = Object.assign(document.createElement('p'), { textContent: `and ${details.more} more`, hidden: !details.more });
    return [
      list,
      ...this._flows('Inputs', details.inputs),
      ...this._flows('Outputs', details.outputs),
      ...this._flows('For the gradient of', details.gradient_of),
      ...this._flows('Its gradient', details.gradients),
      more
    ];
  }

  private _source(source: string, words: string): HTMLButtonElement {
    return button(words.replace(/^.*[\\/](?=[^\\/]+$)/, ''), `Go to ${source}`, () => this._links.jump?.(source));
  }

  private _flows(title: string, links: NodeLink[]): HTMLElement[] {
    if (!links.length) {
      return [];
    }
    const list = document.createElement('ul');
    list.append(
      ...links.map(({ id, text }) => {
        const item = document.createElement('li');
        item.append(
          button(id, `Show ${id}`, () => this._links.go(id)),
          Object.assign(document.createElement('span'), { textContent: text })
        );
        return item;
      })
    );
    return [Object.assign(document.createElement('h4'), { textContent: title }), list];
  }

  private _listed = '';
  private _time = document.createElement('dd');
}
