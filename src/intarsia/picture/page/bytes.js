// The bytes of a file to scale, what was read of them, and the end of the file magnified.
import { FONT, canvasOf, colours, fill, key } from "./canvas.js";
import { el } from "./elements.js";
import { num, pairs, plural, size } from "./words.js";

/** @import { Drawing, FilePages, Look } from "./facts.js" */
/** @param {FilePages} file */
export function partsByLabel(file) {
  const data = { look: /** @type {Look} */ ("data"), bytes: file.num_bytes, read: file.num_read };
  const rows = new Map([["data pages", data]]);
  for (const part of file.parts) {
    const row = rows.get(part.label) ?? { look: part.look, bytes: 0, read: 0 };
    rows.set(part.label, row);
    row.bytes += part.stop - part.start;
    row.read += part.num_read;
    data.bytes -= part.stop - part.start;
    data.read -= part.num_read;
  }
  return rows;
}

/** @param {FilePages} file @param {HTMLElement} stage @param {Drawing[]} drawings */
export function drawBytes(file, stage, drawings) {
  const reads = pairs(file.reads), end = file.num_bytes, height = 24;
  const starts = file.parts.map((part) => part.start).filter((start) => start > 0);
  const tail = Math.min(...starts, end), hasTail = end - tail < end * 0.6;
  stage.append(el("h2", {}, "Bytes ", el("small", {}, `the file from its first to its last byte, to scale; ${size(file.num_read)} of ${size(end)} read`)));
  const canvas = el("canvas", { class: "plot", role: "img", "aria-label": `${plural(reads.length, "range")} of ${num(end)} bytes were read`, style: "cursor:default" });
  const list = el("ul", { class: "parts" });
  for (const [label, part] of partsByLabel(file))
    list.append(el("li", {}, key(part.look, drawings, 14), label, " ", el("small", {}, size(part.bytes) + (part.read ? `, ${size(part.read)} read` : ""))));
  stage.append(canvas, list);
  drawings.push(() => {
    const width = canvas.clientWidth, g = canvasOf(canvas, width, hasTail ? 112 : 40);
    const whole = /** @param {number} byte */ (byte) => (byte / end) * width;
    const near = /** @param {number} byte */ (byte) => ((byte - tail) / (end - tail)) * width;
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
    if (file.original_bytes && file.original_bytes > tail) {
      const words = "original file ends here", x = near(file.original_bytes), free = g.measureText(text).width + 24;
      g.fillStyle = colours.ink;
      g.fillText(words, Math.min(width - g.measureText(words).width, Math.max(x + 5, free)), y - 14);
    }
  });
  /** @param {CanvasRenderingContext2D} g @param {(byte: number) => number} xOf @param {number} y @param {number} from */
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
