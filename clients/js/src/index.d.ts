/** Rows of a file: sorted, disjoint ranges, whose stop is excluded. */
export type Rows = [start: number, stop: number][]

/** A literal. Dates, timestamps and decimals can be text, such as `2013-02-03`, `2013-01-01T05:00:00Z`, `-1.50`. */
export type Literal = string | number | bigint | boolean | Date | Uint8Array

/** A condition: column, operator and value. */
export type Where =
  | [column: string, operator: '=' | '<' | '<=' | '>' | '>=', value: Literal]
  | [column: string, operator: 'in', values: Literal[]]
  | [column: string, operator: 'starts with' | 'contains', text: string]
  | [column: string, operator: 'is null', nothing?: null]

export interface Query {
  /** Conditions that are joined by AND; all rows by default. */
  where?: Where[]
  /** Top-level columns of the result; all by default. */
  columns?: string[]
  /** The number of rows to return at most. */
  limit?: number
}

export interface Report {
  /** Rows of the file, rows that no index excluded, and rows that match. */
  rows: { total: number, candidates: number, matched: number }
  /** Bytes and requests of this query, without those of `open`. */
  bytes: number
  requests: number
  /** The indexes that excluded rows, in the order of use. */
  prunedBy: { index: string, rows: number }[]
  /** The indexes that were not used, and why. */
  ignored: Record<string, string>
}

/** What a map of the query shows. */
export interface Trace {
  /** The indexes that excluded rows, in the order of use, and the rows that each left. */
  steps: { index: string, column: string, left: Rows }[]
  /** The rows that match, not limited. */
  matches: Rows
  /** The ranges of bytes that have been read since the file was opened. */
  ranges: Rows
}

/** A data page of a column, or a chunk whose pages are not located: its first row, offset and size. */
export interface Page {
  start: number
  offset: number
  bytes: number
}

/** The column chunk of a leaf in a row group, and where its page index and its Bloom filter are. */
export interface Chunk {
  rowGroup: number
  start: number
  numRows: number
  bytes: number
  offsetIndex?: [start: number, stop: number]
  columnIndex?: [start: number, stop: number]
  bloomFilter?: [start: number, stop: number]
}

export interface EmbeddedIndex {
  name: string
  kind: string
  columns: string[]
  granularity: string | number
  /** The offset of its blob; undefined if the payload is in the directory. */
  offset?: number
  /** Bytes of its blob; 0 if the payload is in the directory. */
  bytes: number
  /** Whether conditions can use it. */
  isUsed: boolean
  /** Why it is ignored, if it is. */
  ignored?: string
}

/** A source of ranges, which counts what is read. Ranges that are asked for at the same time are read together. */
export class Source {
  constructor(name: string, byteLength: number, read: (start: number, stop: number) => Promise<ArrayBuffer>)
  readonly name: string
  readonly byteLength: number
  readonly bytes: number
  readonly requests: number
  slice(start: number, stop?: number): Promise<ArrayBuffer>
}

export class IndexedFile {
  readonly source: Source
  readonly numRows: number
  /** Dotted names of the leaf columns. */
  readonly columns: string[]
  readonly indexes: EmbeddedIndex[]
  /** The indexes that are not used, and why; `directory` if none is. */
  readonly ignored: ReadonlyMap<string, string>
  /** Read the rows that match. */
  scan(query?: Query): Promise<{ rows: Record<string, any>[], report: Report, trace: Trace }>
  /** Find the rows that match. */
  locate(where: Where[], columns?: string[]): Promise<{ rows: Rows, candidates: number, prunedBy: Report['prunedBy'], steps: Trace['steps'] }>
  /** The data pages of a leaf column; chunks without any of the rows, or without an OffsetIndex, are one page. */
  pages(column: string, rows: Rows): Promise<Page[]>
  /** The chunks of a leaf column in row groups with rows. */
  chunks(column: string): Chunk[]
  /** The offset of the footer. */
  readonly footerStart: number
  /** The first row of each row group, and the number of rows. */
  readonly edges: number[]
  /** The writer of the file, as its footer says. */
  readonly createdBy: string
  /** The rows that one embedded index does not exclude; undefined if it does not decide the condition, or is ignored. */
  candidates(name: string, where: Where): Promise<Rows | undefined>
  /** The layout fingerprint. */
  fingerprint(): Promise<string>
}

/**
 * Open a file: a URL, a Blob or File, or another source. Servers have to support ranges, and with CORS expose
 * `Content-Range` and `ETag`.
 */
export function open(from: string | Blob | Source, options?: { fetch?: typeof fetch, request?: RequestInit }): Promise<IndexedFile>
