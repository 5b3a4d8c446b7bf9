import { describe, expect, it } from 'vitest';

import { axisOf } from '../src/kit/cells';
import { roomFor } from '../src/kit/chart';
import { labels } from '../src/kit/text';

const AXIS = 44;
const measure = (text: string) => 7 * text.length;

describe('the last label of a chart', () => {
  it.each([[[0, 500, 1000]], [[0, 0.0005, 0.001]], [[1_000_000, 1_000_001, 1_000_002]], [[123456.25, 123456.5, 123456.75]]])(
    'is whole where its mark stands at the very edge: %j',
    marks => {
      for (const width of [200, 700]) {
        const texts = labels(marks);
        const edge = width - roomFor(texts, measure);
        expect(edge + measure(texts[texts.length - 1]) / 2).toBeLessThanOrEqual(width);
        expect(edge).toBeGreaterThan(AXIS);
      }
    }
  );

  it('needs no more than a margin where it is short or there is none', () => {
    expect(roomFor(['0', '5'], measure)).toBe(roomFor([], measure));
  });
});

describe('the axis of a heat map', () => {
  const names = (count: number, from: number) => Array.from({ length: count }, (_, at) => (from + at).toLocaleString('en'));

  it.each([
    [20, 6],
    [29, 20.2],
    [1, 13],
    [3, 31]
  ])('names no column beyond its edge, and none over another: %i columns of %d pixels', (count, wide) => {
    const axis = axisOf(names(count, 123_456), wide, measure);
    expect(axis[0]).toEqual(['123,456', 0]);
    axis.forEach(([text, x], at) => {
      const end = x + measure(text);
      expect(end).toBeLessThanOrEqual(Math.max(count * wide, measure(text)));
      expect(at + 1 < axis.length ? axis[at + 1][1] - end : 8).toBeGreaterThanOrEqual(8);
    });
  });

  it('names what is there where there is room', () => {
    expect(axisOf(names(16, 0), 10, measure).map(([text]) => text)).toEqual(['0', '7', '14']);
    expect(axisOf([], 10, measure)).toEqual([]);
  });
});
