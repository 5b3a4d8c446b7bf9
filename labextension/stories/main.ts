/** The story page: choose a planted run and a width; `?scenario=…&width=…` in the address does the same. */
import '../style/theme.css';
import '../style/base.css';

import { Graphviz } from '@hpcc-js/wasm-graphviz';

import { RemoteLayouter } from '../src/graph/layouter';
import type { Page } from '../src/page';
import { SCENARIOS, tell } from './story';

const asked = new URLSearchParams(location.search);
const choice = document.querySelector<HTMLSelectElement>('select')!;
const width = document.querySelector<HTMLInputElement>('input')!;
const place = document.querySelector<HTMLElement>('main')!;
const engine = Graphviz.load();
let page: Page | null = null;

function show(): void {
  page?.dispose();
  const node = document.createElement('div');
  node.className = 'wb-Cell';
  place.style.maxWidth = `${width.value}px`;
  place.replaceChildren(node);
  page = tell(node, choice.value, () => new RemoteLayouter(async dot => (await engine).layout(dot, 'plain', 'dot')));
}

choice.append(...SCENARIOS.map(name => new Option(name, name)));
choice.value = asked.get('scenario') ?? SCENARIOS[0];
width.value = asked.get('width') ?? '720';
choice.addEventListener('change', show);
width.addEventListener('change', show);
show();
