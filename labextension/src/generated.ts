/** Written from workbench/viz/schema.py and workbench/viz/views/ by _build/contract.py; never edited. */

export const VERSION = 3;
export const CONTRACT = '4fd6b13d16c7';

export type State =
  | 'empty'
  | 'starting'
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
export type Command = 'watch' | 'ack' | 'pause' | 'resume' | 'stop' | 'turn';

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
  page: string;
  broken: [string, string][];
  seconds: number;
  records_lost: number;
}

export interface Hello {
  v: number;
  contract: string;
  kind: string;
}

export interface Request {
  v: number;
  id: number;
  command: Command;
  run: string;
  argument: unknown;
}

export interface Answer {
  id: number;
  ok: boolean;
  error: string;
  status: Partial<Status>;
  v: number;
  kind: string;
}

export interface Update {
  seq: number;
  status: Partial<Status>;
  topics: Partial<Topics>;
  faults: Record<string, string>;
  v: number;
  kind: string;
}

export interface GraphNode {
  id: string;
  kind: string;
  form: string;
  type: string;
  device: string;
  count: number;
  alike: number;
  scope: number;
  open: boolean;
  like: number;
}

export interface GraphEdges {
  sources: ArrayLike<number>;
  targets: ArrayLike<number>;
  nbytes: ArrayLike<number>;
  kinds: ArrayLike<number>;
  labels: string[];
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
  nodes: GraphNode[];
  edges: GraphEdges;
  devices: DeviceColor[];
  dot: string;
  stats: Record<string, number>;
  note: string;
}

export interface Picture {
  nodes: GraphNode[];
  edges: GraphEdges;
  devices: DeviceColor[];
  marks: ArrayLike<number>;
}

export interface GraphStage {
  name: string;
  note: string;
  count: number;
}

export interface Fact {
  name: string;
  value: string;
}

export interface NodeLink {
  id: string;
  text: string;
}

export interface NodeDetails {
  id: string;
  kind: string;
  facts: Fact[];
  source: string;
  inputs: NodeLink[];
  outputs: NodeLink[];
  gradient_of: NodeLink[];
  gradients: NodeLink[];
  more: number;
}

export interface Found {
  asked: string;
  hits: NodeLink[];
  more: number;
  wrong: string;
}

export interface Failed {
  what: string;
  key: string;
  id: string;
  at: number;
}

export interface GraphUpdate {
  key: string;
  picture: Picture | null;
  times: ArrayLike<number>;
  note: string;
  graphs: GraphChoice[] | null;
  details: NodeDetails | null;
  found: Found | null;
  stages: GraphStage[] | null;
  stage: number;
  rewrite: string;
  failed: Failed | null;
}

export interface GraphParameters {
  key?: string;
  opened?: string[];
  closed?: string[];
  shown?: string;
  chosen?: string;
  search?: string;
  stage?: number;
  before?: number;
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
  fresh: boolean;
}

export interface Cut {
  start: number;
  end: number;
}

export interface StepParameters {
  tasks?: number;
}

export interface StepView {
  tasks: TaskSteps[];
  more: number;
  window: number;
  cuts: Cut[];
}

export interface Series {
  name: string;
  unit: string;
  steps: ArrayLike<number>;
  values: ArrayLike<number>;
  count: number;
  fresh: boolean;
}

export interface SeriesView {
  series: Series[];
  names: string[];
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

export interface KnobPart {
  part: string;
  label: string;
  color: string;
  value: number;
  taken: boolean;
}

export interface KnobView {
  name: string;
  most: number;
  step: number;
  parts: KnobPart[];
  fault: string;
}

export interface KnobsView {
  knobs: KnobView[];
}

export interface OperationRow {
  name: string;
  type: string;
  device: string;
  color: string;
  runs: number;
  median: number;
  longest: number;
  share: number;
}

export interface DevicePlacement {
  device: string;
  color: string;
  operations: number;
  state_bytes: number;
  received_bytes: number;
  scopes: string;
}

export interface OperationsView {
  rows: OperationRow[];
  more: number;
  devices: DevicePlacement[];
  crossing: number;
  unknown: number;
}

export interface Lane {
  task: string;
  track: string;
  label: string;
  color: string;
}

export interface TimelineParameters {
  run?: string;
  step?: number;
  before?: number;
  start?: number;
  end?: number;
  pixels?: number;
  first?: number;
  task?: string;
  rows?: number;
  links?: number;
}

export interface TimelineView {
  run: string;
  step: number;
  origin: number;
  length: number;
  start: number;
  end: number;
  oldest: number;
  newest: number;
  lanes: Lane[];
  first: number;
  lane_count: number;
  kinds: string[];
  names: string[];
  lane: ArrayLike<number>;
  kind: ArrayLike<number>;
  begin: ArrayLike<number>;
  until: ArrayLike<number>;
  busy: ArrayLike<number>;
  count: ArrayLike<number>;
  name: ArrayLike<number>;
  arrow_source: ArrayLike<number>;
  arrow_target: ArrayLike<number>;
  arrow_begin: ArrayLike<number>;
  arrow_until: ArrayLike<number>;
  arrow_name: ArrayLike<number>;
  arrow_bytes: ArrayLike<number>;
  arrows_left_out: number;
  spans_left_out: number;
  path_lane: ArrayLike<number>;
  path_kind: ArrayLike<number>;
  path_begin: ArrayLike<number>;
  path_until: ArrayLike<number>;
  path_name: ArrayLike<number>;
  path: string;
}

/** What travels under each topic. */
export interface Topics {
  graph: GraphUpdate;
  knobs: KnobsView;
  operations: OperationsView;
  series: SeriesView;
  steps: StepView;
  timeline: TimelineView;
  work: StragglerView;
}

/** What a page may say of each topic that it watches. */
export interface Parameters {
  graph: GraphParameters;
  knobs: Record<string, never>;
  operations: Record<string, never>;
  series: Record<string, never>;
  steps: StepParameters;
  timeline: TimelineParameters;
  work: Record<string, never>;
}

export type Topic = keyof Topics;
