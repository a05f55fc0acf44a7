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
/** @import { ValueType } from './values.js' */

/** A chunk whose statistics and ColumnIndex cannot both be right. */
export class Contradiction extends Error {}

/**
 * What the statistics of a chunk say; bounds are exact if they are known to be values of the chunk.
 *
 * @param {ValueType} type
 * @param {Chunk} chunk
 * @param {Trust} trust
 * @returns {Facts & { nulls: number, isExact: boolean }} with -1 nulls if their number is unknown
 */
function statisticsOf(type, { meta, numRows }, trust) {
  const stats = meta.field_12 ?? {}
  const upper = trust.usesUpperBounds ? stats.field_5 : stats.field_5 && successor(stats.field_5)
  const [low, high] = stats.field_5 && stats.field_6 && trust.usesBounds && upper ? [trust.usesLowerBounds ? stats.field_6 : new Uint8Array(), upper]
    : stats.field_1 && stats.field_2 && !stats.field_5 && !stats.field_6 && trust.usesDeprecatedBounds ? [stats.field_2, stats.field_1] : []
  const isCounted = [1, 2, 5, 6, 9].some(number => stats[`field_${number}`] !== undefined) // with bounds, or a NaN count
  const counted = stats.field_3 === undefined || !trust.usesNullCounts ? -1 : Number(stats.field_3)
  const nulls = type.leaf.isRequired ? 0 : counted <= numRows && (counted > 0 || isCounted) ? Math.max(counted, -1) : -1
  return {
    ...(low && { low: type.ofBytes(low), high: type.ofBytes(high) }),
    ...(nulls >= 0 && { hasNulls: nulls > 0, hasValues: nulls < numRows }),
    nulls,
    isExact: !type.isBytes && nulls === 0 && stats.field_7 !== false && stats.field_8 !== false, // nulls of dictionaries may have values
  }
}

/** Whether a row group might match, by the statistics of its chunk. @param {Condition} condition @param {Chunk} chunk @param {Trust} trust */
export function mightMatchStatistics(condition, chunk, trust) {
  return condition.mightMatch(statisticsOf(condition.type, chunk, trust))
}

/**
 * Compare the pages of a chunk with its statistics. Bounds may be truncated, so lower bounds may be below all values, and
 * upper bounds above them.
 *
 * @param {(Facts & { nulls?: number, numRows: number })[]} pages
 * @param {ReturnType<typeof statisticsOf>} chunk
 * @throws {Contradiction} if no values fit both
 */
function compare(pages, chunk) {
  const refuse = (/** @type {boolean} */ is, /** @type {string} */ problem) => {
    if (is) throw new Contradiction(`the page index contradicts the statistics: ${problem}`)
  }
  const bounded = pages.filter(page => isBounded(page))
  const least = pages.reduce((sum, page) => sum + (page.nulls ?? (page.hasValues === false ? page.numRows : 0)), 0)
  refuse(chunk.hasValues === false && bounded.length > 0, 'all values are null, but pages have bounds')
  refuse(chunk.nulls >= 0 && (least > chunk.nulls || (least < chunk.nulls && pages.every(page => page.nulls !== undefined))), 'the null counts differ')
  if (!isBounded(chunk) || !bounded.length) return
  const [low, high] = /** @type {any[]} */ ([chunk.low, chunk.high])
  const all = /** @type {{ low: any, high: any }[]} */ (bounded)
  refuse(all.some(page => page.low > high || page.high < low), 'a page has no value within the bounds')
  if (!chunk.isExact || !pages.every(page => isBounded(page) || page.hasValues === false)) return
  refuse(all.every(page => page.low > low) || all.every(page => page.high < high), 'no page can have the bounds, which are values')
  refuse(all.some(page => page.low < low || page.high > high), 'a page has a bound outside of the bounds') // numbers are not truncated
}

/** Whether bounds are known, and not NaN. @param {Facts} facts */
function isBounded({ low, high }) {
  return low !== undefined && low !== null && high !== undefined && high !== null && low === low && high === high
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
 * @throws {Contradiction} if the statistics are other ones
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
  const pages = starts.map((/** @type {number} */ row, /** @type {number} */ page) => {
    const numRows = (starts[page + 1] ?? chunk.numRows) - row
    const nulls = nullCounts && Number(nullCounts[page])
    check(!nullPages[page] || !nullCounts || nulls === numRows, 'a null page of the page index has values')
    return {
      ...(nullPages[page] ? { hasValues: false } : { low: condition.type.ofBytes(lows[page]), high: condition.type.ofBytes(highs[page]) }),
      ...(nullCounts && { hasNulls: nulls > 0, nulls }),
      start: chunk.start + row,
      numRows,
    }
  })
  compare(pages, statisticsOf(condition.type, chunk, trust))
  return merge(pages.filter((/** @type {Facts} */ page) => condition.mightMatch(page))
    .map((/** @type {{ start: number, numRows: number }} */ { start, numRows }) => [start, start + numRows]))
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
