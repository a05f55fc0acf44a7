/** The kinds of embedded indexes: what their payloads say about a condition. */
import { readBatch } from './arrow.js'
import { check, xxh3 } from './directory.js'
import { merge, rowsOfGranules } from './rows.js'
import { bytesOf } from './values.js'
import { sbbfContains } from 'hyparquet/src/bloom.js'

/** @import { Batch } from './arrow.js' */
/** @import { Condition } from './condition.js' */
/** @import { Entry, Payload } from './directory.js' */
/** @import { Footer } from './footer.js' */
/** @import { Rows } from './rows.js' */

/** Longer lists are not looked up value by value. */
const MAX_LOOKUPS = 1024
/** The limit on the granules of a file. */
const MAX_GRANULES = 1 << 24
/** A lookup that would read more of a `bloom_granule` is not made. */
const MAX_PROBE_BYTES = 1 << 24
/** What the first read of a `bloom_granule` reads. */
const HEAD_BYTES = 4096

/**
 * A kind: the parameters of its latest version, whether a payload of it decides a condition, and the rows that it does
 * not exclude, or undefined for all rows.
 *
 * @typedef {{ version: number, parameters: string[], canPrune: (condition: Condition, entry: Entry) => boolean, isProbed?: true,
 *   candidates: (condition: Condition, entry: Entry, payload: Payload, footer: Footer) => Promise<Rows | undefined> }} Kind
 */

