export default {
  render({ model, el, signal }) {
    el.classList.add('wb-widget');
    const head = document.createElement('h4');
    const chart = new Chart('Step time per task in milliseconds', 'ms', true, 180, 'seconds');
    const keys = document.createElement('div');
    el.append(head, chart.node, keys);
    const draw = () => {
      const { tasks = [], lengths = [] } = model.get('meta');
      const parts = unpack(model.get('data'), lengths);
      const lines = tasks.map((task, i) => ({ name: shortTask(task.task), color: task.device_color, xs: parts[2 * i], ys: parts[2 * i + 1] }));
      const words = tasks.map(t => `${shortTask(t.task)}: median ${duration(t.median)}, 95th percentile ${duration(t.p95)}`);
      head.textContent = tasks.length ? 'Step time' : 'Step time: no step has finished yet';
      chart.set(lines, words.join('; '));
      keys.replaceChildren(legend(tasks.map(t => ({ color: t.device_color, name: shortTask(t.task), title: t.task,
        text: `median ${duration(t.median)}, 95 % below ${duration(t.p95)}` }))));
      el.dataset.updates = String(Number(el.dataset.updates ?? 0) + 1);
    };
    const stop = follow(model, ['meta', 'data'], signal, draw);
    return () => { stop(); chart.close(); };
  }
};
