/** The footer of a Parquet file: raw Thrift fields by number, its leaves, and the layout fingerprint. */
import { createXXHash128 } from 'hash-wasm'
import { deserializeTCompactProtocol } from 'hyparquet/src/thrift.js'

const utf8 = new TextDecoder()
const encoder = new TextEncoder()

/** The members of LogicalType that have a name in version 1 of the fingerprint. All others are "?". */
const MEMBERS = [
  undefined, 'STRING', 'MAP', 'LIST', 'ENUM', 'DECIMAL', 'DATE', 'TIME', 'TIMESTAMP', undefined, 'INTEGER', 'UNKNOWN', 'JSON',
  'BSON', 'UUID', 'FLOAT16', 'VARIANT', 'GEOMETRY', 'GEOGRAPHY',
]

/**
 * A column chunk; `meta` are the raw fields of ColumnMetaData.
 *
 * @typedef {{ meta: any, rowGroup: number, start: number, numRows: number, offsetIndex?: [number, number],
 *   columnIndex?: [number, number], bloomFilter?: [number, number], bytes: number }} Chunk
 */

/** A leaf of the schema that is not nested, or is (`isFlat` is false).
 *
 * @typedef {{ ordinal: number, path: string[], name: string, element: any, isFlat: boolean, isRequired: boolean,
 *   inStruct: boolean, logical: [string, any] | undefined, order: number | undefined }} Leaf
 */

export class Footer {
  /** @param {Uint8Array} bytes without length and magic @param {number} start */
  constructor(bytes, start) {
    const raw = deserializeTCompactProtocol({ view: new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength), offset: 0 })
    /** @type {any} */
    this.raw = raw
    this.start = start
    this.createdBy = raw.field_6 ? utf8.decode(raw.field_6) : ''
    /** The writer, and those whose pages and metadata it has copied, as the rewriter of parquet-mr names them. */
    this.writers = [this.createdBy, ...(this.value('original.created.by') ?? '').split('\n').filter(Boolean)]
    this.leaves = leavesOf(raw.field_2, raw.field_7)
    this.edges = [0]
    for (const group of raw.field_4) this.edges.push(this.edges[this.edges.length - 1] + Number(group.field_3))
    this.numRows = this.edges[this.edges.length - 1]
  }

  /** The value of a key; of equal keys the first counts. @param {string} key */
  value(key) {
    const found = this.raw.field_5?.find((/** @type {any} */ one) => utf8.decode(one.field_1) === key)
    return found && utf8.decode(found.field_2 ?? new Uint8Array())
  }

  /** The chunks of a leaf in row groups with rows. @param {Leaf} leaf @returns {Chunk[]} */
  chunks(leaf) {
    return this.raw.field_4.flatMap((/** @type {any} */ group, /** @type {number} */ rowGroup) => {
      const chunk = group.field_1[leaf.ordinal]
      const meta = chunk.field_3
      if (!meta || chunk.field_1 || !Number(group.field_3)) return []
      return [{
        meta, rowGroup, start: this.edges[rowGroup], numRows: Number(group.field_3), bytes: Number(meta.field_7),
        offsetIndex: range(chunk.field_4, chunk.field_5), columnIndex: range(chunk.field_6, chunk.field_7),
        bloomFilter: range(meta.field_14, meta.field_15),
      }]
    })
  }

  /** @param {string} name @returns {Leaf} */
  leaf(name) {
    const found = this.leaves.find(leaf => leaf.name === name)
    if (!found) throw new Error(`there is no column '${name}'; the columns are ${this.leaves.map(leaf => leaf.name).join(', ')}`)
    return found
  }
}

/** @param {bigint | undefined} offset @param {number | undefined} length @returns {[number, number] | undefined} */
function range(offset, length) {
  return offset && length ? [Number(offset), Number(offset) + length] : undefined
}

