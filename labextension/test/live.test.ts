import { Signal } from '@lumino/signaling';
import { describe, expect, it, vi } from 'vitest';

vi.mock('@jupyterlab/apputils', () => ({ Notification: { warning: vi.fn() } }));
vi.mock('@jupyterlab/notebook', () => ({ INotebookTracker: null }));
vi.mock('@jupyterlab/console', () => ({ IConsoleTracker: null }));

import { Live } from '../src/live';

/** A connection to a kernel: several may have one id, the first of them has the comms. */
class FakeConnection {
  isDisposed = false;
  status = 'idle';
  info = new Promise(() => undefined);
  statusChanged = new Signal<this, string>(this);
  disposed = new Signal<this, void>(this);
  clones: FakeConnection[] = [];
  target = '';

  constructor(
    readonly id: string,
    readonly handleComms: boolean
  ) {}

  registerCommTarget(target: string): void {
    if (!this.handleComms) {
      throw new Error('Comms are disabled on this kernel connection');
    }
    this.target = target;
  }
  removeCommTarget(): void {
    this.target = '';
  }
  clone({ handleComms }: { handleComms: boolean }): FakeConnection {
    this.clones.push(new FakeConnection(this.id, handleComms));
    return this.clones[this.clones.length - 1];
  }
  dispose(): void {
    this.isDisposed = true;
    this.disposed.emit();
  }
}

class FakeContext {
  name = 'a.ipynb';
  kernelChanged = new Signal<this, void>(this);
  propertyChanged = new Signal<this, string>(this);
  disposed = new Signal<this, void>(this);
  session: { kernel: FakeConnection } | null;

  constructor(kernel: FakeConnection) {
    this.session = { kernel };
  }
  close(): void {
    this.session!.kernel.dispose();
    this.session = null;
    this.disposed.emit();
  }
}

describe('notebooks that share a kernel', () => {
  it('share a link, and whoever is left keeps one when the first closes', () => {
    const live = new Live();
    const [one, two] = [new FakeContext(new FakeConnection('k', true)), new FakeContext(new FakeConnection('k', false))];
    const kernel = two.session!.kernel;
    live.follow(one as any);
    live.follow(two as any);
    live.focus(two as any);
    expect(live.link!.kernel).toBe(one.session!.kernel);
    expect(kernel.clones).toEqual([]);
    one.close();
    expect(kernel.clones.length).toBe(1);
    expect(live.link!.kernel).toBe(kernel.clones[0]);
    expect([live.link!.isDisposed, kernel.clones[0].target]).toEqual([false, 'workbench.live']);
    two.close();
    expect([kernel.clones[0].isDisposed, kernel.clones[0].target, live.link]).toEqual([true, '', null]);
  });

  it('keep the link when the one that only shared it closes', () => {
    const live = new Live();
    const [one, two] = [new FakeContext(new FakeConnection('k', true)), new FakeContext(new FakeConnection('k', false))];
    live.follow(one as any);
    live.follow(two as any);
    live.focus(one as any);
    const link = live.link;
    two.close();
    expect([live.link === link, link!.isDisposed]).toEqual([true, false]);
    one.close();
    expect(link!.isDisposed).toBe(true);
  });
});
