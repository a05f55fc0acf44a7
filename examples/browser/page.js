import { open } from 'intarsia'
import { drawMap } from 'intarsia-map'
import { factsOf } from './facts.js'

const MAX_ROWS = 50

const part = id => document.getElementById(id)
const say = (text, isError = false) => {
  part('status').textContent = text
  part('status').classList.toggle('error', isError)
}
const counted = (number, what) => `${number.toLocaleString()} ${what}${number === 1 ? '' : 's'}`
const row = (cells, tag = 'td') => {
  const line = document.createElement('tr')
  for (const cell of cells) line.append(Object.assign(document.createElement(tag), { textContent: cell }))
  return line
}
const show = value => (value === null || value === undefined ? '' : value instanceof Date ? value.toISOString()
  : typeof value === 'object' ? JSON.stringify(value, (_, one) => (typeof one === 'bigint' ? String(one) : one)) : String(value))

let file
let drawn = new AbortController()

/** Draw the map of a query, in place of the last one. */
async function draw(condition, query, result) {
  drawn.abort()
  drawn = new AbortController()
  const facts = await factsOf(file, condition, query, result)
  drawMap(facts, part('map'), 'Drawn in this browser from what it has read of the file since it was opened.', drawn.signal)
}

/** Run an action of the page, and show its error. */
async function attempt(action) {
  say('…')
  try {
    await action()
  } catch (error) {
    say(error.message, true)
  }
}

async function load(from) {
  part('about').hidden = true
  part('rows').tBodies[0].replaceChildren()
  part('rows').tHead.replaceChildren()
  part('map').replaceChildren()
  file = await open(from)
  const { byteLength, bytes, requests } = file.source
  part('summary').textContent = `${counted(file.numRows, 'row')} in ${counted(byteLength, 'byte')}; opened with ` +
    `${counted(bytes, 'byte')} in ${counted(requests, 'request')}`
  part('indexes').tBodies[0].replaceChildren(...file.indexes.map(index =>
    row([index.name, index.bytes ? index.bytes.toLocaleString() : 'in the footer', index.ignored ?? (index.isUsed ? 'yes' : 'no')])))
  part('query').elements.column.replaceChildren(...file.columns.map(name => new Option(name)))
  part('about').hidden = false
  const why = file.ignored.get('directory')
  say(why ? `the indexes are ignored: ${why}` : '')
}

/** A number, true and false are literals of columns that need them; other text is text, as of dates and decimals. */
function literals(value) {
  const number = value.trim() !== '' && Number(value)
  const found = [value]
  if (/^-?\d+$/.test(value)) found.push(BigInt(value))
  if (Number.isFinite(number) && number !== false) found.push(number)
  if (value === 'true' || value === 'false') found.push(value === 'true')
  return found
}

async function run() {
  const { column, operator, value } = part('query').elements
  let failure
  for (const literal of literals(value.value)) {
    try {
      const columns = [...new Set(file.columns.map(name => name.split('.')[0]))]
      const query = { where: [[column.value, operator.value, literal]], columns }
      const { rows, report, trace } = await file.scan({ ...query, limit: MAX_ROWS })
      const names = rows.length ? Object.keys(rows[0]) : []
      part('rows').tHead.replaceChildren(row(names, 'th'))
      part('rows').tBodies[0].replaceChildren(...rows.map(one => row(names.map(name => show(one[name])))))
      const by = report.prunedBy.map(({ index, rows: excluded }) => `${index} excluded ${excluded.toLocaleString()}`).join(', ')
      say(`${counted(report.rows.matched, 'matching row')}; read ${counted(report.bytes, 'byte')} in ${counted(report.requests, 'request')}` +
        `${by ? `; ${by} rows` : ''}${report.rows.matched > MAX_ROWS ? `; the first ${MAX_ROWS} are shown` : ''}`)
      await draw(`${column.value} ${operator.value} ${value.value}`, query, { report, trace })
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
  const url = part('source').elements.url.value
  if (url) attempt(() => load(new URL(url, location.href).href))
})
part('source').elements.file.addEventListener('change', event => {
  const [chosen] = event.target.files
  if (chosen) attempt(() => load(chosen))
})
part('query').addEventListener('submit', event => {
  event.preventDefault()
  attempt(run)
})

// ?url=…&column=…&operator=…&value=… opens a file and runs a condition
const asked = new URLSearchParams(location.search)
if (asked.has('url')) {
  part('source').elements.url.value = asked.get('url')
  await attempt(() => load(new URL(asked.get('url'), location.href).href))
  if (asked.has('column') && !part('about').hidden) {
    const { column, operator, value } = part('query').elements
    column.value = asked.get('column')
    operator.value = asked.get('operator') ?? '='
    value.value = asked.get('value') ?? ''
    await attempt(run)
  }
}
