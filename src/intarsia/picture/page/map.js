// Draws the facts of one query; see facts.py. The page of `intarsia map` and examples/browser share it.
import { drawHead } from "./answer.js";
import { readColours } from "./canvas.js";
import { el } from "./elements.js";
import { drawLake } from "./files.js";
import { drawFile } from "./pages.js";

/** @import { Drawing, DrawnLane, QueryFacts, Show } from "./facts.js" */
/**
 * Draw the facts in an element, whose content is replaced. Listeners end with the signal, if there is one.
 * @param {QueryFacts} doc @param {HTMLElement} main @param {string} foot @param {AbortSignal} [signal]
 */
export function drawMap(doc, main, foot, signal) {
  for (const file of doc.files)
    for (const lane of file.lanes) if (lane.cells) /** @type {DrawnLane} */ (lane).stops = [...lane.cells.start.slice(1), file.num_rows];
  const stage = el("div");
  /** @type {Drawing[]} */
  const ofAll = [];
  /** @type {Drawing[]} */
  let ofFile = [];
  const redraw = () => {
    readColours();
    for (const draw of [...ofAll, ...ofFile]) draw();
  };
  const place = /** @param {number} index @param {boolean} all */ (index, all) => drawFile(doc, index, stage, (ofFile = []), show, all);
  /** @type {Show} */
  function show(index, all = false) {
    place(index, all);
    for (const draw of ofFile) draw();
  }
  main.textContent = "";
  drawHead(doc, main);
  if (doc.lake) drawLake(doc, doc.lake, main, ofAll, show);
  main.append(stage, el("p", { class: "foot" }, foot));
  place(0, false);
  redraw();
  addEventListener("resize", redraw, { signal });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw, { signal });
  addEventListener("beforeprint", () => {
    for (const one of document.querySelectorAll("details")) one.open = true;
    document.documentElement.classList.add("printed"); // in the colours of paper
    redraw();
  }, { signal });
  addEventListener("afterprint", () => {
    document.documentElement.classList.remove("printed");
    redraw();
  }, { signal });
}
