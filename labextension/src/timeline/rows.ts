/** Where the rows of the timeline stand: work is tall, what is not work is low, tasks keep apart. */
import type { Lane, TimelineParameters, TimelineView } from '../contract';
import type { Stretch } from '../kit/stretch';

export interface Row {
  top: number;
  height: number;
}

/** Height of the axis above the rows, and width of the names beside them. */
export const AXIS = 22;
export const SIDE = 128;
export const LOW = 11;
const TALL = 18;
const APART = 5;
const USUAL = 16; // pixels that a row of a task with three rows takes
const ALL = 10_000; // pixels: as many rows as there is room for

/** One row per lane, from the top of the canvas on. */
export function layRows(lanes: Lane[]): Row[] {
  let top = AXIS;
  return lanes.map((lane, i) => {
    top += i && lane.task !== lanes[i - 1].task ? APART : 0;
    const row = { top, height: lane.track === 'work' ? TALL : LOW };
    top += row.height + 1;
    return row;
  });
}

/** Pixels that all these rows and the axis need. */
export function heightOf(rows: Row[]): number {
  const last = rows[rows.length - 1];
  return last ? last.top + last.height + APART : AXIS + TALL;
}

/** Height at which all rows of a view can be seen. */
export function wanted(view: TimelineView): number {
  return heightOf(layRows(view.lanes)) + LOW + (view.lane_count > view.lanes.length ? ALL : 0);
}

/** The row under `y`, -1 for none; a pixel beside a row belongs to it. */
export function rowAt(rows: Row[], y: number): number {
  return rows.findIndex(row => y >= row.top - 1 && y <= row.top + row.height + 1);
}

/** "thread 2" and "transfers" below "worker:0 CPU:0": task and device are said once. */
export function labelOf(lanes: Lane[], at: number): string {
  const { label, task, track } = lanes[at];
  const [device, thread] = label.split(/ (?=thread \d+$)/);
  const above = at && lanes[at - 1].task === task ? lanes[at - 1].label : '';
  if (track === 'work') {
    return thread && above.startsWith(`${device} `) ? thread : device;
  }
  return above ? label.replace(/^\S+ /, '') : label;
}

/**
 * What to ask for: as many marks as the canvas can show, the rows of a task or from one on, of a step that is held a stretch;
 * a row for each link, where these are to be told apart.
 */
export function asked(
  canvas: { width: number; height: number },
  from: string | number,
  pinned: { run: string; step: number; before?: number } | null,
  stretch: Stretch | null,
  links = false
): TimelineParameters {
  const [width, room] = [canvas.width - SIDE - 4, Math.max(0, canvas.height - AXIS)];
  return {
    ...(width > 0 ? { pixels: Math.round(width * (window.devicePixelRatio || 1)) } : {}),
    ...(typeof from === 'string'
      ? { task: from, rows: Math.round(room / USUAL) }
      : { first: from, rows: Math.ceil(room / LOW) + 1 }),
    ...(links ? { links: 1 } : {}),
    ...(pinned ?? {}),
    ...(pinned && stretch ? { start: stretch.start, end: stretch.end } : {})
  };
}
