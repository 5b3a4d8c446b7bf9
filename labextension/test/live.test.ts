import { Signal } from '@lumino/signaling';
import { describe, expect, it, vi } from 'vitest';

vi.mock('@jupyterlab/apputils', () => ({ Notification: { warning: vi.fn() } }));
vi.mock('@jupyterlab/notebook', () => ({ INotebookTracker: null }));
vi.mock('@jupyterlab/console', () => ({ IConsoleTracker: null }));

import { Live, livePlugin } from '../src/live';

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
  isDisposed = false;
  kernelChanged = new Signal<this, void>(this);
  propertyChanged = new Signal<this, string>(this);
  disposed = new Signal<this, void>(this);
  session: { kernel: FakeConnection } | null;

  constructor(
    kernel: FakeConnection,
    public path = 'a.ipynb'
  ) {
    this.session = { kernel };
  }
  get name(): string {
    return this.path;
  }
  close(): void {
    this.session!.kernel.dispose();
    this.session = null;
    this.isDisposed = true;
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

describe('a pinned notebook', () => {
  const open = (live: Live, id: string, path: string): FakeContext => {
    const context = new FakeContext(new FakeConnection(id, true), path);
    live.follow(context as any);
    return context;
  };

  it('stays the same whatever the user turns to, and hears its own news only', () => {
    const live = new Live();
    const [one, two] = [open(live, 'k', 'a.ipynb'), open(live, 'l', 'b.ipynb')];
    live.focus(one as any);
    const pinned = live.pinned('a.ipynb');
    const heard = vi.fn();
    pinned.changed.connect(heard);
    live.focus(two as any);
    expect([pinned.link!.kernel, pinned.name, live.name]).toEqual([one.session!.kernel, 'a.ipynb', 'b.ipynb']);
    one.session!.kernel.statusChanged.emit('restarting');
    expect(heard).toHaveBeenCalledTimes(1);
    two.session!.kernel.statusChanged.emit('restarting');
    expect(heard).toHaveBeenCalledTimes(1);
  });

  it('is found again when it is renamed, closed and opened, and may be opened later', () => {
    const live = new Live();
    const pinned = live.pinned('a.ipynb');
    expect([pinned.link, pinned.name]).toEqual([null, 'a.ipynb']);
    const one = open(live, 'k', 'a.ipynb');
    expect(pinned.link!.kernel).toBe(one.session!.kernel);
    one.path = 'c.ipynb';
    one.propertyChanged.emit('path');
    expect([pinned.link!.kernel, pinned.path]).toEqual([one.session!.kernel, 'c.ipynb']);
    one.close();
    expect([pinned.link, pinned.path]).toEqual([null, 'c.ipynb']);
    const again = open(live, 'm', 'c.ipynb');
    expect(pinned.link!.kernel).toBe(again.session!.kernel);
  });
});

describe('two panels of one kernel', () => {
  it('hear of what either shows', () => {
    const live = new Live();
    const context = new FakeContext(new FakeConnection('k', true));
    live.follow(context as any);
    live.focus(context as any);
    const [link, watch] = [live.link!, vi.spyOn((live.link as any)._talk, 'watch')];
    const [one, two] = [{}, {}];
    link.watch(one, ['series']);
    link.watch(two, ['series', 'timeline']);
    link.watch(one, []);
    expect(watch.mock.calls.map(([topics]) => topics)).toEqual([['series'], ['series', 'timeline'], ['series', 'timeline']]);
  });
});

describe('what the user turns to', () => {
  it('is followed where it was open before us, and remembered once however often he comes back', () => {
    const [one, two] = [
      new FakeContext(new FakeConnection('k', true)),
      new FakeContext(new FakeConnection('l', true), 'b.ipynb')
    ];
    const turned = new Signal<object, any>({});
    const tracker = {
      forEach: (call: (panel: object) => void) => call({ sessionContext: one }),
      widgetAdded: new Signal<object, any>({}),
      currentChanged: turned
    };
    const live = (livePlugin.activate as any)({}, tracker, null) as Live;
    expect(live.at('a.ipynb')).toBe(one);
    tracker.widgetAdded.emit({ sessionContext: two });
    const connected = vi.spyOn(one.disposed, 'connect');
    for (const context of [one, two, one, two, one]) {
      turned.emit({ sessionContext: context });
    }
    expect([live.path, connected.mock.calls.length]).toEqual(['a.ipynb', 0]);
    one.close();
    expect(live.path).toBe('');
  });
});
