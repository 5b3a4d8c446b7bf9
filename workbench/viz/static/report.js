// Reading aids only: the report is complete without them.
'use strict';
const shortNumber = v => v === null ? '–' : Math.abs(v) >= 1000 ? Math.round(v).toLocaleString('en') : String(Number(v.toPrecision(4)));

for (const plot of document.querySelectorAll('[data-chart]')) {
  const data = JSON.parse(plot.dataset.chart);
  const cursor = Object.assign(document.createElement('div'), { className: 'cursor', hidden: true });
  const tip = Object.assign(document.createElement('div'), { className: 'tip', hidden: true });
  plot.append(cursor, tip);
  plot.addEventListener('pointermove', event => {
    const box = plot.getBoundingClientRect();
    const part = Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
    const at = data.left + part * (data.right - data.left);
    const rows = data.lines.map(line => [line, nearest(line.x, at)]).filter(([line, i]) => i >= 0);
    if (!rows.length) return;
    const step = rows[0][0].x[rows[0][1]];
    cursor.style.left = `${100 * (step - data.left) / (data.right - data.left)}%`;
    tip.replaceChildren(data.across === 'step' ? `step ${step}` : `at ${step.toFixed(2)} s`, ...rows.map(([line, i]) =>
      Object.assign(document.createElement('div'), { textContent: `${line.name}: ${shortNumber(line.y[i])} ${data.unit}` })));
    cursor.hidden = tip.hidden = false;
    tip.style.left = part < 0.5 ? `calc(${100 * part}% + 14px)` : '';
    tip.style.right = part < 0.5 ? '' : `calc(${100 * (1 - part)}% + 14px)`;
  });
  plot.addEventListener('pointerleave', () => { cursor.hidden = tip.hidden = true; });
}

function nearest(xs, at) {
  let low = 0, high = xs.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (xs[middle] < at) low = middle; else high = middle;
  }
  return high < 0 ? -1 : Math.abs(xs[low] - at) <= Math.abs(xs[high] - at) ? low : high;
}

// A click on a closed scope opens its drawing; the scopes are also reachable as the summaries below the graph.
for (const node of document.querySelectorAll('.graph .wb-closed')) {
  node.addEventListener('click', () => {
    const details = document.getElementById(`scope-${node.dataset.id}`);
    if (details) {
      details.open = true;
      details.scrollIntoView({ block: 'nearest' });
      details.querySelector('summary').focus({ preventScroll: true });
    }
  });
}
for (const box of document.querySelectorAll('.graph[role=region]')) {
  box.scrollLeft = (box.scrollWidth - box.clientWidth) / 2;
}
addEventListener('beforeprint', () => document.querySelectorAll('details').forEach(d => { d.open = true; }));
