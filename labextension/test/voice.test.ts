import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import type { Status, StragglerView } from '../src/contract';
import { HeatMap } from '../src/kit/heatmap';
import { speak, Voice } from '../src/kit/voice';
import type { Page } from '../src/page';
import { snapshotOf, tell } from '../stories/story';
import { stubOption } from './lacking';

let root: HTMLElement;
let page: Page | null = null;

beforeEach(() => {
  vi.useFakeTimers();
  stubOption();
  root = document.createElement('div');
  document.body.append(root);
});

afterEach(() => {
  page?.dispose();
  page = null;
  root.remove();
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

/** What one hears of what happens in `milliseconds`: of each region what came to stand in it, alarms with a "!". */
function heard(milliseconds: number, does: () => void): string[] {
  const words: string[] = [];
  const listen = (records: MutationRecord[]) =>
    records.forEach(({ target, addedNodes }) =>
      addedNodes.forEach(node => words.push(`${(target as Element).role === 'alert' ? '!' : ''}${node.textContent}`))
    );
  const watch = new MutationObserver(() => undefined);
  root.querySelectorAll('.wb-Voice > *').forEach(region => watch.observe(region, { childList: true }));
  does();
  vi.advanceTimersByTime(milliseconds);
  listen(watch.takeRecords());
  watch.disconnect();
  return words;
}

describe('a voice', () => {
  it('says together what comes together, alarms apart, and what was said again only when asked for again', () => {
    const voice = new Voice(root);
    const does = () => {
      voice.tell('state', 'Running.');
      voice.tell('verdict', 'worker:3 costs 39 %.', 'worker 3');
      voice.alarm(['worker:1 was lost.']);
    };
    expect(heard(1000, does)).toEqual(['Running. worker:3 costs 39 %.', '!worker:1 was lost.']);
    voice.tell('verdict', 'worker:3 costs 38 %.', 'worker 3');
    expect(heard(1000, does)).toEqual([]);
    expect(heard(1000, () => voice.alarm(['worker:1 was lost.', 'worker:2 was lost.']))).toEqual(['!worker:2 was lost.']);
    expect(heard(1000, () => [1, 2].map(i => speak(root, `step ${i}`)))).toEqual(['step 2']);
    expect(heard(1000, () => speak(root, 'step 2'))).toEqual(['step 2']);
    voice.alarm([]);
    expect(heard(1000, () => voice.alarm(['worker:1 was lost.']))).toEqual(['!worker:1 was lost.']);
  });

  it('says the newest every two seconds while a key is held down, and at once when it is let go', () => {
    new Voice(root);
    const held = (milliseconds: number) => {
      for (let at = 0; at < milliseconds; at += 50) {
        speak(root, `step ${at}`);
        vi.advanceTimersByTime(50);
      }
    };
    expect(heard(0, () => held(1900))).toEqual([]);
    expect(heard(1000, () => undefined)).toEqual(['step 1850']);
    expect(heard(1000, () => held(5000))).toEqual(['step 1950', 'step 3950', 'step 4950']);
  });

  it('says an alarm at once, also while a key is held down', () => {
    const voice = new Voice(root);
    const does = () => {
      for (let at = 0; at < 450; at += 50) {
        speak(root, `step ${at}`);
        at === 250 && voice.alarm(['worker:1 was lost.']);
        vi.advanceTimersByTime(50);
      }
    };
    expect(heard(0, does)).toEqual(['step 350', '!worker:1 was lost.']);
  });

  it('lets what changes often rest, and says the newest of it', () => {
    const voice = new Voice(root);
    expect(heard(1000, () => voice.tell('verdict', 'one', 'one', 10_000))).toEqual(['one']);
    expect(heard(5000, () => voice.tell('verdict', 'two', 'two', 10_000))).toEqual([]);
    expect(heard(3000, () => voice.tell('verdict', 'three', 'three', 10_000))).toEqual([]);
    expect(heard(3000, () => undefined)).toEqual(['three']);
    voice.tell('verdict', 'four', 'four', 10_000);
    expect(heard(20_000, () => voice.tell('verdict', 'three', 'three', 10_000))).toEqual([]);
  });
});

describe('a page', () => {
  const laid = () => ({
    layout: async () => ({ boxes: [], lines: [], size: { x: 0, y: 0, width: 0, height: 0 } }),
    cancel: () => undefined,
    dispose: () => undefined
  });
  const first = snapshotOf('slow worker', 'worker:3');
  const knobs = { knobs: first.knobs!.knobs.map(knob => ({ ...knob, fault: 'the session is closed' })) };
  const show = (changes: Partial<Status>, silence = 0, stragglers: StragglerView | null = first.stragglers, more = {}) =>
    page!.show(
      { ...first, ...more, stragglers, status: { ...first.status!, ...changes } as Status },
      {
        name: '',
        trouble: '',
        silence
      }
    );

  it('has one region that waits and one for alarms, whatever is shown', () => {
    page = tell(root, 'slow worker of 60', laid, 'worker:3');
    root.querySelectorAll<HTMLElement>('.wb-Tabs-bar button').forEach(tab => tab.click());
    const live = '[aria-live]:not([aria-live=off]), [role=status], [role=alert], [role=log], output:not([aria-live=off])';
    expect([...root.querySelectorAll(live)].map(node => `${node.parentElement!.className} ${node.role}`)).toEqual([
      'wb-Voice status',
      'wb-Voice alert'
    ]);
  });

  it('says what it is and what is slow when that changes, not with every number', () => {
    page = tell(root, 'slow worker', laid);
    vi.advanceTimersByTime(200);
    expect(root.querySelector('.wb-Voice [role=status]')!.textContent).toMatch(/^Running\. worker:3 costs 39 %/);
    vi.advanceTimersByTime(800);
    const { verdict } = first.stragglers!;
    expect(heard(1000, () => show({ lost: [] }, 0, { ...first.stragglers! }))).toEqual([]);
    const text = verdict.text.replace('39', '38');
    expect(text).not.toBe(verdict.text);
    expect(heard(20_000, () => show({ lost: [] }, 0, { ...first.stragglers!, verdict: { ...verdict, text } }))).toEqual([]);
    const other = { ...verdict, subject: '/job:ps/task:0', text: 'ps:0 is busy.', action: 'Add one.' };
    expect(heard(1000, () => show({ lost: [] }, 0, { ...first.stragglers!, verdict: other }))).toEqual([
      'ps:0 is busy. Add one.'
    ]);
    expect(heard(1000, () => show({ lost: [], state: 'paused' }, 0, { ...first.stragglers!, verdict: other }))).toEqual([
      'Paused.'
    ]);
  });

  it('alarms once of a kernel that is silent, however long, of who is lost, and of a value that was not taken', () => {
    page = tell(root, 'slow worker', laid);
    vi.advanceTimersByTime(1000);
    const silent =
      '!No word from the kernel. It is stopped, or busy in a library call; what is shown below is what it said last.';
    expect(heard(1000, () => show({ lost: [] }, 4))).toEqual([silent]);
    expect(heard(1000, () => [5, 6, 70].map(seconds => show({ lost: [] }, seconds)))).toEqual([]);
    expect(heard(1000, () => show({}, 0))).toEqual(['!/job:worker/task:3 was lost (its process was killed). Restart it.']);
    expect(heard(1000, () => show({}, 0, first.stragglers, { knobs }))).toEqual(['!the session is closed']);
    expect(heard(1000, () => show({}, 0, { ...first.stragglers! }, { knobs: { ...knobs } }))).toEqual([]);
  });

  it('reads off what keys lead to', () => {
    new Voice(root);
    const map = new HeatMap('Work');
    root.append(map.node);
    const row = { name: 'worker:0', group: 'worker', color: '#000', xs: [1, 2], ys: [5, 6], marked: false, lost: false };
    map.set([row], '');
    const press = (key: string) => map.node.querySelector('canvas')!.dispatchEvent(new KeyboardEvent('keydown', { key }));
    expect(heard(1000, () => press('ArrowRight'))).toEqual(['worker:0, steps 1–2, mean: 5.5 ms']);
    map.dispose();
  });
});
