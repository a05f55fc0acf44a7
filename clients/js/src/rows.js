/**
 * Rows of a file, as sorted, disjoint, half-open ranges.
 *
 * @typedef {[number, number][]} Rows
 */

/** @param {Rows} ranges in any order, possibly empty or overlapping @returns {Rows} */
export function merge(ranges) {
  /** @type {Rows} */
  const merged = []
  for (const [start, stop] of ranges.filter(([a, b]) => a < b).sort((a, b) => a[0] - b[0])) {
    const last = merged.at(-1)
    if (last && start <= last[1]) last[1] = Math.max(last[1], stop)
    else merged.push([start, stop])
  }
  return merged
}

/** @param {Rows} left @param {Rows} right @returns {Rows} */
export function intersect(left, right) {
  /** @type {Rows} */
  const common = []
  for (let i = 0, j = 0; i < left.length && j < right.length;) {
    const start = Math.max(left[i][0], right[j][0])
    const stop = Math.min(left[i][1], right[j][1])
    if (start < stop) common.push([start, stop])
    if (left[i][1] < right[j][1]) i++
    else j++
  }
  return common
}

/** @param {Rows} rows */
export function count(rows) {
  return rows.reduce((sum, [start, stop]) => sum + stop - start, 0)
}

/**
 * Return the rows of the granules that are hit.
 *
 * @param {ArrayLike<number>} edges the first row of each granule, then the number of rows
 * @param {(granule: number) => boolean} isHit
 */
export function rowsOfGranules(edges, isHit) {
  /** @type {Rows} */
  const found = []
  for (let granule = 0; granule + 1 < edges.length; granule++) {
    if (isHit(granule)) found.push([edges[granule], edges[granule + 1]])
  }
  return merge(found)
}
