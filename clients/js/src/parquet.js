/** Parquet's own structures: statistics, Bloom filters and page indexes. */
import { deserializeTCompactProtocol } from 'hyparquet/src/thrift.js'
import { readBloomFilter, sbbfContains } from 'hyparquet/src/bloom.js'
import { check } from './directory.js'
import { intersect, merge } from './rows.js'

/** @import { Condition, Facts } from './condition.js' */
/** @import { Chunk } from './footer.js' */
/** @import { Rows } from './rows.js' */
/** @import { Source } from './source.js' */
/** @import { Trust } from './trust.js' */

/** Whether a row group might match, by the statistics of its chunk. @param {Condition} condition @param {Chunk} chunk @param {Trust} trust */
export function mightMatchStatistics(condition, { meta, numRows }, trust) {
  const stats = meta.field_12 ?? {}
  const upper = trust.usesUpperBounds ? stats.field_5 : stats.field_5 && successor(stats.field_5)
  const [low, high] = stats.field_5 && stats.field_6 && trust.usesBounds && upper ? [trust.usesLowerBounds ? stats.field_6 : new Uint8Array(), upper]
    : stats.field_1 && stats.field_2 && !stats.field_5 && !stats.field_6 && trust.usesDeprecatedBounds ? [stats.field_2, stats.field_1] : []
  const hasAnyBounds = [1, 2, 5, 6].some(number => stats[`field_${number}`])
  const nulls = stats.field_3 === undefined || !trust.usesNullCounts ? -1 : Number(stats.field_3)
  const isKnown = nulls >= 0 && nulls <= numRows && (nulls > 0 || hasAnyBounds)
  /** @type {Facts} */
  const facts = low ? { low: condition.type.ofBytes(low), high: condition.type.ofBytes(high) } : {}
  if (condition.leaf.isRequired) facts.hasNulls = false
  else if (isKnown) Object.assign(facts, { hasNulls: nulls > 0, hasValues: nulls < numRows })
  return condition.mightMatch(facts)
}

/** The smallest bytes above all that begin with a prefix. @param {Uint8Array} prefix */
function successor(prefix) {
  let end = prefix.length
  while (end && prefix[end - 1] === 0xff) end--
  return end ? Uint8Array.from(prefix.subarray(0, end), (byte, at) => at === end - 1 ? byte + 1 : byte) : undefined
}

/** Whether a row group might match, by its Bloom filter. @param {Source} source @param {Condition} condition @param {Chunk} chunk */
export async function mightMatchBloom(source, condition, chunk) {
  const [start, stop] = /** @type {[number, number]} */ (chunk.bloomFilter)
  const filter = readBloomFilter({ view: new DataView(await source.slice(start, stop)), offset: 0 })
  if (!filter) return true
  return condition.values.some(value => condition.type.bloomHashes(value).some(hash => sbbfContains(filter.blocks, hash)))
}

/**
 * The rows of the pages that might match.
 *
 * @param {Source} source
 * @param {Condition} condition
 * @param {Chunk} chunk
 * @param {Trust} trust
 * @returns {Promise<Rows>}
 */
export async function pagesThatMightMatch(source, condition, chunk, trust) {
  const ranges = [/** @type {[number, number]} */ (chunk.columnIndex), /** @type {[number, number]} */ (chunk.offsetIndex)]
  const [columns, offsets] = (await Promise.all(ranges.map(([start, stop]) => source.slice(start, stop))))
    .map(data => deserializeTCompactProtocol({ view: new DataView(data), offset: 0 }))
  const starts = offsets.field_1.map((/** @type {any} */ page) => Number(page.field_3))
  const { field_1: nullPages, field_2: lows, field_3: highs } = columns
  const nullCounts = trust.usesPageNullCounts ? columns.field_5 : undefined
  check([nullPages, lows, highs, nullCounts ?? starts].every(list => list.length === starts.length), 'the lists of the page index differ in length')
  check(starts[0] === 0 && starts.every((/** @type {number} */ row, /** @type {number} */ i) => row < (starts[i + 1] ?? chunk.numRows)), 'the pages of the page index do not ascend')
  return merge(starts.flatMap((/** @type {number} */ row, /** @type {number} */ page) => {
    const stop = starts[page + 1] ?? chunk.numRows
    check(!nullPages[page] || !nullCounts || Number(nullCounts[page]) === stop - row, 'a null page of the page index has values')
    /** @type {Facts} */
    const facts = nullPages[page] ? { hasValues: false } : { low: condition.type.ofBytes(lows[page]), high: condition.type.ofBytes(highs[page]) }
    if (nullCounts) facts.hasNulls = Number(nullCounts[page]) > 0
    return condition.mightMatch(facts) ? [[chunk.start + row, chunk.start + stop]] : []
  }))
}

/**
 * The first row in the file, the offset and the size of each page. A chunk without one of the rows, or without an
 * OffsetIndex, counts as one page.
 *
 * @param {Source} source
 * @param {Chunk} chunk
 * @param {Rows} rows
 * @returns {Promise<{ start: number, offset: number, bytes: number }[]>}
 */
export async function pagesOf(source, { meta, start, numRows, offsetIndex, bytes }, rows) {
  if (!offsetIndex || !intersect(rows, [[start, start + numRows]]).length) return [{ start, offset: Number(meta.field_11 || meta.field_9), bytes }]
  const offsets = deserializeTCompactProtocol({ view: new DataView(await source.slice(...offsetIndex)), offset: 0 })
  return offsets.field_1.map((/** @type {any} */ page) => ({ start: start + Number(page.field_3), offset: Number(page.field_1), bytes: page.field_2 }))
}

/**
 * The first row of each page in the file; see `pagesOf`.
 *
 * @param {Source} source
 * @param {Chunk[]} chunks
 * @param {Rows} rows
 * @returns {Promise<number[]>}
 */
export async function pageStarts(source, chunks, rows) {
  const pages = await Promise.all(chunks.map(chunk => pagesOf(source, chunk, rows)))
  return pages.flat().map(page => page.start)
}
