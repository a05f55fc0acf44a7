// Numbers in words, and lists of numbers.

/** @param {number | null | undefined} n */
export const num = (n) => (n == null ? "unknown" : Math.round(n).toLocaleString("en"));

/** @param {number | null} n @param {string} noun */
export const plural = (n, noun) => `${num(n)} ${noun}${n === 1 ? "" : noun.endsWith("ch") ? "es" : "s"}`;

/** @param {number} bytes */
export function size(bytes) {
  if (bytes < 1000) return `${bytes} B`;
  let [n, i] = [bytes / 1000, 0];
  for (; n >= 999.5 && i < 3; i++) n /= 1000;
  return `${n < 99.95 ? n.toFixed(1) : num(n)} ${["kB", "MB", "GB", "TB"][i]}`;
}

/** @param {number} read @param {number} all */
export function share(read, all) {
  if (!read || !all) return "no byte";
  return all / read >= 20 ? `1 byte in ${num(all / read)}` : `${((100 * read) / all).toFixed(1)}% of the bytes`;
}

/** @param {number[]} values */
export const sum = (values) => values.reduce((a, b) => a + b, 0);

/** @param {number[]} flat @returns {[number, number][]} */
export const pairs = (flat) => Array.from({ length: flat.length / 2 }, (_, i) => [flat[2 * i], flat[2 * i + 1]]);

/** The number of values in an ascending array that are at most a value. @param {number[]} ascending @param {number} value */
export function find(ascending, value) {
  let [low, high] = [0, ascending.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (ascending[middle] <= value) low = middle + 1;
    else high = middle;
  }
  return low;
}
