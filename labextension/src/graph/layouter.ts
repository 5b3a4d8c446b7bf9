/** Graph layout with a deadline: by whoever answers, or by a worker of this page (worker.ts). */
import { type Flow, type Geometry, type Item, Layout } from './geometry';

export interface Layouter {
  /** Where everything lies; rejects when it cannot be laid out, takes longer than `deadline` ms or is given up. */
  layout(items: Item[], flows: Flow[], deadline: number): Promise<Geometry>;
  /** Give up the layout in progress, if any. */
  cancel(reason?: string): void;
  dispose(): void;
}

const CANCELLED = 'Layout cancelled.';

/** The engine answers from elsewhere, scope by scope; what is remembered is not asked again. */
export class RemoteLayouter implements Layouter {
  constructor(engine: (dot: string) => Promise<string>) {
    this._layout = new Layout(dot => (this._giveUp ? engine(dot) : Promise.reject(new Error(CANCELLED))));
  }

  layout(items: Item[], flows: Flow[], deadline: number): Promise<Geometry> {
    this.cancel('a newer graph');
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => this.cancel(tooLong(deadline)), deadline);
      const giveUp = (reason: string) => {
        clearTimeout(timer);
        this._giveUp = this._giveUp === giveUp ? null : this._giveUp;
        reject(new Error(reason));
      };
      this._giveUp = giveUp;
      this._layout.place(items, flows).then(
        geometry => {
          clearTimeout(timer);
          this._giveUp = this._giveUp === giveUp ? null : this._giveUp;
          resolve(geometry);
        },
        reason => giveUp((reason as Error).message)
      );
    });
  }

  cancel(reason = CANCELLED): void {
    this._giveUp?.(reason);
  }

  dispose(): void {
    this.cancel();
  }

  private _layout: Layout;
  private _giveUp: ((reason: string) => void) | null = null;
}

export function tooLong(deadline: number): string {
  return `The layout took longer than ${deadline / 1000} s. Close scopes, or allow more time in the settings.`;
}
