'use strict';
/*
 * data: metrics [{name, unit}], strings, frames [[kind, name, file, line], ...] with texts by their number, parent and frame of each
 * node (parents come first, node 0 is the root) and self[capture][metric][node]. What is drawn is the same tree, of which nodes are
 * merged when lines are not shown.
 */
const byId = id => document.getElementById(id);
const ROW = 19, LEAST = 0.7, LIBRARY = 1, OPERATOR = 2, ANNOTATION = 3;
const isPython = kind => kind <= LIBRARY;
const captures = data.self.length, isDiff = captures > 1;
const canvas = byId('graph'), pen = canvas.getContext('2d');
const state = { metric: 0, lines: !isDiff, basis: 1, zoom: 0, at: -1, pattern: null };
let tree = null, sums = [], width = [], matches = null, boxes = [];

/* ---- the tree ---- */

function label(frame, lines) {
  const [kind, name, file, line] = data.frames[frame];
  if (!isPython(kind) || !lines || !line)
    return data.strings[name];
  return data.strings[name] + ' (' + shorten(data.strings[file]) + ':' + line + ')';
}

function shorten(file) {
  return file.slice(file.lastIndexOf('/') + 1);
}

/* Nodes of one parent that have the same label and file become one; numbers stay in order, a parent before its children. */
function makeTree(lines) {
  const t = { parent: [-1], frame: [0], depth: [0], kids: [[]], of: new Int32Array(data.parent.length) };
  const known = new Map();
  for (let raw = 1; raw < data.parent.length; raw++) {
    const up = t.of[data.parent[raw]], frame = data.frames[data.frame[raw]];
    const key = up + ' ' + frame.slice(0, lines ? 4 : 3).join(' ');
    let node = known.get(key);
    if (node === undefined) {
      node = t.parent.length;
      known.set(key, node);
      t.parent.push(up);
      t.frame.push(data.frame[raw]);
      t.depth.push(t.depth[up] + 1);
      t.kids.push([]);
      t.kids[up].push(node);
    }
    t.of[raw] = node;
  }
  t.labels = t.frame.map((f, i) => i ? label(f, lines) : 'all');
  return t;
}

/* Of each node of one capture: what is its own, and with all below it. */
function addUp(capture, metric) {
  const own = new Float64Array(tree.parent.length), values = data.self[capture][metric];
  for (let raw = 0; raw < values.length; raw++)
    own[tree.of[raw]] += values[raw];
  const total = own.slice();
  for (let i = total.length - 1; i > 0; i--)
    total[tree.parent[i]] += total[i];
  return { own, total };
}

/* What is drawn is as wide as all below it: with the larger of two captures in each node, more than its own total. */
function measure() {
  sums = data.self.map((_, c) => addUp(c, state.metric));
  if (!isDiff)
    width = sums[0].total;
  else if (state.basis < 2)
    width = sums[state.basis].total;
  else {
    width = sums[0].own.map((v, i) => Math.max(v, sums[1].own[i]));
    for (let i = width.length - 1; i > 0; i--)
      width[tree.parent[i]] += width[i];
  }
}

/* ---- numbers ---- */

function scaled(v, step, units) {
  let i = 0;
  const sign = v < 0 ? '-' : '';
  for (v = Math.abs(v); v >= step && i < units.length - 1; i++)
    v /= step;
  return sign + (i ? v.toFixed(v < 10 ? 2 : 1) : v) + units[i];
}

function text(v) {
  switch (data.metrics[state.metric].unit) {
  case 'ns':
    return scaled(v, 1000, [' ns', ' us', ' ms', ' s']);
  case 'bytes':
    return scaled(v, 1024, [' B', ' KiB', ' MiB', ' GiB', ' TiB']);
  default:
    return scaled(v, 1000, ['', ' k', ' M', ' G', ' T']);
  }
}

const share = (part, all) => all > 0 ? (100 * part / all).toFixed(2) + ' %' : '-';

/* ---- drawing ---- */

const isDark = () => matchMedia('(prefers-color-scheme: dark)').matches;

function hash(s) {
  let h = 0;
  for (let i = 0; i < s.length; i++)
    h = h * 31 + s.charCodeAt(i) | 0;
  return (h >>> 0) % 1000 / 1000;
}

function color(node, dark) {
  const [kind, name] = data.frames[tree.frame[node]];
  if (matches)
    return matches[node] ? '#e5359f' : dark ? '#3a3d42' : '#e2e2e2';
  if (isDiff) {
    const a = sums[0].total[node], b = sums[1].total[node];
    const change = a || b ? (b - a) / Math.max(a, b) : 0, strength = Math.abs(change);
    return `hsl(${change > 0 ? 4 : 212} ${Math.round(15 + 70 * strength)}% ${Math.round(dark ? 30 + 12 * strength : 88 - 26 * strength)}%)`;
  }
  const vary = hash(data.strings[name]);
  if (!node || kind > ANNOTATION)
    return dark ? '#4a4e55' : '#cfd2d6';
  if (kind === ANNOTATION)
    return `hsl(${275 + 15 * vary} 45% ${dark ? 40 : 76}%)`;
  if (kind === OPERATOR)
    return `hsl(${200 + 25 * vary} 60% ${dark ? 36 : 72}%)`;
  if (kind === LIBRARY)
    return `hsl(${44 + 12 * vary} 38% ${dark ? 34 : 80}%)`;
  return `hsl(${18 + 20 * vary} 85% ${dark ? 40 : 68}%)`;
}

