import { afterEach, describe, expect, it, vi } from 'vitest';

import { arrange, say } from '../src/kit/keep';

describe('Words that change', () => {
  afterEach(() => document.body.replaceChildren());

  it('do not ask the selection for what a page must be laid out to know', () => {
    const node = document.body.appendChild(document.createElement('p'));
    say(node, 'step 1');
    const laidOut = (['isCollapsed', 'type', 'rangeCount'] as const).map(name =>
      vi.spyOn(Object.getPrototypeOf(document.getSelection()!) as Selection, name, 'get')
    );
    say(node, 'step 2');
    arrange(node, [document.createElement('b')]);
    expect(laidOut.map(asked => asked.mock.calls.length)).toEqual([0, 0, 0]);
  });
});
