"use strict";
// Draws the facts of one query; see facts.py. Charts are on canvas, so a page has few nodes whatever the file.

// --- words ---------------------------------------------------------------------------------------------
const num = (n) => (n == null ? "unknown" : Math.round(n).toLocaleString("en"));
const plural = (n, noun) => `${num(n)} ${noun}${n === 1 ? "" : noun.endsWith("ch") ? "es" : "s"}`;
function size(bytes) {
  if (bytes < 1000) return `${bytes} B`;
  let [n, i] = [bytes / 1000, 0];
  for (; n >= 999.5 && i < 3; i++) n /= 1000;
  return `${n < 99.95 ? n.toFixed(1) : num(n)} ${["kB", "MB", "GB", "TB"][i]}`;
}
function share(read, all) {
  if (!read || !all) return "no byte";
  return all / read >= 20 ? `1 byte in ${num(all / read)}` : `${((100 * read) / all).toFixed(1)}% of the bytes`;
}
const sum = (values) => values.reduce((a, b) => a + b, 0);

// --- elements and colours ------------------------------------------------------------------------------
function el(tag, props = {}, ...children) {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(props)) {
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (key === "class") node.className = value;
    else if (key === "style") node.style.cssText = value;
    else if (key in node && !key.startsWith("aria")) node[key] = value;
    else node.setAttribute(key, value);
  }
  node.append(...children.filter((child) => child != null));
  return node;
}

const FONT = "11.5px ui-sans-serif, system-ui, sans-serif";
const HATCHES = { page_index: "/", bloom: ".", dictionary: "|", embedded: "\\", unneeded: "|" };
const patterns = new Map();
let colours = {};
function readColours() {
  const style = getComputedStyle(document.documentElement);
  colours = new Proxy({}, { get: (_, name) => style.getPropertyValue(`--${name}`).trim() });
  patterns.clear();
}

/** Return the fill of a look; the pale ones are too close for colour-blind readers without their hatching. */
function fill(g, look) {
  const base = colours[look === "vain" ? "read" : look], hatch = HATCHES[look];
  if (!hatch) return base;
  if (!patterns.has(look)) {
    const tile = document.createElement("canvas"), scale = 2;
    tile.width = tile.height = 6 * scale;
    const p = tile.getContext("2d");
    p.scale(scale, scale);
    p.fillStyle = base;
    p.fillRect(0, 0, 6, 6);
    p.strokeStyle = p.fillStyle = colours[look === "unneeded" ? "stripe" : "hatch"];
    p.lineWidth = 0.8;
    p.beginPath();
    const lines = {
      "/": [[-1, 1, 1, -1], [0, 6, 6, 0], [5, 7, 7, 5]],
      "\\": [[-1, 5, 1, 7], [0, 0, 6, 6], [5, -1, 7, 1]],
      "|": [[1.5, 0, 1.5, 6], [4.5, 0, 4.5, 6]],
      ".": [],
    }[hatch];
    for (const [a, b, c, d] of lines) {
      p.moveTo(a, b);
      p.lineTo(c, d);
    }
    p.stroke();
    if (hatch === ".") {
      p.fillRect(1, 1, 1.3, 1.3);
      p.fillRect(4, 4, 1.3, 1.3);
    }
    const pattern = g.createPattern(tile, "repeat");
    pattern.setTransform(new DOMMatrix([1 / scale, 0, 0, 1 / scale, 0, 0]));
    patterns.set(look, pattern);
  }
  return patterns.get(look);
}

function canvasOf(canvas, width, height) {
  const ratio = Math.max(1, window.devicePixelRatio || 1);
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.height = `${height}px`;
  const g = canvas.getContext("2d");
  g.setTransform(ratio, 0, 0, ratio, 0, 0);
  return g;
}

/** A sample of a look for a legend. */
function key(look, drawings, width = 22) {
  const canvas = el("canvas", { style: `width:${width}px;height:12px;flex:none`, "aria-hidden": "true" });
  drawings.push(() => {
    const g = canvasOf(canvas, width, 12);
    g.fillStyle = fill(g, look);
    g.fillRect(0, 0, width, 12);
    if (look === "vain") {
      g.fillStyle = colours.bg;
      g.fillRect(2, 2, width - 4, 8);
    }
  });
  return canvas;
}

const pairs = (flat) => Array.from({ length: flat.length / 2 }, (_, i) => [flat[2 * i], flat[2 * i + 1]]);
/** The number of values in an ascending array that are at most a value. */
function find(ascending, value) {
  let [low, high] = [0, ascending.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (ascending[middle] <= value) low = middle + 1;
    else high = middle;
  }
  return low;
}

function table(caption, heads, rows, right) {
  const css = (i) => (right.includes(i) ? "n" : "");
  return el(
    "table", {}, el("caption", {}, caption),
    el("thead", {}, el("tr", {}, ...heads.map((head, i) => el("th", { class: css(i), scope: "col" }, head)))),
    el("tbody", {}, ...rows.map((row) => el("tr", {}, ...row.map((cell, i) => el("td", { class: css(i) }, cell))))),
  );
}

