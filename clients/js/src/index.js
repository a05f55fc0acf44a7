/**
 * Reads Parquet files with Intarsia's indexes, in browsers and in Node: over HTTP by ranges, or from a Blob.
 * Written from docs/format.md. hyparquet decodes the pages.
 *
 *     import { open } from 'intarsia'
 *     const file = await open('https://example.org/flights.parquet')
 *     const { rows, report } = await file.scan({ where: [['dest', '=', 'LEX']], columns: ['carrier', 'flight'] })
 */
import { parquetMetadata, parquetReadObjects } from 'hyparquet'
import { compressors } from 'hyparquet-compressors'
import { Condition } from './condition.js'
import { findDirectory, Payload } from './directory.js'
import { fingerprint, Footer } from './footer.js'
import { Contradiction, mightMatchBloom, mightMatchStatistics, pagesOf, pagesThatMightMatch, pageStarts } from './parquet.js'
import { KINDS } from './payloads.js'
import { count, intersect, merge } from './rows.js'
import { blobSource, httpSource, Source } from './source.js'
import { Trust } from './trust.js'
import { ValueType } from './values.js'

/** @import { Chunk } from './footer.js' */
/** @import { Directory, Entry } from './directory.js' */
/** @import { Rows } from './rows.js' */
/** @typedef {[string, string, any?]} Where */

export { Source }

/** An index that is probed reads about so many bytes. */
const PROBE_BYTES = 4096

/** The dictionary page of a chunk of nulls is empty, which the LZ4 of hyparquet-compressors 1.1.2 refuses. @type {typeof compressors} */
const decompressors = Object.fromEntries(Object.entries(compressors).map(([codec, decompress]) =>
  [codec, (/** @type {Uint8Array} */ input, /** @type {number} */ length) => (length ? decompress(input, length) : new Uint8Array())]))

/** Kinds that a reader may know without using them for conditions. */
const UNUSED_KINDS = ['hll', 'histogram', 'sample']

/**
 * Open a file.
 *
 * @param {string | Blob | Source} from a URL, a Blob or File, or another source of ranges
 * @param {{ fetch?: typeof fetch, request?: RequestInit }} [options]
 * @returns {Promise<IndexedFile>}
 * @throws if it is not a Parquet file, or the server does not support ranges
 */
export async function open(from, options = {}) {
  const source = from instanceof Source ? from : typeof from === 'string' ? await httpSource(from, options.fetch, options.request) : blobSource(from)
  const { name, byteLength } = source
  if (byteLength < 12) throw new Error(`${name}: ${byteLength} bytes are too few for a Parquet file`)
  const end = new DataView(await source.slice(byteLength - 8))
  if (end.getUint32(4, true) !== 0x31524150) throw new Error(`${name}: it does not end with PAR1, so it is not a Parquet file, or encrypted`)
  const start = byteLength - 8 - end.getUint32(0, true)
  if (start < 4) throw new Error(`${name}: the footer is longer than the file; it is truncated`)
  const tail = await source.slice(start)
  const footer = new Footer(new Uint8Array(tail, 0, tail.byteLength - 8), start)
  const file = new IndexedFile(source, footer, parquetMetadata(tail, { geoparquet: false }))
  try {
    file.directory = await findDirectory(footer)
  } catch (error) {
    file.ignore('directory', error)
  }
  return file
}

/** An open file. */
export class IndexedFile {
  /** @param {Source} source @param {Footer} footer @param {any} metadata hyparquet's */
  constructor(source, footer, metadata) {
    this.source = source
    this.footer = footer
    this.metadata = metadata
    this.numRows = footer.numRows
    this.columns = footer.leaves.map(leaf => leaf.name)
    /** @type {Directory | undefined} undefined if there is none, or if it does not belong to the file */
    this.directory = undefined
    /** @type {Map<string, string>} the indexes that are not used, and why */
    this.ignored = new Map()
    /** @type {Map<string, Payload>} */
    this.payloads = new Map()
  }

  get footerStart() { return this.footer.start }
  get edges() { return this.footer.edges }
  get createdBy() { return this.footer.createdBy }

  /** The chunks of a leaf column in row groups with rows. @param {string} name @returns {Chunk[]} */
  chunks(name) {
    return this.footer.chunks(this.footer.leaf(name))
  }

  /** The layout fingerprint of the file. @returns {Promise<string>} */
  fingerprint() {
    return fingerprint(this.footer.raw)
  }

