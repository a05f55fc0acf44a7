/** The directory of embedded indexes, and their payloads. */
import { createXXHash3 } from 'hash-wasm'
import { fingerprint } from './footer.js'

/** @import { Footer } from './footer.js' */
/** @import { Source } from './source.js' */

const MAX_DIRECTORY_CHARACTERS = 1 << 24
const MAX_ENTRIES = 10_000
const HEADER_BYTES = 48

/**
 * @typedef {{ name: string, kind: string, kind_version: number, columns: string[][], granularity: string | number,
 *   parameters: Record<string, any>, offset?: number, length?: number, payload?: string, xxh3: string,
 *   int96_unit?: string }} Entry
 * @typedef {{ version: number, original_length: number, fingerprint: string, region_stop: number, entries: Entry[],
 *   computed_statistics?: number[] }} Directory
 */

/**
 * Return the directory of a file, or undefined if it has none.
 *
 * @param {Footer} footer
 * @returns {Promise<Directory | undefined>}
 * @throws if it is damaged, of a later version, or belongs to another file
 */
export async function findDirectory(footer) {
  const text = footer.value('intarsia')
  if (text === undefined) return undefined
  if (text.length > MAX_DIRECTORY_CHARACTERS) throw new Error('it has more than 16 MiB')
  const directory = JSON.parse(text)
  check(isObject(directory), 'it is not an object')
  check(isInteger(directory.version, 1), 'version')
  check(directory.version === 1, `version ${directory.version} is later than 1`)
  check(isInteger(directory.original_length, 12) && isInteger(directory.region_stop, 12), 'original_length or region_stop')
  check(isHex(directory.fingerprint, 32), 'fingerprint')
  check(Array.isArray(directory.entries) && directory.entries.length <= MAX_ENTRIES, 'entries are missing or too many')
  for (const entry of directory.entries) checkEntry(entry, directory)
  check(new Set(directory.entries.map((/** @type {Entry} */ entry) => entry.name)).size === directory.entries.length, 'two entries have the same name')
  check(directory.original_length <= footer.start, 'the original file is longer than this file')
  check(directory.region_stop === footer.start, 'the footer is elsewhere: another writer copied the directory or changed the file')
  check(directory.fingerprint === await fingerprint(footer.raw), 'it was made for another layout of row groups and chunks')
  return directory
}

/** @param {any} entry @param {Directory} directory */
function checkEntry(entry, directory) {
  check(isObject(entry) && typeof entry.name === 'string' && typeof entry.kind === 'string', 'an entry has no name or kind')
  /** @param {boolean} isRight @param {string} field */
  const need = (isRight, field) => check(isRight, `${entry.name}: ${field}`)
  need(isInteger(entry.kind_version, 0), 'kind_version')
  need(Array.isArray(entry.columns) && entry.columns.every((/** @type {any} */ path) => Array.isArray(path) && path.length && path.every(name => typeof name === 'string')), 'columns')
  need(typeof entry.granularity === 'string' || isInteger(entry.granularity, 1), 'granularity')
  need(isObject(entry.parameters), 'parameters')
  need(isHex(entry.xxh3, 16), 'xxh3')
  if (entry.payload === undefined || entry.payload === null) {
    need(isInteger(entry.offset, directory.original_length) && entry.offset % 8 === 0, 'offset')
    need(isInteger(entry.length, HEADER_BYTES) && entry.offset + entry.length <= directory.region_stop, 'length')
  } else need(typeof entry.payload === 'string' && /^(?:[\w+/]{4})*(?:[\w+/]{2}==|[\w+/]{3}=)?$/.test(entry.payload), 'payload')
}

/** @param {boolean} isRight @param {string} fault @returns {asserts isRight} */
export function check(isRight, fault) {
  if (!isRight) throw new Error(fault)
}

/** @param {any} value */
const isObject = value => typeof value === 'object' && value !== null && !Array.isArray(value)
/** @param {any} value @param {number} least */
const isInteger = (value, least) => Number.isInteger(value) && value >= least
/** @param {any} value @param {number} digits */
const isHex = (value, digits) => typeof value === 'string' && value.length === digits && /^[0-9a-f]*$/.test(value)

/** @param {Uint8Array} bytes */
const hex = bytes => Array.from(bytes, byte => byte.toString(16).padStart(2, '0')).join('')

/** @type {Promise<import('hash-wasm').IHasher> | undefined} */
let hasher

/** Return a function that hashes parts with XXH3-64. */
export async function xxh3() {
  const hash = await (hasher ??= createXXHash3(0, 0))
  return (/** @type {Uint8Array[]} */ ...parts) => {
    hash.init()
    parts.forEach(part => hash.update(part))
    return BigInt(`0x${hash.digest('hex')}`)
  }
}

/** The payload of an entry. Its header is checked before the first byte is used. */
export class Payload {
  /** @param {Source} source @param {Directory} directory @param {Entry} entry */
  constructor(source, directory, entry) {
    this.source = source
    this.directory = directory
    this.entry = entry
    this.isInline = typeof entry.payload === 'string'
    /** @type {Uint8Array | undefined} */
    this.inline = this.isInline ? Uint8Array.from(atob(/** @type {string} */ (entry.payload)), one => one.charCodeAt(0)) : undefined
    this.byteLength = this.inline ? this.inline.length : /** @type {number} */ (entry.length) - HEADER_BYTES
    this.isChecked = false
  }

  /** Read and check all of it. @returns {Promise<Uint8Array>} */
  async all() {
    const payload = this.inline ?? (await this.ranges([[0, this.byteLength]]))[0]
    const hash = await xxh3()
    check(hash(payload) === BigInt(`0x${this.entry.xxh3}`), 'its bytes are damaged: the checksum does not match')
    return payload
  }

  /** Read ranges, which are relative to the payload. Only the header of the blob is checked. @param {[number, number][]} ranges */
  async ranges(ranges) {
    for (const [start, stop] of ranges) check(0 <= start && start <= stop && stop <= this.byteLength, 'a range is outside the payload')
    if (this.inline) {
      const whole = this.isChecked ? this.inline : await this.all()
      this.isChecked = true
      return ranges.map(([start, stop]) => whole.subarray(start, stop))
    }
    const first = /** @type {number} */ (this.entry.offset) + HEADER_BYTES
    const wanted = ranges.map(([start, stop]) => this.source.slice(first + start, first + stop))
    if (!this.isChecked) {
      const [header] = await Promise.all([this.source.slice(first - HEADER_BYTES, first), ...wanted])
      this.checkHeader(header)
      this.isChecked = true
    }
    return (await Promise.all(wanted)).map(data => new Uint8Array(data))
  }

  /** @param {ArrayBuffer} header */
  checkHeader(header) {
    const view = new DataView(header)
    check(new TextDecoder().decode(header.slice(0, 8)) === 'INTARSIA', 'there is no blob at its offset')
    check(view.getUint32(8, true) === 1, `the blob has version ${view.getUint32(8, true)}, which is not 1`)
    check(hex(new Uint8Array(header, 16, 16)) === this.directory.fingerprint, 'the blob belongs to another file')
    check(view.getBigUint64(32, true) === BigInt(this.byteLength), 'the blob has another length')
    check(view.getBigUint64(40, true) === BigInt(`0x${this.entry.xxh3}`), 'the header of the blob has another checksum')
  }
}
