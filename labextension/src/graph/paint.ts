/** Draws a laid-out graph: lines, nodes by form, heat, what is chosen, what is lost; nothing that is out of sight. */
import type { GraphNode, GraphState } from '../contract';
import { Box, Camera, overlaps } from '../kit/camera';
import type { Pen } from '../kit/canvas';
import { contrast, mix, NEUTRAL, REWRITTEN, strength, Theme } from '../kit/colour';
import { clipped, taskOf } from '../kit/text';
import { Geometry, HEAD } from './geometry';
import { fitted, FONT, labelOf, lettersAt, secondOf } from './sizes';
import { failure } from './tree';

export interface Picture {
  graph: GraphState;
  geometry: Geometry;
  /** Colour of each node, and how strong, 0 to 1. */
  colours: string[];
  heat: number[];
  lost: Set<string>;
  /** The node with the operation that ended the run, -1 for none. */
  failed: number;
  chosen: number;
  hovered: number;
  focused: boolean;
}

const NEAR = 0.6; // zoom from which there is more than names

export function paint(pen: Pen, theme: Theme, camera: Camera, width: number, height: number, picture: Picture): void {
  const { graph, geometry } = picture;
  const seen = camera.seen(width, height);
  pen.save();
  pen.translate(camera.x, camera.y);
  pen.scale(camera.zoom, camera.zoom);
  pen.lineJoin = 'round';
  const visible = graph.nodes.map((_, i) => overlaps(geometry.boxes[i], seen));
  graph.nodes.forEach(
    (node, i) => node.open && visible[i] && scope(pen, theme, node, geometry.boxes[i], i === picture.chosen, camera.zoom)
  );
  lines(pen, theme, camera, picture);
  graph.nodes.forEach((node, i) => !node.open && visible[i] && closed(pen, theme, camera, picture, i));
  aside(pen, picture);
  picture.failed >= 0 && alarm(pen, theme, camera, picture);
  pen.restore();
}

function scope(pen: Pen, theme: Theme, node: GraphNode, box: Box, chosen: boolean, zoom: number): void {
  rounded(pen, box, 6);
  pen.fillStyle = mix(theme.soft, theme.paper, 0.05);
  pen.fill();
  pen.strokeStyle = chosen ? theme.brand : theme.line;
  pen.lineWidth = chosen ? 2 : 1;
  pen.stroke();
  const size = lettersAt(zoom, HEAD);
  if (size) {
    pen.fillStyle = theme.ink;
    pen.font = `600 ${size}px ${theme.font}`;
    pen.textAlign = 'left';
    pen.textBaseline = 'middle';
    pen.fillText(
      `▾ ${clipped(labelOf(node), box.width - 26, text => pen.measureText(text).width)}`,
      box.x + 8,
      box.y + HEAD / 2 + 1
    );
  }
}

function lines(pen: Pen, theme: Theme, camera: Camera, picture: Picture): void {
  const { graph, geometry, chosen, hovered } = picture;
  const { sources, targets, nbytes } = graph.edges;
  const touches = (flows: number[]) =>
    flows.some(i => [chosen, hovered].some(at => at >= 0 && (sources[i] === at || targets[i] === at)));
  pen.font = `9px ${theme.font}`;
  pen.textAlign = 'center';
  pen.textBaseline = 'middle';
  for (const line of geometry.lines) {
    const bytes = line.flows.reduce((sum, i) => sum + nbytes[i], 0);
    const lit = touches(line.flows);
    pen.strokeStyle = pen.fillStyle = lit ? theme.brand : mix(theme.soft, theme.paper, 0.75);
    pen.lineWidth = Math.max(lit ? 2 : 0.8, Math.min(4, 0.6 + 0.6 * Math.log10(1 + bytes / 1024)), 0.5 / camera.zoom);
    pen.setLineDash(line.control ? [4, 3] : []);
    curve(pen, line.points);
    pen.setLineDash([]);
    if (line.flows.length && camera.zoom > 0.25) {
      head(pen, line.points);
    }
    if (line.label && camera.zoom > NEAR) {
      const wide = pen.measureText(line.label).width;
      pen.fillStyle = theme.paper;
      pen.fillRect(line.x - wide / 2 - 2, line.y - 6, wide + 4, 12);
      pen.fillStyle = theme.soft;
      pen.fillText(line.label, line.x, line.y);
    }
  }
}

