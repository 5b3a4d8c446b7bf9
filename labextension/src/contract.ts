/** What crosses the wire: the generated records, and how binary columns come out of a message. */
export * from './generated';
import { Failed, Found, GraphChoice, GraphStage, NodeDetails, Picture } from './generated';

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
  /** The operation that ended the run, where it lies. */
  failed: Failed | null;
}

type Buffers = (ArrayBuffer | ArrayBufferView)[];

/**
 * Put binary number lists (`{"#f4": index}`, `{"#f8": index}`), JSON (`{"#j": index}`) and deflated JSON (`{"#z": index}`)
 * back where they belong; records have no inherited names.
 */
export async function unpack(data: unknown, buffers: Buffers): Promise<unknown> {
  const later: Promise<void>[] = [];
  const whole = restored({ data }, buffers, later) as { data: unknown };
  await Promise.all(later);
  return whole.data;
}

/** All but what must be inflated, which comes to its place `later`. */
function restored(data: unknown, buffers: Buffers, later: Promise<void>[]): unknown {
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
  if (typeof record['#j'] === 'number') {
    return restored(JSON.parse(new TextDecoder().decode(buffers[record['#j']])), buffers, later);
  }
  const made = (Array.isArray(data) ? [] : Object.create(null)) as Record<string, unknown>;
  for (const [name, item] of Object.entries(record)) {
    const deflated = (item as { '#z'?: unknown } | null)?.['#z'];
    if (typeof deflated === 'number') {
      later.push(inflated(buffers[deflated]).then(value => void (made[name] = value)));
    } else {
      made[name] = restored(item, buffers, later);
    }
  }
  return made;
}

async function inflated(buffer: ArrayBuffer | ArrayBufferView): Promise<unknown> {
  return new Response(new Blob([bytes(buffer)]).stream().pipeThrough(new DecompressionStream('deflate'))).json();
}

/** A copy: the message's own bytes need not be aligned for numbers. */
function bytes(buffer: ArrayBuffer | ArrayBufferView): ArrayBuffer {
  return ArrayBuffer.isView(buffer)
    ? (buffer.buffer.slice(buffer.byteOffset, buffer.byteOffset + buffer.byteLength) as ArrayBuffer)
    : buffer;
}
