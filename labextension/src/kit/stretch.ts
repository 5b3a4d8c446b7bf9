/** A stretch of time on a canvas: what lies where, pan and zoom. All times in milliseconds. */

export interface Stretch {
  readonly start: number;
  readonly end: number;
}

const SHORTEST = 1e-4; // 0.1 µs: below what clocks tell apart

/** Where `time` lies on a canvas that shows `stretch` between two pixels. */
export function place(stretch: Stretch, left: number, right: number, time: number): number {
  return left + ((time - stretch.start) / (stretch.end - stretch.start)) * (right - left);
}

/** The time at pixel `x`. */
export function timeAt(stretch: Stretch, left: number, right: number, x: number): number {
  return stretch.start + ((x - left) / (right - left)) * (stretch.end - stretch.start);
}

/** `factor` above 1 shows less; what lies at `time` stays where it is; never longer than `longest`. */
export function zoomed(stretch: Stretch, factor: number, time: number, longest: number): Stretch {
  const length = stretch.end - stretch.start;
  const wanted = Math.min(Math.max(SHORTEST, longest), Math.max(SHORTEST, length / factor));
  const start = time - ((time - stretch.start) * wanted) / length;
  return { start, end: start + wanted };
}

export function moved(stretch: Stretch, milliseconds: number): Stretch {
  return { start: stretch.start + milliseconds, end: stretch.end + milliseconds };
}