// --- the answer ----------------------------------------------------------------------------------------
function drawHead(doc, main) {
  const { report, lake } = doc;
  const whole = lake ? `${plural(report.files.total, "file")} in ${doc.title}` : `${doc.title}, ${plural(doc.files[0]?.num_rows ?? report.rows.total, "row")}`;
  main.append(
    el("h1", {}, doc.where ? el("code", {}, doc.where) : "all rows"),
    el("p", { class: "sub" }, whole, " · select ", el("code", {}, doc.select), " · ", doc.result),
  );
  const rungs = [[lake ? "all files" : "whole file", doc.num_bytes, "data"]];
  if (doc.columns_bytes && doc.columns_bytes < doc.num_bytes * 0.98)
    rungs.push(["columns of the query", doc.columns_bytes, "data"]);
  rungs.push(["read", doc.num_read, "read"]);
  if (doc.least_bytes) rungs.push(["least possible", doc.least_bytes, "soft"]);
  const low = Math.max(1, Math.min(...rungs.map((rung) => rung[1]))) / 30;
  const span = Math.log(Math.max(doc.num_bytes, 1) / low);
  const ladder = el("div", { class: "ladder", role: "img", "aria-label": rungs.map(([label, n]) => `${label}: ${size(n)}`).join(", ") });
  for (const [label, n, look] of rungs) {
    const width = Math.max(0.5, (78 * Math.log(Math.max(n, 1) / low)) / span);
    ladder.append(el("span", {}, label), el("div", {}, el("i", { style: `background:var(--${look});width:${width}%` }), size(n)));
  }
  const note = doc.least_bytes ? " Least possible: the pages of the result that have matching rows." : "";
  ladder.append(el("p", {}, `Logarithmic scale.${note}`));
  const parts = lake
    ? `Footers of ${num(report.files.opened)} of ${plural(report.files.total, "file")} were read, and pages of ${num(report.files.read)}.`
    : `${num(report.pages.read)} of ${plural(report.pages.total, "page")}${report.bytes.index ? `, and ${size(report.bytes.index)} of indexes` : ""}.`;
  const text = `were read: ${share(doc.num_read, doc.num_bytes)}, in ${plural(doc.num_requests, "request")}. ${parts}`;
  main.append(
    el("div", { class: "answer" }, el("div", {}, el("div", { class: "big" }, `${size(doc.num_read)} of ${size(doc.num_bytes)}`), el("p", {}, text)), ladder),
  );
  if (doc.advice) main.append(el("p", { class: "advice" }, el("strong", {}, "Advice: "), `${doc.advice}.`));
}

// --- the files of a lake -------------------------------------------------------------------------------
const [FILE_READ, READ_IN_VAIN] = [1, 2];

function drawLake(doc, main, drawings, show) {
  const lake = doc.lake, states = lake.states;
  const read = new Map(lake.read.map(([ordinal, bytes, matches]) => [ordinal, { bytes, matches }]));
  main.append(el("h2", {}, "Files", el("small", {}, "in the order of the table; one cell for each file")));
  const legend = el("ul", { class: "legend" });
  const counts = states.map(() => 0);
  for (const state of lake.state) counts[state]++;
  counts.forEach((n, i) => n && legend.append(el("li", {}, key(states[i].look, drawings), `${states[i].text}: ${num(n)}`)));
  const canvas = el("canvas", { class: "plot", tabIndex: 0, role: "application", "aria-label": `${num(lake.state.length)} files. Arrow keys move; Enter shows the pages of a file that was read.` });
  const index = lake.lake_index_bytes ? `${size(lake.lake_index_bytes)} of the lake index were read. ` : "";
  const say = el("p", { class: "sub", "aria-live": "polite", style: "min-height:1.5em;font-size:13.5px" }, `${index}Point at a file, or use the arrow keys.`);
  main.append(legend, canvas, say);
  const nameOf = (i) => lake.names[i] ?? `file ${num(i + 1)}`;
  const drawn = (i) => doc.files.findIndex((file) => file.path === lake.names[i]);
  let at = Math.max(0, lake.state.indexOf(FILE_READ)), across = 1, cell = 10;
  const isBright = (state) => state === FILE_READ || state === READ_IN_VAIN;

  function draw() {
    const width = canvas.clientWidth, n = lake.state.length;
    cell = Math.max(3, Math.min(16, Math.floor(Math.sqrt((width * (n > 3000 ? 150 : 112)) / n))));
    across = Math.max(1, Math.floor(width / cell));
    across = Math.ceil(n / Math.ceil(n / across));
    const g = canvasOf(canvas, width, Math.ceil(n / across) * cell + 2), gap = cell > 5 ? 1.5 : cell > 3 ? 1 : 0.5;
    const place = (i) => [(i % across) * cell, Math.floor(i / across) * cell];
    lake.state.forEach((state, i) => {
      const [x, y] = place(i);
      g.fillStyle = fill(g, states[state].look);
      g.fillRect(x, y, cell - gap, cell - gap);
    });
    lake.state.forEach((state, i) => {
      if (!isBright(state)) return;
      const [x, y] = place(i), side = cell - gap + 1.5;
      g.fillStyle = colours.read;
      g.fillRect(x - 0.75, y - 0.75, side, side);
      if (state === READ_IN_VAIN && side > 5) {
        g.fillStyle = colours.bg;
        g.fillRect(x + 1.25, y + 1.25, side - 4, side - 4);
      }
    });
    if (document.activeElement === canvas || canvas.matches(":hover")) {
      const [x, y] = place(at);
      g.strokeStyle = colours.ink;
      g.lineWidth = 1.5;
      g.strokeRect(x - 1, y - 1, cell - gap + 2, cell - gap + 2);
    }
  }
  function tell() {
    const found = read.get(at), parts = [`${nameOf(at)}, ${size(lake.num_bytes[at])}: ${states[lake.state[at]].text}`];
    if (found) parts.push(`${size(found.bytes)} read`);
    if (found && found.matches != null) parts.push(plural(found.matches, "matching row"));
    if (isBright(lake.state[at])) parts.push(drawn(at) < 0 ? "its pages are not in this document" : "click to see its pages");
    say.textContent = parts.join("; ");
  }
  function move(to) {
    at = Math.max(0, Math.min(lake.state.length - 1, to));
    tell();
    draw();
  }
  const choose = () => drawn(at) >= 0 && show(drawn(at));
  const under = (event) => {
    const box = canvas.getBoundingClientRect();
    const i = Math.floor((event.clientY - box.top) / cell) * across + Math.min(across - 1, Math.floor((event.clientX - box.left) / cell));
    return i >= 0 && i < lake.state.length ? i : at;
  };
  canvas.addEventListener("pointermove", (event) => move(under(event)));
  canvas.addEventListener("click", (event) => (move(under(event)), choose()));
  canvas.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -across, ArrowDown: across }[event.key];
    if (step) move(at + step);
    else if (event.key === "Enter" || event.key === " ") choose();
    else return;
    event.preventDefault();
  });
  for (const name of ["focus", "blur", "pointerleave"]) canvas.addEventListener(name, draw);
  drawings.push(draw);
}

