// A canvas line chart: axes with units, hover and arrow keys, theme colours; redrawn once per animation frame at most.
const MARGIN = { right: 10, top: 8, bottom: 36 };
const LEFT = 44;      // room for the labels of the vertical axis; more where they are longer

function format(value, digits = 3) {
  if (!Number.isFinite(value)) return '–';
  if (Number.isInteger(value) || Math.abs(value) >= 10 ** digits) return Math.round(value).toLocaleString('en');
  return String(Number(value.toPrecision(digits)));
}

/** Numbers in three digits, or in as many as it takes to tell them apart. */
function labels(values) {
  const texts = [3, 5, 7, 9].map(digits => values.map(value => format(value, digits)));
  return texts.find(made => new Set(made).size === values.length) ?? values.map(String);
}

/** Milliseconds in the unit that reads best, as the report writes them: "870 µs", "9.8 ms", "1.25 s". */
function duration(milliseconds) {
  const size = Math.abs(milliseconds);
  if (size >= 1000) return `${format(milliseconds / 1000)} s`;
  return size >= 1 || size === 0 ? `${format(milliseconds)} ms` : `${format(1000 * milliseconds)} µs`;
}

function shortTask(task) {
  const parts = /job:([^/]+)\/(?:replica:\d+\/)?task:(\d+)/.exec(task);
  return parts ? `${parts[1]}:${parts[2]}` : task;
}

function ticks(low, high, count) {
  const rough = (high - low) / count;
  if (!(rough > 0)) return [low];
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map(m => m * power).find(s => s >= rough * 0.999);
  const found = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++) found.push(i * step + 0);      // + 0: no "-0"
  return found;
}

/** The running median of 60 points and more, at a hundred places; null when each point can be seen by itself. */
function running(xs, ys) {
  if (xs.length < 60) return null;
  const reach = Math.max(4, Math.round(xs.length / 40));
  const stride = Math.max(1, Math.floor(xs.length / 100));
  const trend = { xs: [], ys: [] };
  for (let i = 0; i < xs.length; i = i === xs.length - 1 ? xs.length : Math.min(i + stride, xs.length - 1)) {
    const near = Array.from(ys.slice(Math.max(0, i - reach), i + reach + 1)).filter(Number.isFinite).sort((a, b) => a - b);
    trend.xs.push(xs[i]);
    trend.ys.push(near.length ? near[near.length >> 1] : NaN);
  }
  return trend;
}

/** Float32 columns that lie behind each other in one buffer. */
function unpack(view, lengths) {
  if (!view || !view.byteLength) return lengths.map(() => new Float32Array(0));
  const all = new Float32Array(view.buffer.slice(view.byteOffset, view.byteOffset + view.byteLength));
  let at = 0;
  return lengths.map(length => all.subarray(at, (at += length)));
}

class Chart {
  /** `across` is what runs from left to right: 'step', or 'seconds' since the recording began. */
  constructor(label, unit, fromZero, height, across = 'step') {
    Object.assign(this, { label, unit, fromZero, across, lines: [], cursor: null, due: 0, margin: LEFT });
    this.node = Object.assign(document.createElement('figure'), { className: 'wb-chart' });
    this.canvas = document.createElement('canvas');
    this.canvas.style.height = `${height}px`;
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute('role', 'img');
    this.tip = Object.assign(document.createElement('div'), { className: 'wb-tip', hidden: true });
    this.tip.setAttribute('role', 'status');
    this.node.append(this.canvas, this.tip);
    this.sizes = new ResizeObserver(() => this.later());
    this.sizes.observe(this.canvas);
    this.themes = new MutationObserver(() => this.later());
    this.themes.observe(document.body, { attributes: true });
    this.canvas.addEventListener('pointermove', e => this.point(e.offsetX));
    for (const name of ['pointerleave', 'blur']) this.canvas.addEventListener(name, () => this.select(null));
    this.canvas.addEventListener('keydown', e => this.key(e));
  }

  set(lines, summary) {
    this.lines = lines;
    this.canvas.setAttribute('aria-label', `${this.label}. ${summary}`);
    this.later();
  }

  later() {
    this.due = this.due || requestAnimationFrame(() => { this.due = 0; this.draw(); });
  }

  close() {
    cancelAnimationFrame(this.due);
    this.sizes.disconnect();
    this.themes.disconnect();
  }

