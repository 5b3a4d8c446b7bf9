/** A canvas that keeps its size and sharpness, draws once per repaint at most, and knows the theme. */
import { type Theme, themeOf } from './colour';

export type Pen = CanvasRenderingContext2D;

export class Canvas {
  readonly node = document.createElement('canvas');
  width = 0;
  height = 0;

  constructor(
    private _paint: (pen: Pen, theme: Theme) => void,
    private _resized: () => void = () => undefined
  ) {
    this._sizes.observe(this.node);
  }

  /** Draw with the next repaint. */
  draw(): void {
    this._due ||= requestAnimationFrame(() => {
      this._due = 0;
      this.drawNow();
    });
  }

  drawNow(): void {
    const pen = this.width && this.height ? this.node.getContext('2d') : null;
    if (pen) {
      const ratio = window.devicePixelRatio || 1;
      pen.setTransform(ratio, 0, 0, ratio, 0, 0);
      pen.clearRect(0, 0, this.width, this.height);
      this._paint(pen, (this._theme ??= themeOf(this.node)));
    }
  }

  /** The theme changed. */
  restyle(): void {
    this._theme = null;
    this.draw();
  }

  dispose(): void {
    cancelAnimationFrame(this._due);
    this._sizes.disconnect();
  }

  private _measure(): void {
    const { clientWidth, clientHeight } = this.node;
    const ratio = window.devicePixelRatio || 1;
    const [width, height] = [Math.round(clientWidth * ratio), Math.round(clientHeight * ratio)];
    if (width !== this.node.width || height !== this.node.height) {
      [this.node.width, this.node.height] = [width, height];
    }
    [this.width, this.height] = [clientWidth, clientHeight];
    this._resized();
    this.drawNow(); // a canvas that changed its size is empty until it is drawn
  }

  private _due = 0;
  private _theme: Theme | null = null;
  private _sizes = new ResizeObserver(() => this._measure());
}
