/** Which metadata of a file's writer is used: the table of untrusted writers in docs/format.md. */

/** @import { Footer, Chunk } from './footer.js' */
/** @import { Directory } from './directory.js' */
/** @import { ValueType } from './values.js' */
/** @typedef {'bounds' | 'lowerBounds' | 'upperBounds' | 'deprecatedBounds' | 'nullCounts' | 'pageNullCounts' | 'pageIndex' | 'bloomFilters'} Claim */

const TYPE_ORDER = 1
const IEEE_754_TOTAL_ORDER = 2

const isAny = () => true
/** @param {ValueType} type */
const isBytes = type => type.physical.endsWith('BYTE_ARRAY')
/** @param {ValueType} type */
const isByteArray = type => type.physical === 'BYTE_ARRAY'
/** @param {ValueType} type */
const isFloat = type => type.isFloat
/** @param {ValueType} type */
const isLargeUnsigned = type => type.bits >= 32 && !type.isSigned
/** @param {ValueType} type */
const isInList = type => !type.leaf.isFlat
/** @param {ValueType} type */
const isDecimalOfBytes = type => isBytes(type) && type.logical === 'DECIMAL'

/**
 * The errors of writers: a part of the name, in lower case (empty for files without a name), the first version without the error, the
 * columns that are affected, and what is not used of them. More columns are listed than in docs/format.md where that is simpler.
 *
 * @type {[string, number[] | undefined, (type: ValueType, writer: string) => boolean, Claim[]][]}
 */
const RULES = [
  ['parquet-mr', [1, 8, 0], isBytes, ['bounds']],
  ['parquet-mr', [1, 10], isFloat, ['bounds', 'deprecatedBounds']],
  ['parquet-go', undefined, isBytes, ['bounds']],
  ['parquet-go', undefined, isAny, ['pageIndex']],
  ['parquet-go', [1], isFloat, ['bounds', 'deprecatedBounds']], // that of Arrow writes 1.0.0 and above
  ['parquet-go', [1], (_, writer) => writer === 'parquet-go', ['nullCounts']], // github.com/xitongsys, by the whole name
  ['parquet-go', [18, 0, 1], (type, writer) => !type.isSigned && writer === 'parquet-go', ['bounds']],
  ['parquet-go', [18, 8], (_, writer) => writer === 'parquet-go', ['bloomFilters']],
  ['', undefined, isFloat, ['bounds', 'deprecatedBounds']],
  ['hyparquet', undefined, isInList, ['pageIndex']],
  ['hyparquet', undefined, type => type.logical === 'JSON', ['nullCounts', 'pageNullCounts']],
  ['parquetjs', undefined, type => type.logical === 'JSON', ['bounds', 'pageIndex']],
  ['nanoparquet', undefined, isAny, ['bounds']],
  ['parquet-cpp-arrow', undefined, type => isByteArray(type) && type.leaf.inStruct, ['nullCounts', 'pageNullCounts']],
  ['parquet-cpp', [11], isByteArray, ['bounds', 'nullCounts']],
  ['parquet-cpp', [2], isFloat, ['bounds', 'deprecatedBounds']],
  ['parquet-cpp', [4], isDecimalOfBytes, ['bounds']],
  ['fastparquet', undefined, isAny, ['bounds', 'deprecatedBounds']],
  ['duckdb', [1, 1], isAny, ['nullCounts']],
  ['polars', [2], isAny, ['nullCounts', 'pageNullCounts']],
  ['polars', [2, 1], isFloat, ['bounds', 'pageIndex']],
  ['polars', [1], isBytes, ['bounds', 'pageIndex']],
  ['polars', [2], isByteArray, ['lowerBounds', 'upperBounds']],
  ['polars', [2], isDecimalOfBytes, ['bounds']],
  ['polars', [2, 1], type => type.bits === 32 && !type.isSigned, ['bounds']],
  ['polars', [1], isLargeUnsigned, ['bounds', 'pageIndex']],
  ['arrow2', undefined, isAny, ['nullCounts']],
  ['questdb', undefined, isByteArray, ['nullCounts', 'pageNullCounts']],
  ['rugo', undefined, type => isByteArray(type) && !type.logical, ['pageIndex']],
  ['kuzu', undefined, isAny, ['nullCounts']],
  ['lbug', undefined, isAny, ['nullCounts']],
  ['clickhouse', [26, 5], type => isInList(type) || isByteArray(type), ['pageIndex']],
  ['clickhouse', [26, 5], type => type.logical === 'JSON' || type.logical === 'UUID', ['bounds', 'pageIndex']],
  ['parquet-rs', [60], type => isByteArray(type) && type.logical === 'DECIMAL', ['bounds', 'pageIndex']],
]

