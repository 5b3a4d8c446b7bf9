/** Lays graphs out off the main thread: DOT in, SVG out. */
import { Graphviz } from '@hpcc-js/wasm-graphviz';

const engine = Graphviz.load();

self.onmessage = async (event: MessageEvent<{ id: number; dot: string }>) => {
  const { id, dot } = event.data;
  try {
    self.postMessage({ id, svg: (await engine).layout(dot, 'svg', 'dot') });
  } catch (reason) {
    self.postMessage({ id, error: String(reason) });
  }
};
