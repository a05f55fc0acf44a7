/** Which metadata of a file's writer is used: the table of untrusted writers in docs/format.md. */

/** @import { Footer, Chunk } from './footer.js' */
/** @import { Directory } from './directory.js' */
/** @import { ValueType } from './values.js' */

const TYPE_ORDER = 1
const IEEE_754_TOTAL_ORDER = 2

/** @param {string} createdBy @returns {[string, number[] | undefined]} */
function writerOf(createdBy) {
  const text = createdBy.trim().toLowerCase()
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
    const [writer, version] = writerOf(footer.createdBy)
    const is = (/** @type {string} */ name) => writer.includes(name)
    const isBytes = type.physical.endsWith('BYTE_ARRAY')
    const isComputed = directory?.computed_statistics?.includes?.(leaf.ordinal) ?? false
    const hasOrder = leaf.order === TYPE_ORDER || (leaf.order === IEEE_754_TOTAL_ORDER && type.isFloat)
    // those of text are wrong if it was an Arrow dictionary
    const isOldArrow = is('parquet-cpp') && type.physical === 'BYTE_ARRAY' && isBefore(version, [11])
    const isWrong = isBytes && (isOldArrow || is('parquet-go') ||
      (is('parquet-cpp') && type.logical === 'DECIMAL' && isBefore(version, [4])) ||
      (is('parquet-mr') && isBefore(version, [1, 8, 0])))
    const isParquetGo = is('parquet-go') && isBefore(version, [1]) // that of Arrow writes 1.0.0 and above
    const ignoresNaN = type.isFloat && (isParquetGo || (is('parquet-mr') && isBefore(version, [1, 10])) || !writer)
    this.hasOrder = hasOrder
    // those of text are wrong in files of version 2 only
    const excludesValues = is('polars') &&
      ((type.isFloat && isBefore(version, [2, 1])) || (isBytes && isBefore(version, [1])))
    const isClickHouse = is('clickhouse') && isBefore(version, [26, 5])
    const isMerged = is('polars') && ((isBytes && type.logical === 'DECIMAL' && isBefore(version, [2])) ||
      (type.bits === 32 && !type.isSigned && isBefore(version, [2, 1])))
    const isMisordered = is('parquet-rs') && isBefore(version, [60]) &&
      type.logical === 'DECIMAL' && type.physical === 'BYTE_ARRAY'
    const isOverwritten = isClickHouse && (type.logical === 'JSON' || type.logical === 'UUID')
    this.usesBounds = hasOrder &&
      (isComputed || !(isWrong || ignoresNaN || excludesValues || isOverwritten || isMisordered || isMerged))
    this.usesLowerBounds = isComputed || !(is('polars') && type.physical === 'BYTE_ARRAY' && isBefore(version, [2]))
    // signed comparison is wrong for these, and fastparquet's are wrong for more columns than it is worth to list
    this.usesDeprecatedBounds = !isBytes && type.isSigned && type.physical !== 'BOOLEAN' && !is('fastparquet') &&
      !ignoresNaN
    // those of Polars and arrow2 are wrong for chunks with a dictionary only
    const isMiscounted = isOldArrow || (is('parquet-cpp-arrow') && type.physical === 'BYTE_ARRAY' && leaf.inStruct) ||
      (is('duckdb') && isBefore(version, [1, 1])) || (is('polars') && isBefore(version, [2])) || is('arrow2') ||
      is('kuzu') || is('lbug') || (is('hyparquet') && type.logical === 'JSON') || (isParquetGo && writer === 'parquet-go')
    this.usesNullCounts = isComputed || !isMiscounted
    this.usesBloomFilters = type.physical !== 'BOOLEAN' && type.logical !== 'FLOAT16' &&
      !(type.logical === 'DECIMAL' && type.physical === 'BYTE_ARRAY')
    this.distrustsPageIndex = is('parquet-go') || (is('hyparquet') && !leaf.isFlat) || excludesValues || isMisordered ||
      (isClickHouse && (!leaf.isFlat || type.physical === 'BYTE_ARRAY' || isOverwritten))
    this.directory = directory
  }

  /** @param {Chunk} chunk */
  usesPageIndex({ offsetIndex, columnIndex }) {
    const addedFrom = this.directory?.original_length ?? Infinity
    return !this.distrustsPageIndex || [offsetIndex, columnIndex].every(range => !range || range[0] >= addedFrom)
  }
}
