/** By what the nodes of a graph are coloured. */
import type { GraphState } from '../contract';
import { FAMILIES, INKS, NEUTRAL, REWRITTEN, WARM } from '../kit/colour';
import { bytes, count, duration, taskOf } from '../kit/text';

export type By = 'device' | 'time' | 'bytes' | 'kind' | 'structure' | 'rewrite';

export const CHOICES: [By, string][] = [
  ['device', 'Device and time'],
  ['time', 'Time'],
  ['bytes', 'Bytes sent on'],
  ['kind', 'Kind of operation'],
  ['structure', 'Equal structure'],
  ['rewrite', 'What a rewrite did']
];

const SHADES = 40;
const KEYS = 12; // beyond, colours come again

export interface Heat {
  colours: string[];
  /** 0 to 1, by the part of the largest. */
  heat: number[];
  /** What the colours mean, and what the strength. */
  legend: [string, string][];
  hint: string;
}

/** Of many devices the legend names those that are `lost`, and those whose colour is in sight. */
export function heatOf(graph: GraphState, by: By, lost = new Set<string>()): Heat {
  const devices = new Map(graph.devices.map(device => [device.name, device.color]));
  const times = graph.nodes.map(node => graph.stats[node.id] ?? 0);
  if (by === 'device') {
    const legend = keysOf(graph, lost).map(name => [name, devices.get(name)!] as [string, string]);
    const colours = graph.nodes.map(node => devices.get(node.device) ?? NEUTRAL);
    const more = devices.size - legend.length;
    const hint = `${more ? `${count(more, 'more device')} · ` : ''}stronger colour: more time`;
    return { colours, heat: parts(times), legend, hint };
  }
  if (by === 'rewrite') {
    const marks = graph.nodes.map((_, i) => graph.marks[i] ?? 0);
    const legend = [1, 2, 3].filter(mark => marks.includes(mark)).map(mark => REWRITTEN[mark].slice(0, 2) as [string, string]);
    const colours = marks.map(mark => REWRITTEN[mark]?.[1] ?? NEUTRAL);
    return { colours, heat: marks.map(mark => (mark ? 0.8 : 0)), legend, hint: 'grey: as it was' };
  }
  if (by === 'structure') {
    return structures(graph);
  }
  if (by === 'kind') {
    const names = [...new Set(graph.nodes.filter(node => !node.open).map(node => node.form))];
    const legend = names.map(name => [WORDS[name] ?? name, FAMILIES[name] ?? NEUTRAL] as [string, string]);
    return {
      colours: graph.nodes.map(node => FAMILIES[node.form] ?? NEUTRAL),
      heat: graph.nodes.map(() => 0.5),
      legend,
      hint: ''
    };
  }
  const values = by === 'time' ? times : sent(graph);
  const most = Math.max(0, ...values);
  const words = by === 'time' ? duration(most) : bytes(most);
  return {
    colours: values.map(value => (value ? WARM : NEUTRAL)),
    heat: parts(values),
    legend: [],
    hint: `strongest colour: ${words}`
  };
}

function keysOf({ nodes, devices }: GraphState, lost: Set<string>): string[] {
  const names = devices.map(device => device.name);
  if (names.length <= KEYS) {
    return names;
  }
  const drawn = new Set(nodes.filter(node => !node.open).map(node => node.device));
  const gone = names.filter(name => lost.has(taskOf(name)));
  return [...new Set([...gone, ...names.filter(name => drawn.has(name))])].slice(0, KEYS);
}

const WORDS: Record<string, string> = {
  op: 'computes',
  recv: 'receives',
  send: 'sends',
  mixed: 'scope over devices',
  stack: 'repeats'
};

/** Scopes that are built alike have one colour; what there is only once is grey. */
function structures(graph: GraphState): Heat {
  const names = new Map<number, string[]>();
  graph.nodes.forEach(
    ({ id, like }) => like && names.set(like, [...(names.get(like) ?? []), id.slice(id.lastIndexOf('/') + 1)])
  );
  const numbers = [...names.keys()];
  const colour = (like: number) => (like ? INKS[numbers.indexOf(like) % INKS.length] : NEUTRAL);
  const legend = [...names].map(([like, [first, ...others]]) => {
    const words = others.length ? `${first} and ${others.length} alike` : `${first}, alike elsewhere`;
    return [words, colour(like)] as [string, string];
  });
  const heat = graph.nodes.map(({ like }) => (like ? 0.5 : 0));
  return { colours: graph.nodes.map(({ like }) => colour(like)), heat, legend, hint: 'grey: there is no other like it' };
}

/** Of the largest, in as many steps as can be told apart: a graph is not drawn again for a difference that nobody sees. */
function parts(values: number[]): number[] {
  const most = Math.max(1e-9, ...values);
  return values.map(value => Math.round((SHADES * value) / most) / SHADES);
}

/** Bytes that leave each node towards visible ones. */
function sent(graph: GraphState): number[] {
  const sums = graph.nodes.map(() => 0);
  const { sources, nbytes } = graph.edges;
  for (let k = 0; k < nbytes.length; k++) {
    sums[sources[k]] += nbytes[k];
  }
  return sums;
}