/** @type {Record<string, Kind>} */
export const KINDS = {
  distinct: {
    version: 2,
    parameters: ['column', 'granularity', 'max_values', 'form'],
    canPrune: (_, entry) => (entry.parameters.form ?? 'granules') === 'granules',
    async candidates(condition, entry, payload, footer) {
      const { batch, edges } = await openGranules(entry, payload, footer)
      const { value: listed, granules } = columns(batch, ['value', 'granules'])
      check(condition.operator === 'is null' || condition.type.isField(listed.field), 'its values have another type than the column')
      const hit = listedBy(batch, edges)
      listed.values.forEach((value, i) => {
        for (const granule of granules.values[i]) {
          check(granule < edges.length - 1, `granule ${granule} does not exist`)
          if (condition.matches(value)) hit.add(granule)
        }
      })
      return rowsOfGranules(edges, granule => hit.has(granule))
    },
  },

  zone_map: {
    version: 2,
    parameters: ['column', 'granularity'],
    canPrune: condition => condition.operator !== 'contains',
    async candidates(condition, entry, payload, footer) {
      const { batch, edges } = await openGranules(entry, payload, footer)
      const found = columns(batch, ['min', 'max', 'exact', 'sum', 'num_rows', 'null_count', 'nan_count'])
      check(batch.columns.size === 7, 'it has other columns')
      check(batch.numRows === edges.length - 1, 'it describes other granules')
      const { min, max } = found
      if (condition.operator !== 'is null' && !condition.type.isField(min.field)) return undefined
      const facts = min.values.map((low, granule) => {
        const [rows, nulls, nans] = [found.num_rows, found.null_count, found.nan_count].map(column => Number(column.values[granule]))
        const hasBounds = rows - nulls - nans > 0
        check(rows === edges[granule + 1] - edges[granule], 'its row counts are not those of its granules')
        check(nulls >= 0 && nans >= 0 && nulls + nans <= rows, 'a granule has more nulls and NaN than rows')
        check(min.field.type === 1 || ((low !== null) === hasBounds && (max.values[granule] !== null) === hasBounds), 'bounds contradict the counts')
        return { low, high: max.values[granule], hasNulls: nulls > 0, hasValues: hasBounds }
      })
      return rowsOfGranules(edges, granule => condition.mightMatch(facts[granule]))
    },
  },

  ngram: {
    version: 2,
    parameters: ['column', 'n', 'granularity', 'ignore_case', 'max_grams'],
    canPrune: (condition, entry) => condition.type.isText && requiredGrams(condition, entry) !== undefined,
    async candidates(condition, entry, payload, footer) {
      const required = requiredGrams(condition, entry)
      if (!required) return undefined
      const { batch, edges } = await openGranules(entry, payload, footer)
      check(batch.numRows === 1, `it has ${batch.numRows} rows`)
      const lists = columns(batch, ['gram_steps', 'counts', 'granule_steps'])
      const [steps, counts, granuleSteps] = [lists.gram_steps, lists.counts, lists.granule_steps].map(list => list.values[0])
      check(steps?.length === counts?.length, 'the lengths of its lists do not agree')
      const wanted = new Set(required.flat())
      /** @type {Map<number, Set<number>>} */
      const granulesOf = new Map()
      let at = 0
      let gram = 0
      for (let i = 0; i < steps.length; i++) {
        gram += steps[i]
        check(at + counts[i] <= granuleSteps.length, 'the lengths of its lists do not agree')
        if (wanted.has(gram)) {
          let granule = 0
          const found = new Set()
          for (let j = at; j < at + counts[i]; j++) found.add(granule += granuleSteps[j])
          check(granule < edges.length - 1, `granule ${granule} does not exist`)
          granulesOf.set(gram, found)
        }
        at += counts[i]
      }
      check(at === granuleSteps.length, 'the lengths of its lists do not agree')
      const unlisted = listedBy(batch, edges)
      return rowsOfGranules(edges, granule => unlisted.has(granule) ||
        required.some(grams => grams.every(one => granulesOf.get(one)?.has(granule))))
    },
  },

  row_map: {
    version: 1,
    parameters: ['column'],
    isProbed: true,
    canPrune: isHashLookup,
    async candidates(condition, _, payload, { numRows }) {
      const rowBits = Math.max(numRows - 1, 1).toString(2).length
      const bucketBits = Math.max(rowBits - 8, 0)
      const entryBytes = Math.ceil((rowBits + 16) / 8)
      const hashBits = Math.min(bucketBits + 8 * entryBytes, 64) - rowBits
      const tableBytes = 16 * 2 ** bucketBits + 8
      const numEntries = (payload.byteLength - tableBytes) / entryBytes
      check(Number.isInteger(numEntries) && numEntries >= 0 && numEntries <= numRows, 'it is truncated, or describes other rows')
      const hash3 = await xxh3()
      /** @param {bigint} value */
      const lookUp = async value => {
        const prefix = value >> BigInt(64 - hashBits)
        const bucket = Number(prefix >> BigInt(hashBits - bucketBits))
        const rest = prefix & (1n << BigInt(hashBits - bucketBits)) - 1n
        const [slot] = await payload.ranges([[16 * bucket, 16 * bucket + 24]])
        const view = new DataView(slot.buffer, slot.byteOffset)
        const [start, checksum, stop] = [view.getBigUint64(0, true), view.getBigUint64(8, true), view.getBigUint64(16, true)]
        check(start <= stop && stop <= BigInt(numEntries), 'a bucket is outside the payload')
        const [entries] = await payload.ranges([[tableBytes + Number(start) * entryBytes, tableBytes + Number(stop) * entryBytes]])
        const about = new BigUint64Array([BigInt(numRows), BigInt(bucket), 1n])
        if (hash3(new Uint8Array(about.buffer), entries) !== checksum) {
          about[2] = 0n
          check(start === stop && hash3(new Uint8Array(about.buffer)) === checksum, 'a bucket is damaged')
          return undefined // too many rows to be stored
        }
        /** @type {Rows} */
        const rows = []
        for (let at = 0; at < entries.length; at += entryBytes) {
          let entry = 0n
          for (let byte = entryBytes - 1; byte >= 0; byte--) entry = entry << 8n | BigInt(entries[at + byte])
          if (entry >> BigInt(rowBits) !== rest) continue
          const row = Number(entry & (1n << BigInt(rowBits)) - 1n)
          check(row < numRows, `row ${row} does not exist`)
          rows.push([row, row + 1])
        }
        return rows
      }
      const found = await Promise.all(hashesOf(condition).map(lookUp))
      return found.includes(undefined) ? undefined : merge(/** @type {Rows[]} */ (found).flat())
    },
  },

  bloom_granule: {
    version: 1,
    parameters: ['column', 'fpp', 'granularity'],
    isProbed: true,
    canPrune: isHashLookup,
    async candidates(condition, _, payload, { numRows }) {
      check(payload.byteLength >= 16, 'it is truncated')
      const [head] = await payload.ranges([[0, Math.min(HEAD_BYTES, payload.byteLength)]])
      const view = new DataView(head.buffer, head.byteOffset)
      const [numGranules, numBlocks] = [view.getUint32(0, true), view.getUint32(4, true)]
      const headBytes = 16 + 8 * (numGranules + 1)
      const rowBytes = 32 * numGranules + 8
      check(numBlocks > 0 && headBytes + numBlocks * rowBytes === payload.byteLength, 'it has another length')
      const hashes = hashesOf(condition)
      const blockOf = hashes.map(hash => Number((hash >> 32n) * BigInt(numBlocks) >> 32n))
      const blocks = [...new Set(blockOf)]
      if (blocks.length * rowBytes > MAX_PROBE_BYTES) return undefined
      const start = (/** @type {number} */ block) => headBytes + block * rowBytes
      const [shape, ...rows] = await payload.ranges([[0, headBytes], ...blocks.map(block => /** @type {[number, number]} */ ([start(block), start(block + 1)]))])
      const hash3 = await xxh3()
      const checksum = shape.slice(8, 16)
      const stored = (/** @type {Uint8Array} */ bytes) => new DataView(bytes.buffer, bytes.byteOffset).getBigUint64(0, true)
      check(hash3(shape.subarray(0, 8), shape.subarray(16)) === stored(checksum), 'its edges are damaged')
      const edges = Array.from(new BigInt64Array(shape.slice(16).buffer), Number)
      checkEdges(edges, numRows)
      /** @type {Map<number, Uint32Array>} */
      const words = new Map()
      rows.forEach((row, i) => {
        const bits = row.subarray(0, -8)
        const ordinal = new BigUint64Array([BigInt(blocks[i])])
        check(hash3(checksum, new Uint8Array(ordinal.buffer), bits) === stored(row.slice(-8)), 'a block is damaged')
        words.set(blocks[i], new Uint32Array(bits.slice().buffer))
      })
      return rowsOfGranules(edges, granule => hashes.some((hash, i) =>
        sbbfContains(/** @type {Uint32Array} */ (words.get(blockOf[i])).subarray(8 * granule, 8 * granule + 8), hash)))
    },
  },
}