function curve(pen: Pen, points: number[]): void {
  pen.beginPath();
  pen.moveTo(points[0], points[1]);
  for (let k = 2; k + 5 < points.length; k += 6) {
    pen.bezierCurveTo(points[k], points[k + 1], points[k + 2], points[k + 3], points[k + 4], points[k + 5]);
  }
  pen.stroke();
}

function head(pen: Pen, points: number[]): void {
  const [x0, y0, x1, y1] = points.slice(-4);
  const angle = Math.atan2(y1 - y0, x1 - x0);
  pen.beginPath();
  pen.moveTo(x1 + 4 * Math.cos(angle), y1 + 4 * Math.sin(angle));
  pen.lineTo(x1 + 3 * Math.cos(angle + 2), y1 + 3 * Math.sin(angle + 2));
  pen.lineTo(x1 + 3 * Math.cos(angle - 2), y1 + 3 * Math.sin(angle - 2));
  pen.fill();
}

function closed(pen: Pen, theme: Theme, camera: Camera, picture: Picture, i: number): void {
  const node = picture.graph.nodes[i];
  const box = picture.geometry.boxes[i];
  const lost = picture.lost.has(taskOf(node.device));
  const fill = mix(picture.colours[i] || NEUTRAL, theme.paper, strength(picture.heat[i]));
  pen.globalAlpha = lost ? 0.5 : 1;
  pen.strokeStyle = picture.colours[i] || NEUTRAL;
  pen.fillStyle = fill;
  pen.lineWidth = node.kind === 'scope' ? 2 : 1.1;
  pen.setLineDash(lost ? [3, 3] : node.form === 'mixed' ? [7, 3] : []);
  if (node.alike > 1) {
    for (const shift of [6, 3]) {
      rounded(pen, { ...box, x: box.x + shift, y: box.y - shift }, 4);
      pen.fill();
      pen.stroke();
    }
  }
  shape(pen, node, box);
  pen.fill();
  pen.stroke();
  pen.setLineDash([]);
  if (i === picture.chosen || i === picture.hovered) {
    pen.strokeStyle = theme.brand;
    pen.lineWidth = Math.max(2, 1.5 / camera.zoom);
    rounded(pen, { x: box.x - 3, y: box.y - 3, width: box.width + 6, height: box.height + 6 }, 6);
    pen.globalAlpha = i === picture.chosen ? 1 : 0.5;
    pen.stroke();
    pen.globalAlpha = lost ? 0.5 : 1;
  }
  const sign = REWRITTEN[picture.graph.marks[i]]?.[2] ?? '';
  text(pen, node, box, contrast(theme.ink, fill) >= 4.5 ? theme.ink : theme.paper, theme.font, camera.zoom, sign);
  if (lost) {
    pen.strokeStyle = theme.error;
    pen.beginPath();
    pen.moveTo(box.x, box.y + box.height);
    pen.lineTo(box.x + box.width, box.y);
    pen.stroke();
  }
  pen.globalAlpha = 1;
}

function text(pen: Pen, node: GraphNode, box: Box, ink: string, font: string, zoom: number, sign: string): void {
  const size = lettersAt(zoom, box.height);
  if (!size) {
    return;
  }
  const second = zoom > NEAR ? secondOf(node) : '';
  const middle = box.x + box.width / 2;
  const measure = (words: string) => pen.measureText(words).width;
  pen.fillStyle = ink;
  pen.textAlign = 'center';
  pen.textBaseline = 'middle';
  const name = `${sign}${sign && ' '}${labelOf(node)}`;
  const weight = node.kind === 'scope' ? 600 : 400;
  pen.font = `${weight} ${size}px ${font}`;
  pen.font = `${weight} ${fitted(size, measure(name), box.width - 8, zoom)}px ${font}`;
  // letters have whole widths, so that a fitted name may be a little wider than asked for
  pen.fillText(clipped(name, box.width - 2, measure), middle, box.y + (second ? 12.5 : box.height / 2 + 0.5));
  if (second) {
    pen.font = `${0.9 * FONT}px ${font}`;
    pen.fillText(clipped(second, box.width - 8, measure), middle, box.y + 26);
  }
}

