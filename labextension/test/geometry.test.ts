import { Graphviz } from '@hpcc-js/wasm-graphviz';
import { beforeAll, describe, expect, it } from 'vitest';
import { type Flow, type Item, Layout } from '../src/graph/geometry';
import { fitted, FONT, lettersAt } from '../src/graph/sizes';
import { contains, overlaps } from '../src/kit/camera';

let engine: Graphviz;
beforeAll(async () => {
  engine = await Graphviz.load();
});

const layout = () => new Layout(dot => engine.layout(dot, 'plain', 'dot'));
const box = (scope = -1, open = false): Item => ({ scope, open, width: 60, height: 26 });
const flow = (source: number, target: number, kind = 0): Flow => ({ source, target, kind, label: '' });

/** images -> [layer: matmul -> add] -> loss, [layer] open. */
const SMALL: [Item[], Flow[]] = [
  [box(), box(-1, true), box(1), box(1), box()],
  [flow(0, 2), flow(2, 3), flow(3, 4)]
];

describe('layout', () => {
  it('puts what flows below where it comes from, and children inside of their scope', async () => {
    const { boxes, size } = await layout().place(...SMALL);
    expect(boxes[0].y + boxes[0].height).toBeLessThan(boxes[1].y);
    expect(boxes[1].y + boxes[1].height).toBeLessThan(boxes[4].y);
    for (const child of [2, 3]) {
      expect(contains(boxes[1], boxes[child].x, boxes[child].y)).toBe(true);
      expect(contains(boxes[1], boxes[child].x + boxes[child].width, boxes[child].y + boxes[child].height)).toBe(true);
    }
    expect(Math.max(...boxes.map(one => one.y + one.height))).toBeLessThanOrEqual(size.height + 0.1);
  });

  it('never lets nodes of one scope overlap', async () => {
    const items = [box(-1, true), ...Array.from({ length: 12 }, () => box(0)), ...Array.from({ length: 30 }, () => box())];
    const flows = Array.from({ length: 20 }, (_, i) => flow(1 + (i % 12), 13 + i));
    const { boxes } = await layout().place(items, flows);
    for (let i = 0; i < items.length; i++) {
      for (let j = 0; j < i; j++) {
        if (items[i].scope === items[j].scope) {
          expect(overlaps(boxes[i], boxes[j]), `${i} and ${j}`).toBe(false);
        }
      }
    }
  });

  it('ties a line to the border of the scope, and the border to what is inside', async () => {
    const { lines, boxes } = await layout().place(...SMALL);
    const across = lines.find(line => line.flows.includes(0))!;
    const [x, y] = across.points.slice(-2);
    expect(y).toBeLessThanOrEqual(boxes[1].y + 1);
    expect(x).toBeCloseTo(boxes[1].x + boxes[1].width / 2, 0);
    expect(lines.filter(line => !line.flows.length)).toHaveLength(2);
  });

  it('lays equal scopes out once, and only what changed again', async () => {
    const made = layout();
    const blocks = 20;
    const items = Array.from({ length: blocks }, () => box(-1, true));
    const flows: Flow[] = [];
    for (let i = 0; i < blocks; i++) {
      const at = items.length;
      items.push(box(i), box(i), box(i));
      flows.push(flow(at, at + 1), flow(at + 1, at + 2));
    }
    await made.place(items, flows);
    expect(made.asked).toBe(2); // a block, and the whole
    await made.place(items, flows);
    expect(made.asked).toBe(2);
    await made.place([...items.slice(0, -1), { ...items[items.length - 1], width: 120 }], flows);
    expect(made.asked).toBe(4);
  });

  it('stands what nothing touches in rows, not in one line', async () => {
    const { size } = await layout().place(
      Array.from({ length: 64 }, () => box()),
      []
    );
    expect(size.width / size.height).toBeLessThan(5);
    expect(size.width / size.height).toBeGreaterThan(0.5);
  });

  it('draws loops, edges to oneself aside, and nothing at all', async () => {
    expect((await layout().place([], [])).boxes).toEqual([]);
    expect((await layout().place([box(), box()], [flow(0, 1), flow(1, 0), flow(0, 1, 2)])).lines).toHaveLength(2);
  });

  it('says nothing of a label that could be read as DOT', async () => {
    const evil = [{ ...flow(0, 1), label: '"]; evil [label="' }];
    await expect(layout().place([box(), box()], evil)).resolves.toBeTruthy();
  });
});

describe('names', () => {
  it('keep a size that can be read from far away, as long as their box has room, and are left out beyond', () => {
    expect(lettersAt(1, 26)).toBe(FONT);
    expect(0.5 * lettersAt(0.5, 26)).toBe(8);
    expect(0.3 * lettersAt(0.3, 38)).toBeCloseTo(8);
    expect(lettersAt(0.3, 26)).toBeLessThan(26);
    expect(lettersAt(0.15, 26)).toBe(0);
    expect(lettersAt(3, 26)).toBe(FONT);
    expect(fitted(20, 30, 40, 0.4)).toBe(20);
    expect(fitted(20, 40, 30, 0.4)).toBe(15);
    expect(fitted(20, 400, 30, 0.4)).toBeCloseTo(5.5 / 0.4);
  });
});
