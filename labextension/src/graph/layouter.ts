/** Graph layout with a deadline: a worker that is replaced when it takes too long. */
import type { Flow, Geometry, Item } from './geometry';

interface Answer {
  id: number;
  geometry?: Geometry;
  error?: string;
}

export class Layouter {
  constructor(private _spawn = () => new Worker(new URL('./layout.worker.js', import.meta.url))) {}

  /** Where everything lies; rejects when it cannot be laid out, takes longer than `deadline` ms or is given up. */
  layout(items: Item[], flows: Flow[], deadline: number): Promise<Geometry> {
    this.cancel('a newer graph');
    const id = ++this._count;
    return new Promise((resolve, reject) => {
      const worker = (this._worker ??= this._spawn());
      const timer = setTimeout(
        () =>
          this.cancel(`The layout took longer than ${deadline / 1000} s. Close scopes, or allow more time in the settings.`),
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
          event.data.geometry ? resolve(event.data.geometry) : reject(new Error(event.data.error));
        }
      };
      worker.onerror = event => this.cancel(`The layout engine could not be started: ${event.message}`);
      worker.postMessage({ id, items, flows });
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