// --- the pages of a file -------------------------------------------------------------------------------
const [READ, PROVEN] = [0, 1];
const MANY_LANES = 30;

function drawFile(doc, index, stage, drawings, show, all) {
  stage.textContent = "";
  const file = doc.files[index];
  if (!file) return;
  const asked = file.lanes.filter((lane) => lane.cells).sort((a, b) => (a.role === "where" ? 0 : 1) - (b.role === "where" ? 0 : 1));
  const lanes = asked.length > MANY_LANES && !all ? asked.slice(0, 20) : asked;
  const others = file.lanes.filter((lane) => !lane.cells);
  const groups = plural(file.edges.length - 1, "row group");
  stage.append(
    el("h2", {}, doc.lake ? `${file.path}: pages` : "Pages", el("small", {}, `${plural(file.num_rows, "row")} from left to right in ${groups}; one lane for each column; written by ${file.writer}`)),
  );
  if (doc.files.length > 1) {
    const label = (one) => one.path + (one.num_matches ? ` (${plural(one.num_matches, "match")})` : "");
    const options = doc.files.map((one, i) => el("option", { value: i, selected: i === index }, label(one)));
    stage.append(el("p", { style: "margin:0 0 8px" }, el("select", { "aria-label": "File", onchange: (event) => show(+event.target.value) }, ...options)));
  }
  const legend = el("ul", { class: "legend" });
  file.states.forEach((state, i) => {
    const n = sum(asked.map((lane) => lane.by_state[i] ?? 0));
    if (n) legend.append(el("li", {}, key(state.look, drawings), `${state.text}: ${num(n)}`));
  });
  if (others.length) legend.append(el("li", {}, key("data", drawings), `not in the query: ${plural(others.length, "column")}`));
  stage.append(legend);
  if (!lanes.length) {
    stage.append(el("p", { class: "sub" }, "No column is read: the answer is in the metadata."));
    drawBytes(file, stage, drawings);
    stage.append(tables(file, asked));
    return;
  }
  const page = el("div", { "aria-live": "polite" }), indexes = el("div");
  const left = el("div"), rest = el("div");
  stage.append(el("div", { class: "with" }, left, el("div", { class: "facts" }, page, indexes), rest));
  const view = startView(file, lanes), cursor = { lane: null, cell: 0 };
  const shared = { file, lanes, view, cursor, buttons: [], drawings, magnified: null, showPage, showIndexes };

  function showPage(lane, cell) {
    const { cells } = lane, n = cells.num_pages[cell], from = cells.start[cell], to = lane.stops[cell];
    const facts = [
      ["column", el("code", {}, lane.name)],
      ["state", file.states[cells.state[cell]].text],
      ["rows", `${num(from)} to ${num(to - 1)} (${num(to - from)})`],
      ["row group", `${num(find(file.edges, from))} of ${num(file.edges.length - 1)}`],
    ];
    if (n !== 1) facts.push(["pages", num(n)]);
    const bytes = num(cells.num_bytes[cell]);
    facts.push(["bytes", n === 1 && cells.offset[cell] != null ? `${bytes} at ${num(cells.offset[cell])}` : bytes]);
    if (cells.low[cell] != null)
      facts.push(["lowest", el("code", {}, String(cells.low[cell]))], ["highest", el("code", {}, String(cells.high[cell]))]);
    if (cells.num_nulls[cell] != null) facts.push(["nulls", num(cells.num_nulls[cell])]);
    if (cells.num_matches && cells.state[cell] <= PROVEN) facts.push(["matching rows", num(cells.num_matches[cell])]);
    facts.push(["codec", lane.codec], ["encodings", lane.encodings.join(", ")]);
    const list = facts.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]);
    page.replaceChildren(el("h3", {}, n === 1 ? "Page" : "Pages"), el("dl", {}, ...list));
  }
  function showIndexes(lane) {
    for (const [one, button] of shared.buttons) button.setAttribute("aria-pressed", one === lane);
    const items = lane.indexes.map((one) => el("li", {}, one.name + (one.num_bytes ? `, ${size(one.num_bytes)}` : ""), el("small", {}, one.what)));
    indexes.replaceChildren(
      el("h3", {}, "Indexes of ", el("code", {}, lane.name)),
      el("p", {}, `${lane.type}, ${lane.codec}, ${size(lane.num_bytes)}`),
      el("ul", {}, ...(items.length ? items : [el("li", {}, "none")])),
    );
  }

  const overview = makeChart(shared, false);
  left.append(overview.node);
  if (file.num_rows > 1 && lanes.some((lane) => lane.num_pages > 40)) left.append(...magnify(shared, overview));
  if (asked.length > MANY_LANES) {
    const words = all ? "Show 20 columns" : `Show all ${num(asked.length)} columns of the query`;
    left.append(el("div", { class: "more" }, el("button", { onclick: () => show(index, !all) }, words)));
  }
  if (others.length) left.append(otherColumns(others));
  showIndexes(lanes[0]);
  const first = lanes.map((lane) => [lane, lane.cells.state.indexOf(READ)]).find(([, cell]) => cell >= 0);
  if (first) showPage(...first);
  else page.replaceChildren(el("p", {}, "No page was read."));
  left.append(el("p", { class: "hint" }, "Point at a page for its facts; a name shows the indexes of the column. Keyboard: Tab to a chart, then arrows; + and − zoom, 0 shows the whole file."));
  drawBytes(file, rest, drawings);
  rest.append(tables(file, asked));
}

