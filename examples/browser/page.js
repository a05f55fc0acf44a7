import { open } from 'intarsia'
import { drawMap } from 'intarsia-map'
import { factsOf } from './facts.js'

const MAX_ROWS = 50

/** @import { IndexedFile, Literal, Report, Trace, Where } from 'intarsia' */

/** @param {string} id */
const part = id => /** @type {HTMLElement} */ (document.getElementById(id))
/** @param {string} id */
const tableOf = id => /** @type {HTMLTableElement} */ (part(id))

/**
 * An input or a selection of a form.
 * @param {string} form @param {string} name
 */
const control = (form, name) => /** @type {HTMLInputElement} */ (
  /** @type {HTMLFormElement} */ (part(form)).elements.namedItem(name))

/** @param {string} text */
const say = (text, isError = false) => {
  part('status').textContent = text
  part('status').classList.toggle('error', isError)
}
/** @param {number} number @param {string} what */
const counted = (number, what) => `${number.toLocaleString()} ${what}${number === 1 ? '' : 's'}`
/** @param {string[]} cells */
const row = (cells, tag = 'td') => {
  const line = document.createElement('tr')
  for (const cell of cells) line.append(Object.assign(document.createElement(tag), { textContent: cell }))
  return line
}
/** @param {unknown} value */
const show = value => (value === null || value === undefined ? '' : value instanceof Date ? value.toISOString()
  : typeof value === 'object' ? JSON.stringify(value, (_, one) => (typeof one === 'bigint' ? String(one) : one)) : String(value))

/** @type {IndexedFile} */
let file
let drawn = new AbortController()

/**
 * Draw the map of a query, in place of the last one.
 * @param {string} condition @param {{ where: Where[], columns: string[] }} query
 * @param {{ report: Report, trace: Trace }} result
 */
async function draw(condition, query, result) {
  drawn.abort()
  drawn = new AbortController()
  const facts = await factsOf(file, condition, query, result)
  drawMap(facts, part('map'), 'Drawn in this browser from what it has read of the file since it was opened.', drawn.signal)
}

/** Run an action of the page, and show its error. @param {() => Promise<void>} action */
async function attempt(action) {
  say('…')
  try {
    await action()
  } catch (error) {
    say(error instanceof Error ? error.message : String(error), true)
  }
}

/** @param {string | File} from */
async function load(from) {
  part('about').hidden = true
  showRows([])
  part('map').replaceChildren()
  file = await open(from)
  const { byteLength, bytes, requests } = file.source
  part('summary').textContent = `${counted(file.numRows, 'row')} in ${counted(byteLength, 'byte')}; opened with ` +
    `${counted(bytes, 'byte')} in ${counted(requests, 'request')}`
  tableOf('indexes').tBodies[0].replaceChildren(...file.indexes.map(index =>
    row([index.name, index.bytes ? index.bytes.toLocaleString() : 'in the footer', index.ignored ?? (index.isUsed ? 'yes' : 'no')])))
  control('query', 'column').replaceChildren(...file.columns.map(name => new Option(name)))
  part('about').hidden = false
  const why = file.ignored.get('directory')
  say(why ? `the indexes are ignored: ${why}` : '')
}

/** A number, true and false are literals of columns that need them; other text is text, as of dates and decimals. @param {string} value */
function literals(value) {
  const number = value.trim() !== '' && Number(value)
  /** @type {Literal[]} */
  const found = [value]
  if (/^-?\d+$/.test(value)) found.push(BigInt(value))
  if (Number.isFinite(number) && number !== false) found.push(number)
  if (value === 'true' || value === 'false') found.push(value === 'true')
  return found
}

/** @param {Record<string, unknown>[]} rows */
function showRows(rows) {
  const names = rows.length ? Object.keys(rows[0]) : []
  tableOf('rows').tHead?.replaceChildren(row(names, 'th'))
  tableOf('rows').tBodies[0].replaceChildren(...rows.map(one => row(names.map(name => show(one[name])))))
}

async function run() {
  const [column, operator, value] = ['column', 'operator', 'value'].map(name => control('query', name).value)
  let failure
  for (const literal of literals(value)) {
    try {
      const columns = [...new Set(file.columns.map(name => name.split('.')[0]))]
      const where = /** @type {Where[]} */ ([[column, operator, literal]])
      const { rows, report, trace } = await file.scan({ where, columns, limit: MAX_ROWS })
      showRows(rows)
      const by = report.prunedBy.map(({ index, rows: excluded }) => `${index} excluded ${excluded.toLocaleString()}`).join(', ')
      say(`${counted(report.rows.matched, 'matching row')}; read ${counted(report.bytes, 'byte')} in ${counted(report.requests, 'request')}` +
        `${by ? `; ${by} rows` : ''}${report.rows.matched > MAX_ROWS ? `; the first ${MAX_ROWS} are shown` : ''}`)
      await draw(`${column} ${operator} ${value}`, { where, columns }, { report, trace })
      return
    } catch (error) {
      if (!(error instanceof TypeError)) throw error
      failure ??= error // the literal has another type than the column
    }
  }
  throw failure
}

part('source').addEventListener('submit', event => {
  event.preventDefault()
  const url = control('source', 'url').value
  if (url) attempt(() => load(new URL(url, location.href).href))
})
control('source', 'file').addEventListener('change', () => {
  const [chosen] = control('source', 'file').files ?? []
  if (chosen) attempt(() => load(chosen))
})
part('query').addEventListener('submit', event => {
  event.preventDefault()
  attempt(run)
})

// ?url=…&column=…&operator=…&value=… opens a file and runs a condition
const asked = new URLSearchParams(location.search)
const url = asked.get('url')
if (url) {
  control('source', 'url').value = url
  await attempt(() => load(new URL(url, location.href).href))
  if (asked.has('column') && !part('about').hidden) {
    for (const [name, value] of [['operator', '='], ['value', ''], ...asked]) {
      if (['column', 'operator', 'value'].includes(name)) control('query', name).value = value
    }
    await attempt(run)
  }
}
