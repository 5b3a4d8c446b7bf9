/** Written from workbench/viz/schema.py by _build/contract.py; never edited. */

export const VERSION = 2;
export const CONTRACT = '72663fd3495f';

export type State =
  | 'empty'
  | 'ready'
  | 'building'
  | 'rewriting'
  | 'compiling'
  | 'running'
  | 'paused'
  | 'waiting'
  | 'recovering'
  | 'finished'
  | 'stopped'
  | 'failed';
export type Command = 'pause' | 'resume' | 'stop' | 'expand' | 'collapse' | 'show' | 'ack';

export interface TaskRecord {
  time: number;
  task: string;
  event: string;
  address: string;
  cause: string;
  fix: string;
}

export interface Status {
  state: State;
  step: number;
  of: number;
  counted: boolean;
  session: string;
  tasks: string[];
  since: number;
  what: string;
  part: number;
  parts: number;
  task: string;
  cause: string;
  fix: string;
  lost: TaskRecord[];
  seconds: number;
  records_lost: number;
}

export interface GraphNode {
  id: string;
  label: string;
  kind: string;
  device: string;
  count: number;
  title: string;
}

export interface DeviceColor {
  name: string;
  color: string;
}

export interface GraphChoice {
  key: string;
  label: string;
}

export interface GraphView {
  key: string;
  dot: string;
  nodes: GraphNode[];
  devices: DeviceColor[];
  stats: Record<string, number>;
  note: string;
  graphs: GraphChoice[];
}

export interface TaskSteps {
  task: string;
  device_color: string;
  times: ArrayLike<number>;
  steps: ArrayLike<number>;
  median: number;
  p95: number;
  count: number;
  ends: ArrayLike<number>;
}

export interface StepView {
  tasks: TaskSteps[];
  more: number;
}

export interface Series {
  name: string;
  unit: string;
  steps: ArrayLike<number>;
  values: ArrayLike<number>;
  count: number;
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
  transfer: number;
  input: number;
  wait: number;
  uncovered: number;
  whole: number;
  waits_for: string;
}

export interface Judgement {
  kind: string;
  subject: string;
  cost: number;
  text: string;
  action: string;
  alarm: boolean;
}

export interface StragglerView {
  rows: Straggler[];
  verdict: Judgement;
  more: number;
}

export interface Frame {
  seq: number;
  status: Status;
  graph: GraphView | null;
  steps: StepView | null;
  series: SeriesView | null;
  stragglers: StragglerView | null;
  lost: Record<string, number>;
  v: number;
  kind: string;
}
