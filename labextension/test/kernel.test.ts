import { Signal } from '@lumino/signaling';
import { beforeEach, describe, expect, it, vi } from 'vitest';

vi.mock('@jupyterlab/apputils', () => ({ Notification: { warning: vi.fn() } }));

import { CONTRACT, TARGET, VERSION } from '../src/contract';
import { LiveLink } from '../src/kernel';

/** A comm that refuses what JupyterLab's refuses. */
class FakeComm {
  commId = Math.random().toString();
  isDisposed = false;
  opened = 0;
  closed = 0;
  subshellId: string | null = null;
  subshellStarted = Promise.resolve();
  onMsg: (message: any) => void = () => undefined;
  onClose: (message: any) => void = () => undefined;
  open(): void {
    if (this.isDisposed) {
      throw new Error('Cannot open');
    }
    this.opened++;
  }
  close(): void {
    this.isDisposed = true;
    this.closed++;
  }
}

class FakeKernel {
  id = 'kernel';
  username = 'user';
  clientId = 'client';
  status = 'idle';
  isDisposed = false;
  supportsSubshells = false;
  info: Promise<unknown> = Promise.resolve({});
  statusChanged = new Signal<this, string>(this);
  disposed = new Signal<this, void>(this);
  comms: FakeComm[] = [];
  sent: any[] = [];
  /** Which subshell each of them went to, null for the one that runs cells. */
  ways: (string | null)[] = [];
  /** Milliseconds until a subshell is there. */
  slow = 0;
  /** Messages that are no requests of ours, and the subshells that they went to. */
  beside: [string, string][] = [];
  subshells = true;
  controls: string[] = [];
  known: Record<string, unknown> = { c: {} };
  announced: ((comm: any, message: any) => void) | null = null;
  asked: Promise<void> = Promise.resolve();

  registerCommTarget(_: string, opened: (comm: any, message: any) => void): void {
    this.announced = opened;
  }
  removeCommTarget(): void {
    this.announced = null;
  }
  async requestCommInfo(): Promise<unknown> {
    await this.asked;
    return { content: { status: 'ok', comms: this.known } };
  }
  createComm(): FakeComm {
    const comm = new FakeComm();
    this.comms.push(comm);
    return comm;
  }
  sendShellMessage(message: any): { done: Promise<unknown> } {
    const { msg_type: type, subshell_id: subshell } = message.header;
    if (type === 'comm_msg') {
      this.sent.push(message.content.data);
      this.ways.push(subshell ?? null);
    } else {
      this.beside.push([type, subshell]);
    }
    return { done: Promise.resolve({ content: { status: 'ok', comms: this.known } }) };
  }
  sendControlMessage(message: any): { done: Promise<unknown> } {
    this.controls.push(message.header.msg_type);
    const reply = { content: { subshell_id: this.subshells ? 'beside' : undefined } };
    return { done: this.slow ? new Promise(resolve => setTimeout(() => resolve(reply), this.slow)) : Promise.resolve(reply) };
  }
  announce(hello: object = { v: VERSION, contract: CONTRACT }): FakeComm {
    const comm = this.createComm();
    this.announced!(comm, { content: { data: hello } });
    return comm;
  }
  /** As JupyterLab restarts one: its comms are disposed, then it says so. */
  restart(): void {
    this.comms.forEach(comm => (comm.isDisposed = true));
    this.say('restarting');
  }
  say(status: string): void {
    this.status = status;
    this.statusChanged.emit(status);
  }
}

async function settled(): Promise<void> {
  for (let i = 0; i < 50; i++) {
    await Promise.resolve();
  }
}

