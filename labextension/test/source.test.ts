import { describe, expect, it, vi } from 'vitest';

vi.mock('@jupyterlab/application', () => ({}));
vi.mock('@jupyterlab/apputils', () => ({ Notification: {} }));
vi.mock('@jupyterlab/coreutils', () => ({ PageConfig: {}, PathExt: {} }));
vi.mock('@jupyterlab/notebook', () => ({}));
import { cellHash, lineInCell } from '../src/source';

describe('the line of a cell', () => {
  it.each(hashes())('hashes %j as ipykernel does', (text, hash) => {
    expect(cellHash(text)).toBe(hash);
  });

  it('is found by the name of its file and by its number', () => {
    const file = `ipykernel_123/${cellHash('x = 1')}.py:7`;
    expect(lineInCell(file, 'x = 1', null)).toBe(7);
    expect(lineInCell(file, 'x = 2', null)).toBe(0);
    expect(lineInCell('cell In[12], line 3', '', 12)).toBe(3);
    expect(lineInCell('cell In[12], line 3', '', 1)).toBe(0);
    expect(lineInCell('softmax.py:9', '', 1)).toBe(0);
  });
});

/** What `ipykernel.compiler.murmur2_x86(text, 0xC70F6907)` gives. */
function hashes(): [string, number][] {
  return [
    ['import workbench as wb', 3941549312],
    ['x = 1', 3427300630],
    ["größe = 'ñ'", 1103060730],
    ['', 3990065800]
  ];
}
