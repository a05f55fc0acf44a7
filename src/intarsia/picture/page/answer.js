// The answer in one line, beside the ladder of whole, read and least possible.
import { el } from "./elements.js";
import { num, plural, share, size } from "./words.js";

/** @param {import("./facts.js").QueryFacts} doc @param {HTMLElement} main */
export function drawHead(doc, main) {
  const { report, lake } = doc;
  const whole = lake ? `${plural(report.files.total, "file")} in ${doc.title}` : `${doc.title}, ${plural(doc.files[0]?.num_rows ?? report.rows.total, "row")}`;
  main.append(
    el("h1", {}, doc.where ? el("code", {}, doc.where) : "all rows"),
    el("p", { class: "sub" }, whole, " · select ", el("code", {}, doc.select), " · ", doc.result),
  );
  /** @type {[string, number, string][]} */
  const rungs = [[lake ? "all files" : "whole file", doc.num_bytes, "data"]];
  if (doc.columns_bytes && doc.columns_bytes < doc.num_bytes * 0.98)
    rungs.push(["columns of the query", doc.columns_bytes, "data"]);
  rungs.push([doc.is_plan ? "to read" : "read", doc.num_read, "read"]);
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
    ? `${num(report.files.opened)} of ${plural(report.files.total, "file")} were opened, and pages of ${num(report.files.read)} read.`
    : `${report.pages.total == null ? plural(report.pages.read, "page") : `${num(report.pages.read)} of ${plural(report.pages.total, "page")}`}${report.bytes.index ? `, and ${size(report.bytes.index)} of indexes` : ""}.`;
  const part = share(doc.num_read, doc.num_bytes);
  const text = doc.is_plan ? `will be read: ${part}.` : `were read: ${part}, in ${plural(doc.num_requests, "request")}. ${parts}`;
  main.append(
    el("div", { class: "answer" }, el("div", {}, el("div", { class: "big" }, `${size(doc.num_read)} of ${size(doc.num_bytes)}`), el("p", {}, text)), ladder),
  );
  if (doc.advice) main.append(el("p", { class: "advice" }, el("strong", {}, "Advice: "), `${doc.advice}.`));
}
