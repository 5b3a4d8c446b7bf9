import { describe, expect, it } from 'vitest';
import { unpack } from '../src/contract';

describe('unpack', () => {
  it('puts columns back where they belong, whatever their place in the buffer', async () => {
    const raw = new Uint8Array(12);
    raw.set(new Uint8Array(new Float32Array([1, 2]).buffer), 3);
    const made = (await unpack({ a: { times: { '#f4': 0 } }, b: [{ '#f8': 1 }] }, [
      new DataView(raw.buffer, 3, 8),
      new Float64Array([0.1]).buffer
    ])) as any;
    expect([...made.a.times]).toEqual([1, 2]);
    expect([...made.b[0]]).toEqual([0.1]);
  });

  it('inflates what travels deflated', async () => {
    const deflated = new Blob(['{"dot":"digraph {}","nodes":[]}']).stream().pipeThrough(new CompressionStream('deflate'));
    const buffer = await new Response(deflated).arrayBuffer();
    expect(await unpack({ picture: { '#z': 0 } }, [buffer])).toEqual({ picture: { dot: 'digraph {}', nodes: [] } });
  });

  it('reads JSON that travels as bytes, with all that it holds', async () => {
    const deflated = new Blob(['["a"]']).stream().pipeThrough(new CompressionStream('deflate'));
    const texts = await new Response(deflated).arrayBuffer();
    const written = new TextEncoder().encode('{"work":[{"task":"größer","times":{"#f4":0}},{"#z":1}]}');
    const made = (await unpack({ seq: 3, topics: { '#j': 2 } }, [new Float32Array([1, 2]).buffer, texts, written])) as any;
    expect(made.seq).toBe(3);
    expect(made.topics.work[0].task).toBe('größer');
    expect([...made.topics.work[0].times]).toEqual([1, 2]);
    expect(made.topics.work[1]).toEqual(['a']);
  });

  it.each(['f4', 'constructor', '__proto__', 'toString', '<img>', 'a\\b', 'שלום'])(
    'an operation may be called %s',
    async name => {
      const stats = (await unpack(JSON.parse(`{${JSON.stringify(name)}: 1.5}`), [])) as Record<string, number>;
      expect(Object.keys(stats)).toEqual([name]);
      expect(stats[name]).toBe(1.5);
      expect(((await unpack({}, [])) as any)[name]).toBeUndefined();
    }
  );
});
