/** What crosses the wire: the generated records, and how binary columns come out of a message. */
export * from './generated';
import { Found, GraphChoice, GraphStage, NodeDetails, Picture } from './generated';

export const TARGET = 'workbench.live';

/** A graph as it is drawn, what was asked of it, and those that can be drawn instead. */
export interface GraphState extends Picture {
  key: string;
  /** Node id -> milliseconds in the newest recorded step. */
  stats: Record<string, number>;
  note: string;
  graphs: GraphChoice[];
  details: NodeDetails | null;
  found: Found | null;
  stages: GraphStage[];
  /** Which of them is drawn, -1 for the graph as it runs, and what it did. */
  stage: number;
  rewrite: string;
}

/**
 * Put binary number lists (`{"#f4": index}`, `{"#f8": index}`) and deflated JSON (`{"#z": index}`) back where they belong;
 * records have no inherited names.
 */
export async function unpack(data: unknown, buffers: (ArrayBuffer | ArrayBufferView)[]): Promise<unknown> {
  if (Array.isArray(data)) {
    return Promise.all(data.map(item => unpack(item, buffers)));
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
  if (typeof record['#z'] === 'number') {
    const inflated = new Blob([bytes(buffers[record['#z']])]).stream().pipeThrough(new DecompressionStream('deflate'));
    return new Response(inflated).json();
  }
  const made: Record<string, unknown> = Object.create(null);
  for (const [name, item] of Object.entries(record)) {
    made[name] = await unpack(item, buffers);
  }
  return made;
}

/** A copy: the message's own bytes need not be aligned for numbers. */
function bytes(buffer: ArrayBuffer | ArrayBufferView): ArrayBuffer {
  return ArrayBuffer.isView(buffer)
    ? (buffer.buffer.slice(buffer.byteOffset, buffer.byteOffset + buffer.byteLength) as ArrayBuffer)
    : buffer;
}