/** @param {string} createdBy @returns {[string, number[] | undefined]} */
function writerOf(createdBy) {
  const text = createdBy.trim().toLowerCase().replace(/^parquet-mr compatible (?=photon)|^parquet-cpp-(?=velox)/, '')
  const version = / version v?(\d+(?:\.\d+)*)/.exec(text)
  return [text.split(/[\s(]/)[0], version?.[1].split('.').map(Number)]
}

/** @param {number[] | undefined} version @param {number[]} limit */
function isBefore(version, limit) {
  if (!version) return true
  const at = limit.findIndex((part, i) => part !== (version[i] ?? 0))
  return at >= 0 && (version[at] ?? 0) < limit[at]
}

/** What is used of the metadata of a column. */
export class Trust {
  /** @param {Footer} footer @param {ValueType} type @param {Directory | undefined} directory */
  constructor(footer, type, directory) {
    const { leaf } = type
    const writers = footer.writers.map(writerOf)
    const doubted = new Set(writers.flatMap(([writer, version]) => RULES.filter(([name, before, applies]) =>
      (name ? writer.includes(name) : !writer) && (!before || isBefore(version, before)) && applies(type, writer))).flatMap(rule => rule[3]))
    const isComputed = directory?.computed_statistics?.includes?.(leaf.ordinal) ?? false
    /** @param {Claim} claim */
    const isUsed = claim => isComputed || !doubted.has(claim)
    const order = leaf.order ?? (writers[0][0] === 'parquet-mr-trino' ? TYPE_ORDER : undefined) // Trino declares none
    this.hasOrder = order === TYPE_ORDER || (order === IEEE_754_TOTAL_ORDER && type.isFloat)
    this.usesBounds = this.hasOrder && isUsed('bounds')
    this.usesLowerBounds = isUsed('lowerBounds')
    this.usesUpperBounds = isUsed('upperBounds')
    this.usesNullCounts = isUsed('nullCounts')
    this.usesPageNullCounts = !doubted.has('pageNullCounts')
    // signed comparison is wrong for some types
    this.usesDeprecatedBounds = !isBytes(type) && type.isSigned && type.physical !== 'BOOLEAN' && !doubted.has('deprecatedBounds')
    this.usesBloomFilters = type.physical !== 'BOOLEAN' && type.logical !== 'FLOAT16' &&
      !(type.logical === 'DECIMAL' && type.physical === 'BYTE_ARRAY')
    this.distrustsPageIndex = doubted.has('pageIndex')
    this.distrustsBloomFilters = doubted.has('bloomFilters')
    this.directory = directory
  }

  /** @param {Chunk} chunk */
  usesBloomFilter({ bloomFilter }) {
    const isTrusted = !this.distrustsBloomFilters || (bloomFilter?.[0] ?? 0) >= (this.directory?.original_length ?? Infinity)
    return this.usesBloomFilters && isTrusted
  }

  /** @param {Chunk} chunk */
  usesPageIndex({ offsetIndex, columnIndex }) {
    const addedFrom = this.directory?.original_length ?? Infinity
    return !this.distrustsPageIndex || [offsetIndex, columnIndex].every(range => !range || range[0] >= addedFrom)
  }
}
