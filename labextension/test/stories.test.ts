/// <reference types="vite/client" />
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import html from '../stories/index.html?raw';
import { SCENARIOS, snapshotOf, tell } from '../stories/story';
import type { Page } from '../src/page';
import { shortTask } from '../src/kit/text';
import planted from './fixtures/planted.json';

let page: Page;
let node: HTMLElement;

beforeEach(() => {
  // what happy-dom lacks
  vi.stubGlobal(
    'Option',
    class {
      constructor(textContent: string, value: string) {
        return Object.assign(document.createElement('option'), { textContent, value });
      }
    }
  );
  node = document.createElement('div');
  document.body.append(node);
});

afterEach(() => {
  vi.useRealTimers();
  page.dispose();
  node.remove();
  vi.unstubAllGlobals();
});

describe('a story', () => {
  it('says no rate while no step comes', () => {
    vi.useFakeTimers();
    const laid = async () => ({ boxes: [], lines: [], size: { x: 0, y: 0, width: 0, height: 0 } });
    page = tell(node, SCENARIOS[0], () => ({ layout: laid, cancel: () => undefined, dispose: () => undefined }));
    const standing = { name: '', trouble: '', silence: 0 };
    const snapshot = snapshotOf(SCENARIOS[0]);
    const facts = (step: number) => {
      vi.advanceTimersByTime(1000);
      page.show({ ...snapshot, status: { ...snapshot.status!, step } }, standing);
      return node.querySelector('.wb-Facts')!.textContent;
    };
    const { step } = snapshot.status!;
    expect([facts(step), facts(step), facts(step)].join()).not.toContain('steps/s');
    expect(facts(step + 2)).toContain('steps/s');
  });

  it('stands on the ground that its theme gives', () => {
    const ground = /:root\s*\{([^}]*)\}/.exec(html)![1];
    expect(ground).toContain('background: var(--jp-layout-color0)');
    expect(ground).toContain('color-scheme: light dark');
  });

  it('of 64 tasks shows those that cost most, and a heat map of as many rows as can be told apart', () => {
    const laid = async () => ({ boxes: [], lines: [], size: { x: 0, y: 0, width: 0, height: 0 } });
    page = tell(node, 'slow worker of 60', () => ({ layout: laid, cancel: () => undefined, dispose: () => undefined }));
    expect(snapshotOf('slow worker of 60').status!.tasks.length).toBe(64);
    expect(node.querySelectorAll('.wb-Stragglers tbody tr').length).toBe(4);
    expect(node.querySelector('.wb-Stragglers-more')!.textContent).toBe('60 more tasks keep pace');
    expect(node.querySelector<HTMLElement>('.wb-Steps .wb-Heat-rows')!.hidden).toBe(false);
    expect(node.querySelector('.wb-Steps .wb-Heat canvas')!.getAttribute('aria-label')).toContain('worker:3: median');
  });

  it.each(SCENARIOS)('of "%s" shows every view, and all name what was planted', scenario => {
    const { subject, stragglers } = planted.find(one => one.name === scenario)!;
    const laid = vi.fn(async (items: unknown[]) => ({
      boxes: items.map(() => ({ x: 0, y: 0, width: 60, height: 26 })),
      lines: [],
      size: { x: 0, y: 0, width: 60, height: 26 }
    }));
    page = tell(node, scenario, () => ({ layout: laid, cancel: () => undefined, dispose: () => undefined }));
    const words = (selector: string) => node.querySelector(selector)!.textContent;
    expect(words('.wb-Verdict')).toContain(stragglers.verdict.text);
    for (const end of subject.startsWith('/job:') ? subject.split('|') : []) {
      expect(words('.wb-Verdict')).toContain(shortTask(end));
      expect([...node.querySelectorAll('tr.wb-mod-slow th')].map(cell => cell.textContent)).toContain(shortTask(end));
    }
    expect(node.querySelectorAll('tr.wb-mod-slow').length > 0).toBe(subject.startsWith('/job:'));
    expect(node.querySelectorAll('.wb-Knob').length).toBe(2);
    expect(words('.wb-Loss-head b')).toBe('loss');
    expect(node.querySelector('.wb-Steps canvas')).not.toBeNull();
    expect(laid).toHaveBeenCalledOnce();
    node.querySelectorAll<HTMLElement>('.wb-Tabs-bar button')[1].click();
    expect(node.querySelector('.wb-Timeline canvas')).not.toBeNull();
  });
});
