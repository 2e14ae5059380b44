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
  const plain = s => String(s).replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g, '\ufffd'), text = s => document.createTextNode(plain(s));
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

  function colored(e, color, property = 'background') {
    e.style[property] = `var(--${color})`;
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
  const ns = v => scaled(v, 1000, ['ns', '\u00b5s', 'ms']).replace(/^(.?\d{4,}).ms$/, (_, ms) => round(ms / 1000) + '\u00a0s');
  const bytes = v => scaled(v, 1024, ['B', 'KiB', 'MiB', 'GiB', 'TiB']);
  const count = v => v < 10000 ? String(v) : scaled(v, 1000, ['', 'k', 'M', 'G']);
  const share = v => (100 * v).toFixed(1) + '\u00a0%';
  const dash = unit => v => v ? unit(v) : '\u2013';
  const plural = (n, word) => `${count(n)} ${word}${n === 1 ? '' : 's'}`;

  /* ---- parts of one whole ---- */

  function stack(parts, whole) {
    const bar = h('div', { class: 'stack', role: 'img', 'aria-label': parts.map(p => `${p.name} ${share(p.value / whole)}`).join(', ') });
    for (const p of parts) {
      const e = colored(h('span', { title: `${p.name}: ${share(p.value / whole)}` }), p.color);
      e.style.width = 100 * p.value / whole + '%';
      bar.append(e);
    }
    return bar;
  }
  const keys = (parts, show) => h('ul', { class: 'keys' }, parts.map(p => h('li', {}, colored(h('i'), p.color), p.name, ' ', show ? h('b', {}, show(p)) : '')));

  /* ---- tables ---- */

  /*
   * columns: [{ label, get(row), show(value): text or element, name: it is a name; share: it has bars }]; the first one that has bars, else a number, orders
   * the rows. more: how many rows the document lacks, with their sum in that column: { rows, sum }.
   */
  function table({ caption, columns: all, rows, more, search = rows.length > 8, least = 15 }) {
    const columns = all.filter((c, i) => !i || rows.some(r => c.get(r) !== ''));
    const number = c => !c.name && typeof (rows.length ? c.get(rows[0]) : 0) === 'number', main = columns.find(c => c.share) || columns.find(number) || columns[0];
    const state = { by: columns.indexOf(main), up: !number(main), all: false, find: '' };
    const body = h('tbody'), heads = [], status = h('output', { class: 'dim' });
    const button = h('button', { type: 'button', class: 'more', onclick: () => { state.all = !state.all; render(); } });
    const most = new Map(columns.filter(c => c.share).map(c => [c, rows.reduce((m, r) => Math.max(m, c.get(r)), 1)]));
    const found = rows.map(r => columns.filter(c => c.name).map(c => c.get(r)).join(' ').toLowerCase());

    function cell(c, row, first) {
      const value = c.get(row), shown = c.show ? c.show(value, row) : value;
      if (first)
        return h('th', { scope: 'row', class: 'name' }, shown);
      if (!c.share)
        return h('td', { class: number(c) ? 'n' : c.name ? 'name' : undefined }, shown);
      const bar = h('i', { 'aria-hidden': 'true' });
      bar.style.width = 100 * value / most.get(c) + '%';
      return h('td', { class: 'n share' }, h('span', {}, shown), h('span', { class: 'track' }, bar));
    }

    function render() {
      const c = columns[state.by], sign = state.up ? 1 : -1;
      const list = rows.map((_, i) => i).filter(i => found[i].includes(state.find));
      list.sort((a, b) => {
        const x = c.get(rows[a]), y = c.get(rows[b]);
        return sign * (typeof x === 'number' ? x - y : String(x).localeCompare(String(y))) || a - b;
      });
      const shown = state.all ? list : list.slice(0, least);
      body.replaceChildren(...shown.map(i => h('tr', {}, columns.map((c, k) => cell(c, rows[i], k === 0)))));
      heads.forEach((th, i) => th.setAttribute('aria-sort', i !== state.by ? 'none' : state.up ? 'ascending' : 'descending'));
      button.hidden = list.length <= least;
      button.textContent = state.all ? 'Show fewer rows' : `Show all ${list.length} rows`;
      status.textContent = state.find ? `${list.length} of ${rows.length} rows` : '';
    }

    columns.forEach((c, i) => heads.push(h('th', { scope: 'col', class: number(c) ? 'n' : undefined },
      h('button', { type: 'button', onclick: () => { state.up = state.by === i ? !state.up : !number(c); state.by = i; render(); } }, c.label))));
    const left = more && more.rows > 0 && h('tfoot', {}, h('tr', {}, columns.map((c, k) => k === 0 ? h('th', { scope: 'row' }, `and ${more.rows} more, which this page leaves out`) :
      h('td', { class: number(c) ? 'n' : undefined }, c === main && more.sum !== undefined ? c.show(more.sum) : ''))));
    render();
    return h('div', {}, h('div', { class: 'bar-line' }, h('h3', {}, caption), search && h('input', { type: 'search', placeholder: 'search', 'aria-label': `Search ${caption}`, oninput: e => { state.find = e.target.value.toLowerCase(); render(); } }), status),
    h('div', { class: 'scroll', tabindex: 0, role: 'group', 'aria-label': caption }, h('table', {}, h('caption', {}, caption), h('thead', {}, h('tr', {}, heads)), body, left)), button);
  }

  /* ---- charts ---- */

  function ticks(most, wanted) {
    const raw = most / wanted, power = 10 ** Math.floor(Math.log10(raw || 1)), step = [1, 2, 5, 10].find(f => f * power >= raw) * power;
    return Array.from({ length: Math.floor(most / step * (1 + 1e-9)) + 1 }, (_, i) => i * step);
  }

  /* Drawn again when its width changes. paint(x, y): elements; x of seconds, y of values. */
  function chart({ label, height = 220, top, y: showY, unit = 1, paint }) {
    const host = h('div', { class: 'chart' });
    let drawn = 0;
    const draw = () => {
      const width = host.clientWidth || 800, left = 74, bottom = 26, seconds = windowNs / 1e9;
      if (width === drawn)
        return;
      drawn = width;
      const x = s => left + (width - left - 8) * s / seconds, y = v => height - bottom - (height - bottom - 10) * v / (top || 1);
      host.replaceChildren(g('svg', { viewBox: `0 0 ${width} ${height}`, height, role: 'img', 'aria-label': label },
        ticks(top / unit, 4).map(v => [g('line', { class: 'grid', x1: left, x2: width - 8, y1: y(v * unit), y2: y(v * unit) }), g('text', { x: left - 8, y: y(v * unit) + 4, 'text-anchor': 'end' }, showY(v * unit))]),
        ticks(seconds, Math.max(width / 130, 2)).map(s => g('text', { x: x(s), y: height - 6, 'text-anchor': 'middle' }, +s.toPrecision(6) + '\u00a0s')),
        paint(x, y, width)));
    };
    new ResizeObserver(draw).observe(host);
    return host;
  }

  /* Ticks of bytes are whole in a unit of people. */
  const byteUnit = most => 1024 ** Math.min(Math.floor(Math.log2(most || 1) / 10), 4);

  /* ---- verdict ---- */

  const partNames = { operators: ['operators', 'c0'], data_loader: ['data loader', 'c1'], optimizer: ['optimizer', 'c2'], collectives: ['collectives', 'c3'],
    gpu_wait: ['waiting for the GPU', 'c5'], python: ['Python', 'c6'], running: ['running', 'c0'], cpu_queue: ['waiting for a CPU', 'c4'], blocked: ['blocked', 'c7'], unexplained: ['unexplained', 'c7'] };

  const waitColors = { CPU: 'c4', GIL: 'c8', lock: 'c9', poll: 'c10', 'pipe or socket': 'c10', 'file I/O': 'c10', sleep: 'c7', 'GPU driver': 'c5' };

  function cause(c) {
    const line = (name, value) => value ? [h('dt', {}, name), h('dd', {}, value)] : [];
    return h('li', { class: c.severity }, h('h3', {}, h('span', {}, c.title), h('span', {}, c.share ? `${share(c.share)} of ${docs.why.step && docs.why.step.median_ns ? 'a step' : 'the window'}, ${c.severity}` : c.severity)),
      h('dl', {}, line('why', c.evidence), line('change', c.change), line('more', c.next && h('code', {}, c.next))));
  }

  function cannotTell(rules) {
    const needs = new Map();
    for (const r of rules)
      if (r.needs)
        needs.set(r.needs, [...needs.get(r.needs) || [], r.rule.replaceAll('_', ' ')]);
    return needs.size ? h('details', {}, h('summary', {}, 'What this recording cannot tell'), h('ul', {}, [...needs].map(([need, list]) => h('li', {}, list.join(', '), ': needs ', h('code', {}, need))))) : null;
  }

  function verdict(why) {
    const step = why.step || {}, tiles = h('dl', { class: 'tiles' }), parts = (why.parts || []).filter(p => p.share >= 0.0005).map(p => {
      const [name, color] = partNames[p.part] || [`waits: ${p.part}`, waitColors[p.part] || 'c7'];
      return { name, color, value: p.share };
    });
    const tile = (name, value, small) => tiles.append(h('div', {}, h('dt', {}, name), h('dd', {}, value, small && h('small', {}, small))));
    const s = section('verdict', 'Verdict', tiles);
    if (step.median_ns)
      tile('median step', ns(step.median_ns), `p10 ${ns(step.p10_ns)}, p90 ${ns(step.p90_ns)}, ${plural(step.steps, 'step')}`);
    tile('window', ns(windowNs), facts.totals.samples && !facts.totals.operators ? plural(facts.totals.samples, 'sample') : plural(facts.totals.operators, 'operator'));
    if (facts.cost && facts.cost.percent_of_window !== undefined)
      tile('cost of the recording', share(facts.cost.percent_of_window / 100), 'of the window, at least');
    tile('capture', facts.complete ? 'complete' : 'incomplete', facts.complete ? 'nothing lost' : 'figures are bounds');
    if (parts.length)
      s.append(h('h3', {}, `Where the time of ${step.median_ns ? 'a step' : 'the window'} goes`), stack(parts, Math.max(parts.reduce((sum, p) => sum + p.value, 0), 1e-9)), keys(parts, p => share(p.value)));
    if ((why.causes || []).length)
      s.append(h('ol', { class: 'causes' }, why.causes.map(cause)));
    else
      s.append(h('p', {}, why.thread ? 'Nothing stands out: no cause that is known costs 5\u00a0% or more.' : 'Cannot tell: the capture has no operator, annotation or sample of any thread.'));
    s.append(cannotTell(why.rules || []) || '');
  }

  /* ---- steps ---- */

  function stepSeries(series, several) {
    const top = Math.max(series.longest_ns, series.median_ns) * 1.05, slow = series.list.filter(st => series.slow_above_ns && st[2] > series.slow_above_ns);
    const isSlow = new Set(slow);
    const paint = (x, y, width) => [
      g('rect', { class: 'band', x: x(0), width: x(windowNs / 1e9) - x(0), y: y(series.p90_ns), height: Math.max(y(series.p10_ns) - y(series.p90_ns), 1) }),
      g('line', { class: 'median', x1: x(0), x2: width - 8, y1: y(series.median_ns), y2: y(series.median_ns) }),
      series.list.map(st => g('circle', { class: isSlow.has(st) ? 'slow' : 'step', cx: x((st[1] + st[2] / 2) / 1e9).toFixed(1), cy: y(st[2]).toFixed(1), r: isSlow.has(st) ? 4.5 : 3 },
        g('title', {}, `step ${st[0]}: ${ns(st[2])}, begins at ${(st[1] / 1e9).toFixed(3)} s`))),
    ];
    const name = `${plural(series.count, 'whole step')}${several ? ` of process ${series.pid}` : ''}${series.derived ? ', which end with the optimizer' : ''}`;
    const said = [`median ${ns(series.median_ns)} (line), p10 ${ns(series.p10_ns)} to p90 ${ns(series.p90_ns)} (band), longest ${ns(series.longest_ns)}. `,
      !series.slow_above_ns ? 'Too few to call one slow.' : series.slow ? `${plural(series.slow, 'slow step')} (red): longer than ${ns(series.slow_above_ns)}, the upper quartile and 1.5 interquartile ranges.` :
        `None is slow: longer than ${ns(series.slow_above_ns)}, the upper quartile and 1.5 interquartile ranges.`,
      series.every > 1 ? ` Drawn are every ${series.every}th step and the ${Math.min(series.slow, 500)} slowest.` : ''];
    return [h('p', {}, name, ': ', said), chart({ label: `Duration of steps over time. ${name}: ${said.join('')}`, top, y: ns, unit: 1, paint }),
      slow.length ? h('details', {}, h('summary', {}, `Slow steps as a table`), table({ caption: `Slow steps${several ? ` of process ${series.pid}` : ''}`, rows: slow, columns: [
        { label: 'step', get: st => String(st[0]), name: true }, { label: 'takes', get: st => st[2], show: ns, share: true },
        { label: 'of the median', get: st => st[2] / series.median_ns, show: v => v.toFixed(2) + '\u00a0\u00d7' }, { label: 'begins at', get: st => st[1], show: v => (v / 1e9).toFixed(3) + '\u00a0s' }] })) : null];
  }

  function steps(doc) {
    const more = doc.series_count - doc.series.length;
    section('steps', 'Steps over time', doc.series.map(series => stepSeries(series, doc.series_count > 1)), more > 0 && h('p', { class: 'dim' }, `${plural(more, 'further thread')} with steps left out.`));
  }

  /* ---- operators, lines, modules ---- */

  const some = (rows, get) => rows.some(r => get(r));

  function operators(doc) {
    const rows = doc.rows, total = rows.length && rows[0].self_cpu_percent ? rows[0].self_cpu_ns / rows[0].self_cpu_percent * 100 : 1;
    const device = rows.reduce((sum, r) => sum + (r.self_device_ns || 0), 0), columns = [
      { label: 'operator', get: r => r.key, name: true },
      { label: 'self CPU', get: r => r.self_cpu_ns, show: dash(ns), share: true },
      { label: '%', get: r => r.self_cpu_ns / total, show: share },
      { label: 'total CPU', get: r => r.cpu_total_ns, show: dash(ns) },
      { label: 'calls', get: r => r.count, show: count },
      { label: 'CPU a call', get: r => r.cpu_avg_ns, show: dash(ns) }];
    const optional = (key, label, show) => some(rows, r => r[key]) && columns.push({ label, get: r => r[key] || 0, show: dash(show) });
    if (device)
      columns.splice(3, 0, { label: 'self GPU', get: r => r.self_device_ns || 0, show: dash(ns), share: true });
    optional('self_cpu_mem_bytes', 'self CPU memory', bytes);
    optional('self_device_mem_bytes', 'self GPU memory', bytes);
    for (const [key, label] of [['cpu_wait_ns', 'waits: CPU'], ['gil_wait_ns', 'GIL'], ['lock_wait_ns', 'lock'], ['io_wait_ns', 'I/O'], ['other_wait_ns', 'other']])
      optional(key, label, ns);
    section('operators', 'Operators', table({ caption: 'Operators and annotations by their own time', columns, rows,
      more: { rows: doc.row_count - rows.length, sum: total - rows.reduce((sum, r) => sum + r.self_cpu_ns, 0) } }));
  }

  const stackColumns = [['cpu_time', 'CPU', ns, true], ['gpu_time', 'GPU', ns, true], ['sampled_cpu_time', 'on CPU', ns, true], ['sampled_wait_time', 'not running', ns, true], ['cpu_wait_time', 'waits: CPU', ns],
    ['gil_wait_time', 'GIL', ns], ['lock_wait_time', 'lock', ns], ['io_wait_time', 'I/O', ns], ['other_wait_time', 'other', ns], ['cpu_memory_allocated', 'allocated', bytes], ['cpu_memory_live', 'never freed', bytes],
    ['cuda_memory_allocated', 'GPU allocated', bytes], ['cuda_memory_live', 'GPU never freed', bytes], ['page_faults', 'page faults', count], ['calls', 'calls', count]];

  /* Rows of a tree of calls, which have the same figures for themselves and with all below them. */
  function places(id, title, caption, doc, list, rowCount, name) {
    const columns = [{ label: id === 'open_operators' ? 'operator' : id.slice(0, -1), get: name, name: true }], whole = {};
    for (const [key] of stackColumns)
      whole[key] = Math.max(list.reduce((sum, r) => sum + (r.self[key] || 0), 0), doc.sums[key] || 0);
    for (const [key, label, show, timed] of stackColumns) {
      if (some(list, r => r.self[key]))
        columns.push({ label: timed ? `self ${label}` : label, get: r => r.self[key] || 0, show: dash(show), share: timed });
      if (timed && some(list, r => r.self[key]))
        columns.push({ label: '% of window', get: r => (r.self[key] || 0) / windowNs, show: share });
      if (timed && some(list, r => r.total && r.total[key] !== r.self[key]))
        columns.push({ label: `total ${label}`, get: r => r.total[key] || 0, show: dash(show) });
    }
    const first = stackColumns.find(([key, , , timed]) => timed && some(list, r => r.self[key]));
    section(id, title, table({ caption, columns, rows: list, more: { rows: rowCount - list.length, sum: first && whole[first[0]] - list.reduce((sum, r) => sum + r.self[first[0]], 0) } }));
  }

  const lineName = r => !r.file && !r.function ? '(no Python frames)' : (r.file ? r.file + (r.line ? ':' + r.line : '') + (r.function.startsWith('(') ? ' ' : ' in ') : '') + r.function;
  const moduleName = r => r.attribute_path !== null && r.path.length ? `${r.attribute_path || '(outermost)'} (${r.path[r.path.length - 1]})` : r.path.join(' > ') || '(in no module)';

  /* ---- memory ---- */

  const who = r => (r.outer_operator && r.outer_operator !== r.operator ? r.outer_operator + ' > ' : '') + (r.operator || 'outside of operators') + (r.annotation ? ` in "${r.annotation}"` : '') + (r.line ? ' at ' + r.line : '');

  function memoryChart(doc, series) {
    const n = doc.points, at = i => i * windowNs / 1e9 / n, top = Math.max(series.peak, 1) * 1.05;
    const area = (x, y) => {
      const upper = series.high.map((v, i) => `${x(at(series.first + i)).toFixed(1)},${y(v).toFixed(1)} ${x(at(series.first + i + 1)).toFixed(1)},${y(v).toFixed(1)}`);
      const lower = series.low.map((v, i) => `${x(at(series.first + i + 1)).toFixed(1)},${y(v).toFixed(1)} ${x(at(series.first + i)).toFixed(1)},${y(v).toFixed(1)}`).reverse();
      return [g('polygon', { class: 'area', points: [...upper, ...lower].join(' ') }), g('polyline', { class: 'trace', points: upper.join(' ') })];
    };
    const said = `peak ${bytes(series.peak)}, at the end ${bytes(series.end)}${series.since_begin ? '; of blocks since the window began' : ''}`;
    return [h('h3', {}, series.name, doc.series.some(o => o.pid !== series.pid) ? ` of process ${series.pid}` : ''), h('p', { class: 'dim' }, said),
      chart({ label: `${series.name} over time: ${said}`, height: 180, top, y: bytes, unit: byteUnit(top), paint: area })];
  }

  function growth(p) {
    const per = p.period === 'step' ? 'a step' : 'a tenth of the window', said = [];
    for (const d of p.devices)
      if (d.growth_per_period > 0)
        said.push([h('span', { class: 'grows' }, 'Grows: '), `${d.device} by ${bytes(d.growth_per_period)} ${per}`]);
    if (p.rss && p.rss.growth_per_period > 0)
      said.push([h('span', { class: 'grows' }, 'Grows: '), `resident memory by ${bytes(p.rss.growth_per_period)} ${per}`, p.rss.growth_beside_torch ? `, ${bytes(p.rss.growth_beside_torch.bytes_per_period)} of it beside torch` : '']);
    if (p.out_of_memory_count || p.oom_kill_count)
      said.push([h('span', { class: 'grows' }, 'Out of memory: '), `${p.out_of_memory_count} requests refused by torch, ${p.oom_kill_count} kills by Linux`]);
    if (!said.length)
      said.push(['No memory is seen to grow.']);
    return said.map(s => h('p', {}, s));
  }

  function memoryTables(p) {
    const per = p.period === 'step' ? 'a step' : 'a tenth', peak = p.devices.flatMap(d => d.peak.live.map(l => ({ ...l, device: d.device }))), sum = list => Math.max(list.reduce((s, r) => s + r.bytes, 0), 1);
    const columns = (list, ...more) => [{ label: 'operator', get: who, name: true }, { label: 'bytes', get: r => r.bytes, show: bytes, share: true }, ...more, { label: 'blocks', get: r => r.blocks, show: count },
      { label: 'device', get: r => p.devices.length > 1 ? r.device : '' }, { label: 'input shapes', get: r => /\d/.test(r.shapes) ? r.shapes : '', name: true }];
    return [p.growing.length ? table({ caption: 'What grows: blocks never freed, from many periods', rows: p.growing, more: { rows: p.growing_count - p.growing.length }, columns: columns(p.growing, { label: per, get: r => r.bytes_per_period, show: bytes }) }) : null,
      peak.length ? table({ caption: 'Live at the peak', rows: peak, columns: columns(peak) }) : null,
      p.live.length ? table({ caption: 'Live at the end, allocated in the window', rows: p.live, columns: columns(p.live), more: { rows: p.live_count - p.live.length, sum: p.live_bytes - sum(p.live) } }) : null];
  }

  function memory(doc, time) {
    const s = section('memory', 'Memory');
    for (const p of doc.processes) {
      s.append(...doc.processes.length > 1 ? [h('h3', {}, `Process ${p.pid}`)] : [], ...growth(p));
      s.append(...(time ? time.series : []).filter(series => series.pid === p.pid).map(series => memoryChart(time, series)).flat(), ...memoryTables(p).filter(t => t));
    }
    if (time && time.left_out)
      s.append(h('p', { class: 'dim' }, 'Further devices and processes are not drawn.'));
  }

  /* ---- threads ---- */

  function threadTable(caption, rows, more, columns) {
    const used = rows.flatMap(r => r.parts), legend = used.filter((p, i) => p.value && used.findIndex(q => q.name === p.name && q.value) === i);
    return [keys(legend), table({ caption, rows, more, columns: [{ label: 'thread', get: r => `${r.name} (${r.tid})`, name: true },
      { label: 'on a CPU', get: r => r.parts[0].value / windowNs, show: share },
      { label: 'states', get: r => r.parts[0].value, show: (_, r) => stack(r.parts.filter(p => p.value), Math.max(windowNs, r.parts.reduce((sum, p) => sum + p.value, 0))) }, ...columns] })];
  }

  function threads(sched, samples) {
    if (samples) {
      const names = [['on a CPU', 'c0'], ['waiting for a CPU', 'c4'], ['blocked', 'c7']], rows = samples.threads.map(t => ({ ...t, parts: t.ns.map((v, i) => ({ name: names[i][0], color: names[i][1], value: v })) }));
      section('threads', 'Threads', h('p', {}, 'States by samples; --sched records what each wait is for.'), threadTable('Threads and their states', rows, { rows: samples.thread_count - rows.length }, []));
      return;
    }
    const rows = sched.threads.map(t => ({ ...t, parts: [{ name: 'on a CPU', color: 'c0', value: t.on_cpu_ns }, ...Object.entries(t.waits_ns).map(([name, value]) => ({ name: 'waits: ' + name, color: waitColors[name] || 'c7', value }))] }));
    const longest = r => Object.entries(r.waits_ns).reduce((a, b) => b[1] > a[1] ? b : a), where = w => (w.operator || w.annotation || 'outside of operators') + (w.operator && w.annotation ? ` of ${w.annotation}` : '') + (w.line ? ` at ${w.line}` : '');
    section('threads', 'Threads', threadTable('Threads and their states, of the window', rows, undefined, [{ label: 'waits most for', get: r => longest(r)[1] ? longest(r)[0] : '' }, { label: 'preempted', get: r => r.preempted, show: count }]),
      sched.waits.length ? table({ caption: 'Longest waits', rows: sched.waits, columns: [{ label: 'place', get: where, name: true }, { label: 'time', get: w => w.ns, show: ns, share: true },
        { label: 'for', get: w => w.what }, { label: 'waits', get: w => w.count, show: count }, { label: 'longest', get: w => w.longest_ns, show: dash(ns) }, { label: 'thread', get: w => rows.length < 2 ? '' : (rows.find(t => t.tid === w.tid) || { name: '' }).name + ` (${w.tid})`, name: true }] }) : null);
  }

  /* ---- GPUs, ranks ---- */

  const causeColors = { 'no launch': 'c1', synchronisation: 'c4', copy: 'c3', 'launch latency': 'c6', queued: 'c2' };

  function gpus(doc) {
    const s = section('gpus', 'GPUs', !doc.activities && h('p', {}, 'No GPU activities: CUDA calls were seen from the host alone; the agent (--agent inject) records activities.'));
    for (const d of doc.gpus) {
      const idle = d.causes.map(c => ({ name: `idle: ${c.cause}`, color: causeColors[c.cause] || 'c7', value: c.ns })), parts = [{ name: 'kernels', color: 'c0', value: d.kernel_busy_ns }, ...idle].filter(p => p.value);
      s.append(h('h3', {}, `GPU ${d.id}: ${d.name || ''}`), h('p', {}, `${share(d.kernel_busy_share)} of the window in kernels, ${share(d.busy_share)} with copies and fills; ${plural(d.kernels, 'kernel')}.`), ...parts.length ? [stack(parts, windowNs), keys(parts, p => share(p.value / windowNs))] : []);
    }
    const listed = (caption, rows, rowCount, whole, name, ...columns) => rows.length && s.append(table({ caption, rows, more: { rows: rowCount - rows.length }, columns: [{ label: 'name', get: name, name: true }, { label: 'time', get: r => r.ns, show: ns, share: true }, { label: '%', get: r => r.ns / Math.max(whole, 1), show: share }, { label: 'times', get: r => r.count, show: count }, { label: 'longest', get: r => r.longest_ns, show: ns }, ...columns] }));
    const sum = list => list.reduce((t, r) => t + r.ns, 0);
    listed('Kernels', doc.kernels, doc.kernel_count, doc.kernel_ns, k => k.name, { label: 'operator', get: k => k.operator, name: true });
    listed('Copies and fills', doc.copies, doc.copy_count, sum(doc.copies), c => c.name, { label: 'bytes', get: c => c.bytes, show: bytes });
    listed('Why GPUs were idle', doc.reasons, doc.reason_count, sum(doc.reasons), r => `${r.cause}: ${r.call ? r.call + (r.operator ? ' in ' + r.operator : '') : r.operator || r.where}${r.annotation ? ' in ' + r.annotation : ''}`);
    listed('CUDA calls', doc.calls, doc.call_count, sum(doc.calls), c => c.name + (c.operator ? ' in ' + c.operator : ''), { label: 'waits', get: c => c.waits ? 'for the GPU' : '' });
  }

  function ranks(doc) {
    const of = pid => (doc.ranks.find(r => r.pid === pid) || {}).rank, name = r => r.rank === undefined ? `process ${r.pid}` : `rank ${r.rank}`, slow = doc.ranks.filter(r => r.slow);
    section('ranks', 'Ranks', h('p', {}, `${doc.ranks.length} ranks, ${doc.compared.collectives} collectives that all called. `, slow.length ? '' : 'No rank is slow.'),
      slow.map(r => h('p', {}, h('span', { class: 'grows' }, `${name(r)} is slow: `), `it takes ${ns(r.excess_ns)} longer than the others, ${share(r.share)} of a step, in ${r.causes.slice(0, 3).map(c => c.what).join(', ')}.`)),
      doc.compared.guessed && h('p', { class: 'dim' }, 'Not certain: the calls do not show that ranks waited.'),
      table({ caption: 'Ranks', rows: doc.ranks, columns: [{ label: 'rank', get: name, name: true }, { label: 'own time a step', get: r => r.own_ns, show: ns, share: true }, { label: 'waited', get: r => r.waited_ns, show: dash(ns) },
        { label: 'others waited for it', get: r => r.caused_ns, show: dash(ns) }, { label: 'last in', get: r => r.last_in, show: count }, { label: 'process', get: r => String(r.pid) }] }),
      doc.waits.length ? table({ caption: 'Longest waits', rows: doc.waits, columns: [{ label: 'collective', get: w => w.collective, name: true }, { label: 'time', get: w => w.ns, show: ns, share: true },
        { label: 'who', get: w => `${of(w.waiting_pid) ?? w.waiting_pid} for ${of(w.for_pid) ?? w.for_pid}` }, { label: 'at', get: w => w.at_ns, show: v => (v / 1e9).toFixed(3) + '\u00a0s' }] }) : null);
  }

  /* ---- the recording ---- */

  const missing = { lines: 'lines of code', modules: 'modules', memory: 'memory', sched: 'what threads wait for', gpu: 'GPU activity' };

  function recording() {
    const absent = Object.keys(missing).filter(key => key in facts.lacks), list = h('dl', { class: 'facts' }), row = (name, value) => value !== undefined && value !== '' && list.append(h('dt', {}, name), h('dd', {}, value)), cost = facts.cost || {}, c = facts.capture || {}, losses = facts.loss.counters.filter(l => l.loss && l.value);
    row('losses', facts.account);
    for (const t of facts.targets)
      row(`process ${t.pid}`, [h('code', {}, t.command_line), t.source ? `, by ${t.source}` : '']);
    row('host', c.host);
    row('Python', (Array.isArray(c.python) ? c.python : []).map(p => p.version || p.why).filter(v => v).join(', '));
    row('window', `${ns(windowNs)}, ${facts.window.stopped_by}`);
    if (cost.estimated_total_ms !== undefined)
      row('cost', `at least ${ns(cost.estimated_total_ms * 1e6)} in the program (${share(cost.percent_of_window / 100)}): ${count(cost.hits)} hits of ${ns(cost.per_hit_ns)}; ptbpf itself ${ns(cost.collector_cpu_ms * 1e6)} of a CPU, ${bytes(cost.collector_rss_bytes)}`);
    if (facts.probes)
      row('probes', `${count(facts.probes.attached)} in ${count(facts.probes.functions)} functions`);
    row('options', Object.entries(c).filter(([, v]) => v === true || typeof v === 'number').map(([k, v]) => k.replaceAll('_', ' ') + (v === true ? '' : ' ' + v)).join(', '));
    row('ptbpf', facts.version);
    section('recording', 'The recording', list,
      losses.length ? table({ caption: 'Losses', rows: losses, columns: [{ label: 'what', get: l => l.text, name: true }, { label: 'number', get: l => l.value, show: count }] }) : null,
      facts.refused && facts.refused.count ? h('details', {}, h('summary', {}, plural(facts.refused.count, 'function') + ' not probed'), table({ caption: 'Functions that are not probed', rows: facts.refused.functions, more: { rows: facts.refused.count - facts.refused.functions.length },
        columns: [{ label: 'function', get: f => f.name, name: true }, { label: 'what it is', get: f => f.kind }, { label: 'why', get: f => f.reason }] })) : null,
      Object.entries(facts.left_out).map(([key, size]) => h('p', { class: 'dim' }, `Left out, since it would be ${bytes(size)}: ${key.replaceAll('_', ' ')}, which ptbpf report has.`)),
      absent.length ? h('p', { class: 'dim' }, 'Not recorded: ', absent.map((key, i) => [i ? ', ' : '', missing[key], facts.lacks[key] ? [' (', h('code', {}, facts.lacks[key].trim()), ')'] : '']), '.') : null);
  }

  /* ---- the page ---- */

  function flame() {
    const s = document.getElementById('s-flame'), d = docs.flame;
    s.hidden = false;
    main.append(s);
    document.getElementById('flame-note').append(text((d.sample_hz ? `Times are those of samples of all threads, ${d.sample_hz} a second. ` : 'Times are those of operators and annotations, without the Python code between them. ') +
      'Orange: the program; yellow: libraries; purple: annotations; blue: operators. ' + (d.has_stacks ? '' : 'Recorded without Python stacks (--with-stack). ') +
      (d.parent.length < d.node_count ? `Calls with less than ${+(100 * d.least).toPrecision(3)} % are a part of their caller here: ${count(d.node_count - d.parent.length)} of ${count(d.node_count)}. ` : '') +
      (d.cut ? 'The tree was too large: callers have the sums of what is missing below them.' : '')));
  }

  if (!facts.complete)
    document.querySelector('header').append(h('p', { class: 'alert', role: 'note' }, h('b', {}, 'Incomplete. '), 'Figures are bounds: ', facts.account, '.'));
  for (const [name, show] of [['why', verdict], ['steps', steps], ['operators', d => d.rows.length && operators(d)],
    ['lines', d => places('lines', 'Lines of code', 'Lines of Python by what they call', d, d.lines, d.line_count, lineName)],
    ['modules', d => places('modules', 'Modules', 'Modules by what runs in them', d, d.modules, d.module_count, moduleName)],
    ['open_operators', d => d.operators.some(r => !r.operator.startsWith('(')) && places('open_operators', 'Open operators', 'Samples by the innermost operator that was open', d, d.operators, d.operator_count, r => r.operator)],
    ['flame', flame], ['memory', d => memory(d, docs.memory_time)], ['sched', d => threads(d)], ['samples', d => threads(null, d)], ['gpu', d => (d.work_count || d.call_count) && gpus(d)], ['ranks', ranks]])
    try {
      if (docs[name])
        show(docs[name]);
    } catch (e) { /* of a foreign capture; the others are shown */
      section('broken-' + name, name, h('p', { class: 'alert' }, `This section cannot be shown: ${e.message}`));
    }
  recording();
  document.getElementById('nav').append(...[...main.querySelectorAll(':scope > section:not([hidden])')].map(s => h('a', { href: '#' + s.id }, s.querySelector('h2').textContent)));
  document.getElementById('footer').append(text(`Written by ptbpf ${facts.version}. This page loads nothing.`));
}
