/** One scope as DOT text, and the plain text that Graphviz answers as boxes and curves. */
import type { Box } from '../kit/camera';
import type { Flow, Item } from './geometry';

const FAST = 60; // nodes in one scope from which the fast layout is used

export interface Local {
  width: number;
  height: number;
  boxes: Box[];
  lines: { ends: [string, string]; points: number[]; label: string; x: number; y: number }[];
}

export interface Scope {
  children: number[];
  /** "2>5": the flows between two children. */
  between: Map<string, number[]>;
  /** Children that something outside reaches, or that reach something outside. */
  enters: Set<number>;
  leaves: Set<number>;
}

const inch = (pixels: number) => (pixels / 72).toFixed(3);

/** DOT text by place in the scope, not by name: equal blocks have equal text. */
export function describe(scope: Scope, items: Item[], flows: Flow[], boxes: Box[]): string {
  const place = new Map(scope.children.map((child, i) => [child, i]));
  const fast = scope.children.length > FAST ? 'splines=line, nslimit=2, nslimit1=2, mclimit=0.3' : 'splines=true';
  const rows = [`graph [rankdir=TB, ranksep=0.18, nodesep=0.22, ${fast}];`, 'node [shape=box, fixedsize=true, label=""];'];
  rows.push('edge [arrowsize=0.5, fontsize=9];');
  scope.children.forEach((child, i) => {
    const { width, height } = boxes[child];
    rows.push(`n${i} [width=${inch(width)}, height=${inch(height)}];`);
  });
  for (const [key, members] of scope.between) {
    const [source, target] = key.split('>').map(Number);
    const label = labelOf(flows, members);
    const ports = `${items[source].open ? ', tailport=s' : ''}${items[target].open ? ', headport=n' : ''}`;
    rows.push(
      `n${place.get(source)} -> n${place.get(target)} [weight=${Math.min(4, members.length)}${ports}${label ? `, label="${label}"` : ''}];`
    );
  }
  return `digraph {\n${rows.join('\n')}\n}`;
}

function labelOf(flows: Flow[], members: number[]): string {
  const label = members.length === 1 ? flows[members[0]].label : '';
  return /^[\w×?., ]*$/.test(label) ? label : '';
}

/** Graphviz's plain format, upside down and in pixels. */
export function read(plain: string, count: number): Local {
  const made: Local = {
    width: 0,
    height: 0,
    boxes: Array.from({ length: count }, () => ({ x: 0, y: 0, width: 0, height: 0 })),
    lines: []
  };
  for (const row of plain.split('\n')) {
    const words = row.match(/"(?:[^"\\]|\\.)*"|\S+/g) ?? [];
    const [kind, ...rest] = words;
    if (kind === 'graph') {
      [made.width, made.height] = [72 * Number(rest[1]), 72 * Number(rest[2])];
    } else if (kind === 'node' && rest[0].startsWith('n')) {
      const [x, y, width, height] = rest.slice(1, 5).map(word => 72 * Number(word));
      made.boxes[Number(rest[0].slice(1))] = { x: x - width / 2, y: made.height - y - height / 2, width, height };
    } else if (kind === 'edge') {
      const many = Number(rest[2]);
      const numbers = rest
        .slice(3, 3 + 2 * many)
        .map((word, i) => (i % 2 ? made.height - 72 * Number(word) : 72 * Number(word)));
      const labelled = rest.length >= 3 + 2 * many + 5;
      const [label, x, y] = labelled ? rest.slice(3 + 2 * many, 6 + 2 * many) : ['', '0', '0'];
      made.lines.push({
        ends: [rest[0], rest[1]],
        points: numbers,
        label: label.replace(/^"|"$/g, ''),
        x: 72 * Number(x),
        y: made.height - 72 * Number(y)
      });
    }
  }
  return made;
}
