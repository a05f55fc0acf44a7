// The files of a lake, one cell for each.
import { canvasOf, colours, fill, key } from "./canvas.js";
import { el } from "./elements.js";
import { FILE_READ, READ_IN_VAIN } from "./states.js";
import { num, plural, size } from "./words.js";

/** @import { Drawing, LakeFacts, QueryFacts, Show } from "./facts.js" */
/** @param {QueryFacts} doc @param {LakeFacts} lake @param {HTMLElement} main @param {Drawing[]} drawings @param {Show} show */
export function drawLake(doc, lake, main, drawings, show) {
  const { states } = lake;
  const read = new Map(lake.read.map(([ordinal, bytes, matches]) => [ordinal, { bytes, matches }]));
  const index = lake.lake_index_bytes ? `; ${size(lake.lake_index_bytes)} of the lake index were read` : "";
  main.append(el("h2", {}, "Files ", el("small", {}, `in the order of the table; one cell for each file${index}`)));
  const legend = el("ul", { class: "legend" });
  const counts = states.map(() => 0);
  for (const state of lake.state) counts[state]++;
  counts.forEach((n, i) => n && legend.append(el("li", {}, key(states[i].look, drawings), `${states[i].text}: ${num(n)}`)));
  const canvas = el("canvas", { class: "plot", tabIndex: 0, role: "application", "aria-label": `${num(lake.state.length)} files. Arrow keys move; Enter shows the pages of a file that was read.` });
  const say = el("p", { class: "sub say", "aria-live": "polite" }, `Point at a file, or use the arrow keys.`);
  main.append(legend, canvas, say);
  const nameOf = /** @param {number} i */ (i) => lake.names[i] ?? `file ${num(i + 1)}`;
  const drawn = /** @param {number} i */ (i) => doc.files.findIndex((file) => file.path === lake.names[i]);
  let at = Math.max(0, lake.state.indexOf(FILE_READ)), across = 1, cell = 10;
  const isBright = /** @param {number} state */ (state) => state === FILE_READ || state === READ_IN_VAIN;

  function draw() {
    const width = canvas.clientWidth, n = lake.state.length;
    cell = Math.max(3, Math.min(16, Math.floor(Math.sqrt((width * (n > 3000 ? 150 : 112)) / n))));
    across = Math.max(1, Math.floor(width / cell));
    across = Math.ceil(n / Math.ceil(n / across));
    const g = canvasOf(canvas, width, Math.ceil(n / across) * cell + 2), gap = cell > 5 ? 1.5 : cell > 3 ? 1 : 0.5;
    const place = /** @param {number} i */ (i) => [(i % across) * cell, Math.floor(i / across) * cell];
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
  /** @param {number} to */
  function move(to) {
    at = Math.max(0, Math.min(lake.state.length - 1, to));
    tell();
    draw();
  }
  const choose = () => drawn(at) >= 0 && show(drawn(at));
  const under = /** @param {MouseEvent} event */ (event) => {
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
