/** Draws a timeline: axis, names, marks by colour and pattern, messages, the critical path, and what is selected. */
import type { Pen } from '../kit/canvas';
import { contrast, mix, type Theme } from '../kit/colour';
import { fillsOf, inkOf, type Part } from '../kit/pattern';
import { place } from '../kit/stretch';
import { clipped, duration, labels } from '../kit/text';
import { ticks } from '../kit/ticks';
import { arrow, type Frame } from './hit';
import { AXIS, labelOf, SIDE } from './rows';
import type { Selection } from './totals';

export interface Shown extends Frame {
  /** Mark and arrow under the pointer or chosen by keys, -1 for none. */
  mark: number;
  arrow: number;
  selection: Selection | null;
  /** Tasks that are lost, and those that the verdict names. */
  lost: Set<string>;
  named: Set<string>;
}

const WORDS_FROM = 34; // pixels of a mark from which its name is written on it
const LETTERS = 6; // of a name that is cut; fewer say nothing, and bars of one length would not all have them
const HEADS = 60; // arrows up to which each has a point

export function paint(pen: Pen, theme: Theme, width: number, height: number, shown: Shown): void {
  const at = (time: number) => place(shown.stretch, shown.left, shown.right, time);
  grounds(pen, theme, width, height, shown, at);
  pen.save();
  pen.beginPath();
  pen.rect(shown.left, AXIS, shown.right - shown.left, height - AXIS);
  pen.clip();
  marks(pen, theme, shown, at);
  arrows(pen, theme, shown);
  path(pen, theme, shown, at);
  selection(pen, theme, shown, at);
  pen.restore();
  names(pen, theme, shown);
}

type At = (time: number) => number;

/** The axis with its lines, and what lies outside of the step in grey. */
function grounds(pen: Pen, theme: Theme, width: number, height: number, shown: Shown, at: At): void {
  const { start, end } = shown.stretch;
  pen.fillStyle = theme.panel;
  for (const [from, to] of [
    [start, Math.min(end, 0)],
    [Math.max(start, shown.view.length), end]
  ]) {
    to > from && pen.fillRect(at(from), AXIS, at(to) - at(from), height - AXIS);
  }
  const places = ticks(start, end, Math.max(2, Math.floor((shown.right - shown.left) / 80)));
  const [unit, size] = unitOf(Math.max(Math.abs(start), Math.abs(end)));
  pen.font = `11px ${theme.font}`;
  pen.textBaseline = 'middle';
  pen.textAlign = 'center';
  pen.lineWidth = 1;
  const texts = labels(places.map(value => value / size));
  places.forEach((value, i) => {
    const x = Math.round(at(value)) + 0.5;
    pen.strokeStyle = mix(theme.line, theme.paper, 0.55);
    pen.beginPath();
    pen.moveTo(x, AXIS - 3);
    pen.lineTo(x, height);
    pen.stroke();
    pen.fillStyle = theme.ink;
    const half = pen.measureText(texts[i]).width / 2;
    pen.fillText(texts[i], Math.min(Math.max(x, shown.left + half), width - half - 2), AXIS / 2);
  });
  pen.textAlign = 'left';
  pen.fillStyle = theme.soft;
  pen.fillText(`${unit} of the step`, 4, AXIS / 2);
}

/** The unit in which times up to `most` milliseconds are said, and how many milliseconds it has. */
export function unitOf(most: number): [string, number] {
  return most >= 10_000 ? ['s', 1000] : most >= 1 ? ['ms', 1] : ['µs', 0.001];
}

/** The names beside the rows; a bar of the task's colour ties its rows together. */
function names(pen: Pen, theme: Theme, shown: Shown): void {
  const { lanes } = shown.view;
  pen.textAlign = 'left';
  pen.textBaseline = 'middle';
  lanes.forEach((lane, i) => {
    const row = shown.rows[i];
    const middle = row.top + row.height / 2 + 0.5;
    const lost = shown.lost.has(lane.task);
    pen.fillStyle = lane.color;
    pen.fillRect(0, row.top, 4, row.height + 1);
    const main = lane.track === 'work';
    pen.font = `${main ? (shown.named.has(lane.task) ? 700 : 500) : 400} ${main ? 11 : 10}px ${theme.font}`;
    pen.fillStyle = lost ? theme.error : main ? theme.ink : theme.soft;
    const words = `${main && shown.named.has(lane.task) ? '▲ ' : ''}${labelOf(lanes, i)}${main && lost ? ' lost' : ''}`;
    const text = clipped(words, SIDE - 18, one => pen.measureText(one).width);
    pen.fillText(text, main ? 9 : 16, middle);
    lost && pen.fillRect(main ? 9 : 16, middle - 0.5, pen.measureText(text).width, 1);
  });
}

