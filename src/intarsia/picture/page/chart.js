// A chart of the lanes of a file: of all rows, with the funnel of the indexes, or magnified.
import { FONT, canvasOf, colours, fill } from "./canvas.js";
import { el } from "./elements.js";
import { PROVEN, READ } from "./states.js";
import { find, num, pairs, plural } from "./words.js";

/** @import { DrawnLane, FilePages, Shared, Step } from "./facts.js" */
/** @typedef {CanvasRenderingContext2D} Context */
/** Make a chart of the lanes: of all rows, with the funnel of the indexes, or magnified. @param {Shared} shared @param {boolean} isMagnified */
export function makeChart(shared, isMagnified) {
  const { file, lanes, view, cursor } = shared;
  const isDense = lanes.length > 24;
  const height = isMagnified ? 20 : isDense ? 9 : 14, gap = isMagnified ? 5 : isDense ? 2 : 4;
  const labels = el("div", { class: "labels" });
  const what = isMagnified ? "Magnified pages" : "All pages";
  const canvas = el("canvas", { class: "plot", tabIndex: 0, role: "application", "aria-label": `${what} by column and row. Arrow keys move from page to page.` });
  /** @type {{ step: Step, isAnswer?: boolean }[]} */
  const funnel = isMagnified ? [] : [...file.steps.map((step) => ({ step })), ...file.answered.map((step) => ({ step, isAnswer: true }))];
  const matches = file.matches ?? [], hasMatches = matches.length > 0;
  const axis = 20, stepHeight = 11, pitch = stepHeight + 4;
  const top = axis + funnel.length * pitch + (hasMatches ? 16 : 4) + (funnel.length ? 6 : 0);
  const total = top + lanes.length * (height + gap) + 4;
  const put = /** @param {number} y @param {number} h @param {HTMLElement} node */ (y, h, node) => {
    node.style.top = `${y + (h - 16) / 2}px`;
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
  let width = 1; // when it was drawn
  const xOf = /** @param {number} row */ (row) => ((row - from()) / Math.max(1e-9, to() - from())) * width;
  const rowAt = /** @param {number} x */ (x) => from() + (x / width) * (to() - from());

  function draw() {
    width = Math.max(1, canvas.clientWidth);
    const g = canvasOf(canvas, width, total);
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
  /** @param {Context} g @param {number} width */
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
  /** @param {Context} g @param {number} width @param {number} y @param {{ step: Step, isAnswer?: boolean }} one @param {number} i */
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
  /** @param {Context} g @param {number} width */
  function drawMatches(g, width) {
    g.fillStyle = colours.ink;
    const y = top - 15;
    let last = -9;
    for (const row of matches) {
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
  /** Draw skipped pages first, then those that must not be hidden by their neighbours. @param {Context} g @param {number} width @param {DrawnLane} lane @param {number} y */
  function drawLane(g, width, lane, y) {
    const { cells } = lane, first = Math.max(0, find(cells.start, from()) - 1);
    const visible = [];
    for (let cell = first; cell < cells.start.length && cells.start[cell] < to(); cell++) visible.push(cell);
    /** @type {{ x: number, end: number, state: number, isThin: boolean } | null} */
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

/**
 * Handle the pointer and the keys of a chart.
 * @param {Shared} shared
 * @param {{ canvas: HTMLCanvasElement, isMagnified: boolean, draw: () => void, rowAt: (x: number) => number, top: number,
 *   pitch: number, gap: number }} chart
 */
function listen(shared, { canvas, isMagnified, draw, rowAt, top, pitch, gap }) {
  const { file, lanes, view, cursor } = shared;
  /** @type {{ x: number, from: number, to: number } | null} */
  let drag = null;
  /** @param {MouseEvent} event @returns {[DrawnLane, number] | null} */
  function under(event) {
    const box = canvas.getBoundingClientRect(), lane = lanes[Math.floor((event.clientY - box.top - top + gap / 2) / pitch)];
    if (!lane) return null;
    const x = event.clientX - box.left, cellAt = /** @param {number} at */ (at) => Math.max(0, find(lane.cells.start, rowAt(at)) - 1);
    const near = [0, -1, 1, -2, 2, -3, 3].map((by) => cellAt(x + by)); // a page that was read can be a few pixels wide
    return [lane, near.find((cell) => lane.cells.state[cell] <= PROVEN) ?? near[0]];
  }
  /** @param {[DrawnLane, number] | null} found */
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
      shared.magnified?.set(drag.from + by, drag.to + by);
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
    shared.magnified?.zoom(event.deltaY > 0 ? 1.3 : 1 / 1.3, rowAt(event.clientX - canvas.getBoundingClientRect().left));
  }, { passive: false });
  canvas.addEventListener("keydown", (event) => {
    const lane = cursor.lane ?? lanes[0];
    const cell = cursor.lane ? cursor.cell : Math.max(0, find(lane.cells.start, isMagnified ? view.from : 0) - 1);
    const middle = (lane.cells.start[cell] + lane.stops[cell]) / 2, magnified = shared.magnified;
    const across = /** @param {number} by */ (by) => point([lane, Math.max(0, Math.min(lane.cells.start.length - 1, cell + by))]);
    const along = /** @param {number} by */ (by) => {
      const other = lanes[Math.max(0, Math.min(lanes.length - 1, lanes.indexOf(lane) + by))];
      point([other, Math.max(0, find(other.cells.start, middle) - 1)]);
    };
    /** @type {Record<string, () => void>} */
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
    if (row < view.from || row >= view.to) magnified?.set(row - half, row + half);
  });
  for (const name of ["focus", "blur"]) canvas.addEventListener(name, draw);
}

/** Return the ranges of rows that are left after a step and those before it. @param {FilePages} file @param {number} last */
function leftAfter(file, last) {
  const gone = file.steps.slice(0, last + 1).flatMap((step) => pairs(step.rows)).sort((a, b) => a[0] - b[0]);
  /** @type {[number, number][]} */
  const left = [];
  let row = 0;
  for (const [start, stop] of gone) {
    if (start > row) left.push([row, start]);
    row = Math.max(row, stop);
  }
  if (row < file.num_rows) left.push([row, file.num_rows]);
  return left;
}

/** Return where text fits: in the widest range, else at the far end of the line. @param {[number, number][]} ranges @param {number} length @param {number} width */
function freePlace(ranges, length, width) {
  if (!ranges.length) return null;
  const [x, end] = ranges.reduce((a, b) => (b[1] - b[0] > a[1] - a[0] ? b : a));
  if (end - x > length) return x + 6;
  return width > length * 3 ? (x > width / 2 ? 4 : width - length) : null;
}

/** @param {number} from @param {number} to @param {number} most */
function ticks(from, to, most) {
  const raw = (to - from) / Math.max(1, most), power = 10 ** Math.floor(Math.log10(Math.max(1, raw)));
  const step = [1, 2, 5, 10].map((k) => k * power).find((one) => one >= raw) || power;
  const found = [];
  for (let tick = Math.ceil(from / step) * step; tick <= to; tick += step) found.push(tick);
  return found;
}
