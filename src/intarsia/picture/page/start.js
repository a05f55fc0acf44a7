// Unpacks the facts of the page, and draws them.
import { drawMap } from "./map.js";

async function start() {
  const packed = Uint8Array.from(atob(document.getElementById("facts").textContent), (letter) => letter.charCodeAt(0));
  const inflated = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  const doc = JSON.parse(await new Response(inflated).text());
  const foot = doc.is_plan ? "the plan of the query, which was not run" : "one run of the query";
  drawMap(doc, document.getElementById("main"), `Drawn by Intarsia from ${foot}.`);
}
start();
