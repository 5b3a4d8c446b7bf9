/** What crosses the wire: the twin of workbench/viz/schema.py, version 1. */

export const VERSION = 1;
export const TARGET = 'workbench.live';

export interface Status {
  state: 'empty' | 'ready' | 'running' | 'paused' | 'stopped' | 'failed';
  step: number;
  /** Steps that the training loop will make, 0 when nobody said. */
  of: number;
  session: string;
  tasks: string[];
  message: string;
}

export interface GraphNode {
  id: string;
  label: string;
  kind: 'op' | 'scope';
  device: string;
  count: number;
  title: string;
}

export interface GraphView {
  key: string;
  dot: string;
  nodes: GraphNode[];
  devices: { name: string; color: string }[];
  /** Milliseconds of the latest step, by node id. */
  stats: Record<string, number>;
  /** What is not drawn, '' when everything is. */
  note?: string;
}

/** Sent instead of a GraphView while only the timings changed. */
export type GraphTimings = Pick<GraphView, 'key' | 'stats' | 'note'>;

export interface TaskSteps {
  task: string;
  device_color: string;
  /** Milliseconds, one per entry of `steps` and of `ends`. */
  times: ArrayLike<number>;
  steps: ArrayLike<number>;
  /** Seconds from the beginning of the recording to the end of each step. */
  ends: ArrayLike<number>;
  median: number;
  p95: number;
}

export interface StepView {
  tasks: TaskSteps[];
}

export interface Series {
  name: string;
  unit: string;
  steps: ArrayLike<number>;
  values: ArrayLike<number>;
}

export interface SeriesView {
  series: Series[];
}

export interface Straggler {
  task: string;
  median_ms: number;
  slowdown: number;
  share: number;
  why: string;
}

export interface StragglerView {
  rows: Straggler[];
}

export interface Frame {
  v: number;
  kind: 'frame';
  seq: number;
  status: Status;
  graph: GraphView | GraphTimings | null;
  steps: StepView | null;
  series: SeriesView | null;
  stragglers: StragglerView | null;
}

export type Command = 'pause' | 'resume' | 'stop' | 'expand' | 'collapse' | 'ack';

/** Put binary number lists (`{"f4": index}`, `{"f8": index}`) back where they belong. */
export function unpack(data: unknown, buffers: (ArrayBuffer | ArrayBufferView)[]): unknown {
  if (Array.isArray(data)) {
    return data.map(item => unpack(item, buffers));
  }
  if (data === null || typeof data !== 'object') {
    return data;
  }
  const record = data as Record<string, unknown>;
  if (typeof record.f4 === 'number') {
    return new Float32Array(bytes(buffers[record.f4]));
  }
  if (typeof record.f8 === 'number') {
    return new Float64Array(bytes(buffers[record.f8]));
  }
  return Object.fromEntries(Object.entries(record).map(([name, item]) => [name, unpack(item, buffers)]));
}

/** A copy: the message's own bytes need not be aligned for numbers. */
function bytes(buffer: ArrayBuffer | ArrayBufferView): ArrayBuffer {
  return ArrayBuffer.isView(buffer)
    ? (buffer.buffer.slice(buffer.byteOffset, buffer.byteOffset + buffer.byteLength) as ArrayBuffer)
    : buffer;
}