describe('LiveLink', () => {
  const failed = vi.fn();
  let kernel: FakeKernel;
  const link = (): LiveLink => new LiveLink(kernel as any);

  beforeEach(() => {
    failed.mockReset();
    vi.spyOn(console, 'error').mockImplementation(failed);
    kernel = new FakeKernel();
  });

  it('greets a kernel that announced itself before the page came', async () => {
    const made = link();
    made.watch(made, ['series']);
    await settled();
    expect([kernel.comms.length, kernel.comms[0].opened, made.connected]).toEqual([1, 1, true]);
    expect(kernel.sent.map(request => request.command)).toContain('watch');
  });

  it('greets a kernel that answers another page, beside the cell that runs there', async () => {
    vi.useFakeTimers();
    kernel.info = new Promise(() => undefined);
    const made = link();
    made.watch(made, ['series']);
    await vi.advanceTimersByTimeAsync(3000);
    vi.useRealTimers();
    expect([kernel.comms.length, kernel.comms[0].opened, made.connected]).toEqual([1, 0, true]);
    expect(kernel.beside).toEqual([
      ['comm_info_request', 'beside'],
      ['comm_open', 'beside']
    ]);
    expect(kernel.sent.map(request => request.command)).toContain('watch');
    made.dispose();
  });

  it('waits for a way beside the cell where making one takes long, and turns to it when it comes too late', async () => {
    vi.useFakeTimers();
    try {
      for (const [slow, ways] of [
        [5000, ['beside']],
        [30000, [null, 'beside']]
      ] as const) {
        kernel = new FakeKernel();
        kernel.info = new Promise(() => undefined);
        kernel.slow = slow;
        const made = link();
        kernel.announce();
        void made.command('pause');
        await vi.advanceTimersByTimeAsync(40000);
        void made.command('resume');
        await vi.advanceTimersByTimeAsync(100);
        const way = (command: string): string | null => kernel.ways[kernel.sent.findIndex(one => one.command === command)];
        expect([way('pause'), way('resume')]).toEqual([ways[0], 'beside']);
        expect([...new Set(kernel.ways)]).toEqual(ways);
        made.dispose();
      }
    } finally {
      vi.useRealTimers();
    }
  });

  it('gives back a way that comes when the kernel has gone', async () => {
    vi.useFakeTimers();
    try {
      kernel.info = new Promise(() => undefined);
      kernel.slow = 30000;
      const made = link();
      kernel.announce();
      await vi.advanceTimersByTimeAsync(20000);
      kernel.restart();
      await vi.advanceTimersByTimeAsync(20000);
      expect(kernel.controls.at(-1)).toBe('delete_subshell_request');
      made.dispose();
    } finally {
      vi.useRealTimers();
    }
  });

  it('asks for no way beside a kernel that answers, and gives back one that it does not use', async () => {
    vi.useFakeTimers();
    link();
    await vi.advanceTimersByTimeAsync(9000);
    expect(kernel.controls).toEqual([]);
    kernel = new FakeKernel();
    kernel.info = new Promise(() => undefined);
    kernel.known = {};
    const made = link();
    await vi.advanceTimersByTimeAsync(9000);
    vi.useRealTimers();
    expect(kernel.controls).toEqual(['create_subshell_request', 'delete_subshell_request']);
    expect(made.connected).toBe(false);
  });

  it('waits for a kernel that is busy and has no subshells', async () => {
    vi.useFakeTimers();
    let answer = (_: object): void => undefined;
    kernel.info = new Promise(resolve => (answer = resolve));
    kernel.subshells = false;
    const made = link();
    await vi.advanceTimersByTimeAsync(19000);
    vi.useRealTimers();
    expect([kernel.comms.length, kernel.beside.length]).toEqual([0, 0]);
    answer({});
    await settled();
    expect([kernel.comms[0].opened, made.connected]).toEqual([1, true]);
  });

  it('opens nothing at a kernel that was restarted while it looked for a way to it', async () => {
    let found = (): void => undefined;
    kernel.supportsSubshells = true;
    const made = link();
    kernel.createComm = () => {
      const comm = new FakeComm();
      comm.subshellId = 'a';
      comm.subshellStarted = new Promise(resolve => (found = resolve));
      kernel.comms.push(comm);
      return comm;
    };
    await settled();
    kernel.restart();
    found();
    await settled();
    expect([kernel.comms[0].opened, made.connected]).toEqual([0, false]);
    expect(failed).not.toHaveBeenCalled();
    kernel.announce();
    expect(made.connected).toBe(true);
  });

  it('is silent about what a restart cancelled, and loud about everything else', async () => {
    let cancel = (_: Error): void => undefined;
    kernel.asked = new Promise((_, reject) => (cancel = reject));
    link();
    await settled();
    kernel.restart();
    cancel(new Error('Canceled future for comm_info_request message before replies were done'));
    await settled();
    expect(failed).not.toHaveBeenCalled();
    kernel.asked = Promise.reject(new Error('no such kernel'));
    link();
    await settled();
    expect(failed).toHaveBeenCalledTimes(1);
  });

  it('opens nothing once it is disposed', async () => {
    let answer = (): void => undefined;
    kernel.asked = new Promise(resolve => (answer = resolve));
    const made = link();
    await settled();
    made.dispose();
    answer();
    await settled();
    expect(kernel.comms).toEqual([]);
    expect(kernel.announced).toBeNull();
  });

  it('forgets what a kernel said that has gone, and answers those who wait', async () => {
    const made = link();
    const comm = kernel.announce();
    comm.onMsg({
      content: {
        data: { v: VERSION, kind: 'update', seq: 1, status: { state: 'running', session: 's' }, topics: {}, faults: {} }
      },
      buffers: []
    });
    await settled();
    expect(made.snapshot.status?.state).toBe('running');
    const stopped = made.command('stop');
    kernel.restart();
    await stopped;
    expect([made.snapshot.status, made.connected]).toEqual([null, false]);
  });

  it('closes the comm that another announcement replaces, and hears only the new one', async () => {
    const made = link();
    const old = kernel.announce();
    const comm = kernel.announce();
    expect([old.closed, comm.closed]).toEqual([1, 0]);
    const said = (step: number): object => ({
      content: { data: { v: VERSION, kind: 'update', seq: 1, status: { state: 'running', step }, topics: {}, faults: {} } },
      buffers: []
    });
    old.onMsg(said(1));
    comm.onMsg(said(2));
    await settled();
    expect(made.snapshot.status?.step).toBe(2);
    old.onClose({});
    expect(made.connected).toBe(true);
  });

  it('says what to do about a kernel of another version, and reads on after a message that is garbage', async () => {
    const made = link();
    const comm = kernel.announce({ v: VERSION, contract: 'another' });
    expect(made.trouble).toContain('Update the older one');
    comm.onMsg({ content: { data: { '#z': 0 } }, buffers: [] });
    await settled();
    comm.onMsg({
      content: { data: { v: VERSION, kind: 'update', seq: 7, status: { state: 'ready' }, topics: {}, faults: {} } },
      buffers: []
    });
    await vi.waitFor(() => expect(made.snapshot.status?.state).toBe('ready'));
    expect(failed).toHaveBeenCalledTimes(1);
    expect(kernel.sent).toContainEqual(expect.objectContaining({ command: 'ack', argument: 7 }));
    expect(TARGET).toBe('workbench.live');
  });

  it('acknowledges the first update at once, pictures that follow together, and that the kernel lives now and then', async () => {
    vi.useFakeTimers();
    try {
      link();
      const comm = kernel.announce();
      const acknowledged = () => kernel.sent.filter(one => one.command === 'ack').map(one => one.argument);
      const hear = async (seq: number, topics = {}) => {
        comm.onMsg({ content: { data: { v: VERSION, kind: 'update', seq, status: {}, topics, faults: {} } }, buffers: [] });
        await settled();
        return acknowledged();
      };
      const pictures = { knobs: { knobs: [] } };
      for (const seq of [1, 2, 3, 4]) {
        expect(await hear(seq, seq > 1 ? pictures : {})).toEqual([1]);
      }
      expect(await hear(5, pictures)).toEqual([1, 5]);
      for (const seq of [6, 7, 8, 9, 10, 11, 12]) {
        vi.advanceTimersByTime(1000);
        expect(await hear(seq)).toEqual([1, 5]);
      }
      vi.advanceTimersByTime(1000);
      expect(await hear(13)).toEqual([1, 5, 13]);
    } finally {
      vi.useRealTimers();
    }
  });

  it('says how long a kernel has been silent, and stops saying so when it speaks', async () => {
    vi.useFakeTimers();
    try {
      const made = link();
      const comm = kernel.announce();
      const update = { v: VERSION, kind: 'update', seq: 1, status: { state: 'running' }, topics: {}, faults: {} };
      comm.onMsg({ content: { data: update }, buffers: [] });
      await settled();
      const heard = vi.fn();
      made.changed.connect(heard);
      vi.advanceTimersByTime(2000);
      expect([made.silence, heard.mock.calls.length]).toEqual([0, 0]);
      vi.advanceTimersByTime(2000);
      expect(made.silence).toBeCloseTo(4, 1);
      expect(heard).toHaveBeenCalled();
      comm.onMsg({ content: { data: { ...update, seq: 2 } }, buffers: [] });
      await settled();
      expect(made.silence).toBe(0);
      made.dispose();
    } finally {
      vi.useRealTimers();
    }
  });
});
