/** Pointer, wheel and keys on the graph, as the few things that they mean. */

/** What hands can do to a graph; x and y are pixels of its canvas. */
export interface Hands {
  pan(dx: number, dy: number): void;
  zoom(factor: number, x?: number, y?: number): void;
  fit(): void;
  point(x: number, y: number): void;
  click(x: number, y: number): void;
  /** A double click; on the ground it fits. */
  twice(x: number, y: number): void;
  /** To the next node in a direction. */
  walk(dx: number, dy: number): void;
  /** Open, close or choose the chosen node; false when there is none. */
  enter(): boolean;
  leave(): boolean;
}

const STEP = 60; // pixels that a key pans
const CLICK = 4; // pixels of movement up to which a press is a click
const ZOOM = 1.25;
const MOVES: Record<string, [number, number]> = { ArrowDown: [0, 1], ArrowUp: [0, -1], ArrowRight: [1, 0], ArrowLeft: [-1, 0] };

export function listen(canvas: HTMLCanvasElement, hands: Hands): void {
  canvas.addEventListener('wheel', event => wheel(event, hands), { passive: false });
  canvas.addEventListener('pointerdown', event => press(canvas, event, hands));
  canvas.addEventListener('pointermove', event => event.buttons || hands.point(event.offsetX, event.offsetY));
  canvas.addEventListener('pointerleave', () => hands.point(-1, -1));
  canvas.addEventListener('dblclick', event => hands.twice(event.offsetX, event.offsetY));
  canvas.addEventListener('keydown', event => key(event, hands));
}

/** Two fingers pan; with Ctrl, Cmd or a mouse wheel's coarse steps they zoom. */
function wheel(event: WheelEvent, hands: Hands): void {
  event.preventDefault();
  const coarse =
    event.deltaMode !== 0 || (event.deltaX === 0 && Math.abs(event.deltaY) >= 80 && Number.isInteger(event.deltaY));
  if (event.ctrlKey || event.metaKey || coarse) {
    const lines = event.deltaMode ? event.deltaY * 30 : event.deltaY;
    hands.zoom(Math.exp(-Math.max(-120, Math.min(120, lines)) / 400), event.offsetX, event.offsetY);
  } else {
    hands.pan(-event.deltaX, -event.deltaY);
  }
}

function press(canvas: HTMLCanvasElement, down: PointerEvent, hands: Hands): void {
  const [x, y] = [down.offsetX, down.offsetY];
  let [lastX, lastY, moved] = [down.clientX, down.clientY, false];
  canvas.setPointerCapture(down.pointerId);
  const move = (event: PointerEvent) => {
    moved ||= Math.abs(event.clientX - down.clientX) + Math.abs(event.clientY - down.clientY) > CLICK;
    if (moved) {
      hands.pan(event.clientX - lastX, event.clientY - lastY);
      [lastX, lastY] = [event.clientX, event.clientY];
    }
  };
  const up = () => {
    canvas.removeEventListener('pointermove', move);
    canvas.removeEventListener('pointerup', up);
    canvas.removeEventListener('pointercancel', up);
    moved || hands.click(x, y);
  };
  canvas.addEventListener('pointermove', move);
  canvas.addEventListener('pointerup', up);
  canvas.addEventListener('pointercancel', up);
}

function key(event: KeyboardEvent, hands: Hands): void {
  const move = MOVES[event.key];
  const actions: Record<string, () => unknown> = {
    Enter: () => hands.enter(),
    ' ': () => hands.enter(),
    Escape: () => hands.leave(),
    '+': () => hands.zoom(ZOOM),
    '-': () => hands.zoom(1 / ZOOM),
    '0': () => hands.fit()
  };
  if (move) {
    event.shiftKey ? hands.pan(-STEP * move[0], -STEP * move[1]) : hands.walk(...move);
  } else if ((actions[event.key] ?? (() => false))() === false) {
    return;
  }
  event.preventDefault();
  event.stopPropagation();
}
