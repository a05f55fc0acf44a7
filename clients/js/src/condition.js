/** Conditions on one column: which values match, and which granules might contain one. */
import { byteString } from './arrow.js'
import { ValueType } from './values.js'

/** @import { Footer } from './footer.js' */
/** @import { Key } from './values.js' */

/**
 * What is known about the values of a granule. An absent fact is unknown. Bounds do not include NaN.
 *
 * @typedef {{ low?: Key, high?: Key, hasNulls?: boolean, hasValues?: boolean }} Facts
 */

const OPERATORS = ['=', '<', '<=', '>', '>=', 'in', 'is null', 'starts with', 'contains']

export class Condition {
  /** @param {Footer} footer @param {[string, string, any?]} where column, operator and value */
  constructor(footer, [column, operator, value]) {
    if (!OPERATORS.includes(operator)) throw new TypeError(`the operator '${operator}' is unknown; use one of ${OPERATORS.join(', ')}`)
    this.leaf = footer.leaf(column)
    this.type = new ValueType(this.leaf)
    if (!this.type.isSupported) throw new TypeError(`conditions on column '${column}' are not supported: it is nested, or of a type without an order`)
    this.operator = operator
    /** @type {Key[]} */
    this.values = operator === 'is null' ? [] : (operator === 'in' ? value : [value]).map((/** @type {any} */ one) => this.type.ofLiteral(one))
    if (['starts with', 'contains'].includes(operator) && !this.type.isText) throw new TypeError(`column '${column}' is not text, which '${operator}' needs`)
    if (operator === 'contains' || operator === 'starts with') this.values = [byteString(new TextEncoder().encode(value))]
    this.among = new Set(this.values)
  }

  /** Whether the condition asks for single values. */
  get isLookup() {
    return this.operator === '=' || this.operator === 'in'
  }

  /** @param {Key} key @returns {boolean} */
  matches(key) {
    if (this.operator === 'is null') return key === null
    if (key === null) return false
    const value = /** @type {any} */ (this.values[0])
    const one = /** @type {any} */ (key)
    switch (this.operator) {
      case '=': return one === value
      case 'in': return this.among.has(one) // 0 and -0 are the same
      case '<': return one < value
      case '<=': return one <= value
      case '>': return one > value
      case '>=': return one >= value
      case 'starts with': return one.startsWith(value)
      default: return one.includes(value)
    }
  }

  /** Whether a granule might contain a value that matches. @param {Facts} facts */
  mightMatch({ low, high, hasNulls, hasValues }) {
    if (this.operator === 'is null') return hasNulls !== false
    if (hasValues === false) return false
    // NaN, or a bound that is missing, is no information
    if (low === undefined || low === null || high === undefined || high === null || low !== low || high !== high) return true
    return this.values.some(value => {
      const [least, most, one] = /** @type {any[]} */ ([low, high, value])
      switch (this.operator) {
        case '=':
        case 'in': return least <= one && one <= most
        case '<': return least < one
        case '<=': return least <= one
        case '>': return most > one
        case '>=': return most >= one
        case 'starts with': return least.slice(0, one.length) <= one && one <= most.slice(0, one.length)
        default: return true
      }
    })
  }
}
