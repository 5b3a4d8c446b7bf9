/** Pointer, wheel and keys on the timeline, as the few things that they mean. */
import type { Frame } from './hit';
import { timeAt } from '../kit/stretch';
import { rowAt, SIDE } from './rows';

/** What hands can do to a timeline; x and y are pixels of its canvas. */
export interface Hands {
  frame(): Frame | null;
  zoom(factor: number, x: number): void;
  pan(pixels: number): void;
  /** Show rows further down; false when there are none. */
  scroll(pixels: number): boolean;
  /** Between two moments and two rows; null chooses nothing. */
  select(from: [number, number], to: [number, number]): void;
  point(x: number, y: number): void;
  click(x: number, y: number): void;
  fit(): void;
  step(dx: number, dy: number): void;
  leave(): void;
}

const CLICK = 4; // pixels of movement up to which a press is a click
const PAN = 60;
const ZOOM = 1.5;

export function listen(canvas: HTMLCanvasElement, hands: Hands): void {
  canvas.addEventListener('wheel', event => wheel(event, hands), { passive: false });
  canvas.addEventListener('pointerdown', event => press(canvas, event, hands));
  canvas.addEventListener('pointermove', event => event.buttons || hands.point(event.offsetX, event.offsetY));
  canvas.addEventListener('pointerleave', () => hands.point(-1, -1));
  canvas.addEventListener('dblclick', () => hands.fit());
  canvas.addEventListener('keydown', event => key(event, hands));
}

/** Ctrl and pinch zoom, sideways pans, down shows further rows; what is not for the timeline scrolls the panel. */
function wheel(event: WheelEvent, hands: Hands): void {
  const scale = event.deltaMode ? 30 : 1;
  const sideways = event.shiftKey ? event.deltaY || event.deltaX : event.deltaX;
  if (event.ctrlKey || event.metaKey) {
    hands.zoom(Math.exp(-Math.max(-120, Math.min(120, scale * event.deltaY)) / 250), event.offsetX);
  } else if (Math.abs(sideways) > (event.shiftKey ? 0 : Math.abs(event.deltaY))) {
    hands.pan(scale * sideways);
  } else if (!hands.scroll(scale * event.deltaY)) {
    return;
  }
  event.preventDefault();
}

/** Dragging selects a stretch on some rows; with Shift, the middle button, or in the names it moves. */
function press(canvas: HTMLCanvasElement, down: PointerEvent, hands: Hands): void {
  const moves = down.shiftKey || down.button === 1 || down.offsetX < SIDE;
  const from: [number, number] = [down.offsetX, down.offsetY];
  let [lastX, lastY, moved] = [down.clientX, down.clientY, false];
  canvas.setPointerCapture(down.pointerId);
  const move = (event: PointerEvent) => {
    moved ||= Math.abs(event.clientX - down.clientX) + Math.abs(event.clientY - down.clientY) > CLICK;
    if (moved && moves) {
      hands.pan(lastX - event.clientX);
      hands.scroll(lastY - event.clientY);
    } else if (moved) {
      hands.select(from, [event.offsetX, event.offsetY]);
    }
    [lastX, lastY] = [event.clientX, event.clientY];
  };
  const up = () => {
    canvas.removeEventListener('pointermove', move);
    canvas.removeEventListener('pointerup', up);
    canvas.removeEventListener('pointercancel', up);
    moved || hands.click(...from);
  };
  canvas.addEventListener('pointermove', move);
  canvas.addEventListener('pointerup', up);
  canvas.addEventListener('pointercancel', up);
}

function key(event: KeyboardEvent, hands: Hands): void {
  if (event.ctrlKey || event.metaKey || event.altKey) {
    return;
  }
  const frame = hands.frame();
  const middle = frame ? (frame.left + frame.right) / 2 : 0;
  const actions: Record<string, () => unknown> = {
    w: () => hands.zoom(ZOOM, middle),
    '+': () => hands.zoom(ZOOM, middle),
    s: () => hands.zoom(1 / ZOOM, middle),
    '-': () => hands.zoom(1 / ZOOM, middle),
    a: () => hands.pan(-PAN),
    d: () => hands.pan(PAN),
    '0': () => hands.fit(),
    ArrowLeft: () => hands.step(-1, 0),
    ArrowRight: () => hands.step(1, 0),
    ArrowUp: () => hands.step(0, -1),
    ArrowDown: () => hands.step(0, 1),
    PageDown: () => hands.scroll(200),
    PageUp: () => hands.scroll(-200),
    Escape: () => hands.leave()
  };
  const action = actions[event.key.length === 1 ? event.key.toLowerCase() : event.key];
  if (action) {
    action();
    event.preventDefault();
    event.stopPropagation();
  }
}

/** Two points of the canvas as a stretch of time on rows; null outside of the rows. */
export function selected(frame: Frame, from: [number, number], to: [number, number]) {
  const inside = (y: number) => Math.min(Math.max(y, frame.rows[0].top), lastOf(frame));
  const row = (y: number) => nearestRow(frame, inside(y));
  if (!frame.rows.length) {
    return null;
  }
  const times = [from[0], to[0]].map(x =>
    timeAt(frame.stretch, frame.left, frame.right, Math.min(Math.max(x, frame.left), frame.right))
  );
  const [a, b] = [row(from[1]), row(to[1])];
  return { start: Math.min(...times), end: Math.max(...times), first: Math.min(a, b), last: Math.max(a, b) };
}

function lastOf(frame: Frame): number {
  const row = frame.rows[frame.rows.length - 1];
  return row.top + row.height;
}

/** The row at `y`; between two tasks, the one above. */
function nearestRow(frame: Frame, y: number): number {
  const exact = rowAt(frame.rows, y);
  return exact >= 0 ? exact : Math.max(0, frame.rows.findIndex(row => row.top > y) - 1);
}
