/** Graph layout by a worker of this page, which is replaced when it takes too long. */
import type { Flow, Geometry, Item } from './geometry';
import { type Layouter, tooLong } from './layouter';

interface Answer {
  id: number;
  geometry?: Geometry;
  error?: string;
}

export class WorkerLayouter implements Layouter {
  constructor(private _spawn = () => new Worker(new URL('./layout.worker.js', import.meta.url))) {}

  layout(items: Item[], flows: Flow[], deadline: number): Promise<Geometry> {
    this.cancel('a newer graph');
    const id = ++this._count;
    return new Promise((resolve, reject) => {
      const worker = (this._worker ??= this._spawn());
      const timer = setTimeout(() => this.cancel(tooLong(deadline)), deadline);
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