  /** The embedded indexes, and whether conditions use them. */
  get indexes() {
    return (this.directory?.entries ?? []).map(entry => ({
      name: entry.name, kind: entry.kind, columns: entry.columns.map(path => path.join('.')), granularity: entry.granularity,
      offset: entry.offset, bytes: entry.length ?? 0, isUsed: this.isUsable(entry) && !this.ignored.has(entry.name), ignored: this.ignored.get(entry.name),
    }))
  }

  /** @param {string} index @param {unknown} error */
  ignore(index, error) {
    this.ignored.set(index, error instanceof Error ? error.message : String(error))
  }

  /** Whether the kind, its version and its parameters are known. @param {Entry} entry */
  isUsable(entry) {
    if (UNUSED_KINDS.includes(entry.kind)) return false
    const kind = KINDS[entry.kind]
    const { column, granularity = entry.granularity } = entry.parameters
    if (!kind) this.ignore(entry.name, `its kind '${entry.kind}' is unknown`)
    else if (entry.kind_version > kind.version) this.ignore(entry.name, `it has version ${entry.kind_version}, and the latest known version is ${kind.version}`)
    else if (Object.keys(entry.parameters).some(name => !kind.parameters.includes(name))) this.ignore(entry.name, 'it has unknown parameters')
    else if (entry.columns.length !== 1 || column !== entry.columns[0].join('.') || granularity !== entry.granularity) {
      this.ignore(entry.name, 'its parameters name another column or granularity')
    } else return true
    return false
  }

  /**
   * Return the rows that an embedded index does not exclude; undefined if it does not decide the condition, or is ignored.
   *
   * @param {string} name of an entry of the directory
   * @param {Where} where
   * @returns {Promise<Rows | undefined>}
   */
  async candidates(name, where) {
    const entry = this.directory?.entries.find(one => one.name === name)
    const condition = new Condition(this.footer, where)
    return entry && this.applies(entry, condition) ? this.ask(entry, condition) : undefined
  }

  /** @param {Entry} entry @param {Condition} condition */
  applies(entry, condition) {
    return entry.columns.length === 1 && entry.columns[0].join('\0') === condition.leaf.path.join('\0') && this.isUsable(entry) &&
      !entry.int96_unit && KINDS[entry.kind].canPrune(condition, entry)
  }

  /** @param {Entry} entry @param {Condition} condition @returns {Promise<Rows | undefined>} */
  async ask(entry, condition) {
    if (this.ignored.has(entry.name)) return undefined
    try {
      let payload = this.payloads.get(entry.name)
      if (!payload) this.payloads.set(entry.name, payload = new Payload(this.source, /** @type {Directory} */ (this.directory), entry))
      return await KINDS[entry.kind].candidates(condition, entry, payload, this.footer)
    } catch (error) {
      this.ignore(entry.name, error)
      return undefined
    }
  }

  /**
   * Read the rows that match all conditions.
   *
   * @param {{ where?: Where[], columns?: string[], limit?: number }} [query] all rows and columns by default
   */
  async scan({ where = [], columns, limit = Infinity } = {}) {
    const { source } = this
    const before = { bytes: source.bytes, requests: source.requests }
    const names = columns ?? [...new Set(this.footer.leaves.map(leaf => leaf.path[0]))]
    for (const name of names) {
      if (!this.footer.leaves.some(leaf => leaf.path[0] === name)) throw new Error(`there is no column '${name}'; the columns are ${this.columns.join(', ')}`)
    }
    const { rows, candidates, prunedBy, steps } = await this.locate(where, names)
    const found = await this.read(this.metadata, names, firstRows(rows, limit))
    return {
      rows: found,
      trace: { steps, matches: rows, ranges: merge(source.ranges) },
      report: {
        rows: { total: this.numRows, candidates, matched: count(rows) },
        bytes: source.bytes - before.bytes,
        requests: source.requests - before.requests,
        prunedBy,
        ignored: Object.fromEntries(this.ignored),
      },
    }
  }

