/** Graph layout with a deadline: a worker that is replaced when it takes too long. */

interface Answer {
  id: number;
  svg?: string;
  error?: string;
}

export class Layouter {
  /** SVG of `dot`; rejects when the graph cannot be drawn, takes longer than `deadline` ms or is given up. */
  layout(dot: string, deadline: number): Promise<SVGSVGElement> {
    this.cancel('a newer graph');
    const id = ++this._count;
    return new Promise((resolve, reject) => {
      const worker = this._worker ?? (this._worker = spawn());
      const timer = setTimeout(
        () =>
          this.cancel(`The layout took longer than ${deadline / 1000} s. Collapse scopes, or allow more time in the settings.`),
        deadline
      );
      this._giveUp = reason => {
        clearTimeout(timer);
        reject(new Error(reason));
      };
      worker.onmessage = (event: MessageEvent<Answer>) => {
        if (event.data.id === id) {
          clearTimeout(timer);
          this._giveUp = null;
          event.data.svg ? resolve(clean(event.data.svg)) : reject(new Error(event.data.error));
        }
      };
      worker.onerror = event => this.cancel(`The layout engine could not be started: ${event.message}`);
      worker.postMessage({ id, dot });
    });
  }

  /** Give up the layout in progress, if any. */
  cancel(reason = 'Layout cancelled.'): void {
    if (this._giveUp) {
      this._worker?.terminate();
      this._worker = null;
      this._giveUp(reason);
      this._giveUp = null;
    }
  }

  dispose(): void {
    this.cancel();
    this._worker?.terminate();
    this._worker = null;
  }

  private _worker: Worker | null = null;
  private _giveUp: ((reason: string) => void) | null = null;
  private _count = 0;
}

function spawn(): Worker {
  return new Worker(new URL('./layout.worker.js', import.meta.url));
}

/** The SVG without anything that could run or load: DOT attributes may carry links and scripts. */
function clean(text: string): SVGSVGElement {
  const svg = new DOMParser().parseFromString(text, 'image/svg+xml').documentElement as unknown as SVGSVGElement;
  svg.querySelectorAll('script, foreignObject, image, style').forEach(node => node.remove());
  svg.querySelectorAll('a').forEach(link => link.replaceWith(...link.childNodes));
  svg.querySelectorAll('*').forEach(node => {
    for (const attribute of [...node.attributes]) {
      if (/^on|href$/i.test(attribute.name)) {
        node.removeAttribute(attribute.name);
      }
    }
  });
  return document.importNode(svg, true);
}
