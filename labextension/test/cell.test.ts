import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { cell } from '../src/cell';
import { VERSION } from '../src/contract';
import planted from './fixtures/planted.json';
import { stubOption } from './lacking';

/** A widget's model: what the page sends is kept, what the kernel sends is given to all that listen. */
class FakeModel {
  sent: any[] = [];
  heard: ((content: any, buffers?: DataView[]) => void)[] = [];
  get(): string {
    return 'a widget';
  }
  send(content: any): void {
    this.sent.push(content);
  }
  on(_: string, heard: (content: any) => void): void {
    this.heard.push(heard);
  }
  off(_: string, heard: (content: any) => void): void {
    this.heard = this.heard.filter(one => one !== heard);
  }
  say(content: object): void {
    const { page } = this.sent[0];
    this.heard.forEach(heard => heard({ page, ...content }));
  }
  update(topics: object, status: object = {}): void {
    const state = { state: 'running', step: 3, of: 0, lost: [], tasks: [], session: 's', seconds: 0, counted: true };
    this.say({ said: { v: VERSION, kind: 'update', seq: 1, status: { ...state, ...status }, topics, faults: {} } });
  }
}

let seen: (entries: { isIntersecting: boolean }[]) => void = () => undefined;
let model: FakeModel;
let node: HTMLElement;
let ends: (() => void)[];

/** Updates are unpacked in turn, so they are there a moment later. */
const until = (good: () => boolean) => vi.waitFor(() => expect(good()).toBe(true));

beforeEach(() => {
  stubOption();
  vi.stubGlobal(
    'IntersectionObserver',
    class {
      constructor(heard: typeof seen) {
        seen = heard;
      }
      observe(): void {}
      disconnect(): void {}
    }
  );
  model = new FakeModel();
  node = document.createElement('div');
  document.body.append(node);
  ends = [cell.initialize({ model }), cell.render({ model, el: node })];
});

afterEach(() => {
  ends.reverse().forEach(end => end());
  node.remove();
  vi.unstubAllGlobals();
});

describe('the page in a cell', () => {
  it('asks for what can be seen, and for nothing once it is out of sight', () => {
    expect(model.sent).toEqual([]);
    seen([{ isIntersecting: true }]);
    expect(Object.keys(model.sent[0].argument)).toEqual(expect.arrayContaining(['graph', 'series', 'steps', 'work']));
    expect(model.sent[0].argument.timeline).toBeUndefined(); // behind a tab
    seen([{ isIntersecting: false }]);
    expect(model.sent.map(one => one.command)).toEqual(['watch', 'watch']);
    expect(model.sent[1].argument).toEqual({});
  });

  it('says that nothing ran once the kernel has said so, not before', async () => {
    const words = () => node.querySelector('.wb-Empty')!.textContent;
    seen([{ isIntersecting: true }]);
    expect(words()).toBe('Asking the kernel what runs…');
    model.update({}, { state: 'empty' });
    await until(() => words()!.startsWith('Nothing ran yet.'));
  });

  it('shows state, verdict and sections, and acknowledges', async () => {
    seen([{ isIntersecting: true }]);
    const { steps, stragglers: work } = planted.find(one => one.kind === 'worker')!;
    model.update({ steps, work });
    await until(() => node.dataset.state === 'running');
    expect(node.querySelector('.wb-Verdict b')!.textContent).toBe(work.verdict.text);
    expect(node.querySelectorAll('.wb-Stragglers tbody tr')).toHaveLength(Math.min(8, work.rows.length));
    expect(model.sent.some(one => one.command === 'ack' && one.argument === 1)).toBe(true);
  });

  it('hears neither other pages nor after it has ended', async () => {
    seen([{ isIntersecting: true }]);
    model.heard.forEach(heard =>
      heard({ page: 'another', said: { v: VERSION, kind: 'update', seq: 1, status: {}, topics: {} } })
    );
    model.update({}, { step: 4 });
    await until(() => node.querySelector('.wb-Facts')!.textContent!.startsWith('4 steps'));
    expect(model.sent.filter(one => one.command === 'ack')).toHaveLength(1);
    ends.reverse().forEach(end => end());
    ends = [];
    expect(model.heard).toEqual([]);
  });

  it('says what it watches again to a kernel that forgot it', () => {
    seen([{ isIntersecting: true }]);
    model.say({ kind: 'again' });
    expect(model.sent.map(one => one.command)).toEqual(['watch', 'watch']);
    expect(model.sent[1].argument).toEqual(model.sent[0].argument);
  });

  it('says why a command was refused', async () => {
    seen([{ isIntersecting: true }]);
    model.update({});
    await until(() => node.dataset.state === 'running');
    [...node.querySelectorAll<HTMLButtonElement>('.wb-Tools button')].find(one => one.textContent === 'Stop')!.click();
    const { id, run } = model.sent.find(one => one.command === 'stop')!;
    expect(run).toBe('s');
    model.say({ said: { v: VERSION, kind: 'answer', id, ok: false, error: 'stop: nothing is running', status: {} } });
    await until(() => node.querySelector('.wb-Trouble')!.textContent!.includes('stop: nothing is running'));
  });
});
