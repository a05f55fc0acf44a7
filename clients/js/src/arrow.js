/** Arrow IPC streams of one record batch, as in payloads: flat columns and lists of numbers. */
import { compressors } from 'hyparquet-compressors'
import { check } from './directory.js'

const MAX_EXPANDED_BYTES = 1 << 29
const MAX_SMALL_BYTES = 1 << 25
const MAX_EXPANSION = 256

/** The numbers of Arrow's `Type` union. */
export const TYPE = { NULL: 1, INT: 2, FLOAT: 3, BINARY: 4, UTF8: 5, BOOL: 6, DECIMAL: 7, DATE: 8, TIME: 9, TIMESTAMP: 10, LIST: 12, FIXED_SIZE_BINARY: 15, DURATION: 18 }

const utf8 = new TextDecoder()

/**
 * A field of the schema. `parameters` are the first scalar fields of its type, in Arrow's order.
 *
 * @typedef {{ name: string, type: number, bits: number, isSigned: boolean, unit: number, scale: number, hasZone: boolean,
 *   children: Field[] }} Field
 * @typedef {{ field: Field, values: any[] }} Column
 * @typedef {{ metadata: Map<string, Uint8Array>, columns: Map<string, Column>, numRows: number }} Batch
 */

/**
 * Numbers are bigint or number, text and binary are byte strings (one character per byte), null is null, and lists of
 * uint32 are typed arrays.
 *
 * @param {Uint8Array} stream
 * @returns {Batch}
 */
export function readBatch(stream) {
  const view = new DataView(stream.buffer, stream.byteOffset, stream.byteLength)
  /** @type {Field[] | undefined} */
  let fields
  /** @type {Map<string, Uint8Array>} */
  let metadata = new Map()
  let at = 0
  while (at + 8 <= stream.length) {
    check(view.getUint32(at, true) === 0xffffffff, 'a message of the Arrow stream does not start at its offset')
    const length = view.getInt32(at + 4, true)
    if (length === 0) break
    check(length > 0, 'a message of the Arrow stream has a negative length')
    const flat = new Flat(view)
    const message = flat.table(flat.follow(at + 8))
    const header = flat.table(flat.follow(message(2)))
    const body = at + 8 + length
    const kind = view.getUint8(message(1))
    if (kind === 1) {
      fields = flat.vector(header(1)).map(to => readField(flat, flat.follow(to)))
      metadata = new Map(flat.vector(header(2)).map(to => {
        const pair = flat.table(flat.follow(to))
        return [utf8.decode(flat.bytes(pair(0))), flat.bytes(pair(1))]
      }))
    } else if (kind === 3) {
      check(fields !== undefined, 'the Arrow stream has no schema')
      return { metadata, ...readColumns(flat, header, /** @type {Field[]} */ (fields), stream.subarray(body)) }
    } else throw new Error(`the Arrow stream has a message of type ${kind}`)
    at = body + (message(3) ? Number(view.getBigInt64(message(3), true)) : 0)
  }
  throw new Error('the Arrow stream has no record batch')
}

/** FlatBuffers. */
class Flat {
  /** @param {DataView} view */
  constructor(view) {
    this.view = view
  }

  /** Return a function from the number of a field to its position, or 0. @param {number} at */
  table(at) {
    const { view } = this
    const vtable = at - view.getInt32(at, true)
    const size = view.getUint16(vtable, true)
    return (/** @type {number} */ id) => {
      const slot = 4 + 2 * id
      const offset = slot < size ? view.getUint16(vtable + slot, true) : 0
      return offset ? at + offset : 0
    }
  }

  /** @param {number} at */
  follow(at) {
    return at + this.view.getUint32(at, true)
  }

  /** The positions of the items of a vector. @param {number} at @param {number} [itemBytes] */
  vector(at, itemBytes = 4) {
    if (!at) return []
    const start = this.follow(at)
    const length = this.view.getUint32(start, true)
    check(length * itemBytes <= this.view.byteLength, 'a vector is outside the Arrow stream')
    return Array.from({ length }, (_, i) => start + 4 + itemBytes * i)
  }

  /** @param {number} at */
  bytes(at) {
    if (!at) return new Uint8Array()
    const start = this.follow(at)
    return new Uint8Array(this.view.buffer, this.view.byteOffset + start + 4, this.view.getUint32(start, true))
  }
}

