/**
 * Values of a column as keys, which compare with `<` and `===`:
 *
 * - integers, dates, times, timestamps, decimals (unscaled) and booleans: bigint
 * - floats: number
 * - text and binary: a byte string, with one character for each byte
 * - null
 */
import { xxhash64 } from 'hyparquet/src/xxhash.js'
import { byteString, halfToNumber, TYPE } from './arrow.js'

/** @import { Leaf } from './footer.js' */
/** @import { Field } from './arrow.js' */
/** @typedef {bigint | number | string | null} Key */

const PHYSICAL = ['BOOLEAN', 'INT32', 'INT64', 'INT96', 'FLOAT', 'DOUBLE', 'BYTE_ARRAY', 'FIXED_LEN_BYTE_ARRAY']

/** Fractions of a second that are units of time: milliseconds, microseconds, nanoseconds. */
const UNIT_DIGITS = [0, 3, 6, 9]

/** The converted types that older writers use in place of a logical type. */
const CONVERTED = {
  0: ['STRING'], 4: ['ENUM'], 6: ['DATE'], 7: ['TIME', 1], 8: ['TIME', 2], 9: ['TIMESTAMP', 1], 10: ['TIMESTAMP', 2],
  11: ['INTEGER', 8, false], 12: ['INTEGER', 16, false], 13: ['INTEGER', 32, false], 14: ['INTEGER', 64, false],
  15: ['INTEGER', 8, true], 16: ['INTEGER', 16, true], 17: ['INTEGER', 32, true], 18: ['INTEGER', 64, true], 19: ['JSON'],
}

const encoder = new TextEncoder()

/** The type of a column. */
export class ValueType {
  /** @param {Leaf} leaf */
  constructor(leaf) {
    const { element, logical } = leaf
    const [name, ...numbers] = /** @type {any[]} */ (/** @type {any} */ (CONVERTED)[element.field_6] ?? [])
    this.leaf = leaf
    this.physical = PHYSICAL[element.field_1]
    this.logical = /** @type {string | undefined} */ (logical?.[0] ?? (element.field_6 === 5 ? 'DECIMAL' : name))
    this.scale = 0
    this.precision = 0
    this.bits = this.physical === 'INT32' ? 32 : 64
    this.isSigned = true
    this.unit = 0
    this.isUtc = false
    const fields = logical?.[1]
    if (this.logical === 'DECIMAL') [this.scale, this.precision] = fields ? [fields.field_1, fields.field_2] : [element.field_7 ?? 0, element.field_8]
    else if (this.logical === 'INTEGER') [this.bits, this.isSigned] = fields ? [fields.field_1, fields.field_2] : /** @type {any} */ (numbers)
    else if (this.logical === 'TIME' || this.logical === 'TIMESTAMP') {
      this.unit = fields ? Number(Object.keys(fields.field_2)[0].slice(6)) : numbers[0]
      this.isUtc = fields ? fields.field_1 : true
    }
    this.isText = this.logical === 'STRING' || this.logical === 'JSON'
    this.isFloat = this.physical === 'FLOAT' || this.physical === 'DOUBLE' || this.logical === 'FLOAT16'
    this.isBytes = !this.isFloat && this.logical !== 'DECIMAL' && this.physical.endsWith('BYTE_ARRAY')
    this.isSupported = leaf.isFlat && leaf.path.length === 1 && this.physical !== 'INT96' &&
      !['?', 'INTERVAL', 'VARIANT', 'GEOMETRY', 'GEOGRAPHY', 'UNKNOWN'].includes(this.logical ?? '') && element.field_6 !== 21
  }

  /** A value as hyparquet reads it from a column without a logical type. @param {any} value @returns {Key} */
  ofStored(value) {
    if (value === undefined || value === null) return null
    if (value instanceof Uint8Array) return this.ofBytes(value)
    if (typeof value === 'boolean') return BigInt(value)
    if (this.isFloat) return value
    return this.isSigned ? BigInt(value) : BigInt.asUintN(this.physical === 'INT32' ? 32 : 64, BigInt(value))
  }

