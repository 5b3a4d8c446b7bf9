import { beforeEach, describe, expect, it, vi } from 'vitest';
import { Search } from '../src/graph/search';

function typed(search: Search, text: string): HTMLInputElement {
  const field = search.node.querySelector('input')!;
  field.focus();
  field.value = text;
  field.dispatchEvent(new Event('input'));
  return field;
}

describe('search', () => {
  const asked = vi.fn();
  const gone = vi.fn();
  let search: Search;

  beforeEach(() => {
    vi.useFakeTimers();
    asked.mockReset();
    gone.mockReset();
    search = new Search({ search: asked, go: gone });
    document.body.replaceChildren(search.node);
  });

  it('asks once when the typing pauses', () => {
    typed(search, 'mat');
    typed(search, 'matmul ');
    vi.advanceTimersByTime(200);
    expect(asked.mock.calls).toEqual([['matmul']]);
  });

  it('goes to a hit with arrows and Enter, and shows names as text', () => {
    const field = typed(search, 'a');
    search.show({
      asked: 'a',
      hits: [
        { id: '<img src=x>', text: 'add' },
        { id: 'b/add', text: 'add' }
      ],
      more: 3,
      wrong: ''
    });
    expect(search.node.querySelector('img')).toBeNull();
    for (const key of ['ArrowDown', 'ArrowDown', 'Enter']) {
      field.dispatchEvent(new KeyboardEvent('keydown', { key }));
    }
    expect(gone.mock.calls).toEqual([['b/add']]);
    expect(search.node.textContent).toContain('and 3 more');
  });

  it('stays out of the way once a hit was taken, until one asks for more', () => {
    const field = typed(search, 'a');
    const found = { asked: 'a', hits: [{ id: 'b/add', text: 'add' }], more: 0, wrong: '' };
    const list = search.node.querySelector('ul')!;
    search.show(found);
    field.dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter' }));
    search.show({ ...found }); // with the graph that opened
    expect(list.hidden).toBe(true);
    field.dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowDown' }));
    expect(list.hidden).toBe(false);
  });

  it('waits with Enter for the hits of what is typed now', () => {
    const field = typed(search, 'while');
    search.show({ asked: 'while', hits: [{ id: 'while', text: '' }], more: 0, wrong: '' });
    typed(search, 'tanh');
    const enter = () => field.dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter' }));
    enter();
    expect([gone.mock.calls, asked.mock.calls]).toEqual([[], [['tanh']]]);
    search.show({ asked: 'tanh', hits: [{ id: 'while/body/tanh', text: '' }], more: 0, wrong: '' });
    expect(gone.mock.calls).toEqual([['while/body/tanh']]);
    typed(search, 'tan');
    enter();
    typed(search, 'tang'); // typing on takes it back
    search.show({ asked: 'tang', hits: [{ id: 'tangent', text: '' }], more: 0, wrong: '' });
    expect(gone.mock.calls).toHaveLength(1);
  });

  it('leaves an answer to an older question aside, and says when nothing was found', () => {
    typed(search, 'abc');
    search.show({ asked: 'ab', hits: [{ id: 'ab', text: '' }], more: 0, wrong: '' });
    expect(search.node.querySelectorAll('li')).toHaveLength(0);
    search.show({ asked: 'abc', hits: [], more: 0, wrong: '' });
    expect(search.node.textContent).toBe('Nothing is called “abc”.');
    typed(search, '/(/');
    search.show({ asked: '/(/', hits: [], more: 0, wrong: '/(/ is no regular expression.' });
    expect(search.node.textContent).toBe('/(/ is no regular expression.');
  });
});