  measure() {
    let [x0, x1, y0, y1] = [Infinity, -Infinity, Infinity, -Infinity];
    const all = [];
    for (const { xs, ys } of this.lines) {
      for (let i = 0; i < xs.length; i++) {
        x0 = Math.min(x0, xs[i]);
        x1 = Math.max(x1, xs[i]);
        if (Number.isFinite(ys[i])) {
          y0 = Math.min(y0, ys[i]);
          y1 = Math.max(y1, ys[i]);
          all.push(ys[i]);
        }
      }
    }
    if (!all.length) [x0, x1, y0, y1] = [0, 1, 0, 1];
    if (this.fromZero) {
      all.sort((a, b) => a - b);                  // one slow first step must not flatten the others
      y0 = 0;
      y1 = Math.min(y1, 2 * (all[Math.floor(0.95 * (all.length - 1))] || 1));
    }
    const pad = y1 > y0 ? 0.06 * (y1 - y0) : Math.abs(y1) * 0.1 || 1;
    this.low = this.fromZero ? 0 : y0 - pad;
    this.high = y1 + pad;
    this.left = x0;
    this.right = x1 > x0 ? x1 : x0 + 1;
  }

  /** Where the horizontal lines are, and what stands beside them; the topmost says the unit. */
  marks(height) {
    const values = ticks(this.low, this.high, Math.max(2, Math.floor((height - MARGIN.bottom - MARGIN.top) / 30)));
    return labels(values).map((text, i) => ({ value: values[i], text: i === values.length - 1 ? `${text} ${this.unit}`.trim() : text }));
  }

  scale(width, height) {
    const [w, h] = [width - this.margin - MARGIN.right, height - MARGIN.top - MARGIN.bottom];
    this.x = x => this.margin + (x - this.left) / (this.right - this.left) * w;
    this.y = y => MARGIN.top + h - (Math.min(y, this.high) - this.low) / (this.high - this.low) * h;
  }

  draw() {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    if (!width || !height) return;
    const ratio = window.devicePixelRatio || 1;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    const pen = this.canvas.getContext('2d');
    const probe = getComputedStyle(this.node);
    pen.scale(ratio, ratio);
    pen.font = `11px ${probe.fontFamily}`;
    this.measure();
    const marks = this.marks(height);
    this.margin = Math.max(LEFT, ...marks.map(mark => pen.measureText(mark.text).width + 8));
    this.scale(width, height);
    this.axes(pen, probe.color, width, height, marks);
    for (const line of this.lines) this.line(pen, line);
    if (this.cursor !== null) this.mark(pen, probe.color, height);
  }

  axes(pen, ink, width, height, marks) {
    const bottom = height - MARGIN.bottom;
    pen.strokeStyle = pen.fillStyle = ink;
    pen.lineWidth = 1;
    pen.textAlign = 'right';
    pen.textBaseline = 'middle';
    for (const mark of marks) {
      const y = Math.round(this.y(mark.value)) + 0.5;
      pen.globalAlpha = 0.16;
      pen.beginPath();
      pen.moveTo(this.margin, y);
      pen.lineTo(width - MARGIN.right, y);
      pen.stroke();
      pen.globalAlpha = 0.85;
      pen.fillText(mark.text, this.margin - 6, y);
    }
    pen.textBaseline = 'top';
    pen.fillText(this.across, width - MARGIN.right, bottom + 21);
    const whole = this.across === 'step';
    const places = ticks(this.left, this.right, Math.max(2, Math.floor(width / 90))).filter(tick => !whole || Number.isInteger(tick));
    pen.textAlign = 'center';
    labels(places).forEach((label, i) => {
      pen.fillText(label, Math.min(this.x(places[i]), width - pen.measureText(label).width / 2), bottom + 6);
    });
    pen.globalAlpha = 1;
  }

  /** Many points are noise to the eye: they stay as a thin line, and their running median leads. */
  line(pen, { xs, ys, color }) {
    const trend = running(xs, ys);
    pen.strokeStyle = pen.fillStyle = color;
    pen.lineJoin = 'round';
    pen.globalAlpha = trend ? 0.22 : 1;
    this.stroke(pen, xs, ys, trend ? 1 : 1.5);
    for (let i = 0; i < xs.length; i++) {
      if (ys[i] > this.high) this.disc(pen, this.x(xs[i]), MARGIN.top, 2);      // it lies above the edge
    }
    pen.globalAlpha = 1;
    if (trend) this.stroke(pen, trend.xs, trend.ys, 2);
    if (xs.length === 1) this.disc(pen, this.x(xs[0]), this.y(ys[0]), 2.5);
  }