  /** A value in PLAIN encoding, byte arrays without their length. @param {Uint8Array} bytes @returns {Key} */
  ofBytes(bytes) {
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
    if (this.physical === 'BOOLEAN') return BigInt(view.getUint8(0))
    if (this.physical === 'INT32') return BigInt(this.isSigned ? view.getInt32(0, true) : view.getUint32(0, true))
    if (this.physical === 'INT64') return this.isSigned ? view.getBigInt64(0, true) : view.getBigUint64(0, true)
    if (this.physical === 'FLOAT') return view.getFloat32(0, true)
    if (this.physical === 'DOUBLE') return view.getFloat64(0, true)
    if (this.logical === 'FLOAT16') return halfToNumber(view.getUint16(0, true))
    if (this.logical !== 'DECIMAL') return byteString(bytes)
    return bytes.length ? BigInt.asIntN(8 * bytes.length, BigInt(`0x${Array.from(bytes, byte => byte.toString(16).padStart(2, '0')).join('')}`)) : 0n
  }

  /** A literal of a condition. @param {any} value @returns {Key} */
  ofLiteral(value) {
    const wrong = () => new TypeError(`column '${this.leaf.name}' (${this.logical ?? this.physical}) cannot be compared with ${String(value)}`)
    if (this.isBytes) {
      if (value instanceof Uint8Array) return byteString(value)
      if (typeof value !== 'string') throw wrong()
      return byteString(encoder.encode(value))
    }
    if (this.physical === 'BOOLEAN') {
      if (typeof value !== 'boolean') throw wrong()
      return BigInt(value)
    }
    if (this.isFloat) {
      if (typeof value !== 'number' || Number.isNaN(value)) throw wrong()
      return value
    }
    if (this.logical === 'DATE') {
      const time = value instanceof Date ? value.getTime() : /^\d{4}-\d\d-\d\d$/.test(value) ? Date.parse(value) : NaN
      if (Number.isNaN(time) || time % 86_400_000) throw wrong()
      return BigInt(time / 86_400_000)
    }
    if (this.logical === 'TIMESTAMP' && (typeof value === 'string' || value instanceof Date)) {
      const text = value instanceof Date ? value.toISOString() : value
      const parts = /^(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?)?Z?$/.exec(text)
      const seconds = parts ? Date.parse(`${parts[1]}T${parts[2] ?? '00:00:00'}Z`) / 1000 : NaN
      if (Number.isNaN(seconds)) throw wrong()
      const digits = UNIT_DIGITS[this.unit] // a fraction is added also before 1970
      return BigInt(seconds) * 10n ** BigInt(digits) + this.scaled('', parts?.[3] ?? '', digits, value)
    }
    if (this.logical === 'DECIMAL' && (typeof value === 'string' || typeof value === 'number')) {
      const parts = /^(-?\d+)(?:\.(\d+))?$/.exec(String(value))
      if (!parts) throw wrong()
      return this.scaled(parts[1], parts[2] ?? '', this.scale, value)
    }
    if (typeof value === 'bigint') return this.logical === 'DECIMAL' ? value * 10n ** BigInt(this.scale) : value
    if (typeof value !== 'number' || Number.isNaN(value)) throw wrong()
    if (Number.isInteger(value) && !Number.isSafeInteger(value)) throw new RangeError(`${value} is above 2^53; write it as a bigint`)
    return Number.isInteger(value) ? BigInt(value) : value // a fraction compares with bigint, but equals none
  }

  /** @param {string} whole @param {string} fraction @param {number} digits @param {any} value */
  scaled(whole, fraction, digits, value) {
    const kept = fraction.replace(/0+$/, '')
    if (kept.length > digits) throw new RangeError(`column '${this.leaf.name}' has ${digits} decimal places, fewer than ${String(value)}`)
    const magnitude = BigInt(whole.replace('-', '') + kept.padEnd(digits, '0'))
    return whole.startsWith('-') ? -magnitude : magnitude
  }

