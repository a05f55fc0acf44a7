// The pages of a file: charts, the facts of the page under the pointer, bytes and tables.
import { drawBytes } from "./bytes.js";
import { key } from "./canvas.js";
import { makeChart } from "./chart.js";
import { el, table } from "./elements.js";
import { PROVEN, READ } from "./states.js";
import { tables } from "./tables.js";
import { find, num, plural, size, sum } from "./words.js";

const MANY_LANES = 30;

/** @import { Drawing, DrawnLane, FilePages, Lane, QueryFacts, Shared, Show } from "./facts.js" */
/**
 * @param {QueryFacts} doc @param {number} index @param {HTMLElement} stage @param {Drawing[]} drawings @param {Show} show
 * @param {boolean} all
 */
export function drawFile(doc, index, stage, drawings, show, all) {
  stage.textContent = "";
  const file = doc.files[index];
  if (!file) return;
  const drawn = /** @type {DrawnLane[]} */ (file.lanes.filter((lane) => lane.cells));
  const asked = drawn.sort((a, b) => (a.role === "where" ? 0 : 1) - (b.role === "where" ? 0 : 1));
  const lanes = asked.length > MANY_LANES && !all ? asked.slice(0, 20) : asked;
  const others = file.lanes.filter((lane) => !lane.cells);
  const groups = plural(file.edges.length - 1, "row group");
  stage.append(
    el("h2", {}, doc.lake ? `${file.path}: pages` : "Pages", " ", el("small", {}, `${plural(file.num_rows, "row")} from left to right in ${groups}; one lane for each column; written by ${file.writer}`)),
  );
  if (doc.files.length > 1) {
    const label = /** @param {FilePages} one */ (one) => one.path + (one.num_matches ? ` (${plural(one.num_matches, "match")})` : "");
    const options = doc.files.map((one, i) => el("option", { value: i, selected: i === index }, label(one)));
    stage.append(el("p", { style: "margin:0 0 8px" }, el("select", { "aria-label": "File", onchange: /** @param {any} event */ (event) => show(+event.target.value) }, ...options)));
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
    stage.append(tables(doc, file, asked));
    return;
  }
  const page = el("div", { "aria-live": "polite" }), indexes = el("div");
  const left = el("div"), rest = el("div");
  stage.append(el("div", { class: "with" }, left, el("div", { class: "facts" }, page, indexes), rest));
  const view = startView(file, lanes), cursor = { lane: null, cell: 0 };
  /** @type {Shared} */
  const shared = { file, lanes, view, cursor, buttons: [], drawings, magnified: null, showPage, showIndexes };

  /** @param {DrawnLane} lane @param {number} cell */
  function showPage(lane, cell) {
    const { cells } = lane, n = cells.num_pages[cell], from = cells.start[cell], to = lane.stops[cell];
    /** @type {[string, string | HTMLElement][]} */
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
    if (lane.codec) facts.push(["codec", lane.codec], ["encodings", lane.encodings.join(", ")]);
    const list = facts.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]);
    page.replaceChildren(el("h3", {}, n === 1 ? "Page" : "Pages"), el("dl", {}, ...list));
  }
  /** @param {DrawnLane} lane */
  function showIndexes(lane) {
    for (const [one, button] of shared.buttons) button.setAttribute("aria-pressed", String(one === lane));
    const items = lane.indexes.map((one) => el("li", {}, one.name + (one.num_bytes ? `, ${size(one.num_bytes)}` : ""), el("small", {}, one.what)));
    indexes.replaceChildren(
      el("h3", {}, "Indexes of ", el("code", {}, lane.name)),
      el("p", {}, [lane.type, lane.codec, lane.num_bytes == null ? "" : size(lane.num_bytes)].filter(Boolean).join(", ")),
      el("ul", {}, ...(items.length ? items : [el("li", {}, "none")])),
    );
  }

  const overview = makeChart(shared, false);
  left.append(overview.node);
  if (file.num_rows > 1 && lanes.some((lane) => (lane.num_pages ?? 0) > 40)) left.append(...magnify(shared, overview));
  if (asked.length > MANY_LANES) {
    const words = all ? "Show 20 columns" : `Show all ${num(asked.length)} columns of the query`;
    left.append(el("div", { class: "more" }, el("button", { onclick: () => show(index, !all) }, words)));
  }
  if (others.length) left.append(otherColumns(others));
  showIndexes(lanes[0]);
  const first = lanes.find((lane) => lane.cells.state.includes(READ));
  if (first) showPage(first, first.cells.state.indexOf(READ));
  else page.replaceChildren(el("p", {}, "No page was read."));
  left.append(el("p", { class: "hint" }, "Point at a page for its facts; a name shows the indexes of the column. Keyboard: Tab to a chart, then arrows; + and − zoom, 0 shows the whole file."));
  drawBytes(file, rest, drawings);
  rest.append(tables(doc, file, asked));
}

/** @param {Lane[]} others */
function otherColumns(others) {
  const list = el("div"), bytes = sum(others.map((lane) => lane.num_bytes ?? 0));
  const rows = others.slice(0, 500).map((lane) => [lane.name, lane.type, num(lane.num_bytes), num(lane.num_pages)]);
  const button = el("button", { "aria-expanded": "false" }, plural(others.length, "other column") + (bytes ? `, ${size(bytes)}` : ""));
  button.addEventListener("click", () => {
    const open = button.getAttribute("aria-expanded") !== "true";
    button.setAttribute("aria-expanded", String(open));
    list.replaceChildren(...(open ? [el("div", { class: "tables" }, table("Columns that the query does not use", ["column", "type", "bytes", "pages"], rows, [2, 3]))] : []));
  });
  return el("div", { class: "more" }, button, " not needed", list);
}

/** Return the rows around the first page that was read, so many that its neighbours are seen. @param {FilePages} file @param {DrawnLane[]} lanes */
function startView(file, lanes) {
  /** @type {{ width: number, middle: number } | null} */
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

/** Make the magnified chart with its buttons. @param {Shared} shared @param {{ draw: () => void }} overview */
function magnify(shared, overview) {
  const { file, lanes, view } = shared, range = el("small");
  const chart = makeChart(shared, true);
  /** @param {number} from @param {number} to */
  function set(from, to) {
    const width = Math.min(file.num_rows, Math.max(8, to - from)), middle = (from + to) / 2;
    view.from = Math.max(0, Math.min(file.num_rows - width, middle - width / 2));
    view.to = view.from + width;
    describe();
    overview.draw();
    chart.draw();
  }
  const describe = () => (range.textContent = `rows ${num(view.from)} to ${num(view.to - 1)}`);
  const zoom = /** @param {number} by */ (by, at = (view.from + view.to) / 2) => set(at - (at - view.from) * by, at + (view.to - at) * by);
  const pan = /** @param {number} by */ (by) => set(view.from + (view.to - view.from) * by, view.to + (view.to - view.from) * by);
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
  const button = /** @param {string} text @param {string} label @param {() => void} onclick */ (text, label, onclick) => el("button", { "aria-label": label, title: label, onclick }, text);
  const bar = el(
    "div", { class: "bar" }, el("strong", {}, "Magnified"), el("span", {}, range),
    button("◀", "Earlier rows", () => pan(-0.5)), button("▶", "Later rows", () => pan(0.5)),
    button("−", "Zoom out", () => zoom(2)), button("+", "Zoom in", () => zoom(0.5)),
    button("next read", "Next page that was read or proven", next), button("whole file", "Show the whole file", () => set(0, file.num_rows)),
  );
  describe();
  return [bar, chart.node];
}
