import { describe, expect, it } from 'vitest';
import { Camera, contains, overlaps } from '../src/kit/camera';

describe('camera', () => {
  it.each([
    [40, 30],
    [3000, 200],
    [200, 90_000]
  ])('fits %i x %i into the canvas, in the middle', (width, height) => {
    const camera = new Camera();
    camera.fit({ x: -20, y: 10, width, height }, 600, 400);
    const seen = camera.seen(600, 400);
    expect(seen.width).toBeGreaterThanOrEqual(width);
    expect(seen.height).toBeGreaterThanOrEqual(height);
    expect(camera.at(300, 200)[0]).toBeCloseTo(-20 + width / 2);
    expect(camera.at(300, 200)[1]).toBeCloseTo(10 + height / 2);
    expect(camera.touched).toBe(false);
  });

  it('keeps what lies under the pointer, also at the ends of its range', () => {
    const camera = new Camera();
    for (const factor of [1.3, 0.1, 1e-9, 1e9]) {
      const before = camera.at(120, 80);
      camera.zoomBy(factor, 120, 80);
      expect(camera.at(120, 80)[0]).toBeCloseTo(before[0], 3);
      expect(camera.at(120, 80)[1]).toBeCloseTo(before[1], 3);
    }
    expect(camera.zoom).toBe(4);
  });

  it('knows what is inside', () => {
    const box = { x: 0, y: 0, width: 10, height: 10 };
    expect(contains(box, 10, 0) && !contains(box, 11, 0)).toBe(true);
    expect(overlaps(box, { x: 9, y: 9, width: 5, height: 5 }) && !overlaps(box, { x: 10, y: 0, width: 5, height: 5 })).toBe(
      true
    );
  });
});