  /**
   * Find the rows that match all conditions.
   *
   * @param {Where[]} where
   * @param {string[]} [columns] those that will be read of the rows, which decides the indexes that are worth reading
   */
  async locate(where, columns = []) {
    const conditions = where.map(one => new Condition(this.footer, one))
    /** @type {{ index: string, rows: number }[]} */
    const prunedBy = []
    /** @type {{ index: string, column: string, left: Rows }[]} */
    const steps = []
    /** @type {Rows} */
    let rows = merge([[0, this.numRows]])
    /** @param {string} index @param {string} column @param {Rows | undefined} found */
    const narrow = (index, column, found) => {
      const left = found ? intersect(rows, found) : rows
      if (count(left) < count(rows)) {
        prunedBy.push({ index, rows: count(rows) - count(left) })
        steps.push({ index, column, left })
      }
      rows = left
    }
    for (const condition of conditions) narrow('statistics', condition.leaf.name, this.rowsByStatistics(condition))
    const read = [...columns, ...conditions.map(condition => condition.leaf.name)]
    for (const proof of conditions.flatMap(condition => this.proofs(condition)).sort((a, b) => a.bytes - b.bytes)) {
      if (rows.length && proof.bytes < this.costOf(rows, read)) narrow(proof.name, proof.column, await proof.ask(rows))
    }
    const candidates = count(rows)
    for (const condition of conditions) rows = await this.matching(condition, rows)
    return { rows, candidates, prunedBy, steps }
  }

  /** @param {Condition} condition @returns {Rows | undefined} */
  rowsByStatistics(condition) {
    if (this.ignored.has(`statistics(${condition.leaf.name})`)) return undefined
    const trust = new Trust(this.footer, condition.type, this.directory)
    const known = new Map(this.footer.chunks(condition.leaf).map(chunk => [chunk.rowGroup, chunk]))
    const { edges } = this.footer
    return merge(edges.slice(0, -1).flatMap((start, group) => {
      const chunk = known.get(group)
      return !chunk || mightMatchStatistics(condition, chunk, trust) ? [/** @type {[number, number]} */ ([start, edges[group + 1]])] : []
    }))
  }

  /**
   * The ways to exclude rows for a condition.
   *
   * @param {Condition} condition
   * @returns {{ name: string, column: string, bytes: number, ask: (rows: Rows) => Promise<Rows | undefined> }[]}
   */
  proofs(condition) {
    const trust = new Trust(this.footer, condition.type, this.directory)
    const chunks = this.footer.chunks(condition.leaf)
    const proofs = (this.directory?.entries ?? []).filter(entry => this.applies(entry, condition)).map(entry => ({
      name: entry.name,
      column: condition.leaf.name,
      bytes: entry.payload ? 0 : KINDS[entry.kind].isProbed ? Math.min(PROBE_BYTES, entry.length ?? 0) : entry.length ?? 0,
      ask: () => this.ask(entry, condition),
    }))
    /** @param {string} name @param {Chunk[]} those @param {(chunk: Chunk) => number} bytes @param {(chunk: Chunk) => Promise<Rows>} ask */
    const ofChunks = (name, those, bytes, ask) => {
      if (!those.length || this.ignored.has(name)) return
      proofs.push({
        name,
        column: condition.leaf.name,
        bytes: those.reduce((sum, chunk) => sum + bytes(chunk), 0),
        ask: async (/** @type {Rows | void} */ rows) => {
          const asked = those.filter(chunk => intersect(rows ?? [], [[chunk.start, chunk.start + chunk.numRows]]).length)
          const others = complement(asked, this.numRows)
          try {
            return merge([...others, ...(await Promise.all(asked.map(ask))).flat()])
          } catch (error) {
            this.ignore(name, error)
            if (error instanceof Contradiction) this.ignore(`statistics(${condition.leaf.name})`, error)
            return undefined
          }
        },
      })
    }
    const width = (/** @type {[number, number] | undefined} */ range) => (range ? range[1] - range[0] : 0)
    ofChunks(
      `page index(${condition.leaf.name})`, chunks.filter(chunk => chunk.columnIndex && chunk.offsetIndex && trust.hasOrder && trust.usesPageIndex(chunk)),
      chunk => width(chunk.columnIndex) + width(chunk.offsetIndex), chunk => pagesThatMightMatch(this.source, condition, chunk, trust),
    )
    if (condition.isLookup) {
      ofChunks(
        `bloom(${condition.leaf.name})`, chunks.filter(chunk => chunk.bloomFilter && trust.usesBloomFilter(chunk)), chunk => width(chunk.bloomFilter),
        async chunk => (await mightMatchBloom(this.source, condition, chunk) ? [[chunk.start, chunk.start + chunk.numRows]] : []),
      )
    }
    return proofs
  }

  /**
   * The data pages of a leaf column: first row, offset and bytes; a chunk without any of the rows, or without an
   * OffsetIndex, is one page.
   *
   * @param {string} name
   * @param {Rows} rows
   * @returns {Promise<{ start: number, offset: number, bytes: number }[]>}
   */
  async pages(name, rows) {
    const found = await Promise.all(this.footer.chunks(this.footer.leaf(name)).map(chunk => pagesOf(this.source, chunk, rows)))
    return found.flat()
  }