/** Variables are drums, constants are round, what is fed is a house upside down, messages point where they go. */
function shape(pen: Pen, node: GraphNode, box: Box): void {
  const { x, y, width, height } = box;
  pen.beginPath();
  if (node.form === 'variable') {
    pen.ellipse(x + width / 2, y + 4, width / 2, 4, 0, Math.PI, 0);
    pen.lineTo(x + width, y + height - 4);
    pen.ellipse(x + width / 2, y + height - 4, width / 2, 4, 0, 0, Math.PI);
    pen.closePath();
    pen.moveTo(x + width, y + 4);
    pen.ellipse(x + width / 2, y + 4, width / 2, 4, 0, 0, Math.PI);
  } else if (node.form === 'placeholder') {
    polygon(pen, [x, y, x + width, y, x + width, y + height - 7, x + width / 2, y + height, x, y + height - 7]);
  } else if (node.form === 'send' || node.form === 'recv') {
    const point = node.form === 'send' ? 8 : -8;
    polygon(pen, [x, y, x + width - 8, y, x + width - 8 + point, y + height / 2, x + width - 8, y + height, x, y + height]);
  } else {
    rounded(pen, box, node.form === 'constant' ? height / 2 : 5);
  }
}

function polygon(pen: Pen, points: number[]): void {
  pen.moveTo(points[0], points[1]);
  for (let i = 2; i < points.length; i += 2) {
    pen.lineTo(points[i], points[i + 1]);
  }
  pen.closePath();
}

function rounded(pen: Pen, box: Box, radius: number): void {
  pen.beginPath();
  pen.roundRect(box.x, box.y, box.width, box.height, radius);
}

/** The operation that ended the run: a frame, and a flag with words on it, as large from far away as from near. */
function alarm(pen: Pen, theme: Theme, camera: Camera, { graph, geometry, failed }: Picture): void {
  const box = geometry.boxes[failed];
  const unit = 1 / camera.zoom;
  pen.strokeStyle = pen.fillStyle = theme.error;
  pen.lineWidth = Math.max(3, 2 * unit);
  rounded(pen, { x: box.x - 2, y: box.y - 2, width: box.width + 4, height: box.height + 4 }, 6);
  pen.stroke();
  pen.font = `600 ${10 * unit}px ${theme.font}`;
  pen.textAlign = 'left';
  pen.textBaseline = 'middle';
  const words = `! ${failure(graph).split(':')[0]}`;
  pen.fillRect(box.x - 2, box.y - 2 - 14 * unit, pen.measureText(words).width + 8 * unit, 14 * unit);
  pen.fillStyle = contrast(theme.paper, theme.error) >= contrast(theme.ink, theme.error) ? theme.paper : theme.ink;
  pen.fillText(words, box.x - 2 + 4 * unit, box.y - 2 - 7 * unit);
}

/** A node with very many readers is not tied to them: each has a dot of its colour, and a line while one of them is chosen. */
function aside(pen: Pen, picture: Picture): void {
  const { graph, geometry, chosen, hovered } = picture;
  const { sources, targets, kinds } = graph.edges;
  const marks = new Map<number, number>();
  for (let k = 0; k < kinds.length; k++) {
    if (kinds[k] !== 2) {
      continue;
    }
    const [from, to] = [geometry.boxes[sources[k]], geometry.boxes[targets[k]]];
    const place = marks.get(targets[k]) ?? 0;
    marks.set(targets[k], place + 1);
    const [x, y] = [to.x + 7 + 8 * place, to.y];
    pen.fillStyle = pen.strokeStyle = picture.colours[sources[k]] || NEUTRAL;
    if ([chosen, hovered].includes(sources[k]) || [chosen, hovered].includes(targets[k])) {
      pen.lineWidth = 1.5;
      pen.beginPath();
      pen.moveTo(from.x + from.width / 2, from.y + from.height);
      pen.bezierCurveTo(from.x + from.width / 2, from.y + from.height + 40, x, y - 40, x, y);
      pen.stroke();
    }
    if (x < to.x + to.width) {
      pen.beginPath();
      pen.arc(x, y, 2.6, 0, 7);
      pen.fill();
    }
  }
}