function otherColumns(others) {
  const list = el("div"), bytes = sum(others.map((lane) => lane.num_bytes ?? 0));
  const rows = others.slice(0, 500).map((lane) => [lane.name, lane.type, num(lane.num_bytes), num(lane.num_pages)]);
  const button = el("button", { "aria-expanded": "false" }, plural(others.length, "other column") + (bytes ? `, ${size(bytes)}` : ""));
  button.addEventListener("click", () => {
    const open = button.getAttribute("aria-expanded") !== "true";
    button.setAttribute("aria-expanded", open);
    list.replaceChildren(...(open ? [el("div", { class: "tables" }, table("Columns that the query does not use", ["column", "type", "bytes", "pages"], rows, [2, 3]))] : []));
  });
  return el("div", { class: "more" }, button, " not needed", list);
}

/** Return the rows around the first page that was read, so many that its neighbours are seen. */
function startView(file, lanes) {
  let best = null;
  for (const lane of lanes) {
    const cell = lane.cells.state.indexOf(READ);
    if (cell < 0) continue;
    const width = lane.stops[cell] - lane.cells.start[cell];
    if (!best || width > best.width) best = { width, middle: (lane.cells.start[cell] + lane.stops[cell]) / 2 };
  }
  if (!best) return { from: 0, to: file.num_rows };
  const half = Math.min(file.num_rows / 2, best.width * 5.5);
  const from = Math.max(0, Math.min(file.num_rows - 2 * half, best.middle - half));
  return { from, to: from + 2 * half };
}

/** Make the magnified chart with its buttons. */
function magnify(shared, overview) {
  const { file, lanes, view } = shared, range = el("small");
  const chart = makeChart(shared, true);
  function set(from, to) {
    const width = Math.min(file.num_rows, Math.max(8, to - from)), middle = (from + to) / 2;
    view.from = Math.max(0, Math.min(file.num_rows - width, middle - width / 2));
    view.to = view.from + width;
    range.textContent = `rows ${num(view.from)} to ${num(view.to - 1)}`;
    overview.draw();
    chart.draw();
  }
  const zoom = (by, at = (view.from + view.to) / 2) => set(at - (at - view.from) * by, at + (view.to - at) * by);
  const pan = (by) => set(view.from + (view.to - view.from) * by, view.to + (view.to - view.from) * by);
  function next() {
    const first = startView(file, lanes), isWhole = view.to - view.from > file.num_rows / 2;
    const width = isWhole ? first.to - first.from : view.to - view.from;
    const after = isWhole ? -1 : (view.from + view.to) / 2 + width * 0.02;
    const middles = lanes.flatMap((lane) => lane.cells.start.flatMap((start, i) => (lane.cells.state[i] <= PROVEN ? [(start + lane.stops[i]) / 2] : [])));
    const found = Math.min(...middles.filter((middle) => middle > after)), again = Math.min(...middles);
    const middle = Number.isFinite(found) ? found : again;
    if (Number.isFinite(middle)) set(middle - width / 2, middle + width / 2);
  }
  shared.magnified = { set, zoom };
  const button = (text, label, onclick) => el("button", { "aria-label": label, title: label, onclick }, text);
  const bar = el(
    "div", { class: "bar" }, el("strong", {}, "Magnified"), el("span", {}, range),
    button("◀", "Earlier rows", () => pan(-0.5)), button("▶", "Later rows", () => pan(0.5)),
    button("−", "Zoom out", () => zoom(2)), button("+", "Zoom in", () => zoom(0.5)),
    button("next read", "Next page that was read or proven", next), button("whole file", "Show the whole file", () => set(0, file.num_rows)),
  );
  shared.drawings.push(() => set(view.from, view.to));
  return [bar, chart.node];
}

