import { describe, expect, it } from 'vitest';

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
