// Canvases, colours and hatching. Charts are on canvas, so a page has few nodes whatever the file.
import { el } from "./elements.js";

export const FONT = "11.5px ui-sans-serif, system-ui, sans-serif";

/** @import { Drawing, Look } from "./facts.js" */
/** @type {Partial<Record<Look, "/" | "\\" | "|" | ".">>} */
const HATCHES = { page_index: "/", bloom: ".", dictionary: "|", embedded: "\\", unneeded: "|" };
/** @type {Map<Look, CanvasPattern>} */
const patterns = new Map();

/** @type {Record<string, string>} */
export let colours = {};
const NAMES = [
  "bg", "ink", "soft", "rule", "read", "proven", "unneeded", "stripe", "statistics", "page_index", "bloom", "dictionary",
  "embedded", "partition", "hatch", "data", "footer",
];

export function readColours() {
  const style = getComputedStyle(document.documentElement);
  colours = Object.fromEntries(NAMES.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
  patterns.clear();
}

/** Return the fill of a look; the pale ones are too close for colour-blind readers without their hatching. @param {CanvasRenderingContext2D} g @param {Look} look */
export function fill(g, look) {
  const base = colours[look === "vain" ? "read" : look], hatch = HATCHES[look];
  if (!hatch) return base;
  let pattern = patterns.get(look);
  if (!pattern) {
    const tile = document.createElement("canvas"), scale = 2;
    tile.width = tile.height = 6 * scale;
    const p = contextOf(tile);
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
    pattern = /** @type {CanvasPattern} */ (g.createPattern(tile, "repeat"));
    pattern.setTransform(new DOMMatrix([1 / scale, 0, 0, 1 / scale, 0, 0]));
    patterns.set(look, pattern);
  }
  return pattern;
}

/** @param {HTMLCanvasElement} canvas */
const contextOf = (canvas) => /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));

/** @param {HTMLCanvasElement} canvas @param {number} width @param {number} height */
export function canvasOf(canvas, width, height) {
  const ratio = Math.max(1, window.devicePixelRatio || 1);
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.height = `${height}px`;
  const g = contextOf(canvas);
  g.setTransform(ratio, 0, 0, ratio, 0, 0);
  return g;
}

/** A sample of a look for a legend. @param {Look} look @param {Drawing[]} drawings */
export function key(look, drawings, width = 22) {
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