  stroke(pen, xs, ys, width) {
    pen.lineWidth = width;
    pen.beginPath();
    let gap = true;
    for (let i = 0; i < xs.length; i++) {
      const known = Number.isFinite(ys[i]);
      if (known) gap ? pen.moveTo(this.x(xs[i]), this.y(ys[i])) : pen.lineTo(this.x(xs[i]), this.y(ys[i]));
      gap = !known;
    }
    pen.stroke();
  }

  mark(pen, ink, height) {
    const x = Math.round(this.x(this.cursor)) + 0.5;
    pen.strokeStyle = ink;
    pen.globalAlpha = 0.5;
    pen.beginPath();
    pen.moveTo(x, MARGIN.top);
    pen.lineTo(x, height - MARGIN.bottom);
    pen.stroke();
    pen.globalAlpha = 1;
    for (const { xs, ys, color } of this.lines) {
      const i = nearest(xs, this.cursor);
      pen.fillStyle = color;
      if (i >= 0 && Number.isFinite(ys[i])) this.disc(pen, this.x(xs[i]), this.y(ys[i]), 3.5);
    }
  }

  disc(pen, x, y, radius) {
    pen.beginPath();
    pen.arc(x, y, radius, 0, 2 * Math.PI);
    pen.fill();
  }

  point(offset) {
    const width = this.canvas.clientWidth - this.margin - MARGIN.right;
    const part = (offset - this.margin) / width;
    this.select(part < -0.02 || part > 1.02 ? null : this.left + part * (this.right - this.left));
  }

  key(event) {
    const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!move || !this.lines.length) return;
    const { xs } = this.lines[0];
    const i = this.cursor === null ? xs.length - 1 : nearest(xs, this.cursor) + move;
    this.select(xs[Math.min(xs.length - 1, Math.max(0, i))] ?? null);
    event.preventDefault();
    event.stopPropagation();
  }

  select(x) {
    const first = this.lines[0];
    this.cursor = x === null || !first || !first.xs.length ? null : first.xs[nearest(first.xs, x)];
    this.tip.hidden = this.cursor === null;
    if (this.cursor !== null) {
      const row = text => Object.assign(document.createElement('div'), { textContent: text });
      this.tip.replaceChildren(row(this.across === 'step' ? `step ${format(this.cursor, 9)}` : `at ${this.cursor.toFixed(2)} s`), ...this.lines.map(({ name, xs, ys }) =>
        row(`${name}: ${format(ys[nearest(xs, this.cursor)], 4)} ${this.unit}`)));
      const right = this.x(this.cursor) > this.canvas.clientWidth / 2;
      this.tip.style.left = right ? 'auto' : `${this.x(this.cursor) + 12}px`;
      this.tip.style.right = right ? `${this.canvas.clientWidth - this.x(this.cursor) + 12}px` : 'auto';
    }
    this.later();
  }
}

function nearest(xs, x) {
  let [low, high] = [0, xs.length - 1];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (xs[middle] < x) low = middle; else high = middle;
  }
  return high < 0 ? -1 : Math.abs(xs[low] - x) <= Math.abs(xs[high] - x) ? low : high;
}

function legend(entries) {
  const list = Object.assign(document.createElement('ul'), { className: 'wb-legend' });
  for (const { color, name, text, title } of entries) {
    const item = document.createElement('li');
    const key = document.createElement('i');
    key.style.background = color;
    item.title = title ?? '';
    item.append(key, Object.assign(document.createElement('b'), { textContent: name }),
      Object.assign(document.createElement('span'), { textContent: text ?? '' }));
    list.append(item);
  }
  return list;
}

/** Follow a widget's traits; a burst of changes is drawn once. */
function follow(model, names, signal, draw) {
  let due = 0;
  const later = () => { due = due || requestAnimationFrame(() => { due = 0; draw(); }); };
  for (const name of names) model.on(`change:${name}`, later);
  const stop = () => {
    cancelAnimationFrame(due);
    for (const name of names) model.off(`change:${name}`, later);
  };
  signal?.addEventListener('abort', stop);
  draw();
  return stop;
}