/** Make a chart of the lanes: of all rows, with the funnel of the indexes, or magnified. */
function makeChart(shared, isMagnified) {
  const { file, lanes, view, cursor } = shared;
  const isDense = lanes.length > 24;
  const height = isMagnified ? 20 : isDense ? 9 : 14, gap = isMagnified ? 5 : isDense ? 2 : 4;
  const labels = el("div", { class: "labels" });
  const what = isMagnified ? "Magnified pages" : "All pages";
  const canvas = el("canvas", { class: "plot", tabIndex: 0, role: "application", "aria-label": `${what} by column and row. Arrow keys move from page to page.` });
  const funnel = isMagnified ? [] : [...file.steps.map((step) => ({ step })), ...file.answered.map((step) => ({ step, isAnswer: true }))];
  const hasMatches = file.matches && file.matches.length > 0;
  const axis = 20, stepHeight = 11, pitch = stepHeight + 4;
  const top = axis + funnel.length * pitch + (hasMatches ? 16 : 4) + (funnel.length ? 6 : 0);
  const total = top + lanes.length * (height + gap) + 4;
  const put = (y, h, node) => {
    node.style.top = `${y + (h - 13) / 2}px`;
    labels.append(node);
  };
  if (!isMagnified) put(2, 13, el("span", {}, "rows"));
  funnel.forEach(({ step }, i) => put(axis + i * pitch, stepHeight, el("span", { title: `${step.label} of ${step.column}` }, step.label)));
  if (hasMatches) put(top - 16, 11, el("span", {}, isMagnified ? "matches" : plural(file.num_matches, "match")));
  lanes.forEach((lane, i) => {
    if (!isMagnified && isDense && i % 2) return;
    const title = lane.role === "where" ? "column of the condition" : "column of the result";
    const button = el("button", { class: lane.role, "aria-pressed": "false", title, onclick: () => shared.showIndexes(lane) }, lane.name);
    shared.buttons.push([lane, button]);
    put(top + i * (height + gap), height, button);
  });
  const from = () => (isMagnified ? view.from : 0), to = () => (isMagnified ? view.to : file.num_rows);
  const xOf = (row) => ((row - from()) / Math.max(1e-9, to() - from())) * canvas.clientWidth;
  const rowAt = (x) => from() + (x / canvas.clientWidth) * (to() - from());

  function draw() {
    const width = canvas.clientWidth, g = canvasOf(canvas, width, total);
    labels.style.height = `${total}px`;
    g.font = FONT;
    g.textBaseline = "middle";
    drawAxis(g, width);
    funnel.forEach((one, i) => drawStep(g, width, axis + i * pitch, one, i));
    if (hasMatches) drawMatches(g, width);
    lanes.forEach((lane, i) => drawLane(g, width, lane, top + i * (height + gap)));
    g.strokeStyle = colours.ink;
    if (!isMagnified && shared.magnified && view.to - view.from < file.num_rows * 0.999) {
      const middle = xOf((view.from + view.to) / 2), half = Math.max(4, (xOf(view.to) - xOf(view.from)) / 2) + 2;
      g.lineWidth = 1.5;
      g.strokeRect(Math.max(0.75, middle - half), top - 3, Math.min(width - 1.5, 2 * half), total - top);
    }
    if (cursor.lane && (canvas.matches(":hover") || document.activeElement === canvas)) {
      const x = xOf(cursor.lane.cells.start[cursor.cell]), end = xOf(cursor.lane.stops[cursor.cell]);
      g.lineWidth = 2;
      g.strokeRect(x - 1, top + lanes.indexOf(cursor.lane) * (height + gap) - 1, Math.max(3, end - x) + 1, height + 2);
    }
  }
  function drawAxis(g, width) {
    const groups = file.edges.length - 1;
    if (width / Math.max(1, (groups * (to() - from())) / file.num_rows) > 5) {
      g.strokeStyle = colours.rule;
      g.lineWidth = 1;
      g.beginPath();
      for (const edge of file.edges) {
        const x = Math.min(Math.round(xOf(edge)) + 0.5, width - 0.5);
        if (x >= -1 && x <= width + 1) {
          g.moveTo(x, 15);
          g.lineTo(x, total);
        }
      }
      g.stroke();
    }
    g.fillStyle = colours.soft;
    let last = -99;
    for (const tick of ticks(from(), to(), width / 120)) {
      const label = num(tick), length = g.measureText(label).width;
      const x = Math.max(0, Math.min(width - length, xOf(tick) - length / 2));
      if (x <= last + 12) continue;
      g.fillText(label, x, 7);
      last = x + length;
    }
  }
  function drawStep(g, width, y, { step, isAnswer }, i) {
    const own = pairs(step.rows), middle = y + stepHeight / 2;
    g.fillStyle = isAnswer ? colours.proven : fill(g, step.look);
    for (const [start, stop] of own) g.fillRect(xOf(start), y, Math.max(1, xOf(stop) - xOf(start)), stepHeight);
    if (!isAnswer) {
      g.fillStyle = colours.ink;
      for (const [start, stop] of leftAfter(file, i)) {
        const x = xOf(start), length = Math.max(2, xOf(stop) - x);
        g.fillRect(Math.min(x, width - length), middle - 1.5, length, 3);
      }
    }
    const text = isAnswer ? `answers ${num(step.num_rows)} rows` : `leaves ${num(step.num_left)}`, length = g.measureText(text).width;
    const x = freePlace(own.map(([start, stop]) => [Math.max(0, xOf(start)), Math.min(width, xOf(stop))]), length + 10, width);
    if (x == null) return;
    g.fillStyle = colours.bg;
    g.globalAlpha = 0.82;
    g.fillRect(x - 4, y, length + 8, stepHeight);
    g.globalAlpha = 1;
    g.fillStyle = colours.ink;
    g.fillText(text, x, middle + 0.5);
  }
  function drawMatches(g, width) {
    g.fillStyle = colours.ink;
    const y = top - 15;
    let last = -9;
    for (const row of file.matches) {
      const x = xOf(row + 0.5);
      if (x < -1 || x > width + 1 || x - last < 0.5) continue;
      last = x;
      g.beginPath();
      g.moveTo(x - 4, y);
      g.lineTo(x + 4, y);
      g.lineTo(x, y + 8);
      g.fill();
    }
  }
  /** Draw skipped pages first, then those that must not be hidden by their neighbours. */
  function drawLane(g, width, lane, y) {
    const { cells } = lane, first = Math.max(0, find(cells.start, from()) - 1);
    const visible = [];
    for (let cell = first; cell < cells.start.length && cells.start[cell] < to(); cell++) visible.push(cell);
    let run = null;
    const flush = () => {
      if (!run) return;
      g.fillStyle = fill(g, file.states[run.state].look);
      g.fillRect(run.x, y, Math.max(0.6, run.end - run.x), height);
      run = null;
    };
    for (const cell of visible) {
      const state = cells.state[cell];
      if (state <= PROVEN) continue;
      const x = Math.max(-2, xOf(cells.start[cell])), end = Math.min(width + 2, xOf(lane.stops[cell])), isThin = end - x < 4;
      if (run && run.isThin && isThin && run.state === state && x - run.end < 1) run.end = end;
      else {
        flush();
        run = { x, end: isThin ? end : end - 1, state, isThin };
      }
    }
    flush();
    for (const state of [PROVEN, READ]) {
      for (const cell of visible) {
        if (cells.state[cell] !== state) continue;
        let x = Math.max(-2, xOf(cells.start[cell])), end = Math.min(width + 2, xOf(lane.stops[cell]));
        if (end - x >= 4) end -= 1;
        else if (end - x < 3) {
          x = Math.min(width - 3, Math.max(0, (x + end) / 2 - 1.5));
          end = x + 3;
        }
        g.fillStyle = fill(g, file.states[state].look);
        g.fillRect(x, y, end - x, height);
        if (isMagnified && state === READ && cells.num_matches && cells.num_matches[cell] && end - x > 8) {
          g.fillStyle = colours.bg;
          g.beginPath();
          g.arc((x + end) / 2, y + height / 2, 3, 0, 7);
          g.fill();
        }
      }
    }
  }
  listen(shared, { canvas, isMagnified, draw, rowAt, top, pitch: height + gap, gap });
  shared.drawings.push(draw);
  return { node: el("div", { class: "chart" }, labels, canvas), draw };
}