/* The nodes above the zoomed one fill the width. Below it each takes its share; what is narrower than a pixel is left out. */
function place(area) {
  const list = [], path = [];
  for (let i = state.zoom; i >= 0; i = tree.parent[i])
    path.unshift(i);
  for (const node of path)
    list.push({ node, x: 0, w: area });
  const unit = width[state.zoom] > 0 ? area / width[state.zoom] : 0;
  const open = unit ? [{ node: state.zoom, x: 0 }] : [];
  while (open.length) {
    const { node, x } = open.pop();
    let at = x;
    for (const kid of tree.kids[node]) {
      const w = width[kid] * unit;
      if (w >= LEAST) {
        const box = { node: kid, x: at, w };
        list.push(box);
        open.push(box);
      }
      at += w;
    }
  }
  return list;
}

/* As much of the text as fits: characters have one width. */
function fit(s, room, one) {
  const n = Math.floor(room / one);
  return s.length <= n ? s : n > 4 ? s.slice(0, n - 2) + '..' : '';
}

function draw() {
  const area = canvas.clientWidth || 800, ratio = devicePixelRatio || 1, dark = isDark();
  boxes = place(area);
  let deepest = 0;
  for (const b of boxes)
    deepest = Math.max(deepest, tree.depth[b.node]);
  const height = (deepest + 1) * ROW;
  canvas.style.height = height + 'px';
  canvas.width = Math.round(area * ratio);
  canvas.height = Math.round(height * ratio);
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.font = '12px ui-monospace, Menlo, Consolas, monospace';
  pen.textBaseline = 'middle';
  const one = pen.measureText('M').width || 7;
  for (const b of boxes) {
    const y = tree.depth[b.node] * ROW, w = Math.max(b.w - 0.6, 0.4);
    pen.globalAlpha = b.w >= area && b.node !== state.zoom && state.zoom && isAbove(b.node) ? 0.55 : 1;
    pen.fillStyle = color(b.node, dark);
    pen.fillRect(b.x, y, w, ROW - 1);
    const s = fit(tree.labels[b.node], w - 6, one);
    if (s) {
      pen.fillStyle = dark ? '#f2f2f2' : '#151515';
      pen.fillText(s, b.x + 3, y + ROW / 2);
    }
    if (b.node === state.at) {
      pen.strokeStyle = dark ? '#fff' : '#000';
      pen.strokeRect(b.x + 0.5, y + 0.5, Math.max(w - 1, 1), ROW - 2);
    }
  }
  pen.globalAlpha = 1;
  byId('empty').hidden = width[0] > 0;
}

function isAbove(node) {
  for (let i = tree.parent[state.zoom]; i >= 0; i = tree.parent[i])
    if (i === node)
      return true;
  return false;
}

/* ---- what the page says ---- */

function describe(node) {
  const out = byId('details');
  out.textContent = '';
  if (node < 0)
    return;
  const [kind, name, file, line] = data.frames[tree.frame[node]], add = (tag, s, cls) => {
    const e = document.createElement(tag);
    e.textContent = s;
    e.className = cls || '';
    out.append(e);
  };
  add('b', node ? data.strings[name] : 'all');
  if (node && isPython(kind))
    add('span', '  ' + data.strings[file] + (state.lines && line ? ':' + line : ''));
  else if (node && kind <= ANNOTATION)
    add('span', kind === OPERATOR ? '  operator' : '  annotation');
  out.append('\n');
  sums.forEach((s, c) => {
    const all = s.total[0], up = node ? s.total[tree.parent[node]] : all;
    add('span', (isDiff ? ['first: ', '  second: '][c] : '') + text(s.total[node]) + ' (' + share(s.total[node], all) + ' of all' +
      (node ? ', ' + share(s.total[node], up) + ' of its caller' : '') + '), itself ' + text(s.own[node]));
  });
  if (isDiff) {
    const change = sums[1].total[node] - sums[0].total[node];
    add('span', '  change: ' + (change > 0 ? '+' : '') + text(change) + (sums[0].total[node] > 0 ?
      ' (' + (change > 0 ? '+' : '') + (100 * change / sums[0].total[node]).toFixed(1) + ' %)' : ''), change > 0 ? 'up' : 'down');
  }
}

