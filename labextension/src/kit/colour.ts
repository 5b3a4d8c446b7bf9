/** What each colour means: tasks and devices bring theirs from the kernel; all else comes from the theme or from here. */

/** The theme's colours for canvases, read off a node that stands in it. */
export interface Theme {
  paper: string;
  ink: string;
  soft: string;
  line: string;
  panel: string;
  brand: string;
  warn: string;
  error: string;
  font: string;
}

/** `warn` and `error` are states, `brand` is selection and focus; none of them is ever data. */
export function themeOf(node: Element): Theme {
  const style = getComputedStyle(node);
  const read = (name: string, other: string) => style.getPropertyValue(name).trim() || other;
  return {
    paper: read('--jp-layout-color0', '#ffffff'),
    ink: read('--jp-ui-font-color0', '#000000'),
    soft: read('--jp-ui-font-color2', '#555555'),
    line: read('--jp-border-color1', '#bdbdbd'),
    panel: read('--jp-layout-color2', '#eeeeee'),
    brand: read('--jp-brand-color1', '#1976d2'),
    warn: read('--jp-warn-color1', '#f57c00'),
    error: read('--jp-error-color1', '#d32f2f'),
    font: style.fontFamily || 'sans-serif'
  };
}

/** Parts of a step, in every view; wait and what nobody recorded are patterns and greys, never hues. */
export const PARTS = { work: '#2b7bba', transfer: '#e08214', input: '#8073ac' } as const;

/** Recorded series (loss, accuracy): never a task's colour beside a task. */
export const INKS = ['#3b82d6', '#e07b1a', '#2f9e5b', '#b05cc9', '#d1495b', '#1a9fb0', '#8a8f2a', '#8d6e63'];

/** Families of operations, for the graph's colour by kind. */
export const FAMILIES: Record<string, string> = {
  variable: '#8b5e3c',
  constant: '#7f7f7f',
  placeholder: '#009e73',
  send: '#e08214',
  recv: '#e08214',
  scope: '#5b7083',
  mixed: '#5b7083',
  stack: '#5b7083',
  op: '#2b7bba'
};

/** What a rewrite did to an operation, by its mark: in words, colour and sign. */
export const REWRITTEN: Record<number, [string, string, string]> = {
  1: ['added', '#2f9e5b', '+'],
  2: ['changed', '#b05cc9', '~'],
  3: ['taken away', '#d1495b', '−']
};

/** One hue for one quantity: the stronger, the more time or bytes. */
export const WARM = '#c2410c';

export const NEUTRAL = '#8a8a8a';

/** How strongly a surface is tinted, by its part of the largest: faint surfaces keep their hue, strong ones their words. */
export const FAINT = 0.14;
export const STRONG = 0.56;

export function strength(part: number): number {
  return FAINT + (STRONG - FAINT) * Math.min(1, Math.max(0, Number.isFinite(part) ? part : 0));
}

type Rgb = [number, number, number];

/** "#rgb", "#rrggbb" or "rgb(…)" as numbers; null when it is none of them. */
export function parse(colour: string): Rgb | null {
  const hex = /^#([0-9a-f]{3}|[0-9a-f]{6})(?:[0-9a-f]{2})?$/i.exec(colour.trim());
  if (hex) {
    const digits = hex[1].length === 3 ? [...hex[1]].map(one => one + one).join('') : hex[1];
    return [0, 2, 4].map(i => Number.parseInt(digits.slice(i, i + 2), 16)) as Rgb;
  }
  const found = /^rgba?\(\s*([\d.]+)[\s,]+([\d.]+)[\s,]+([\d.]+)/i.exec(colour.trim());
  return found ? [Number(found[1]), Number(found[2]), Number(found[3])] : null;
}

/** `part` of `top` over `ground`, as CSS's color-mix in sRGB; words (color names) fall back to the ground. */
export function mix(top: string, ground: string, part: number): string {
  const [a, b] = [parse(top), parse(ground) ?? [255, 255, 255]];
  if (!a) {
    return ground;
  }
  return `rgb(${a.map((value, i) => Math.round(part * value + (1 - part) * b[i])).join(', ')})`;
}

/** Contrast of two colours as WCAG counts it, 1 to 21. */
export function contrast(a: string, b: string): number {
  const light = (colour: string) => {
    const [r, g, blue] = (parse(colour) ?? [0, 0, 0]).map(value => {
      const c = value / 255;
      return c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * blue;
  };
  const [x, y] = [light(a), light(b)];
  return (Math.max(x, y) + 0.05) / (Math.min(x, y) + 0.05);
}
