/** The facts of a query for the drawing of page maps, as in src/intarsia/picture/facts.py. */

/** @import { Chunk, IndexedFile, Page, Query, Report, Rows, Trace } from 'intarsia' */
/** @import { Cells, FilePart, Lane, Look, QueryFacts } from '../../src/intarsia/picture/page/facts.js' */

const [READ, UNNEEDED, SKIPPED] = [0, 2, 3]

/** @param {Rows} rows */
const count = rows => rows.reduce((sum, [start, stop]) => sum + stop - start, 0)

/** The part of some ranges between two numbers. @param {Rows} ranges @param {number} from @param {number} to @returns {Rows} */
function clip(ranges, from, to) {
  const parts = ranges.map(([start, stop]) => /** @type {[number, number]} */ ([Math.max(start, from), Math.min(stop, to)]))
  return parts.filter(([start, stop]) => start < stop)
}

/** The ranges between some ranges. @param {Rows} ranges @param {number} end @returns {Rows} */
function others(ranges, end) {
  const edges = [0, ...ranges.flat(), end]
  return clip(Array.from({ length: edges.length / 2 }, (_, i) => [edges[2 * i], edges[2 * i + 1]]), 0, end)
}

/** @param {string} index @returns {Look} */
function lookOf(index) {
  const [kind] = index.split('(')
  return /** @type {Record<string, Look>} */ ({ statistics: 'statistics', 'page index': 'page_index', bloom: 'bloom' })[kind] ?? 'embedded'
}

/**
 * Return the facts of a query of a file that has been opened for it.
 *
 * @param {IndexedFile} file
 * @param {string} condition as text
 * @param {Required<Pick<Query, 'where' | 'columns'>>} query
 * @param {{ report: Report, trace: Trace }} result
 * @returns {Promise<QueryFacts>}
 */
export async function factsOf(file, condition, query, { report, trace }) {
  const { numRows, source } = file
  const asked = new Set(query.where.map(([column]) => column))
  const wanted = new Set(file.columns.filter(name => asked.has(name) || query.columns.includes(name.split('.')[0])))
  const numRead = count(trace.ranges)
  /** @type {{ look: Look, text: string }[]} */
  const states = [
    { look: 'read', text: 'read' }, { look: 'proven', text: 'proven by an index, not read' }, { look: 'unneeded', text: 'not needed' },
    ...trace.steps.map(({ index }) => ({ look: lookOf(index), text: `skipped by ${index}` })),
  ]
  const candidates = trace.steps.at(-1)?.left ?? [[0, numRows]]
  const lanes = await Promise.all(file.columns.map(name => laneOf(name)))

  /** @param {string} name */
  async function laneOf(name) {
    const chunks = file.chunks(name)
    /** @type {Omit<Lane, 'cells' | 'num_bytes'> & { num_bytes: number }} */
    const lane = {
      name, type: '', role: asked.has(name) ? 'where' : wanted.has(name) ? 'result' : '', codec: '', encodings: [],
      num_bytes: chunks.reduce((sum, chunk) => sum + chunk.bytes, 0), num_pages: null, by_state: /** @type {number[]} */ ([]),
      indexes: file.indexes.filter(index => index.columns.includes(name)).map(index => ({ name: index.name, what: 'embedded in the file', num_bytes: index.bytes })),
    }
    if (!wanted.has(name)) return { ...lane, cells: null }
    const pages = await file.pages(name, candidates)
    const state = pages.map((page, i) => stateOf(page, pages[i + 1]?.start ?? numRows))
    return { ...lane, num_pages: pages.length, by_state: states.map((_, i) => state.filter(one => one === i).length), cells: cellsOf(pages, state) }
  }

  /** @param {Page[]} pages @param {number[]} state @returns {Cells} */
  function cellsOf(pages, state) {
    const nothing = pages.map(() => null)
    return {
      start: pages.map(page => page.start), state, num_pages: pages.map(() => 1), offset: pages.map(page => page.offset),
      num_bytes: pages.map(page => page.bytes), low: nothing, high: nothing, num_nulls: nothing,
      num_matches: pages.map((page, i) => count(clip(trace.matches, page.start, pages[i + 1]?.start ?? numRows))),
    }
  }

  /** @param {Page} page @param {number} stop its first row and the next page's */
  function stateOf({ start, offset, bytes }, stop) {
    if (count(clip(trace.ranges, offset, offset + bytes)) === bytes) return READ
    const step = trace.steps.findIndex(({ left }) => !clip(left, start, stop).length)
    return step < 0 ? UNNEEDED : SKIPPED + step
  }

  const labels = /** @type {[keyof Chunk, Look, string][]} */ ([
    ['offsetIndex', 'page_index', 'OffsetIndexes'], ['columnIndex', 'page_index', 'ColumnIndexes'], ['bloomFilter', 'bloom', 'Bloom filters'],
  ])
  /** @type {Omit<FilePart, 'num_read'>[]} */
  const found = file.columns.flatMap(name => file.chunks(name)).flatMap(chunk => labels.flatMap(([key, look, label]) => {
    const range = /** @type {[number, number] | undefined} */ (chunk[key])
    return range ? [{ start: range[0], stop: range[1], look, label }] : []
  }))
  for (const { name, offset, bytes } of file.indexes) if (offset) found.push({ start: offset, stop: offset + bytes, look: 'embedded', label: name })
  found.push({ start: file.footerStart, stop: source.byteLength, look: 'footer', label: 'footer' })
  const used = lanes.filter(lane => lane.cells)
  const pages = used.reduce((sum, lane) => sum + (lane.num_pages ?? 0), 0)
  const read = used.reduce((sum, lane) => sum + lane.by_state[READ], 0)
  return {
    title: source.name.split('/').at(-1) ?? '', where: condition, select: query.columns.join(', '), result: `${report.rows.matched.toLocaleString('en')} ${report.rows.matched === 1 ? 'row' : 'rows'}`,
    report: { files: { total: 1, read: 1, opened: 1 }, pages: { total: pages, read }, rows: report.rows, bytes: { index: 0 } },
    is_plan: false, num_bytes: source.byteLength, num_read: numRead, num_requests: source.requests, least_bytes: null,
    columns_bytes: used.reduce((sum, lane) => sum + lane.num_bytes, 0), advice: '', lake: null,
    files: [{
      path: source.name, num_bytes: source.byteLength, num_rows: numRows, writer: file.createdBy || 'an unknown writer', edges: file.edges, states,
      steps: trace.steps.map(({ index, column, left }, i) => {
        const before = trace.steps[i - 1]?.left ?? [[0, numRows]]
        const gone = others(left, numRows).flatMap(([start, stop]) => clip(before, start, stop))
        return { index, column, label: index, look: lookOf(index), num_rows: count(gone), num_left: count(left), rows: gone.flat() }
      }),
      answered: [], candidates: candidates.flat(), num_candidates: count(candidates), certain: [], num_certain: 0,
      matches: trace.matches.slice(0, 2000).map(([start]) => start), num_matches: count(trace.matches), lanes,
      parts: found.sort((a, b) => a.start - b.start).map(part => ({ ...part, num_read: count(clip(trace.ranges, part.start, part.stop)) })),
      reads: trace.ranges.flat(), num_read: numRead, num_requests: source.requests, original_bytes: null, least_bytes: null, columns_bytes: 0,
    }],
  }
}
