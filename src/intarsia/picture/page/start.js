// Unpacks the facts of the page, and draws them.
import { drawMap } from "./map.js";

/** @param {string} id */
const part = (id) => /** @type {HTMLElement} */ (document.getElementById(id));

async function start() {
  const packed = Uint8Array.from(atob(part("facts").textContent ?? ""), (letter) => letter.charCodeAt(0));
  const inflated = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  const doc = JSON.parse(await new Response(inflated).text());
  const foot = doc.is_plan ? "the plan of the query, which was not run" : "one run of the query";
  drawMap(doc, part("main"), `Drawn by Intarsia from ${foot}.`);
}
start();
