/** What part of a drawing a canvas shows: pan, zoom and fit, without knowing what is drawn. */

export interface Box {
  x: number;
  y: number;
  width: number;
  height: number;
}

const NEAREST = 4;
const FARTHEST = 0.0005; // 36,000 operations opened out still fit
const COMFORT = 1.3; // small drawings are not blown up beyond this

/** A point p of the drawing lies at p * zoom + (x, y) of the canvas. */
export class Camera {
  x = 0;
  y = 0;
  zoom = 1;
  /** Somebody moved it: it is no longer fitted by itself. */
  touched = false;

  /** The whole of `box`, in the middle of a canvas of this size. */
  fit(box: Box, width: number, height: number, margin = 12): void {
    const room = Math.min((width - 2 * margin) / Math.max(1, box.width), (height - 2 * margin) / Math.max(1, box.height));
    this.zoom = Math.min(COMFORT, Math.max(FARTHEST, room));
    this.centre(box, width, height);
    this.touched = false;
  }

  /** The middle of `box` in the middle of the canvas, at the same zoom. */
  centre(box: Box, width: number, height: number): void {
    this.x = width / 2 - (box.x + box.width / 2) * this.zoom;
    this.y = height / 2 - (box.y + box.height / 2) * this.zoom;
    this.touched = true;
  }

  pan(dx: number, dy: number): void {
    this.x += dx;
    this.y += dy;
    this.touched = true;
  }

  /** What lies under (x, y) of the canvas stays there. */
  zoomBy(factor: number, x: number, y: number): void {
    const zoom = Math.min(NEAREST, Math.max(FARTHEST, this.zoom * factor));
    this.x = x - ((x - this.x) * zoom) / this.zoom;
    this.y = y - ((y - this.y) * zoom) / this.zoom;
    this.zoom = zoom;
    this.touched = true;
  }

  /** (x, y) of the canvas in the drawing. */
  at(x: number, y: number): [number, number] {
    return [(x - this.x) / this.zoom, (y - this.y) / this.zoom];
  }

  /** The part of the drawing that a canvas of this size shows. */
  seen(width: number, height: number): Box {
    const [x, y] = this.at(0, 0);
    return { x, y, width: width / this.zoom, height: height / this.zoom };
  }
}

export function overlaps(a: Box, b: Box): boolean {
  return a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;
}

export function contains(box: Box, x: number, y: number): boolean {
  return x >= box.x && x <= box.x + box.width && y >= box.y && y <= box.y + box.height;
}