/** @param {Flat} flat @param {number} at @returns {Field} */
function readField(flat, at) {
  const { view } = flat
  const field = flat.table(at)
  check(!field(4), 'a column has a dictionary')
  const type = field(2) ? view.getUint8(field(2)) : 0
  const about = field(3) ? flat.table(flat.follow(field(3))) : () => 0
  const int = (/** @type {number} */ id, /** @type {number} */ absent) => (about(id) ? view.getInt32(about(id), true) : absent)
  const unit = (/** @type {number} */ absent) => (about(0) ? view.getInt16(about(0), true) : absent)
  const { INT, DECIMAL, FIXED_SIZE_BINARY, TIME, TIMESTAMP, DATE } = TYPE
  return {
    name: utf8.decode(flat.bytes(field(0))),
    type,
    // Int.bitWidth, Decimal.bitWidth (default 128), FixedSizeBinary.byteWidth, Time.bitWidth (default 32)
    bits: type === INT ? int(0, 0) : type === DECIMAL ? int(2, 128) : type === FIXED_SIZE_BINARY ? 8 * int(0, 0) : type === TIME ? int(1, 32) : 0,
    isSigned: type === INT && about(1) !== 0 && view.getUint8(about(1)) === 1,
    scale: type === DECIMAL ? int(1, 0) : 0,
    unit: unit(type === DATE || type === TIME || type === TYPE.DURATION ? 1 : 0),
    hasZone: type === TIMESTAMP && about(1) !== 0,
    children: flat.vector(field(5)).map(to => readField(flat, flat.follow(to))),
  }
}

/** @param {Flat} flat @param {(id: number) => number} header @param {Field[]} fields @param {Uint8Array} body */
function readColumns(flat, header, fields, body) {
  const pairs = (/** @type {number} */ id) => flat.vector(header(id), 16).map(at =>
    [Number(flat.view.getBigInt64(at, true)), Number(flat.view.getBigInt64(at + 8, true))])
  const compression = header(3) ? flat.table(flat.follow(header(3))) : undefined
  check(!compression || (compression(0) !== 0 && flat.view.getInt8(compression(0)) === 1), 'buffers are not compressed with Zstandard')
  const limit = Math.min(MAX_EXPANDED_BYTES, Math.max(MAX_SMALL_BYTES, MAX_EXPANSION * flat.view.byteLength))
  const locations = pairs(2)
  const isCompressed = compression !== undefined
  const sizes = locations.map(([offset, length]) => {
    check(offset >= 0 && length >= 0 && offset + length <= body.length, 'a buffer is outside the Arrow stream')
    const stated = isCompressed && length ? Number(new DataView(body.buffer, body.byteOffset + offset).getBigInt64(0, true)) : -1
    return stated < 0 ? length : stated
  })
  check(sizes.reduce((sum, size) => sum + size, 0) <= limit, 'the payload expands to too many bytes')
  const buffers = locations.map(([offset, length], i) => {
    const data = body.slice(offset, offset + length)
    if (!isCompressed || !length) return data
    if (new DataView(data.buffer).getBigInt64(0, true) < 0n) return data.slice(8)
    const expanded = /** @type {any} */ (compressors).ZSTD(data.subarray(8), sizes[i])
    check(expanded.length === sizes[i], 'a buffer has another length than stated')
    return expanded.slice()
  })
  const nodes = pairs(1)
  const numRows = header(0) ? Number(flat.view.getBigInt64(header(0), true)) : 0
  check(numRows <= 8 * limit, 'the record batch has too many rows')
  const columns = new Map(fields.map(field => [field.name, { field, values: decode(field, nodes, buffers) }]))
  for (const { values } of columns.values()) check(values.length === numRows, 'the columns of the record batch differ in length')
  return { columns, numRows }
}

/** Bytes as a string with one character for each, which compares as unsigned bytes. @param {Uint8Array} bytes */
export function byteString(bytes) {
  let text = ''
  for (let at = 0; at < bytes.length; at += 4096) text += String.fromCharCode(...bytes.subarray(at, at + 4096))
  return text
}

/** @param {Uint8Array} data little-endian, two's complement */
function signed(data) {
  let value = 0n
  for (let at = data.length - 8; at >= 0; at -= 8) value = value << 64n | new DataView(data.buffer, data.byteOffset + at).getBigUint64(0, true)
  return BigInt.asIntN(8 * data.length, value)
}