/* Of what is zoomed to: nodes below one that matches are not counted again. */
function search() {
  const input = byId('search'), out = byId('matched');
  matches = null;
  out.textContent = '';
  input.classList.remove('bad');
  if (!input.value)
    return;
  let pattern;
  try {
    pattern = new RegExp(input.value, 'i');
  } catch {
    input.classList.add('bad');
    out.textContent = 'no regular expression';
    return;
  }
  const hit = data.frames.map(([kind, name, file]) => pattern.test(isPython(kind) ? data.strings[name] + ' ' + data.strings[file] : data.strings[name]));
  matches = tree.frame.map((f, i) => i > 0 && (hit[f] || pattern.test(tree.labels[i])));
  const open = [state.zoom];
  let sum = 0, count = 0;
  while (open.length) {
    const node = open.pop();
    if (matches[node]) {
      sum += width[node];
      count++;
    } else
      for (const kid of tree.kids[node])
        open.push(kid);
  }
  out.textContent = count ? share(sum, width[state.zoom]) + ' matched' : 'nothing matched';
}

function showPath() {
  const nav = byId('path'), path = [];
  nav.textContent = '';
  byId('reset').hidden = !state.zoom;
  for (let i = state.zoom; i > 0; i = tree.parent[i])
    path.unshift(i);
  if (!path.length)
    return;
  [0, ...path].forEach((node, i) => {
    const b = document.createElement('button');
    b.textContent = tree.labels[node];
    b.onclick = () => zoomTo(node);
    nav.append(i ? ' > ' : '', b);
  });
  nav.scrollLeft = nav.scrollWidth;
}

function refresh() {
  search();
  showPath();
  draw();
  describe(state.at >= 0 ? state.at : state.zoom);
}

function zoomTo(node) {
  state.zoom = node;
  state.at = node;
  refresh();
}

function rebuild() {
  tree = makeTree(state.lines);
  state.zoom = 0;
  state.at = -1;
  measure();
  refresh();
}

/* ---- input ---- */

function boxAt(e) {
  const r = canvas.getBoundingClientRect(), x = e.clientX - r.left, row = Math.floor((e.clientY - r.top) / ROW);
  return boxes.find(b => tree.depth[b.node] === row && x >= b.x && x < b.x + b.w);
}

canvas.addEventListener('mousemove', e => {
  const box = boxAt(e);
  canvas.style.cursor = box ? 'pointer' : 'default';
  describe(box ? box.node : state.at >= 0 ? state.at : state.zoom);
});
canvas.addEventListener('mouseleave', () => describe(state.at >= 0 ? state.at : state.zoom));
canvas.addEventListener('click', e => {
  const box = boxAt(e);
  if (box)
    zoomTo(box.node);
});

/* To the widest of the nodes, or along those of one caller that are drawn. */
function move(key) {
  const drawn = new Set(boxes.map(b => b.node)), at = Math.max(state.at, 0);
  let to = at;
  if (key === 'ArrowUp')
    to = Math.max(tree.parent[at], 0);
  else if (key === 'ArrowDown')
    to = tree.kids[at].filter(k => drawn.has(k)).reduce((a, b) => width[b] > (a === at ? -1 : width[a]) ? b : a, at);
  else if (at) {
    const row = tree.kids[tree.parent[at]].filter(k => drawn.has(k)), i = row.indexOf(at) + (key === 'ArrowLeft' ? -1 : 1);
    to = row[i] === undefined ? at : row[i];
  }
  if (!drawn.has(to))
    state.zoom = to;
  state.at = to;
  refresh();
}

canvas.addEventListener('keydown', e => {
  if (e.key.startsWith('Arrow'))
    move(e.key);
  else if (e.key === 'Enter')
    zoomTo(Math.max(state.at, 0));
  else if (e.key === 'Backspace')
    zoomTo(Math.max(tree.parent[state.zoom], 0));
  else
    return;
  e.preventDefault();
});
(canvas.closest('section') || document).addEventListener('keydown', e => { /* of a page with more on it, its section's */
  const input = byId('search');
  if (e.key === '/' && e.target !== input) {
    input.focus();
    e.preventDefault();
  } else if (e.key === 'Escape') {
    if (input.value) {
      input.value = '';
      refresh();
    } else
      zoomTo(0);
    canvas.focus();
  }
});
byId('search').addEventListener('input', () => { search(); draw(); });
byId('reset').addEventListener('click', () => zoomTo(0));
byId('metric').addEventListener('change', e => { state.metric = +e.target.value; measure(); refresh(); });
byId('basis').addEventListener('change', e => { state.basis = +e.target.value; measure(); refresh(); });
byId('lines').addEventListener('change', e => { state.lines = e.target.checked; rebuild(); });
addEventListener('resize', draw);
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', draw);

data.metrics.forEach((m, i) => byId('metric').append(new Option(m.name, i)));
byId('lines').checked = state.lines;
byId('basis-label').hidden = !isDiff;
rebuild();