/** @param {any[]} elements @param {any[] | undefined} orders @returns {Leaf[]} */
function leavesOf(elements, orders) {
  /** @type {Leaf[]} */
  const leaves = []
  let at = 1
  /** @param {string[]} path @param {boolean} isFlat @param {boolean} isRequired */
  const visit = (path, isFlat, isRequired) => {
    const element = elements[at++]
    if (!element || path.length > 100) throw new Error('the schema is not a tree')
    const here = [...path, utf8.decode(element.field_4)]
    const flat = isFlat && element.field_3 !== 2
    const required = isRequired && (element.field_3 ?? 0) === 0
    if (element.field_1 === undefined) {
      for (let child = 0; child < (element.field_5 ?? 0); child++) visit(here, flat, required)
      return
    }
    const member = Object.keys(element.field_10 ?? {})[0]
    leaves.push({
      ordinal: leaves.length, path: here, name: here.join('.'), element, isFlat: flat, isRequired: required, inStruct: here.length > 1,
      logical: member ? [MEMBERS[Number(member.slice(6))] ?? '?', element.field_10[member]] : undefined,
      order: orders && Number(Object.keys(orders[leaves.length] ?? {})[0]?.slice(6)),
    })
  }
  for (let child = 0; child < (elements[0].field_5 ?? 0); child++) visit([], true, true)
  return leaves
}

/** Return the layout fingerprint of a footer, 32 hexadecimal digits. @param {any} raw */
export async function fingerprint(raw) {
  /** @type {Uint8Array[]} */
  const parts = []
  /** @param {...(number | bigint | undefined)} values */
  const integers = (...values) => {
    const view = new DataView(new ArrayBuffer(8 * values.length))
    values.forEach((value, i) => view.setBigInt64(8 * i, BigInt(value ?? -1), true))
    parts.push(new Uint8Array(view.buffer))
  }
  /** @param {Uint8Array} bytes */
  const text = bytes => {
    const valid = encoder.encode(new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes)) // replaces what is not UTF-8
    integers(valid.length)
    parts.push(valid)
  }
  integers(raw.field_2.length)
  for (const element of raw.field_2) {
    text(element.field_4)
    integers(...[1, 2, 3, 5, 6, 7, 8].map(number => element[`field_${number}`]))
    const [name, numbers] = logicalNumbers(element.field_10)
    text(encoder.encode(name))
    integers(numbers.length, ...numbers)
  }
  integers(raw.field_4.length)
  for (const group of raw.field_4) {
    const metas = group.field_1.map((/** @type {any} */ chunk) => chunk.field_3)
    integers(group.field_3, metas.length)
    for (const meta of metas) {
      if (!meta) integers(-1)
      else integers(meta.field_1, meta.field_4, meta.field_5, meta.field_9, meta.field_11 ?? 0, meta.field_7, meta.field_6, meta.field_2.length, ...meta.field_2)
    }
    for (const meta of metas) {
      if (!meta) continue
      integers(meta.field_3?.length ?? 0)
      meta.field_3?.forEach(text)
    }
  }
  const hash = await createXXHash128(0, 0)
  hash.init()
  parts.forEach(part => hash.update(part))
  return hash.digest('hex')
}

/** @param {any} union @returns {[string, (number | undefined)[]]} */
function logicalNumbers(union) {
  if (!union) return ['', []]
  const member = Object.keys(union)[0]
  const name = MEMBERS[Number(member?.slice(6))] ?? '?'
  const fields = union[member]
  if (name === 'DECIMAL') return [name, [fields.field_1, fields.field_2]]
  if (name === 'INTEGER') return [name, [fields.field_1, Number(fields.field_2)]]
  if (name !== 'TIME' && name !== 'TIMESTAMP') return [name, []]
  const unit = Number(Object.keys(fields.field_2)[0]?.slice(6) ?? 0)
  return [name, [Number(fields.field_1), unit <= 3 ? unit : 0]]
}
