export default {
  render({ model, el, signal }) {
    el.classList.add('wb-widget');
    const box = Object.assign(document.createElement('div'), { className: 'wb-charts' });
    const empty = Object.assign(document.createElement('p'), { className: 'wb-empty', textContent: 'No loss or accuracy was recorded yet.' });
    const charts = new Map();
    el.append(empty, box);
    const cell = series => {
      const chart = new Chart(series.name, series.unit, false, 160);
      const part = document.createElement('section');
      const head = document.createElement('h4');
      const name = series.name.charAt(0).toUpperCase() + series.name.slice(1);
      const value = document.createElement('output');
      head.append(name, value);
      part.append(head, chart.node);
      box.append(part);
      charts.set(series.name, { chart, value });
      return charts.get(series.name);
    };
    const draw = () => {
      const { series = [], lengths = [], color = '#0072b2' } = model.get('meta');
      const parts = unpack(model.get('data'), lengths);
      empty.hidden = series.length > 0;
      series.forEach((s, i) => {
        const { chart, value } = charts.get(s.name) ?? cell(s);
        const [xs, ys] = [parts[2 * i], parts[2 * i + 1]];
        const last = `${format(ys[ys.length - 1], 4)} ${s.unit}`.trim();
        value.textContent = last + (s.count > ys.length ? ` · ${format(ys.length)} of ${format(s.count)} points` : '');
        chart.set([{ name: s.name, color, xs, ys }], `latest ${last}`);
      });
      el.dataset.updates = String(Number(el.dataset.updates ?? 0) + 1);
    };
    const stop = follow(model, ['meta', 'data'], signal, draw);
    return () => { stop(); charts.forEach(({ chart }) => chart.close()); };
  }
};