function marks(pen: Pen, theme: Theme, shown: Shown, at: At): void {
  const { view, rows } = shown;
  const fills = fillsOf(pen, theme);
  pen.textBaseline = 'middle';
  pen.textAlign = 'left';
  pen.font = `10px ${theme.font}`;
  for (let i = 0; i < view.lane.length; i++) {
    const [x, right] = [at(view.begin[i]), at(view.until[i])];
    if (right < shown.left || x > shown.right) {
      continue;
    }
    const part = view.kinds[view.kind[i]] as Part;
    const row = rows[view.lane[i]];
    const wide = Math.max(1, right - x - (right - x > 4 ? 1 : 0));
    pen.globalAlpha = density(view.busy[i], view.until[i] - view.begin[i]);
    pen.fillStyle = fills[part];
    pen.fillRect(x, row.top, wide, row.height);
    pen.globalAlpha = 1;
    if (part === 'wait' && wide > 3) {
      pen.strokeStyle = theme.soft;
      pen.lineWidth = 0.7;
      pen.strokeRect(x + 0.5, row.top + 0.5, wide - 1, row.height - 1);
    }
    part === 'work' && wide >= WORDS_FROM && name(pen, theme, view.names[view.name[i]], x, row, wide);
    if (i === shown.mark) {
      pen.strokeStyle = theme.brand;
      pen.lineWidth = 2;
      pen.strokeRect(x - 1, row.top - 1, wide + 2, row.height + 2);
    }
  }
}

function name(pen: Pen, theme: Theme, text: string, x: number, row: { top: number; height: number }, wide: number): void {
  const ground = inkOf('work', theme);
  pen.fillStyle = contrast('#ffffff', ground) >= contrast('#000000', ground) ? '#ffffff' : '#000000';
  const whole = text.slice(text.lastIndexOf('/') + 1);
  const words = clipped(whole, wide - 8, one => pen.measureText(one).width);
  if (words === whole || words.length >= LETTERS) {
    pen.fillText(words, x + 4, row.top + row.height / 2 + 0.5);
  }
}

/** What stands for many spans is the fainter the less of it is covered. */
function density(busy: number, length: number): number {
  return length > 0 ? 0.35 + 0.65 * Math.min(1, busy / length) : 1;
}

function arrows(pen: Pen, theme: Theme, shown: Shown): void {
  const many = shown.view.arrow_begin.length;
  for (let i = 0; i < many; i++) {
    const line = arrow(shown, i);
    if (!line) {
      continue;
    }
    const lit = i === shown.arrow;
    pen.strokeStyle = pen.fillStyle = lit ? theme.brand : theme.ink;
    pen.globalAlpha = lit ? 1 : many > HEADS ? 0.2 : 0.45;
    pen.lineWidth = lit ? 2 : 1;
    const [x0, y0, x1, y1] = line;
    pen.beginPath();
    pen.moveTo(x0, y0);
    pen.lineTo(x1, y1);
    pen.stroke();
    if (lit || many <= HEADS) {
      point(pen, x0, y0, x1, y1);
    }
    pen.globalAlpha = 1;
  }
}

function point(pen: Pen, x0: number, y0: number, x1: number, y1: number): void {
  const angle = Math.atan2(y1 - y0, x1 - x0);
  pen.beginPath();
  pen.moveTo(x1, y1);
  pen.lineTo(x1 - 6 * Math.cos(angle - 0.4), y1 - 6 * Math.sin(angle - 0.4));
  pen.lineTo(x1 - 6 * Math.cos(angle + 0.4), y1 - 6 * Math.sin(angle + 0.4));
  pen.fill();
}

/** The critical path: a strong line below what it consists of, stepping from row to row. */
function path(pen: Pen, theme: Theme, shown: Shown, at: At): void {
  const { path_lane, path_begin, path_until } = shown.view;
  pen.strokeStyle = theme.ink;
  pen.lineWidth = 2.5;
  pen.beginPath();
  let before = -1;
  for (let i = 0; i < path_lane.length; i++) {
    const row = shown.rows[path_lane[i]];
    if (!row) {
      before = -1;
      continue;
    }
    const y = row.top + row.height - 0.5;
    before >= 0 ? pen.lineTo(at(path_begin[i]), y) : pen.moveTo(at(path_begin[i]), y);
    pen.lineTo(at(path_until[i]), y);
    before = path_lane[i];
  }
  pen.stroke();
}

function selection(pen: Pen, theme: Theme, shown: Shown, at: At): void {
  const chosen = shown.selection;
  if (!chosen) {
    return;
  }
  const [top, last] = [shown.rows[chosen.first], shown.rows[chosen.last]];
  const [x, right] = [at(chosen.start), at(chosen.end)];
  pen.fillStyle = theme.brand;
  pen.globalAlpha = 0.14;
  pen.fillRect(x, top.top - 1, right - x, last.top + last.height - top.top + 2);
  pen.globalAlpha = 1;
  pen.strokeStyle = theme.brand;
  pen.lineWidth = 1.5;
  pen.strokeRect(x, top.top - 1, right - x, last.top + last.height - top.top + 2);
  pen.fillStyle = theme.paper;
  pen.font = `600 11px ${theme.font}`;
  pen.textAlign = 'center';
  const words = duration(chosen.end - chosen.start);
  const wide = pen.measureText(words).width + 8;
  pen.fillRect((x + right - wide) / 2, top.top, wide, 14);
  pen.fillStyle = theme.ink;
  pen.fillText(words, (x + right) / 2, top.top + 7.5);
}
