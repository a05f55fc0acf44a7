// Elements of the page, and tables.

/**
 * @template {keyof HTMLElementTagNameMap} Tag @param {Tag} tag @param {Record<string, any>} props
 * @param {(Node | string | null)[]} children @returns {HTMLElementTagNameMap[Tag]}
 */
export function el(tag, props = {}, ...children) {
  const node = /** @type {HTMLElementTagNameMap[Tag] & Record<string, any>} */ (document.createElement(tag));
  for (const [key, value] of Object.entries(props)) {
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (key === "class") node.className = value;
    else if (key === "style") node.style.cssText = value;
    else if (key in node && !key.startsWith("aria")) node[key] = value;
    else node.setAttribute(key, value);
  }
  node.append(...children.filter((child) => child != null));
  return node;
}

/** @param {string} caption @param {string[]} heads @param {string[][]} rows @param {number[]} right the columns of numbers */
export function table(caption, heads, rows, right) {
  const css = /** @param {number} i */ (i) => (right.includes(i) ? "n" : "");
  return el(
    "table", {}, el("caption", {}, caption),
    el("thead", {}, el("tr", {}, ...heads.map((head, i) => el("th", { class: css(i), scope: "col" }, head)))),
    el("tbody", {}, ...rows.map((row) => el("tr", {}, ...row.map((cell, i) => el("td", { class: css(i) }, cell))))),
  );
}
