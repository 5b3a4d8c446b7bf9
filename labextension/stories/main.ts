/** The story page: choose a planted run, how many tasks, a view, a theme and a width; the address says the same, and can be kept. */
import '../style/theme.css';
import '../style/base.css';

import { Graphviz } from '@hpcc-js/wasm-graphviz';

import { RemoteLayouter } from '../src/graph/layouter';
import { VIEWS } from '../src/kit/view';
import type { Page } from '../src/page';
import { address, asked, scenariosOf, SIZES, THEMES } from './asked';
import { tell } from './story';

const field = <T extends HTMLElement>(name: string) => document.querySelector<T>(`nav [name=${name}]`)!;
const [scenario, tasks, view, theme] = ['scenario', 'tasks', 'view', 'theme'].map(name => field<HTMLSelectElement>(name));
const width = field<HTMLInputElement>('width');
const place = document.querySelector<HTMLElement>('main')!;
const engine = Graphviz.load();
let wanted = asked(location.search);
let page: Page | null = null;

/** Rules for a dark system count for whoever asks for dark, whatever the system is. */
function dress(): void {
  const rules = (list: CSSRuleList): CSSRule[] =>
    [...list].flatMap(rule => [rule, ...('cssRules' in rule ? rules(rule.cssRules as CSSRuleList) : [])]);
  const query = { system: '(prefers-color-scheme: dark)', light: 'not all', dark: 'all' }[wanted.theme];
  for (const rule of [...document.styleSheets].flatMap(sheet => rules(sheet.cssRules))) {
    if (rule instanceof CSSMediaRule && (darkness.has(rule) || rule.media.mediaText.includes('prefers-color-scheme: dark'))) {
      darkness.add(rule);
      rule.media.mediaText = query;
    }
  }
  document.documentElement.style.colorScheme = wanted.theme === 'system' ? '' : wanted.theme;
}
const darkness = new Set<CSSMediaRule>();

function show(): void {
  page?.dispose();
  const node = document.createElement('div');
  node.className = 'wb-Cell';
  scenario.replaceChildren(...scenariosOf(wanted.tasks).map(name => new Option(name, name)));
  [scenario.value, tasks.value, view.value, theme.value] = [wanted.scenario, String(wanted.tasks), wanted.view, wanted.theme];
  width.value = String(wanted.width);
  place.style.maxWidth = `${wanted.width}px`;
  place.replaceChildren(node);
  dress();
  const layouter = () => new RemoteLayouter(async dot => (await engine).layout(dot, 'plain', 'dot'));
  page = tell(node, wanted.scenario, layouter, wanted.lost);
  wanted.view && page.lead(wanted.view);
}

tasks.append(new Option('any', '0'), ...SIZES.map(size => new Option(String(size), String(size))));
view.append(new Option('as it opens', ''), ...VIEWS.map(kind => new Option(kind.title, kind.id)));
theme.append(...THEMES.map(name => new Option(name, name)));
document.querySelector('nav')!.addEventListener('change', () => {
  const form = { scenario, tasks, view, theme, width };
  const values = Object.entries(form).map(([name, input]) => [name, input.value]);
  wanted = asked(new URLSearchParams([...values, ['lost', wanted.lost]]).toString());
  history.replaceState(null, '', address(wanted));
  show();
});
show();
