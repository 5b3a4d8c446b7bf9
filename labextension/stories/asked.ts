/** What the address of the story page asks for: `?scenario=slow+worker&tasks=6&view=timeline&theme=dark&width=720&lost=worker:3`. */
import { VIEWS } from '../src/kit/view';
import { shortTask } from '../src/kit/text';
import { SCENARIOS, tasksOf } from './story';

export const THEMES = ['system', 'light', 'dark'] as const;
export const NARROWEST = 220;
export const WIDEST = 1900;

export interface Asked {
  scenario: string;
  /** Only runs with so many tasks are offered; 0 for all. */
  tasks: number;
  /** The view to bring into sight, '' for the page as it opens. */
  view: string;
  theme: (typeof THEMES)[number];
  width: number;
  /** A task that was lost, as "worker:3"; '' for none. */
  lost: string;
}

/** How many tasks the planted runs have. */
export const SIZES = [...new Set(SCENARIOS.map(name => tasksOf(name).length))].sort((a, b) => a - b);

/** The planted runs with so many tasks. */
export function scenariosOf(tasks: number): string[] {
  return SCENARIOS.filter(name => !tasks || tasksOf(name).length === tasks);
}

/** What is not there is left as it is without being asked for: a number of tasks that no run has becomes the next that one has. */
export function asked(search: string): Asked {
  const given = new URLSearchParams(search);
  const wanted = Number(given.get('tasks'));
  const tasks = wanted > 0 ? (SIZES.find(size => size >= wanted) ?? SIZES[SIZES.length - 1]) : 0;
  const scenario = one(scenariosOf(tasks), given.get('scenario'));
  const width = Number(given.get('width')) || 720;
  return {
    scenario,
    tasks,
    view: one(['', ...VIEWS.map(kind => kind.id)], given.get('view')),
    theme: one(THEMES, given.get('theme')),
    width: Math.min(WIDEST, Math.max(NARROWEST, width)),
    lost: one(['', ...tasksOf(scenario).map(shortTask)], given.get('lost'))
  };
}

/** The address of it, without what it says of itself. */
export function address(wanted: Asked): string {
  const usual = asked('');
  const entries = Object.entries(wanted).filter(([name, value]) => value !== usual[name as keyof Asked]);
  return entries.length ? `?${new URLSearchParams(entries.map(([name, value]) => [name, String(value)]))}` : '?';
}

function one<T extends string>(known: readonly T[], name: string | null): T {
  return known.find(value => value === name) ?? known[0];
}
