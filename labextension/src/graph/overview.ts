/** Where one is in a drawing that does not fit: all of it, small, in the corner; pressing it leads there. */
import { Camera } from '../kit/camera';
import { Canvas, type Pen } from '../kit/canvas';
import type { Theme } from '../kit/colour';
import type { Picture } from './paint';

/** What it shows a part of. */
export interface Shown {
  readonly picture: Picture | null;
  readonly camera: Camera;
  readonly width: number;
  readonly height: number;
}

export class Overview {
  /** `go` hears which point of the drawing is to be in the middle. */
  constructor(
    private _of: Shown,
    go: (x: number, y: number) => void
  ) {
    const lead = (event: PointerEvent) => go(...this._map.at(event.offsetX, event.offsetY));
    this.node.className = 'wb-Graph-overview';
    this.node.setAttribute('aria-hidden', 'true');
    this.node.addEventListener('pointerdown', lead);
    this.node.addEventListener('pointermove', event => event.buttons && lead(event));
  }

  get node(): HTMLCanvasElement {
    return this._canvas.node;
  }

  draw(): void {
    this._canvas.draw();
  }

  restyle(): void {
    this._canvas.restyle();
  }

  dispose(): void {
    this._canvas.dispose();
  }

  private _paint = (pen: Pen, theme: Theme): void => {
    const { picture, camera, width, height } = this._of;
    const size = picture?.geometry.size;
    const seen = camera.seen(width, height);
    const whole =
      !size || (seen.x <= 0 && seen.y <= 0 && seen.x + seen.width >= size.width && seen.y + seen.height >= size.height);
    this.node.classList.toggle('wb-mod-hidden', whole);
    if (whole) {
      return;
    }
    this._map.fit(size, this._canvas.width, this._canvas.height, 3);
    const { x, y, zoom } = this._map;
    picture!.graph.nodes.forEach((node, i) => {
      const box = picture!.geometry.boxes[i];
      pen.fillStyle = node.open ? theme.panel : picture!.colours[i];
      pen.fillRect(x + box.x * zoom, y + box.y * zoom, Math.max(1, box.width * zoom), Math.max(1, box.height * zoom));
    });
    const failed = picture!.geometry.boxes[picture!.failed];
    if (failed) {
      pen.fillStyle = theme.error;
      pen.fillRect(x + failed.x * zoom - 2, y + failed.y * zoom - 2, failed.width * zoom + 4, failed.height * zoom + 4);
    }
    pen.strokeStyle = theme.brand;
    pen.lineWidth = 1.5;
    pen.strokeRect(x + seen.x * zoom, y + seen.y * zoom, seen.width * zoom, seen.height * zoom);
  };

  private _map = new Camera();
  private _canvas: Canvas = new Canvas(this._paint);
}
