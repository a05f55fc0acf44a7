// The same numbers as tables, for print and for readers without sight.
import { partsByLabel } from "./bytes.js";
import { el, table } from "./elements.js";
import { num } from "./words.js";

/** @import { DrawnLane, FilePages, QueryFacts } from "./facts.js" */
/** @param {QueryFacts} doc @param {FilePages} file @param {DrawnLane[]} lanes */
export function tables(doc, file, lanes) {
  const used = file.states.map((_, i) => i).filter((i) => lanes.some((lane) => lane.by_state[i]));
  const found = [
    table("What each index excluded", ["index", "column", "rows excluded", "rows left"], file.steps.map((step) => [step.label, step.column, num(step.num_rows), num(step.num_left)]), [2, 3]),
    table("Pages by column", ["column", "pages", ...used.map((i) => file.states[i].text)], lanes.map((lane) => [lane.name, num(lane.num_pages), ...used.map((i) => num(lane.by_state[i]))]), [1, ...used.map((_, i) => i + 2)]),
    table("Bytes by part", ["part", "bytes", "read"], [...partsByLabel(file)].map(([label, part]) => [label, num(part.bytes), num(part.read)]), [1, 2]),
  ];
  if (file.answered.length)
    found.push(table("Answered by an index", ["index", "column", "rows"], file.answered.map((step) => [step.label, step.column, num(step.num_rows)]), [2]));
  const { lake } = doc;
  if (lake) {
    const counts = lake.states.map((state, i) => [state.text, num(lake.state.filter((one) => one === i).length)]);
    found.push(table("Files by state", ["state", "files"], counts.filter(([, n]) => n !== "0"), [1]));
  }
  return el("details", {}, el("summary", {}, "The same as tables"), el("div", { class: "tables" }, ...found));
}
