import { describe, expect, it } from 'vitest';
import { contrast, FAMILIES, INKS, mix, PARTS, parse, STRONG, strength } from '../src/kit/colour';
import planted from './fixtures/planted.json';

/** JupyterLab's own: paper and ink. */
const THEMES = { light: ['#ffffff', '#000000'], dark: ['#111111', '#ffffff'], 'dark high contrast': ['#000000', '#ffffff'] };
const tasks = planted.flatMap(run => run.steps.tasks);
const devices = [...new Set(tasks.map(task => task.device_color))];

describe('colours', () => {
  it('reads what themes and styles write', () => {
    expect([parse('#fff'), parse('#0072b2'), parse('rgb(1, 2, 3)'), parse('teal')]).toEqual([
      [255, 255, 255],
      [0, 114, 178],
      [1, 2, 3],
      null
    ]);
    expect(mix('#000000', '#ffffff', 0.5)).toBe('rgb(128, 128, 128)');
  });

  it.each(Object.entries(THEMES))('keeps words readable on the strongest tint: %s', (_, [paper, ink]) => {
    for (const colour of [...devices, ...Object.values(FAMILIES)]) {
      expect(contrast(ink, mix(colour, paper, STRONG)), colour).toBeGreaterThanOrEqual(4.5);
    }
  });

  it.each(Object.entries(THEMES))('keeps lines and bars visible: %s', (_, [paper]) => {
    for (const colour of [...devices, ...INKS, ...Object.values(PARTS)]) {
      expect(contrast(colour, paper), colour).toBeGreaterThanOrEqual(2.5);
    }
  });

  it('never tints beyond its bounds', () => {
    expect([strength(-1), strength(0), strength(1), strength(9), strength(NaN)]).toEqual([0.14, 0.14, 0.56, 0.56, 0.14]);
  });

  it('is the same for a task in every run', () => {
    const seen = new Map<string, Set<string>>();
    for (const { task, device_color } of tasks) {
      seen.set(task, (seen.get(task) ?? new Set()).add(device_color));
    }
    expect([...seen.values()].filter(colours => colours.size > 1)).toEqual([]);
  });
});
