/** Opening files over HTTP and from Blobs, reading rows, and errors. */
import assert from 'node:assert/strict'
import { cpSync, mkdtempSync, readFileSync, rmSync, utimesSync } from 'node:fs'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { open, Source } from '../src/index.js'
import { serve } from './server.js'

const SUITE = join(import.meta.dirname, '../../../tests/conformance')
const FILE = join(SUITE, 'payloads-2/indexed.parquet')
const folder = mkdtempSync(join(tmpdir(), 'intarsia-'))
cpSync(FILE, join(folder, 'a.parquet'))
const server = await serve(folder)
after(() => { server.close(); rmSync(folder, { recursive: true }) })
const URL_OF_FILE = `${server.url}/a.parquet`

test('rows have the values of their columns', async () => {
  const { rows } = await (await open(URL_OF_FILE)).scan({ where: [['id', '=', 388031]] })
  assert.deepEqual(rows, [{
    id: 388031n, dest: 'A00', small: 6, note: '大理石 7', price: -9368.74, day: new Date('2013-01-01'),
    at: new Date('2013-01-01T00:56:00Z'), heat: -4.100000000000001, late: false,
  }])
})

test('the same rows come from a Blob, from another source, and over HTTP', async () => {
  const bytes = readFileSync(FILE)
  const blob = await open(new Blob([bytes]))
  const source = await open(new Source('memory', bytes.length, async (start, stop) => new Uint8Array(bytes.subarray(start, stop)).buffer))
  const query = { where: [['day', '>=', '2013-01-20'], ['note', 'contains', 'slate']], columns: ['id', 'note'] }
  const [first, ...others] = await Promise.all([blob, source, await open(URL_OF_FILE)].map(file => file.scan(query)))
  assert.ok(first.rows.length > 50)
  for (const other of others) assert.deepEqual(other.rows, first.rows)
})

test('the report counts what the server counted', async () => {
  const before = server.requests
  const file = await open(URL_OF_FILE)
  const { report } = await file.scan({ where: [['dest', '=', 'LEX']], columns: ['id'] })
  assert.equal(server.requests - before, report.requests + 1)
  assert.equal(report.rows.matched, 1)
  assert.ok(report.rows.candidates <= 50)
  assert.ok(report.bytes + file.source.bytes < file.source.byteLength)
  assert.deepEqual(report.prunedBy.map(({ index }) => index).filter(index => index !== 'statistics' && !index.includes('(dest)')), [])
  assert.ok(report.prunedBy.length > 0)
})

test('what was read long ago is not kept', async () => {
  const size = 1 << 25
  let requests = 0
  const source = new Source('memory', 8 * size, async (start, stop) => {
    requests += 1
    return new ArrayBuffer(stop - start)
  })
  await source.slice(8 * size - 100)
  for (let part = 0; part < 4; part++) await source.slice(part * size, (part + 1) * size)
  await Promise.all([source.slice(8 * size - 50), source.slice(3 * size + 9, 3 * size + 99)])
  assert.equal(requests, 5)
  await source.slice(9, 99)
  assert.equal(requests, 6)
})

test('each page is decoded once, however many rows of it match', async () => {
  const bytes = readFileSync(join(SUITE, 'changed/unchanged.parquet'))
  let asked = 0
  class Counted extends Source {
    slice(start, stop) {
      asked += 1
      return super.slice(start, stop)
    }
  }
  const file = await open(new Counted('memory', bytes.length, async (start, stop) => new Uint8Array(bytes.subarray(start, stop)).buffer))
  const where = [['id', 'in', Array.from({ length: 24 }, (_, i) => 6 * i)]] // every other row
  const before = asked
  const { rows } = await file.scan({ where, columns: ['word'] })
  assert.equal(rows.length, 24)
  assert.ok(asked - before < 24, `${asked - before} ranges`)
})

