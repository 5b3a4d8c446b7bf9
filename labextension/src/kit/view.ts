/** What a view is: a topic, a place in the panel and a section that shows it. A new view is one file in views/ that registers itself. */
import type { Parameters, Topic } from '../contract';
import type { Layouter } from '../graph/layouter';
import type { Snapshot } from '../store';
import type { Section } from './section';

/** What a view may ask of those around it. */
export interface Context {
  /** Hear of the view's topic with these parameters from now on. */
  ask<T extends Topic>(topic: T, parameters: Parameters[T]): void;
  /** Turn a knob of the program; over when the kernel has answered. */
  turn(knob: string, part: string, value: number): Promise<unknown>;
  /** Show a line of the user's program, "file:line"; null where there is no way to it. */
  jump: ((source: string) => void) | null;
  /** What is shown was kept in a file: nobody answers questions that were not foreseen. */
  kept?: boolean;
  /** Who lays graphs out. */
  layouter(): Layouter;
}

/**
 * The section of a view: `show` is called when the picture of its topic changed, or what all views may mark: the state, who is
 * lost, whom the verdict names, why a topic cannot be shown. Never more than once per repaint.
 */
export interface Shown extends Section {
  show(snapshot: Snapshot, lost: Set<string>): void;
  /** Bring what a verdict or a failure is about into sight: a task, "source|target" of a link, an operation. */
  reveal?(subject: string): void;
  /** The theme changed: canvases read their colours again. */
  restyle?(): void;
  /** Seconds that a layout may take. */
  deadline?: number;
  dispose?(): void;
}

export interface ViewKind {
  id: string;
  /** On its tab. */
  title: string;
  topic: Topic;
  /** Wide views share a place, one tab each; they stand beside the others where there is room. */
  wide: boolean;
  make(context: Context): Shown;
}

/** In the order in which they stand in the panel. */
export const VIEWS: ViewKind[] = [];

export function defineView(kind: ViewKind): void {
  VIEWS.push(kind);
}
