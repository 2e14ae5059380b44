'use strict';
/*
 * The reports' documents, each JSON in an element doc-NAME (schemas/formats), as sections: those that are there. All texts come from a
 * foreign capture and become text nodes, in text() alone. `data` is what the script of the flame graph draws, which runs after this one.
 */
const data = JSON.parse((document.getElementById('doc-flame') || { textContent:
  '{"metrics": [{"name": "", "unit": ""}], "strings": [""], "frames": [[4, 0, 0, 0]], "parent": [-1], "frame": [0], "self": [[[0]]]}' }).textContent);
{
  const docs = {};
  for (const e of document.querySelectorAll('script[type="application/json"]'))
    docs[e.id.slice(4)] = JSON.parse(e.textContent);
  const facts = docs.facts, main = document.getElementById('main'), windowNs = Math.max(facts.window.duration_ns, 1);

  /* ---- elements ---- */

  /* What a terminal would not show as it is, nor a browser: controls and those of direction. */
  const control = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;
  const plain = s => String(s).replace(control, '\ufffd');
  const text = s => document.createTextNode(plain(s));
  data.strings = data.strings.map(plain);

  function fill(e, attributes, children) {
    for (const [key, value] of Object.entries(attributes || {}))
      if (key.startsWith('on'))
        e.addEventListener(key.slice(2), value);
      else if (value !== undefined && value !== false)
        e.setAttribute(key, value === true ? '' : value);
    for (const child of children.flat(Infinity))
      if (child !== undefined && child !== null && child !== false)
        e.append(child instanceof Node ? child : text(child));
    return e;
  }
  const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
  const g = (tag, attributes, ...children) => fill(document.createElementNS('http://www.w3.org/2000/svg', tag), attributes, children);
  const code = s => h('code', {}, s);
  const note = (...children) => h('p', { class: 'dim' }, ...children);
  const alarm = s => h('span', { class: 'grows' }, s);

  function colored(e, color) {
    e.style.background = `var(--${color})`;
    return e;
  }

  function section(id, title, ...children) {
    const s = h('section', { id: 's-' + id, 'aria-labelledby': `s-${id}-title` }, h('h2', { id: `s-${id}-title` }, title), ...children);
    main.append(s);
    return s;
  }

  /* ---- numbers ---- */

  const round = v => v >= 100 ? v.toFixed(0) : v >= 10 ? v.toFixed(1) : v.toFixed(2);
  function scaled(v, step, units) {
    let i = 0, a = Math.abs(v);
    for (; a >= step && i < units.length - 1; i++)
      a /= step;
    return (v < 0 ? '\u2212' : '') + (i || a % 1 ? round(a) : a) + '\u00a0' + units[i];
  }
  const ns = v => Math.abs(v) < 1e9 ? scaled(v, 1000, ['ns', '\u00b5s', 'ms']) : round(v / 1e9) + '\u00a0s';
  const at = v => (v / 1e9).toFixed(3) + '\u00a0s';
  const bytes = v => scaled(v, 1024, ['B', 'KiB', 'MiB', 'GiB', 'TiB']);
  const count = v => v < 10000 ? String(v) : scaled(v, 1000, ['', 'k', 'M', 'G']);
  const share = v => (100 * v).toFixed(1) + '\u00a0%';
  const dash = unit => v => v ? unit(v) : '\u2013';
  const plural = (n, word) => `${count(n)} ${word}${n === 1 ? '' : 's'}`;
  const sum = (list, get) => list.reduce((all, r) => all + (get(r) || 0), 0);

  /* ---- parts of one whole ---- */

  function stack(parts, whole) {
    const said = parts.map(p => `${p.name} ${share(p.value / whole)}`);
    const bar = h('div', { class: 'stack', role: 'img', 'aria-label': said.join(', ') });
    parts.forEach((p, i) => {
      const e = colored(h('span', { title: said[i] }), p.color);
      e.style.width = 100 * p.value / whole + '%';
      bar.append(e);
    });
    return bar;
  }

  function keys(parts, show) {
    return h('ul', { class: 'keys' }, parts.map(p => h('li', {}, colored(h('i'), p.color), p.name, ' ', show && h('b', {}, show(p)))));
  }

  /* ---- tables ---- */

  /* Columns: names, which are searched; figures; figures with bars; other texts. show(value, row): a text or an element. */
  const named = (label, get) => ({ label, get, name: true });
  const figure = (label, get, show) => ({ label, get, show });
  const barred = (label, get, show) => ({ label, get, show, bars: true });

  /*
   * Ordered by the first column with bars, else the first figure. A column without any text is left out. more: how many rows the document
   * lacks, with their sum in that column: { rows, sum }.
   */
  function table({ caption, columns: all, rows, more, least = 15 }) {
    const columns = all.filter((c, i) => !i || rows.some(r => c.get(r) !== ''));
    const isFigure = c => !c.name && typeof (rows.length ? c.get(rows[0]) : 0) === 'number';
    const first = columns.find(c => c.bars) || columns.find(isFigure) || columns[0];
    const state = { by: first, up: !isFigure(first), all: false, find: '' };
    const most = new Map(columns.filter(c => c.bars).map(c => [c, rows.reduce((m, r) => Math.max(m, c.get(r)), 1)]));
    const found = rows.map(r => columns.filter(c => c.name).map(c => c.get(r)).join(' ').toLowerCase());
    const body = h('tbody'), status = h('output', { class: 'dim' });
    const button = h('button', { type: 'button', class: 'more', onclick: () => { state.all = !state.all; render(); } });
    const heads = columns.map(c => h('th', { scope: 'col', class: isFigure(c) ? 'n' : undefined },
      h('button', { type: 'button', onclick: () => sortBy(c) }, c.label)));

    function sortBy(c) {
      state.up = state.by === c ? !state.up : !isFigure(c);
      state.by = c;
      render();
    }

    function cell(c, row) {
      const value = c.get(row), shown = c.show ? c.show(value, row) : value;
      if (c === columns[0])
        return h('th', { scope: 'row', class: 'name' }, shown);
      if (!c.bars)
        return h('td', { class: isFigure(c) ? 'n' : c.name ? 'name' : undefined }, shown);
      const bar = h('i', { 'aria-hidden': 'true' });
      bar.style.width = 100 * value / most.get(c) + '%';
      return h('td', { class: 'n share' }, h('span', {}, shown), h('span', { class: 'track' }, bar));
    }

    function compare(a, b) {
      const x = state.by.get(rows[a]), y = state.by.get(rows[b]);
      const order = typeof x === 'number' ? x - y : String(x).localeCompare(String(y));
      return (state.up ? order : -order) || a - b;
    }

    function render() {
      const list = rows.map((_, i) => i).filter(i => found[i].includes(state.find)).sort(compare);
      const shown = state.all ? list : list.slice(0, least);
      body.replaceChildren(...shown.map(i => h('tr', {}, columns.map(c => cell(c, rows[i])))));
      heads.forEach((th, i) => th.setAttribute('aria-sort', columns[i] !== state.by ? 'none' : state.up ? 'ascending' : 'descending'));
      button.hidden = list.length <= least;
      button.textContent = state.all ? 'Show fewer rows' : `Show all ${list.length} rows`;
      status.textContent = state.find ? `${list.length} of ${rows.length} rows` : '';
    }

    function rest() {
      const cells = columns.slice(1).map(c => h('td', { class: isFigure(c) ? 'n' : undefined },
        c === first && more.sum !== undefined && c.show(more.sum)));
      return h('tfoot', {}, h('tr', {}, h('th', { scope: 'row' }, `and ${more.rows} more, which this page leaves out`), cells));
    }

    const search = rows.length > 8 && h('input', { type: 'search', placeholder: 'search', 'aria-label': `Search ${caption}`,
      oninput: e => { state.find = e.target.value.toLowerCase(); render(); } });
    render();
    return h('div', {}, h('div', { class: 'bar-line' }, h('h3', {}, caption), search, status),
      h('div', { class: 'scroll', tabindex: 0, role: 'group', 'aria-label': caption },
        h('table', {}, h('caption', {}, caption), h('thead', {}, h('tr', {}, heads)), body, more && more.rows > 0 && rest())), button);
  }

  /* ---- charts ---- */

  /* 1, 2 or 5 times a power of ten apart. */
  function ticks(most, wanted) {
    const raw = most / wanted, power = 10 ** Math.floor(Math.log10(raw || 1));
    const step = [1, 2, 5, 10].find(f => f * power >= raw) * power;
    return Array.from({ length: Math.floor(most / step * (1 + 1e-9)) + 1 }, (_, i) => i * step);
  }

  /* Drawn again when its width changes. unit: ticks are whole in it. paint(x, y, right): elements; x of seconds, y of values. */
  function chart({ label, height, top, show, unit = 1, paint }) {
    const host = h('div', { class: 'chart' }), left = 74, bottom = height - 26, seconds = windowNs / 1e9;
    let drawn = 0;

    function draw() {
      const width = host.clientWidth || 800, right = width - 8;
      if (width === drawn)
        return;
      drawn = width;
      const x = s => left + (right - left) * s / seconds, y = v => bottom - (bottom - 10) * v / (top || 1);
      const level = v => [g('line', { class: 'grid', x1: left, x2: right, y1: y(v), y2: y(v) }),
        g('text', { x: left - 8, y: y(v) + 4, 'text-anchor': 'end' }, show(v))];
      const time = s => g('text', { x: x(s), y: height - 6, 'text-anchor': 'middle' }, +s.toPrecision(6) + '\u00a0s');
      host.replaceChildren(g('svg', { viewBox: `0 0 ${width} ${height}`, height, role: 'img', 'aria-label': label },
        ticks(top / unit, 4).map(v => level(v * unit)), ticks(seconds, Math.max(width / 130, 2)).map(time), paint(x, y, right)));
    }

    new ResizeObserver(draw).observe(host);
    return host;
  }

  const byteUnit = most => 1024 ** Math.min(Math.floor(Math.log2(most || 1) / 10), 4);

  /* ---- verdict ---- */

  const partNames = { operators: ['operators', 'c0'], data_loader: ['data loader', 'c1'], optimizer: ['optimizer', 'c2'],
    collectives: ['collectives', 'c3'], gpu_wait: ['waiting for the GPU', 'c5'], python: ['Python', 'c6'], running: ['running', 'c0'],
    cpu_queue: ['waiting for a CPU', 'c4'], blocked: ['blocked', 'c7'], unexplained: ['unexplained', 'c7'] };
  const waitColors = { CPU: 'c4', GIL: 'c8', lock: 'c9', poll: 'c10', 'pipe or socket': 'c10', 'file I/O': 'c10', 'GPU driver': 'c5' };

  function part(p) {
    const [name, color] = partNames[p.part] || [`waits: ${p.part}`, waitColors[p.part] || 'c7'];
    return { name, color, value: p.share };
  }

  function cause(c, whole) {
    const line = (name, value) => value ? [h('dt', {}, name), h('dd', {}, value)] : [];
    return h('li', { class: c.severity },
      h('h3', {}, h('span', {}, c.title), h('span', {}, c.share ? `${share(c.share)} of ${whole}, ` : '', c.severity)),
      h('dl', {}, line('why', c.evidence), line('change', c.change), line('more', c.next && code(c.next))));
  }

  function cannotTell(rules) {
    const needs = new Map();
    for (const r of rules)
      if (r.needs)
        needs.set(r.needs, [...needs.get(r.needs) || [], r.rule.replaceAll('_', ' ')]);
    return needs.size > 0 && h('details', {}, h('summary', {}, 'What this recording cannot tell'),
      h('ul', {}, [...needs].map(([need, list]) => h('li', {}, list.join(', '), ': needs ', code(need)))));
  }

  /* In the program: of probes, or where there are none of samples. */
  function costNs() {
    const samples = facts.loss.counters.find(c => c.name === 'SAMPLES_NS');
    return facts.cost.estimated_total_ms * 1e6 || (samples ? samples.value : 0);
  }

  function tiles(step) {
    const list = h('dl', { class: 'tiles' }), { totals, complete } = facts, cost = costNs() / windowNs;
    const tile = (name, value, small) => list.append(h('div', {}, h('dt', {}, name), h('dd', {}, value, h('small', {}, small))));
    if (step.median_ns)
      tile('median step', ns(step.median_ns), `p10 ${ns(step.p10_ns)}, p90 ${ns(step.p90_ns)}, ${plural(step.steps, 'step')}`);
    tile('window', ns(windowNs), totals.samples && !totals.operators ? plural(totals.samples, 'sample') : plural(totals.operators, 'operator'));
    tile('cost of the recording', cost > 0 && cost < 0.001 ? '< 0.1\u00a0%' : share(cost), 'of the window, at least');
    tile('capture', complete ? 'complete' : 'incomplete', complete ? 'nothing lost' : 'figures are bounds');
    return list;
  }

  function verdict(why) {
    const step = why.step || {}, whole = step.median_ns ? 'a step' : 'the window', causes = why.causes || [];
    const parts = (why.parts || []).filter(p => p.share >= 0.0005).map(part);
    section('verdict', 'Verdict', tiles(step),
      parts.length > 0 && [h('h3', {}, `Where the time of ${whole} goes`), stack(parts, sum(parts, p => p.value)), keys(parts, p => share(p.value))],
      causes.length ? h('ol', { class: 'causes' }, causes.map(c => cause(c, whole))) :
        h('p', {}, why.thread ? 'Nothing stands out: no cause that is known costs 5\u00a0% or more.' :
          'Cannot tell: the capture has no operator, annotation or sample of any thread.'),
      cannotTell(why.rules || []));
  }

  /* ---- steps ---- */

  function stepTable(slow, series, of) {
    return h('details', {}, h('summary', {}, 'Slow steps as a table'), table({ caption: 'Slow steps' + of, rows: slow, columns: [
      named('step', s => String(s[0])),
      barred('takes', s => s[2], ns),
      figure('of the median', s => s[2] / series.median_ns, v => v.toFixed(2) + '\u00a0\u00d7'),
      figure('begins at', s => s[1], at)] }));
  }

  function saidOfSteps(series) {
    const bound = `longer than ${ns(series.slow_above_ns)}, the upper quartile and 1.5 interquartile ranges`;
    return `median ${ns(series.median_ns)} (line), p10 ${ns(series.p10_ns)} to p90 ${ns(series.p90_ns)} (band), longest ${ns(series.longest_ns)}. ` +
      (!series.slow_above_ns ? 'Too few to call one slow.' :
        series.slow ? `${plural(series.slow, 'slow step')} (red): ${bound}.` : `None is slow: ${bound}.`) +
      (series.every > 1 ? ` Drawn are every ${series.every}th step and the ${Math.min(series.slow, 500)} slowest.` : '') +
      (series.later_count ? ` Then, without probes on operators: ${plural(series.later_count, 'step')}, median ${ns(series.later_median_ns)}.` : '');
  }

  function stepSeries(series, several) {
    const of = several ? ` of process ${series.pid}` : '', { median_ns: median, p10_ns: p10, p90_ns: p90 } = series;
    const isSlow = s => series.slow_above_ns && s[2] > series.slow_above_ns, slow = series.list.filter(isSlow);
    const name = plural(series.count, 'whole step') + of + (series.derived ? ', which end with the optimizer' : ''), said = saidOfSteps(series);
    const dot = (x, y, s) => g('circle', { class: isSlow(s) ? 'slow' : 'step', r: isSlow(s) ? 4.5 : 3,
      cx: x((s[1] + s[2] / 2) / 1e9).toFixed(1), cy: y(s[2]).toFixed(1) }, g('title', {}, `step ${s[0]}: ${ns(s[2])}, begins at ${at(s[1])}`));
    const paint = (x, y, right) => [
      g('rect', { class: 'band', x: x(0), width: right - x(0), y: y(p90), height: Math.max(y(p10) - y(p90), 1) }),
      g('line', { class: 'median', x1: x(0), x2: right, y1: y(median), y2: y(median) }),
      series.list.map(s => dot(x, y, s))];
    return [h('p', {}, name, ': ', said),
      chart({ label: `Duration of steps over time. ${name}: ${said}`, height: 220, top: series.longest_ns * 1.05, show: ns, paint }),
      slow.length > 0 && stepTable(slow, series, of)];
  }

  function steps(doc) {
    const more = doc.series_count - doc.series.length;
    section('steps', 'Steps over time', doc.series.map(series => stepSeries(series, doc.series_count > 1)),
      more > 0 && note(`${plural(more, 'further thread')} with steps left out.`));
  }

  /* ---- operators, lines, modules ---- */

  function operators(doc) {
    const rows = doc.rows, whole = rows[0].self_cpu_percent ? rows[0].self_cpu_ns / rows[0].self_cpu_percent * 100 : 1;
    const some = (key, column) => rows.some(r => r[key]) ? [column(r => r[key] || 0)] : [];
    const columns = [
      named('operator', r => r.key),
      barred('self CPU', r => r.self_cpu_ns, dash(ns)),
      figure('%', r => r.self_cpu_ns / whole, share),
      ...some('self_device_ns', get => barred('self GPU', get, dash(ns))),
      figure('total CPU', r => r.cpu_total_ns, dash(ns)),
      figure('calls', r => r.count, count),
      figure('CPU a call', r => r.cpu_avg_ns, dash(ns)),
      ...some('self_cpu_mem_bytes', get => figure('self CPU memory', get, dash(bytes))),
      ...some('self_device_mem_bytes', get => figure('self GPU memory', get, dash(bytes)))];
    const waits = [['cpu_wait_ns', 'waits: CPU'], ['gil_wait_ns', 'GIL'], ['lock_wait_ns', 'lock'], ['io_wait_ns', 'I/O'], ['other_wait_ns', 'other']];
    for (const [key, label] of waits)
      columns.push(...some(key, get => figure(label, get, dash(ns))));
    section('operators', 'Operators', table({ caption: 'Operators and annotations by their own time', columns, rows,
      more: { rows: doc.row_count - rows.length, sum: whole - sum(rows, r => r.self_cpu_ns) } }));
  }

  /* Figures of a tree of calls; of times there are also those with what is below. */
  const times = [['cpu_time', 'CPU'], ['gpu_time', 'GPU'], ['sampled_cpu_time', 'on CPU'], ['sampled_wait_time', 'not running']];
  const others = [['cpu_wait_time', 'waits: CPU', ns], ['gil_wait_time', 'GIL', ns], ['lock_wait_time', 'lock', ns], ['io_wait_time', 'I/O', ns],
    ['other_wait_time', 'other', ns], ['cpu_memory_allocated', 'allocated', bytes], ['cpu_memory_live', 'never freed', bytes],
    ['cuda_memory_allocated', 'GPU allocated', bytes], ['cuda_memory_live', 'GPU never freed', bytes], ['page_faults', 'page faults', count],
    ['calls', 'calls', count]];

  function places({ id, title, caption, one, doc, rows, all, name }) {
    const own = key => r => r.self[key] || 0, columns = [named(one, name)];
    const first = times.find(([key]) => rows.some(own(key)));
    for (const [key, label] of times) {
      if (rows.some(own(key)))
        columns.push(barred(`self ${label}`, own(key), dash(ns)), figure('% of window', r => own(key)(r) / windowNs, share));
      if (rows.some(r => r.total && r.total[key] !== r.self[key]))
        columns.push(figure(`total ${label}`, r => r.total[key] || 0, dash(ns)));
    }
    for (const [key, label, show] of others)
      if (rows.some(own(key)))
        columns.push(figure(label, own(key), dash(show)));
    section(id, title, table({ caption, columns, rows,
      more: { rows: all - rows.length, sum: first && Math.max(doc.sums[first[0]] - sum(rows, own(first[0])), 0) } }));
  }

  const fileAndLine = r => r.file ? r.file + (r.line ? ':' + r.line : '') + (r.function.startsWith('(') ? ' ' : ' in ') : '';
  const lineName = r => fileAndLine(r) + r.function || '(no Python frames)';
  const moduleName = r => r.attribute_path !== null && r.path.length ?
    `${r.attribute_path || '(outermost)'} (${r.path[r.path.length - 1]})` : r.path.join(' > ') || '(in no module)';

  const lines = doc => places({ id: 'lines', title: 'Lines of code', caption: 'Lines of Python by what they call', one: 'line', doc,
    rows: doc.lines, all: doc.line_count, name: lineName });
  const modules = doc => places({ id: 'modules', title: 'Modules', caption: 'Modules by what runs in them', one: 'module', doc,
    rows: doc.modules, all: doc.module_count, name: moduleName });

  function openOperators(doc) {
    if (doc.operators.some(r => !r.operator.startsWith('('))) /* (none), (not known) */
      places({ id: 'open', title: 'Open operators', caption: 'Samples by the innermost operator that was open', one: 'operator', doc,
        rows: doc.operators, all: doc.operator_count, name: r => r.operator });
  }

  function flame(d) {
    const s = document.getElementById('s-flame'), left = d.node_count - d.parent.length;
    s.hidden = false;
    main.append(s);
    document.getElementById('flame-note').append(text([
      d.sample_hz ? `Times are those of samples of all threads, ${d.sample_hz} a second.` :
        'Times are those of operators and annotations, without the Python code between them.',
      'Orange: the program; yellow: libraries; purple: annotations; blue: operators.',
      d.has_stacks ? '' : 'Recorded without Python stacks (--with-stack).',
      left ? `Calls with less than ${+(100 * d.least).toPrecision(3)}\u00a0% are a part of their caller here: ${count(left)} of ${count(d.node_count)}.` : '',
      d.cut ? 'The tree was too large: callers have the sums of what is missing below them.' : ''].filter(t => t).join(' ')));
  }

  /* ---- memory ---- */

  const who = r => (r.outer_operator && r.outer_operator !== r.operator ? r.outer_operator + ' > ' : '') + (r.operator || 'outside of operators') +
    (r.annotation ? ` in "${r.annotation}"` : '') + (r.line ? ' at ' + r.line : '');

  function memoryChart(doc, series) {
    const part = windowNs / 1e9 / doc.points, top = Math.max(series.peak, 1) * 1.05;
    const said = `peak ${bytes(series.peak)}, at the end ${bytes(series.end)}${series.since_begin ? '; of blocks since the window began' : ''}`;
    const several = doc.series.some(o => o.pid !== series.pid);
    const paint = (x, y) => {
      const edge = values => values.flatMap((v, i) => [0, 1].map(k => `${x((series.first + i + k) * part).toFixed(1)},${y(v).toFixed(1)}`));
      const upper = edge(series.high);
      return [g('polygon', { class: 'area', points: [...upper, ...edge(series.low).reverse()].join(' ') }),
        g('polyline', { class: 'trace', points: upper.join(' ') })];
    };
    return [h('h3', {}, series.name, several ? ` of process ${series.pid}` : ''), note(said),
      chart({ label: `${series.name} over time: ${said}`, height: 180, top, show: bytes, unit: byteUnit(top), paint })];
  }

  function growth(p) {
    const per = p.period === 'step' ? 'a step' : 'a tenth of the window', said = [], { rss } = p;
    for (const d of p.devices)
      if (d.growth_per_period > 0)
        said.push([alarm('Grows: '), `${d.device} by ${bytes(d.growth_per_period)} ${per}`]);
    if (rss && rss.growth_per_period > 0)
      said.push([alarm('Grows: '), `resident memory by ${bytes(rss.growth_per_period)} ${per}`,
        rss.growth_beside_torch && `, ${bytes(rss.growth_beside_torch.bytes_per_period)} of it beside torch`]);
    if (p.out_of_memory_count || p.oom_kill_count)
      said.push([alarm('Out of memory: '), `${plural(p.out_of_memory_count, 'request')} refused by torch, ${plural(p.oom_kill_count, 'kill')} by Linux`]);
    return (said.length ? said : ['No memory is seen to grow.']).map(s => h('p', {}, s));
  }

  function memoryTables(p) {
    const peak = p.devices.flatMap(d => d.peak.live.map(r => ({ ...r, device: d.device })));
    const blocks = (caption, rows, more, ...columns) => rows.length > 0 && table({ caption, rows, more, columns: [
      named('operator', who),
      barred('bytes', r => r.bytes, bytes),
      ...columns,
      figure('blocks', r => r.blocks, count),
      figure('device', r => p.devices.length > 1 ? r.device : ''),
      named('input shapes', r => /\d/.test(r.shapes) ? r.shapes : '')] });
    return [blocks('What grows: blocks never freed, from many periods', p.growing, { rows: p.growing_count - p.growing.length },
      figure(p.period === 'step' ? 'a step' : 'a tenth', r => r.bytes_per_period, bytes)),
    blocks('Live at the peak', peak),
    blocks('Live at the end, allocated in the window', p.live, { rows: p.live_count - p.live.length, sum: p.live_bytes - sum(p.live, r => r.bytes) })];
  }

  function memory(doc) {
    const time = docs.memory_time || { series: [] };
    section('memory', 'Memory', doc.processes.map(p => [doc.processes.length > 1 && h('h3', {}, `Process ${p.pid}`), growth(p),
      time.series.filter(series => series.pid === p.pid).map(series => memoryChart(time, series)), memoryTables(p)]),
    time.left_out > 0 && note('Further devices and processes are not drawn.'));
  }

  /* ---- threads ---- */

  function threadTable(rows, more, ...columns) {
    const used = rows.flatMap(r => r.parts).filter(p => p.value);
    return [keys(used.filter((p, i) => used.findIndex(q => q.name === p.name) === i)),
      table({ caption: 'Threads and their states, of the window', rows, more, columns: [
        named('thread', r => `${r.name} (${r.tid})`),
        figure('on a CPU', r => r.parts[0].value / windowNs, share),
        figure('states', r => r.parts[0].value, (_, r) => stack(r.parts.filter(p => p.value), Math.max(windowNs, sum(r.parts, p => p.value)))),
        ...columns] })];
  }

  function sampledThreads(doc) {
    const states = [['on a CPU', 'c0'], ['waiting for a CPU', 'c4'], ['blocked', 'c7']];
    const rows = doc.threads.map(t => ({ ...t, parts: t.ns.map((value, i) => ({ name: states[i][0], color: states[i][1], value })) }));
    section('threads', 'Threads', h('p', {}, 'States by samples; ', code('--sched'), ' records what each wait is for.'),
      threadTable(rows, { rows: doc.thread_count - rows.length }));
  }

  function threads(doc) {
    const waits = t => Object.entries(t.waits_ns).map(([what, value]) => ({ name: 'waits: ' + what, color: waitColors[what] || 'c7', value }));
    const rows = doc.threads.map(t => ({ ...t, parts: [{ name: 'on a CPU', color: 'c0', value: t.on_cpu_ns }, ...waits(t)] }));
    const longest = t => Object.entries(t.waits_ns).reduce((a, b) => b[1] > a[1] ? b : a, ['', 0])[0];
    const place = w => (w.operator || w.annotation || 'outside of operators') + (w.operator && w.annotation ? ` of ${w.annotation}` : '') +
      (w.line ? ` at ${w.line}` : '');
    const thread = w => `${(rows.find(t => t.tid === w.tid) || { name: '' }).name} (${w.tid})`;
    section('threads', 'Threads',
      threadTable(rows, undefined, figure('waits most for', longest), figure('preempted', t => t.preempted, count)),
      doc.waits.length > 0 && table({ caption: 'Longest waits', rows: doc.waits, columns: [
        named('place', place),
        barred('time', w => w.ns, ns),
        figure('for', w => w.what),
        figure('waits', w => w.count, count),
        figure('longest', w => w.longest_ns, dash(ns)),
        named('thread', w => rows.length > 1 ? thread(w) : '')] }));
  }

  /* ---- GPUs, ranks ---- */

  const idleColors = { 'no launch': 'c1', synchronisation: 'c4', copy: 'c3', 'launch latency': 'c6', queued: 'c2' };

  function gpu(d) {
    const idle = d.causes.map(c => ({ name: `idle: ${c.cause}`, color: idleColors[c.cause] || 'c7', value: c.ns }));
    const parts = [{ name: 'kernels', color: 'c0', value: d.kernel_busy_ns }, ...idle].filter(p => p.value);
    return [h('h3', {}, `GPU ${d.id}: ${d.name || ''}`),
      h('p', {}, `${share(d.kernel_busy_share)} of the window in kernels, ${share(d.busy_share)} with copies and fills; ${plural(d.kernels, 'kernel')}.`),
      parts.length > 0 && [stack(parts, windowNs), keys(parts, p => share(p.value / windowNs))]];
  }

  function gpus(doc) {
    const list = (caption, rows, all, name, ...columns) => rows.length > 0 && table({ caption, rows, more: { rows: all - rows.length }, columns: [
      named('name', name),
      barred('time', r => r.ns, ns),
      figure('times', r => r.count, count),
      figure('longest', r => r.longest_ns, ns),
      ...columns] });
    const within = s => s ? ' in ' + s : '';
    const reason = r => `${r.cause}: ${r.call || r.operator || r.where}${within(r.call && r.operator)}${within(r.annotation)}`;
    if (!doc.work_count && !doc.call_count)
      return;
    section('gpus', 'GPUs',
      !doc.activities && h('p', {}, 'CUDA calls were seen from the host alone; the agent (', code('--agent inject'), ') records activities of GPUs.'),
      doc.gpus.map(gpu),
      list('Kernels', doc.kernels, doc.kernel_count, k => k.name,
        figure('%', k => k.ns / (doc.kernel_ns || 1), share), named('operator', k => k.operator)),
      list('Copies and fills', doc.copies, doc.copy_count, c => c.name, figure('bytes', c => c.bytes, bytes)),
      list('Why GPUs were idle', doc.reasons, doc.reason_count, reason),
      list('CUDA calls', doc.calls, doc.call_count, c => c.name + within(c.operator), figure('waits', c => c.waits ? 'for the GPU' : '')));
  }

  function ranks(doc) {
    const name = r => r.rank === undefined ? `process ${r.pid}` : `rank ${r.rank}`, of = pid => name(doc.ranks.find(r => r.pid === pid) || { pid });
    const slow = r => h('p', {}, alarm(`${name(r)} is slow: `), `it takes ${ns(r.excess_ns)} longer than the others, ${share(r.share)} of a step, in `,
      r.causes.slice(0, 3).map(c => c.what).join(', '), '.');
    section('ranks', 'Ranks',
      h('p', {}, `${doc.ranks.length} ranks, ${plural(doc.compared.collectives, 'collective')} that all called.`,
        doc.ranks.some(r => r.slow) ? '' : ' No rank is slow.'),
      doc.ranks.filter(r => r.slow).map(slow),
      doc.compared.guessed && note('Not certain: the calls do not show that ranks waited.'),
      table({ caption: 'Ranks', rows: doc.ranks, columns: [
        named('rank', name),
        barred('own time a step', r => r.own_ns, ns),
        figure('waited', r => r.waited_ns, dash(ns)),
        figure('others waited for it', r => r.caused_ns, dash(ns)),
        figure('last in', r => r.last_in, count),
        figure('process', r => String(r.pid))] }),
      doc.waits.length > 0 && table({ caption: 'Longest waits', rows: doc.waits, columns: [
        named('collective', w => w.collective),
        barred('time', w => w.ns, ns),
        figure('who', w => `${of(w.waiting_pid)} for ${of(w.for_pid)}`),
        figure('at', w => w.at_ns, at)] }));
  }

  /* ---- the recording ---- */

  const optional = { lines: 'lines of code', modules: 'modules', memory: 'memory', sched: 'what threads wait for', gpu: 'GPU activity' };

  function notRecorded() {
    const list = Object.keys(optional).filter(key => key in facts.lacks);
    return list.length > 0 && note('Not recorded: ',
      list.map((key, i) => [i ? ', ' : '', optional[key], facts.lacks[key] && [' (', code(facts.lacks[key].trim()), ')']]), '.');
  }

  function refused() {
    const { count: all, functions: rows } = facts.refused;
    return all > 0 && h('details', {}, h('summary', {}, plural(all, 'function') + ' not probed'),
      table({ caption: 'Functions that are not probed', rows, more: { rows: all - rows.length }, columns: [
        named('function', f => f.name), figure('what it is', f => f.kind), figure('why', f => f.reason)] }));
  }

  function how() {
    const list = h('dl', { class: 'facts' }), { cost, capture = {}, probes } = facts;
    const row = (name, value) => value !== undefined && value !== '' && list.append(h('dt', {}, name), h('dd', {}, value));
    row('losses', facts.account);
    for (const t of facts.targets)
      row(`process ${t.pid}`, [code(t.command_line), t.source && `, by ${t.source}`]);
    row('host', capture.host);
    row('Python', (Array.isArray(capture.python) ? capture.python : []).map(p => p.version || p.why).filter(v => v).join(', '));
    row('window', `${ns(windowNs)}, ${facts.window.stopped_by}`);
    row('cost', `at least ${ns(costNs())} in the program${cost.hits ? `, for ${plural(cost.hits, 'hit')} of ${ns(cost.per_hit_ns)}` : ''}; ` +
      `ptbpf itself ${ns(cost.collector_cpu_ms * 1e6)} of a CPU, ${bytes(cost.collector_rss_bytes)}`);
    row('probes', probes.attached ? `${count(probes.attached)} in ${plural(probes.functions, 'function')}` : 'none');
    row('options', Object.entries(capture).filter(([, v]) => v === true || typeof v === 'number')
      .map(([key, v]) => key.replaceAll('_', ' ') + (v === true ? '' : ' ' + v)).join(', '));
    row('ptbpf', facts.version);
    return list;
  }

  function recording() {
    const losses = facts.loss.counters.filter(l => l.loss && l.value);
    section('recording', 'The recording', how(),
      losses.length > 0 && table({ caption: 'Losses', rows: losses, columns: [named('what', l => l.text), figure('number', l => l.value, count)] }),
      facts.refused && refused(), notRecorded(),
      Object.entries(facts.left_out).map(([key, size]) =>
        note(`Left out, since it would be ${bytes(size)}: ${key.replaceAll('_', ' ')}, which ptbpf report has.`)));
  }

  /* ---- the page ---- */

  const sections = { why: verdict, steps, operators: doc => doc.rows.length && operators(doc), lines, modules, open_operators: openOperators, flame,
    memory, sched: threads, samples: sampledThreads, gpu: gpus, ranks, facts: recording };

  if (!facts.complete)
    document.querySelector('header').append(h('p', { class: 'alert', role: 'note' }, h('b', {}, 'Incomplete. '), 'Figures are bounds: ', facts.account, '.'));
  for (const [name, show] of Object.entries(sections))
    try {
      if (docs[name])
        show(docs[name]);
    } catch (e) { /* of a foreign capture; the others are shown */
      section('broken-' + name, name, h('p', { class: 'alert' }, `This section cannot be shown: ${e.message}`));
    }
  const shown = [...main.querySelectorAll(':scope > section:not([hidden])')];
  document.getElementById('nav').append(...shown.map(s => h('a', { href: '#' + s.id }, s.querySelector('h2').textContent)));
  document.getElementById('footer').append(text(`Written by ptbpf ${facts.version}. This page loads nothing.`));
}
