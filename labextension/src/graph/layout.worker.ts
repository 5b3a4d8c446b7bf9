/** Lays graphs out off the main thread: items and flows in, geometry out. */
import { Graphviz } from '@hpcc-js/wasm-graphviz';

import { type Flow, type Item, Layout } from './geometry';

const ready = Graphviz.load().then(engine => new Layout(dot => engine.layout(dot, 'plain', 'dot')));

self.onmessage = async (event: MessageEvent<{ id: number; items: Item[]; flows: Flow[] }>) => {
  const { id, items, flows } = event.data;
  try {
    self.postMessage({ id, geometry: await (await ready).place(items, flows) });
  } catch (reason) {
    self.postMessage({ id, error: String(reason) });
  }
};
