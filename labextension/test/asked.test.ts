import { describe, expect, it } from 'vitest';

import { address, asked, scenariosOf, SIZES } from '../stories/asked';
import { SCENARIOS, snapshotOf, tasksOf } from '../stories/story';

describe('the address of the story page', () => {
  it('chooses run, number of tasks, view, theme, width and who is lost', () => {
    const wanted = { scenario: 'slow worker of 60', tasks: 64, view: 'timeline', theme: 'dark', width: 900, lost: 'worker:3' };
    const search = address(wanted as ReturnType<typeof asked>);
    expect(search).toBe('?scenario=slow+worker+of+60&tasks=64&view=timeline&theme=dark&width=900&lost=worker%3A3');
    expect(asked(search)).toEqual(wanted);
    expect(snapshotOf(wanted.scenario, wanted.lost).status!.lost.map(one => one.task)).toEqual(['/job:worker/task:3']);
  });

  it('may say nothing, or what there is not', () => {
    const usual = { scenario: SCENARIOS[0], tasks: 0, view: '', theme: 'system', width: 720, lost: '' };
    expect(asked('')).toEqual(usual);
    expect(asked('?scenario=none&tasks=x&view=none&theme=pink&width=wide&lost=worker:99')).toEqual(usual);
    expect(address(asked(''))).toBe('?');
    expect([asked('?width=9').width, asked('?width=9000').width]).toEqual([220, 1900]);
  });

  it('offers the runs with as many tasks, or the next that there are', () => {
    expect(SIZES).toEqual([4, 5, 6, 8, 34, 64]);
    for (const tasks of SIZES) {
      expect(tasksOf(asked(`?tasks=${tasks}`).scenario).length).toBe(tasks);
    }
    expect(asked('?tasks=9').tasks).toBe(34);
    expect(asked('?tasks=1000').tasks).toBe(64);
    expect(asked('?tasks=8&scenario=slow worker').scenario).toBe('all four servers busy');
    expect(scenariosOf(0)).toEqual(SCENARIOS);
  });
});
