/** The parts of a step as fills: each has a colour and a pattern of its own, so that neither speaks alone. */
import type { Pen } from './canvas';
import { mix, PARTS, type Theme } from './colour';

/** What a stretch of a task's time is; the order is the kernel's. */
export type Part = 'work' | 'transfer' | 'input' | 'wait' | 'system';

/** In words, for legends, tooltips and screen readers. */
export const WORDS: Record<Part, string> = {
  work: 'works',
  transfer: 'transfers',
  input: 'waits for input',
  wait: 'waits for others',
  system: 'beside steps'
};

const SIZE = 6;

/** The colour that stands for a part where there is no room for its pattern. */
export function inkOf(part: Part, theme: Theme): string {
  return part === 'wait' || part === 'system' ? theme.soft : PARTS[part];
}

/** Fills of all parts for this canvas and theme: plain work, striped transfers, dotted input, hatched waiting. */
export function fillsOf(pen: Pen, theme: Theme): Record<Part, string | CanvasPattern> {
  const made = (part: Part, ground: string, draw: (tile: Pen) => void) => {
    const canvas = document.createElement('canvas');
    canvas.width = canvas.height = SIZE;
    const tile = canvas.getContext('2d');
    if (!tile) {
      return inkOf(part, theme);
    }
    tile.fillStyle = ground;
    tile.fillRect(0, 0, SIZE, SIZE);
    tile.strokeStyle = tile.fillStyle = inkOf(part, theme);
    tile.lineWidth = 1.2;
    draw(tile);
    return pen.createPattern(canvas, 'repeat') ?? inkOf(part, theme);
  };
  const faint = (part: Part, share: number) => mix(inkOf(part, theme), theme.paper, share);
  return {
    work: PARTS.work,
    transfer: made('transfer', faint('transfer', 0.45), tile => tile.fillRect(0, 0, SIZE / 2, SIZE)),
    input: made('input', faint('input', 0.45), tile => {
      tile.beginPath();
      tile.arc(SIZE / 2, SIZE / 2, 1.7, 0, 7);
      tile.fill();
    }),
    wait: made('wait', theme.paper, diagonal),
    system: made('system', faint('system', 0.2), tile => tile.fillRect(0, SIZE / 2, SIZE, 1))
  };
}

function diagonal(tile: Pen): void {
  tile.beginPath();
  for (const shift of [-SIZE, 0, SIZE]) {
    tile.moveTo(shift - 1, SIZE + 1);
    tile.lineTo(shift + SIZE + 1, -1);
  }
  tile.stroke();
}
