/** Colours of lines: the ones asked for where they differ, else a set that stays apart on light and dark. */

const SET = ['#3b82d6', '#e07b1a', '#2f9e5b', '#b05cc9', '#d1495b', '#1a9fb0', '#8a8f2a', '#8d6e63'];

export function distinct(wanted: string[]): string[] {
  const clear = wanted.every(Boolean) && new Set(wanted).size === wanted.length;
  return clear ? wanted : wanted.map((_, i) => SET[i % SET.length]);
}

export function line(index: number): string {
  return SET[index % SET.length];
}
