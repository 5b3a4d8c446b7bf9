/** What crosses the wire: the generated records, and how binary columns come out of a message. */
export * from './generated';
import { GraphView } from './generated';

export const TARGET = 'workbench.live';

/** Sent instead of a GraphView while only the timings changed. */
export type GraphTimings = Pick<GraphView, 'key' | 'stats' | 'note' | 'graphs'>;

/** Put binary number lists (`{"#f4": index}`, `{"#f8": index}`) back where they belong; records have no inherited names. */
export function unpack(data: unknown, buffers: (ArrayBuffer | ArrayBufferView)[]): unknown {
  if (Array.isArray(data)) {
    return data.map(item => unpack(item, buffers));
  }
  if (data === null || typeof data !== 'object') {
    return data;
  }
  const record = data as Record<string, unknown>;
  if (typeof record['#f4'] === 'number') {
    return new Float32Array(bytes(buffers[record['#f4']]));
  }
  if (typeof record['#f8'] === 'number') {
    return new Float64Array(bytes(buffers[record['#f8']]));
  }
  const made: Record<string, unknown> = Object.create(null);
  for (const [name, item] of Object.entries(record)) {
    made[name] = unpack(item, buffers);
  }
  return made;
}

/** A copy: the message's own bytes need not be aligned for numbers. */
function bytes(buffer: ArrayBuffer | ArrayBufferView): ArrayBuffer {
  return ArrayBuffer.isView(buffer)
    ? (buffer.buffer.slice(buffer.byteOffset, buffer.byteOffset + buffer.byteLength) as ArrayBuffer)
    : buffer;
}