  /** The bytes of the pages of some columns in some rows, estimated. @param {Rows} rows @param {string[]} names */
  costOf(rows, names) {
    return this.footer.leaves.filter(leaf => names.includes(leaf.name) || names.includes(leaf.path[0])).reduce((sum, leaf) =>
      sum + this.footer.chunks(leaf).reduce((bytes, chunk) =>
        bytes + chunk.bytes * count(intersect(rows, [[chunk.start, chunk.start + chunk.numRows]])) / chunk.numRows, 0), 0)
  }

  /** The rows that match a condition, among some rows. @param {Condition} condition @param {Rows} rows @returns {Promise<Rows>} */
  async matching(condition, rows) {
    const { name } = condition.leaf
    const raw = { ...this.metadata, schema: this.metadata.schema.map((/** @type {any} */ element) =>
      (element.name === name && element.type ? { ...element, converted_type: undefined, logical_type: undefined } : element)) }
    const values = await this.readColumn(raw, name, rows)
    /** @type {Rows} */
    const found = []
    let at = 0
    for (const [start, stop] of rows) {
      for (let row = start; row < stop; row++) {
        if (condition.matches(condition.type.ofStored(values[at++]))) found.push([row, row + 1])
      }
    }
    return merge(found)
  }

  /** @param {any} metadata @param {string[]} columns @param {Rows} rows @returns {Promise<Record<string, any>[]>} */
  async read(metadata, columns, rows) {
    const values = await Promise.all(columns.map(name => this.readColumn(metadata, name, rows)))
    return Array.from({ length: count(rows) }, (_, row) => Object.fromEntries(columns.map((name, i) => [name, values[i][row]])))
  }

  /** Decode each page of a column with one of the rows once. @param {any} metadata @param {string} name @param {Rows} rows @returns {Promise<any[]>} */
  async readColumn(metadata, name, rows) {
    const leaves = this.footer.leaves.filter(leaf => leaf.path[0] === name)
    const chunks = leaves.map(leaf => {
      const trust = new Trust(this.footer, new ValueType(leaf), this.directory)
      return this.footer.chunks(leaf).map(chunk => (trust.usesPageIndex(chunk) ? chunk : { ...chunk, offsetIndex: undefined }))
    })
    const useOffsetIndex = chunks.flat().every(chunk => chunk.offsetIndex)
    const options = { file: this.source, metadata, columns: [name], compressors: decompressors, useOffsetIndex, utf8: metadata === this.metadata }
    const pages = await Promise.all(chunks.map(those => pageStarts(this.source, those, useOffsetIndex ? rows : [])))
    const parts = await Promise.all(withoutSharedPages(rows, pages).map(async ranges => {
      const start = ranges[0][0]
      const found = await parquetReadObjects({ ...options, rowStart: start, rowEnd: ranges[ranges.length - 1][1] })
      return ranges.flatMap(([first, stop]) => found.slice(first - start, stop - start).map(row => row[name]))
    }))
    return parts.flat()
  }
}

/**
 * Divide rows such that no page has rows of two parts.
 *
 * @param {Rows} rows
 * @param {number[][]} pages the first row of each page, for some leaf columns
 * @returns {Rows[]}
 */
function withoutSharedPages(rows, pages) {
  /** @type {Rows[]} */
  const parts = []
  const at = pages.map(() => 0) // the page of the last row so far
  const advance = (/** @type {number} */ row) => pages.map((starts, i) => {
    const before = at[i]
    while (at[i] + 1 < starts.length && starts[at[i] + 1] <= row) at[i]++
    return at[i] === before
  })
  for (const range of rows) {
    const isShared = advance(range[0]).includes(true)
    if (isShared && parts.length) parts[parts.length - 1].push(range)
    else parts.push([range])
    advance(range[1] - 1)
  }
  return parts
}

/** @param {Rows} rows @param {number} limit @returns {Rows} */
function firstRows(rows, limit) {
  /** @type {Rows} */
  const first = []
  for (const [start, stop] of rows) {
    if (limit <= 0) break
    first.push([start, Math.min(stop, start + limit)])
    limit -= stop - start
  }
  return first
}

/** The rows outside of some chunks. @param {Chunk[]} chunks ascending @param {number} numRows @returns {Rows} */
function complement(chunks, numRows) {
  const edges = [0, ...chunks.flatMap(chunk => [chunk.start, chunk.start + chunk.numRows]), numRows]
  /** @type {Rows} */
  const outside = []
  for (let i = 0; i < edges.length; i += 2) outside.push([edges[i], edges[i + 1]])
  return merge(outside)
}