/** Handle the pointer and the keys of a chart. */
function listen(shared, { canvas, isMagnified, draw, rowAt, top, pitch, gap }) {
  const { file, lanes, view, cursor } = shared;
  let drag = null;
  function under(event) {
    const box = canvas.getBoundingClientRect(), lane = lanes[Math.floor((event.clientY - box.top - top + gap / 2) / pitch)];
    if (!lane) return null;
    const x = event.clientX - box.left, cellAt = (at) => Math.max(0, find(lane.cells.start, rowAt(at)) - 1);
    const near = [0, -1, 1, -2, 2, -3, 3].map((by) => cellAt(x + by)); // a page that was read can be a few pixels wide
    return [lane, near.find((cell) => lane.cells.state[cell] <= PROVEN) ?? near[0]];
  }
  function point(found) {
    cursor.lane = found ? found[0] : null;
    cursor.cell = found ? found[1] : 0;
    if (found) shared.showPage(...found);
    draw();
  }
  canvas.addEventListener("pointerdown", (event) => {
    if (!isMagnified) return;
    drag = { x: event.clientX, from: view.from, to: view.to };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointerup", () => (drag = null));
  canvas.addEventListener("pointermove", (event) => {
    if (drag && Math.abs(event.clientX - drag.x) > 3) {
      const by = ((drag.x - event.clientX) / canvas.clientWidth) * (drag.to - drag.from);
      shared.magnified.set(drag.from + by, drag.to + by);
    } else point(under(event));
  });
  canvas.addEventListener("pointerleave", () => point(null));
  canvas.addEventListener("click", (event) => {
    const found = under(event), half = (view.to - view.from) / 2;
    if (found) shared.showIndexes(found[0]);
    const row = rowAt(event.clientX - canvas.getBoundingClientRect().left);
    if (!isMagnified && shared.magnified) shared.magnified.set(row - half, row + half);
  });
  canvas.addEventListener("wheel", (event) => {
    if (!isMagnified || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    shared.magnified.zoom(event.deltaY > 0 ? 1.3 : 1 / 1.3, rowAt(event.clientX - canvas.getBoundingClientRect().left));
  }, { passive: false });
  canvas.addEventListener("keydown", (event) => {
    const lane = cursor.lane ?? lanes[0];
    const cell = cursor.lane ? cursor.cell : Math.max(0, find(lane.cells.start, isMagnified ? view.from : 0) - 1);
    const middle = (lane.cells.start[cell] + lane.stops[cell]) / 2, magnified = shared.magnified;
    const across = (by) => point([lane, Math.max(0, Math.min(lane.cells.start.length - 1, cell + by))]);
    const along = (by) => {
      const other = lanes[Math.max(0, Math.min(lanes.length - 1, lanes.indexOf(lane) + by))];
      point([other, Math.max(0, find(other.cells.start, middle) - 1)]);
    };
    const actions = {
      ArrowRight: () => across(1), ArrowLeft: () => across(-1), ArrowDown: () => along(1), ArrowUp: () => along(-1),
      Enter: () => shared.showIndexes(lane),
      "+": () => magnified?.zoom(0.5), "=": () => magnified?.zoom(0.5), "-": () => magnified?.zoom(2), 0: () => magnified?.set(0, file.num_rows),
    };
    if (!actions[event.key]) return;
    event.preventDefault();
    actions[event.key]();
    if (!isMagnified || !cursor.lane) return;
    const row = cursor.lane.cells.start[cursor.cell], half = (view.to - view.from) / 2;
    if (row < view.from || row >= view.to) magnified.set(row - half, row + half);
  });
  for (const name of ["focus", "blur"]) canvas.addEventListener(name, draw);
}

/** Return the ranges of rows that are left after a step and those before it. */
function leftAfter(file, last) {
  const gone = file.steps.slice(0, last + 1).flatMap((step) => pairs(step.rows)).sort((a, b) => a[0] - b[0]);
  const left = [];
  let row = 0;
  for (const [start, stop] of gone) {
    if (start > row) left.push([row, start]);
    row = Math.max(row, stop);
  }
  if (row < file.num_rows) left.push([row, file.num_rows]);
  return left;
}

/** Return where text fits: in the widest range, else at the far end of the line. */
function freePlace(ranges, length, width) {
  if (!ranges.length) return null;
  const [x, end] = ranges.reduce((a, b) => (b[1] - b[0] > a[1] - a[0] ? b : a));
  if (end - x > length) return x + 6;
  return width > length * 3 ? (x > width / 2 ? 4 : width - length) : null;
}

function ticks(from, to, most) {
  const raw = (to - from) / Math.max(1, most), power = 10 ** Math.floor(Math.log10(Math.max(1, raw)));
  const step = [1, 2, 5, 10].map((k) => k * power).find((one) => one >= raw) || power;
  const found = [];
  for (let tick = Math.ceil(from / step) * step; tick <= to; tick += step) found.push(tick);
  return found;
}

// --- the bytes of a file -------------------------------------------------------------------------------
function partsByLabel(file) {
  const rows = new Map([["data pages", { look: "data", bytes: file.num_bytes, read: file.num_read }]]);
  const data = rows.get("data pages");
  for (const part of file.parts) {
    if (!rows.has(part.label)) rows.set(part.label, { look: part.look, bytes: 0, read: 0 });
    const row = rows.get(part.label);
    row.bytes += part.stop - part.start;
    row.read += part.num_read;
    data.bytes -= part.stop - part.start;
    data.read -= part.num_read;
  }
  return rows;
}

function drawBytes(file, stage, drawings) {
  const reads = pairs(file.reads), end = file.num_bytes, height = 24;
  const starts = file.parts.map((part) => part.start).filter((start) => start > 0);
  const tail = Math.min(...starts, end), hasTail = end - tail < end * 0.6;
  stage.append(el("h2", {}, "Bytes", el("small", {}, `the file from its first to its last byte, to scale; ${size(file.num_read)} of ${size(end)} read`)));
  const canvas = el("canvas", { class: "plot", role: "img", "aria-label": `${plural(reads.length, "range")} of ${num(end)} bytes were read`, style: "cursor:default" });
  const list = el("ul", { class: "parts" });
  for (const [label, part] of partsByLabel(file))
    list.append(el("li", {}, key(part.look, drawings, 14), label, " ", el("small", {}, size(part.bytes) + (part.read ? `, ${size(part.read)} read` : ""))));
  stage.append(canvas, list);
  drawings.push(() => {
    const width = canvas.clientWidth, g = canvasOf(canvas, width, hasTail ? 112 : 40);
    const whole = (byte) => (byte / end) * width, near = (byte) => ((byte - tail) / (end - tail)) * width;
    strip(g, whole, 12, 0);
    if (!hasTail) return;
    const y = 84;
    g.fillStyle = colours.rule;
    g.globalAlpha = 0.5;
    g.beginPath();
    g.moveTo(Math.min(width - 2, whole(tail)), 12 + height);
    g.lineTo(width, 12 + height);
    g.lineTo(width, y);
    g.lineTo(0, y);
    g.fill();
    g.globalAlpha = 1;
    strip(g, near, y, tail);
    g.font = FONT;
    g.fillStyle = colours.soft;
    const percent = (100 * (end - tail)) / end;
    const text = `magnified: the last ${size(end - tail)} (${percent.toFixed(percent < 0.1 ? 2 : 1)}% of the file), where the metadata is`;
    g.fillText(text, 0, y - 14);
    if (file.original_bytes > tail) {
      const words = "original file ends here", x = near(file.original_bytes), free = g.measureText(text).width + 24;
      g.fillStyle = colours.ink;
      g.fillText(words, Math.min(width - g.measureText(words).width, Math.max(x + 5, free)), y - 14);
    }
  });
  function strip(g, xOf, y, from) {
    const width = canvas.clientWidth;
    g.fillStyle = colours.data;
    g.fillRect(0, y, width, height);
    for (const part of file.parts) {
      if (part.stop <= from) continue;
      g.fillStyle = fill(g, part.look);
      g.fillRect(xOf(part.start), y, Math.max(0.5, xOf(part.stop) - xOf(part.start) - (from ? 0.75 : 0)), height);
    }
    // above the bar, where anything was read; in the bar, how much of these bytes
    const n = Math.ceil(width), covered = new Float64Array(n), any = new Uint8Array(n);
    for (const [start, stop] of reads) {
      if (stop <= from) continue;
      const x = Math.max(0, xOf(start)), last = Math.min(n, xOf(stop)), first = Math.min(n - 2, Math.floor(x));
      any.fill(1, first, Math.max(first + 2, Math.ceil(last)));
      for (let i = Math.floor(x); i < last; i++) covered[i] += Math.min(i + 1, last) - Math.max(i, x);
    }
    g.fillStyle = colours.read;
    for (let i = 0; i < n; i++) {
      if (any[i]) g.fillRect(i, y - 10, 1, 8);
      const part = Math.min(1, covered[i]);
      if (part) g.fillRect(i, y + height * (1 - part), 1, height * part);
    }
    if (file.original_bytes && file.original_bytes > from && xOf(file.original_bytes) < width - 2) {
      g.fillStyle = colours.ink;
      g.fillRect(Math.round(xOf(file.original_bytes)), y - 4, 1.5, height + 8);
    }
  }
}

// --- tables, for print and for readers without sight ---------------------------------------------------
function tables(file, lanes) {
  const used = file.states.map((_, i) => i).filter((i) => lanes.some((lane) => lane.by_state[i]));
  const found = [
    table("What each index excluded", ["index", "column", "rows excluded", "rows left"], file.steps.map((step) => [step.label, step.column, num(step.num_rows), num(step.num_left)]), [2, 3]),
    table("Pages by column", ["column", "pages", ...used.map((i) => file.states[i].text)], lanes.map((lane) => [lane.name, num(lane.num_pages), ...used.map((i) => num(lane.by_state[i]))]), [1, ...used.map((_, i) => i + 2)]),
    table("Bytes by part", ["part", "bytes", "read"], [...partsByLabel(file)].map(([label, part]) => [label, num(part.bytes), num(part.read)]), [1, 2]),
  ];
  if (file.answered.length)
    found.push(table("Answered by an index", ["index", "column", "rows"], file.answered.map((step) => [step.label, step.column, num(step.num_rows)]), [2]));
  return el("details", {}, el("summary", {}, "The same as tables"), el("div", { class: "tables" }, ...found));
}

// --- the page ------------------------------------------------------------------------------------------
async function start() {
  const packed = Uint8Array.from(atob(document.getElementById("facts").textContent), (letter) => letter.charCodeAt(0));
  const inflated = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  const doc = JSON.parse(await new Response(inflated).text());
  for (const file of doc.files)
    for (const lane of file.lanes) if (lane.cells) lane.stops = [...lane.cells.start.slice(1), file.num_rows];
  const main = document.getElementById("main"), stage = el("div"), drawings = [];
  let ofFile = [];
  const redraw = () => {
    readColours();
    for (const draw of [...drawings, ...ofFile]) draw();
  };
  const show = (index, all = false) => {
    ofFile = [];
    drawFile(doc, index, stage, ofFile, show, all);
    for (const draw of ofFile) draw();
  };
  readColours();
  main.textContent = "";
  drawHead(doc, main);
  if (doc.lake) drawLake(doc, main, drawings, show);
  main.append(stage, el("p", { class: "foot" }, "Drawn by Intarsia from one run of the query, which began with empty caches."));
  show(0);
  redraw();
  addEventListener("resize", redraw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  addEventListener("beforeprint", () => {
    for (const one of document.querySelectorAll("details")) one.open = true;
    redraw();
  });
  addEventListener("afterprint", redraw);
}
start();
