import { describe, expect, it } from 'vitest';

import type { GraphUpdate } from '../src/contract';
import { Album, type Kept } from '../src/graph/album';

/** A picture of these nodes, the first of them where `width` says. */
function look(opened: string, stage: number, before: boolean, width: number, ...ids: string[]): Kept['looks'][number] {
  const update = { key: 'k', picture: { nodes: ids.map(id => ({ id })) }, stage } as unknown as GraphUpdate;
  return { opened, stage, before, update, geometry: { boxes: [], lines: [], size: { x: 0, y: 0, width, height: 1 } } };
}

describe('the pictures of a report', () => {
  const kept = {
    looks: [
      look('', -1, false, 1, 'a', 'b'),
      look('a', -1, false, 2, 'a', 'a/x', 'b'),
      look('b', -1, false, 3, 'a', 'b', 'b/y'),
      look('', 1, false, 4, 'a'),
      look('', 1, true, 5, 'a', 'gone')
    ],
    details: { a: { id: 'a' } },
    stages: [{ name: 'built' }, { name: 'fold' }]
  } as unknown as Kept;
  const album = new Album(kept);
  const shown = async (...asked: Parameters<Album['answer']>) => {
    const answer = album.answer(...asked);
    return [(await album.layout()).size.width, answer.stage, answer.details?.id ?? null];
  };

  it('begin with the graph as it is first shown, and of several scopes show the one opened last', async () => {
    expect(await shown({})).toEqual([1, -1, null]);
    expect(await shown({ opened: ['a'], chosen: 'a' })).toEqual([2, -1, 'a']);
    expect(await shown({ opened: ['a', 'b'] })).toEqual([3, -1, null]);
    expect(await shown({ opened: [], closed: ['b'] })).toEqual([1, -1, null]);
  });

  it('hold each stage before and after, and what somebody is led to', async () => {
    expect(await shown({ stage: 1 })).toEqual([4, 1, null]);
    expect(await shown({ stage: 1, before: 1 })).toEqual([5, 1, null]);
    expect(await shown({ shown: 'b/y' })).toEqual([3, -1, null]);
    expect(await shown({ shown: 'nowhere', chosen: 'constructor' })).toEqual([3, -1, null]);
  });
});