/** @param {Condition} condition */
function isHashLookup(condition) {
  return condition.isLookup && condition.values.length <= MAX_LOOKUPS && condition.type.physical !== 'BOOLEAN'
}

/** @param {Condition} condition @returns {bigint[]} */
function hashesOf(condition) {
  const hashes = condition.values.map(value => condition.type.hash(value))
  return [...new Set(hashes)].filter(hash => hash !== undefined)
}

/**
 * Read the batch of a payload with granules.
 *
 * @param {Entry} entry
 * @param {Payload} payload
 * @param {Footer} footer
 */
async function openGranules(entry, payload, footer) {
  const batch = readBatch(await payload.all())
  return { batch, edges: edgesOf(entry.granularity, batch, footer) }
}

/** @param {Batch} batch @param {string[]} names @returns {Record<string, { field: any, values: any[] }>} */
function columns(batch, names) {
  return Object.fromEntries(names.map(name => {
    const column = batch.columns.get(name)
    if (!column) throw new Error(`it has no column ${name}`)
    return [name, column]
  }))
}

/** The numbers of a key of the metadata: a JSON array, or in version 1 the bytes of integers under another key.
 *
 * @param {Batch} batch
 * @param {string} key
 * @param {string} rawKey
 * @param {typeof BigInt64Array | typeof Uint32Array} RawType
 * @returns {number[]}
 */
