const FAINT = 14;
const STRONG = 56;

function shortDevice(device) {
  const parts = /(?:\/job:([^/]+))?(?:\/replica:\d+)?(?:\/task:(\d+))?(?:\/(?:device:)?([a-z_]+:\d+))?$/i.exec(device);
  return parts ? [parts[1] && `${parts[1]}:${parts[2] ?? 0}`, parts[3]].filter(Boolean).join(' ') || device : device;
}

/** The drawing comes cleaned from the kernel; this page cleans it again before it lets it in. */
function parse(text) {
  const svg = new DOMParser().parseFromString(text, 'image/svg+xml').documentElement;
  svg.querySelectorAll('script, foreignObject, image, style, a, use').forEach(node => node.remove());
  for (const node of svg.querySelectorAll('*')) {
    for (const { name } of [...node.attributes]) if (/^on|href$/i.test(name)) node.removeAttribute(name);
  }
  return document.importNode(svg, true);
}

export default {
  render({ model, el, signal }) {
    el.classList.add('wb-widget');
    const head = Object.assign(document.createElement('h4'), { textContent: 'Graph' });
    const state = document.createElement('output');
    const view = Object.assign(document.createElement('div'), { className: 'wb-graph-view', tabIndex: -1 });
    view.setAttribute('role', 'group');
    view.setAttribute('aria-label', 'Dataflow graph; arrow keys move between operations, Enter opens or closes a scope');
    const keys = document.createElement('div');
    head.append(state);
    el.append(head, view, keys);
    let drawn = null;
    let shapes = new Map();

    const words = (node, value) => [node.kind === 'scope' ? `scope ${node.id}, ${node.count} operations` : `${node.id}: ${node.type}`,
      node.device ? `on ${shortDevice(node.device)}` : '', value > 0 ? duration(value) : ''].filter(Boolean).join('\n');

    const insert = () => {
      drawn = model.get('svg');
      const focused = view.contains(document.activeElement) ? document.activeElement.dataset.id : null;
      if (!drawn) return view.replaceChildren();
      const svg = parse(drawn);
      const nodes = new Map(model.get('nodes').map(node => [node.id, node]));
      shapes = new Map();
      for (const group of svg.querySelectorAll('g.node, g.cluster')) {
        const cluster = group.classList.contains('cluster');
        const node = cluster ? null : nodes.get(group.dataset.id);
        const scope = cluster || node?.kind === 'scope';
        group.setAttribute('tabindex', '-1');
        group.setAttribute('role', scope ? 'button' : 'img');
        group.setAttribute('aria-label', cluster ? `scope ${group.dataset.id}, open` : node ? words(node) : group.dataset.id);
        if (scope) group.setAttribute('aria-expanded', String(cluster));
        if (!cluster) shapes.set(group.dataset.id, group);
      }
      view.replaceChildren(svg);
      const next = focused && [...view.querySelectorAll('g.node, g.cluster')].find(g => g.dataset.id === focused);
      (next ?? view.querySelector('g.node'))?.setAttribute('tabindex', '0');
      next?.focus();
      fit(svg);
    };

    /** As large as fits, but never too small to read; what is larger scrolls. */
    const fit = svg => {
      const { width, height } = svg.viewBox.baseVal;
      const room = Math.min((view.clientWidth - 24) / width, 500 / height);
      svg.setAttribute('width', width * Math.min(1.15, Math.max(0.75, room)));
      svg.removeAttribute('height');
      view.scrollLeft = (view.scrollWidth - view.clientWidth) / 2;
    };

    const colour = () => {
      const nodes = model.get('nodes');
      const [values] = unpack(model.get('values'), [nodes.length]);
      let most = 1e-9;
      for (const value of values) if (value > most) most = value;
      nodes.forEach((node, i) => {
        const shape = shapes.get(node.id);
        if (!shape) return;
        const value = values[i];
        shape.style.setProperty('--wb-strength', `${(FAINT + (STRONG - FAINT) * ((value > 0 ? value : 0) / most)).toFixed(1)}%`);
        shape.setAttribute('aria-label', words(node, value));
      });
    };

    const draw = () => {
      if (model.get('svg') !== drawn) insert();
      colour();
      const operations = model.get('nodes').length;
      state.textContent = model.get('note') || (operations ? `${operations} nodes` : 'The graph appears with the first step.');
      keys.replaceChildren(legend(model.get('devices').map(d => ({ color: d.color, name: shortDevice(d.name), title: d.name }))));
      el.dataset.updates = String(Number(el.dataset.updates ?? 0) + 1);
    };

    const toggle = group => {
      if (group?.getAttribute('role') !== 'button') return;
      model.send({ command: group.classList.contains('cluster') ? 'collapse' : 'expand', argument: group.dataset.id });
    };
    view.addEventListener('click', event => toggle(event.target.closest('g.node, g.cluster')), { signal });
    view.addEventListener('keydown', event => {
      const all = [...view.querySelectorAll('g.node, g.cluster')];
      const now = all.indexOf(document.activeElement);
      const move = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (move && all.length) {
        const next = all[(now + move + all.length) % all.length];
        all.forEach(group => group.setAttribute('tabindex', group === next ? '0' : '-1'));
        next.focus();
      } else if ((event.key === 'Enter' || event.key === ' ') && now >= 0) {
        toggle(all[now]);
      } else return;
      event.preventDefault();
      event.stopPropagation();
    }, { signal });
    return follow(model, ['svg', 'nodes', 'values', 'devices', 'note'], signal, draw);
  }
};