test('a row is not compared with each of the values of a list', async context => {
  const bytes = readFileSync(FILE)
  const file = await open(new Source('memory', bytes.length, async (start, stop) => new Uint8Array(bytes.subarray(start, stop)).buffer))
  let compared = 0
  const { includes } = Array.prototype
  context.after(() => { Array.prototype.includes = includes })
  Array.prototype.includes = function (...values) {
    compared += this.length
    return includes.apply(this, values)
  }
  const where = [['small', 'in', Array.from({ length: 1000 }, (_, i) => i - 1000).concat([6, 7])]]
  const { rows, report } = await file.scan({ where, columns: ['id'] })
  assert.ok(rows.length > 0 && report.rows.candidates > 100)
  assert.ok(compared < 1000, `${compared} values`)
})

test('a limit returns the first rows', async () => {
  const file = await open(URL_OF_FILE)
  const all = await file.scan({ where: [['small', '>', 100]], columns: ['id'] })
  const few = await file.scan({ where: [['small', '>', 100]], columns: ['id'], limit: 7 })
  assert.deepEqual(few.rows, all.rows.slice(0, 7))
  assert.equal((await file.scan({ columns: ['id'] })).rows.length, 1230)
})

test('nothing is read if no row can match', async () => {
  const file = await open(URL_OF_FILE)
  const { rows, report } = await file.scan({ where: [['id', '>', 9_000_000]] })
  assert.deepEqual([rows, report.bytes, report.requests], [[], 0, 0])
})

for (const [where, pattern] of [
  [['nope', '=', 1], /no column 'nope'; the columns are id, dest/],
  [['id', '~', 1], /operator '~' is unknown/],
  [['id', '=', 'x'], /'id'.*cannot be compared with x/],
  [['day', '=', '2013-13-45'], /'day' \(DATE\) cannot be compared/],
  [['price', '=', '1.234'], /'price' has 2 decimal places/],
  [['small', 'contains', 'x'], /cannot be compared/],
  [['id', '=', 2 ** 53], /write it as a bigint/],
]) {
  test(`the condition ${JSON.stringify(where)} is refused`, async () => {
    await assert.rejects((await open(URL_OF_FILE)).scan({ where: [where] }), pattern)
  })
}

test('a column of the result that does not exist is refused', async () => {
  await assert.rejects((await open(URL_OF_FILE)).scan({ columns: ['nope'] }), /no column 'nope'/)
})

test('a file that is replaced while it is read is refused', async () => {
  const file = await open(URL_OF_FILE)
  utimesSync(join(folder, 'a.parquet'), 1, 1)
  await assert.rejects(file.scan({ where: [['price', '<', '0']] }), /replaced while it was read/)
})

test('a missing file is refused', async () => {
  await assert.rejects(open(`${server.url}/b.parquet`), /answered 404/)
})

test('a server without ranges is refused', async () => {
  const plain = createServer((_, response) => response.end(readFileSync(FILE)))
  await new Promise(resolve => plain.listen(0, '127.0.0.1', resolve))
  await assert.rejects(open(`http://127.0.0.1:${plain.address().port}/`), /the server ignores ranges/)
  plain.closeAllConnections()
  plain.close()
})

test('a request whose connection breaks is repeated once', async () => {
  let broken = 0
  const breaking = async (url, init) => {
    if (broken++ % 2 === 0) throw new TypeError('fetch failed', { cause: new Error('other side closed') })
    return fetch(url, init)
  }
  const file = await open(URL_OF_FILE, { fetch: breaking })
  assert.equal((await file.scan({ where: [['dest', '=', 'LEX']] })).rows.length, 1)
  await assert.rejects(open('http://127.0.0.1:1/a.parquet'), /127.0.0.1:1\/a.parquet: .*ECONNREFUSED|bad port/)
})

test('files that are not Parquet are refused', async () => {
  await assert.rejects(open(new Blob(['a'])), /1 bytes are too few/)
  await assert.rejects(open(new Blob(['not a Parquet file'])), /does not end with PAR1/)
  await assert.rejects(open(new Blob([new Uint8Array([80, 65, 82, 49, 255, 255, 0, 0, 80, 65, 82, 49])])), /truncated/)
})