function numbers(batch, key, rawKey, RawType) {
  const text = batch.metadata.get(key)
  const raw = batch.metadata.get(rawKey)
  if (text) {
    const found = JSON.parse(new TextDecoder().decode(text))
    check(Array.isArray(found) && found.every(one => Number.isSafeInteger(one) && one >= 0), `${key} is not a list of ordinals`)
    return found
  }
  if (!raw) throw new Error(`the metadata has no ${key}`)
  check(raw.length % RawType.BYTES_PER_ELEMENT === 0, `${rawKey} has a wrong length`)
  return Array.from(/** @type {any} */ (new RawType(raw.slice().buffer)), Number)
}

/** The granules that are not listed, so that they cannot be excluded. @param {Batch} batch @param {number[]} edges */
function listedBy(batch, edges) {
  const unlisted = numbers(batch, 'unlisted_granules', 'unlisted', Uint32Array)
  check(unlisted.every(granule => granule < edges.length - 1), 'an unlisted granule does not exist')
  return new Set(unlisted)
}

/** @param {string | number} granularity @param {Batch} batch @param {Footer} footer */
function edgesOf(granularity, batch, footer) {
  if (granularity === 'file') return [0, footer.numRows]
  if (granularity === 'row_group') return footer.edges
  if (granularity === 'page') {
    const edges = numbers(batch, 'granule_edges', 'edges', BigInt64Array)
    checkEdges(edges, footer.numRows)
    return edges
  }
  check(typeof granularity === 'number', `granularity ${granularity} is unknown`)
  const step = /** @type {number} */ (granularity)
  check(footer.numRows / step < MAX_GRANULES, 'the file has too many granules')
  const edges = []
  for (let group = 0; group + 1 < footer.edges.length; group++) {
    for (let row = footer.edges[group]; row < footer.edges[group + 1]; row += step) edges.push(row)
  }
  return [...edges, footer.numRows]
}

/** @param {number[]} edges @param {number} numRows */
function checkEdges(edges, numRows) {
  const isRight = edges[0] === 0 && edges[edges.length - 1] === numRows && edges.every((edge, i) => !i || edges[i - 1] <= edge)
  check(isRight, 'its edges are not those of the file')
}

/**
 * Return the grams of each alternative, all of which a match contains; undefined if there may be none.
 *
 * @param {Condition} condition
 * @param {Entry} entry
 * @returns {number[][] | undefined}
 */
function requiredGrams(condition, entry) {
  const { n, ignore_case: ignoresCase = false } = entry.parameters
  if (![2, 3, 4].includes(n)) return undefined
  const isWhole = condition.isLookup || condition.operator === 'starts with'
  if ((!isWhole && condition.operator !== 'contains') || condition.values.length > MAX_LOOKUPS) return undefined
  const alternatives = condition.values.map(value => {
    const bytes = bytesOf((isWhole ? '\xff' : '') + (ignoresCase ? fold(/** @type {string} */ (value)) : value))
    /** @type {Set<number>} */
    const grams = new Set()
    for (let at = 0; at + n <= bytes.length; at++) {
      grams.add(bytes.subarray(at, at + n).reduce((gram, byte) => gram * 256 + byte, 0))
    }
    return [...grams]
  })
  return alternatives.every(grams => grams.length) ? alternatives : undefined
}

/** Fold the UTF-8 of a text: A to Z, the Kelvin sign (U+212A), and the long s (U+017F). @param {string} text a byte string */
function fold(text) {
  return text.replace(/[A-Z]/g, one => one.toLowerCase()).replaceAll('\xe2\x84\xaa', 'k').replaceAll('\xc5\xbf', 's')
}