/** @param {Field} field @param {number[][]} nodes @param {Uint8Array[]} buffers @returns {any[]} */
function decode(field, nodes, buffers) {
  const [length, nulls] = nodes.shift() ?? [-1, 0]
  check(length >= 0, 'the record batch has too few columns')
  if (field.type === TYPE.NULL) return new Array(length).fill(null)
  const buffer = () => buffers.shift() ?? new Uint8Array()
  const valid = buffer()
  check(!nulls || valid.length * 8 >= length, 'a validity bitmap is too short')
  /** @param {any} Type @param {number} items */
  const typed = (Type, items) => {
    const data = buffer()
    check(data.length >= items * Type.BYTES_PER_ELEMENT, 'a buffer is too short')
    return new Type(data.buffer, 0, items)
  }
  /** @param {number} total */
  const offsets = total => {
    const found = total ? typed(Int32Array, total + 1) : (buffer(), new Int32Array(1))
    for (let i = 0; i < total; i++) check(found[0] >= 0 && found[i] <= found[i + 1], 'offsets descend')
    return found
  }
  /** @type {(i: number) => any} */
  let value
  const { type, bits } = field
  if (type === TYPE.LIST) {
    const edges = offsets(length)
    const [child] = field.children
    check(child.type === TYPE.INT && child.bits === 32 && !child.isSigned, 'a list has other items than uint32')
    const [items, itemNulls] = nodes.shift() ?? [0, 0]
    check(itemNulls === 0, 'a list contains null')
    buffer()
    const numbers = typed(Uint32Array, items)
    check(edges[length] <= items, 'a list is longer than its items')
    value = i => numbers.subarray(edges[i], edges[i + 1])
  } else if (type === TYPE.UTF8 || type === TYPE.BINARY) {
    const edges = offsets(length)
    const data = buffer()
    check(edges[length] <= data.length, 'text is longer than its bytes')
    value = i => byteString(data.subarray(edges[i], edges[i + 1]))
  } else if (type === TYPE.BOOL) {
    const flags = buffer()
    check(flags.length * 8 >= length, 'a buffer is too short')
    value = i => BigInt(flags[i >> 3] >> (i & 7) & 1)
  } else if (type === TYPE.DECIMAL || type === TYPE.FIXED_SIZE_BINARY) {
    const data = typed(Uint8Array, length * bits / 8)
    value = i => {
      const bytes = data.subarray(i * bits / 8, (i + 1) * bits / 8)
      return type === TYPE.DECIMAL ? signed(bytes) : byteString(bytes)
    }
  } else if (type === TYPE.FLOAT) {
    if (field.unit === 0) {
      const halves = typed(Uint16Array, length)
      value = i => halfToNumber(halves[i])
    } else {
      const numbers = typed(field.unit === 1 ? Float32Array : Float64Array, length)
      value = i => numbers[i]
    }
  } else {
    const width = type === TYPE.INT || type === TYPE.TIME ? bits : type === TYPE.DATE && field.unit === 0 ? 32 : 64
    check([TYPE.INT, TYPE.DATE, TYPE.TIME, TYPE.TIMESTAMP, TYPE.DURATION].includes(type), `Arrow's type ${type} is not supported`)
    const isSigned = type !== TYPE.INT || field.isSigned
    const Type = { 8: [Uint8Array, Int8Array], 16: [Uint16Array, Int16Array], 32: [Uint32Array, Int32Array], 64: [BigUint64Array, BigInt64Array] }[width]
    check(Type !== undefined, `integers of ${width} bits are not supported`)
    const numbers = typed(/** @type {any} */ (Type)[Number(isSigned)], length)
    value = i => BigInt(numbers[i])
  }
  return Array.from({ length }, (_, i) => (nulls && !(valid[i >> 3] >> (i & 7) & 1) ? null : value(i)))
}

/** @param {number} half */
export function halfToNumber(half) {
  const exponent = half >> 10 & 31
  const fraction = half & 1023
  const sign = half >> 15 ? -1 : 1
  if (exponent === 31) return fraction ? NaN : sign * Infinity
  return sign * (exponent ? 2 ** (exponent - 15) * (1 + fraction / 1024) : 2 ** -14 * (fraction / 1024))
}
