/** What a timeline says in words: tooltips, totals and the summary for screen readers. */
import type { TimelineView } from '../contract';
import { type Part, WORDS } from '../kit/pattern';
import { bytes, count, duration, shortTask } from '../kit/text';
import type { Totals } from './totals';

/** One line each: what it is, how long, where, when. */
export function ofMark(view: TimelineView, i: number): string[] {
  const long = view.until[i] - view.begin[i];
  const part = WORDS[view.kinds[view.kind[i]] as Part];
  const covered = view.count[i] > 1 ? `${count(view.count[i], 'span')}, ${duration(view.busy[i])} covered, the longest` : '';
  return [
    [covered, view.names[view.name[i]]].filter(Boolean).join(' '),
    `${part} ${duration(long)}`,
    `${view.lanes[view.lane[i]].label}, from ${duration(view.begin[i])} of the step`
  ];
}

export function ofArrow(view: TimelineView, i: number): string[] {
  const [from, to] = [view.arrow_source[i], view.arrow_target[i]].map(row => shortTask(view.lanes[row]?.task ?? ''));
  const long = duration(view.arrow_until[i] - view.arrow_begin[i]);
  return [
    view.names[view.arrow_name[i]],
    `${bytes(view.arrow_bytes[i])} from ${from} to ${to} in ${long}`,
    `sent at ${duration(view.arrow_begin[i])} of the step`
  ];
}

/** "12 ms on 3 rows: works 4 ms, …". */
export function ofTotals(view: TimelineView, sums: Totals): string {
  const parts = view.kinds
    .map((kind, i) => [sums.kinds[i], WORDS[kind as Part]] as const)
    .filter(([milliseconds]) => milliseconds > 0)
    .map(([milliseconds, words]) => `${words} ${duration(milliseconds)}`);
  return `${duration(sums.length)} on ${count(sums.rows, 'row')}, ${count(sums.spans, 'span')}: ${parts.join(', ') || 'nothing'}`;
}

/** All of it in a few sentences: who is lost, what is shown, and with which keys one moves. */
export function summary(view: TimelineView, lost: Iterable<string> = []): string {
  const tasks = new Set(view.lanes.map(lane => lane.task)).size;
  const gone = [...lost].map(shortTask).join(', ');
  const shown = `Timeline of step ${view.step.toLocaleString('en')}, ${duration(view.length)} long, ${count(tasks, 'task')} in sight.`;
  const keys = 'W and S zoom, A and D move, arrows go from mark to mark, Escape leaves.';
  return `${gone ? `Lost: ${gone}. ` : ''}${shown} ${view.path} ${keys}`;
}
