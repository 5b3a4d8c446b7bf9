import { describe, expect, it, vi } from 'vitest';

import type { GraphState, NodeDetails } from '../src/contract';
import { Pane } from '../src/graph/pane';

const DETAILS: NodeDetails = {
  id: 'product',
  kind: 'op',
  facts: [
    { name: 'Type', value: 'matmul' },
    { name: 'Attributes', value: 'transpose_a false, transpose_b true' }
  ],
  source: '',
  inputs: [],
  outputs: [{ id: 'loss', text: 'float32[8, 2]' }],
  gradient_of: [],
  gradients: [],
  more: 0
};

/** The pane of a node, and what it leads to. */
const shown = (details: NodeDetails) => {
  const go = vi.fn();
  const pane = new Pane({ go, jump: null, close: () => undefined });
  pane.show(details.id, details, null);
  return { node: pane.node, go, titles: [...pane.node.querySelectorAll('h4')].map(one => one.textContent) };
};

describe('the pane of a node', () => {
  it('tells its attributes and nothing of gradients where there are none', () => {
    const { node, titles } = shown(DETAILS);
    expect([...node.querySelectorAll('dd')].map(one => one.textContent)).toContain('transpose_a false, transpose_b true');
    expect(titles).toEqual(['Outputs']);
  });

  it('leads to what computes its gradient, and from there back', () => {
    const gradient = { id: 'gradients/product_grad/matmul', text: 'matmul' };
    const forward = shown({ ...DETAILS, gradients: [gradient] });
    expect(forward.titles).toEqual(['Outputs', 'Its gradient']);
    forward.node.querySelector<HTMLElement>(`[aria-label="Show ${gradient.id}"]`)!.click();
    expect(forward.go).toHaveBeenCalledWith(gradient.id);
    const back = shown({ ...DETAILS, id: gradient.id, gradient_of: [{ id: 'product', text: 'matmul' }] });
    expect(back.titles).toEqual(['Outputs', 'For the gradient of']);
    back.node.querySelector<HTMLElement>('[aria-label="Show product"]')!.click();
    expect(back.go).toHaveBeenCalledWith('product');
  });

  it('keeps its buttons while the time changes with every step, for whoever presses one just then', () => {
    const pane = new Pane({ go: vi.fn(), jump: null, close: vi.fn() });
    const at = (time: number) =>
      pane.show('product', structuredClone(DETAILS), { stats: { product: time, loss: 1 } } as unknown as GraphState);
    at(1);
    const buttons = [...pane.node.querySelectorAll('button')];
    expect([buttons.length, pane.node.textContent]).toEqual([2, expect.stringContaining('50 % of what is drawn')]);
    const removed = vi.spyOn(Element.prototype, 'replaceChildren');
    at(3);
    expect(pane.node.textContent).toContain('75 % of what is drawn');
    expect([...pane.node.querySelectorAll('button')]).toEqual(buttons);
    expect(removed.mock.contexts).not.toContain(pane.node); // a button that was taken out has no click
    removed.mockRestore();
  });
});