  /** Whether the keys of an Arrow field are those of this column. @param {Field} field */
  isField(field) {
    const { INT, FLOAT, BINARY, UTF8, BOOL, DECIMAL, DATE, TIME, TIMESTAMP, FIXED_SIZE_BINARY } = TYPE
    if (this.logical === 'DECIMAL') return field.type === DECIMAL && field.scale === this.scale
    if (this.isFloat) return field.type === FLOAT
    if (this.physical === 'BOOLEAN') return field.type === BOOL
    if (this.isText) return field.type === UTF8
    if (this.physical === 'BYTE_ARRAY') return field.type === BINARY
    if (this.physical === 'FIXED_LEN_BYTE_ARRAY') return field.type === FIXED_SIZE_BINARY
    if (this.logical === 'DATE') return field.type === DATE && field.unit === 0
    if (this.logical === 'TIME') return field.type === TIME && field.unit === this.unit
    if (this.logical === 'TIMESTAMP') return field.type === TIMESTAMP && field.unit === this.unit && field.hasZone === this.isUtc
    return field.type === INT && field.isSigned === this.isSigned
  }

  /**
   * The hash of a value in `row_map` and `bloom_granule`; undefined if no value of the column has this key.
   *
   * @param {Key} key
   */
  hash(key) {
    if (key === null || this.physical === 'BOOLEAN') return undefined
    if (typeof key === 'string') return xxhash64(bytesOf(key))
    const view = new DataView(new ArrayBuffer(8))
    if (this.isFloat) view.setFloat64(0, Number(key) + 0, true) // -0 as 0
    else if (typeof key !== 'bigint') return undefined
    else if (this.logical === 'DECIMAL') return xxhash64(bigEndian(key, decimalBytes(this.precision)))
    else if (this.logical === 'DATE' || (this.logical === 'TIME' && this.unit === 1)) {
      view.setInt32(0, Number(BigInt.asIntN(32, key)), true)
      return xxhash64(new Uint8Array(view.buffer, 0, 4))
    } else view.setBigInt64(0, key, true)
    return xxhash64(new Uint8Array(view.buffer))
  }

  /** The hashes of a value in Parquet's Bloom filters, one of which is in a filter with the value. @param {Key} key */
  bloomHashes(key) {
    if (key === null) return []
    if (typeof key === 'string') return [xxhash64(bytesOf(key))]
    const view = new DataView(new ArrayBuffer(8))
    const width = this.physical === 'INT32' || this.physical === 'FLOAT' ? 4 : 8
    if (this.physical === 'FLOAT' || this.physical === 'DOUBLE') {
      return (key === 0 ? [0, -0] : [Number(key)]).map(number => {
        if (width === 4) view.setFloat32(0, number, true)
        else view.setFloat64(0, number, true)
        return xxhash64(new Uint8Array(view.buffer, 0, width))
      })
    }
    if (typeof key !== 'bigint') return []
    if (this.physical === 'FIXED_LEN_BYTE_ARRAY') return [xxhash64(bigEndian(key, this.leaf.element.field_2))]
    view.setBigInt64(0, key, true)
    return [xxhash64(new Uint8Array(view.buffer, 0, width))]
  }
}

/** @param {string} text */
export function bytesOf(text) {
  return Uint8Array.from(text, one => one.charCodeAt(0))
}

/** @param {bigint} value @param {number} width */
function bigEndian(value, width) {
  const digits = BigInt.asUintN(8 * width, value).toString(16).padStart(2 * width, '0')
  return Uint8Array.from({ length: width }, (_, i) => parseInt(digits.slice(2 * i, 2 * i + 2), 16))
}

/** The fewest bytes for every number of so many digits. @param {number} precision */
function decimalBytes(precision) {
  return Math.floor((10n ** BigInt(precision) - 1n).toString(2).length / 8) + 1
}
