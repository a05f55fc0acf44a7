/** The conformance suite of the format: ../../../tests/conformance/README.md */
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { open } from '../src/index.js'
import { serve } from './server.js'

const SUITE = join(import.meta.dirname, '../../../tests/conformance')
const FOLDERS = readdirSync(SUITE, { withFileTypes: true }).filter(one => one.isDirectory() && !one.name.startsWith('_')).map(one => one.name)
const UNUSED = ['hll', 'histogram', 'sample']

const server = await serve(SUITE)
after(() => server.close())

for (const folder of FOLDERS) {
  for (const one of JSON.parse(readFileSync(join(SUITE, folder, 'cases.json'), 'utf8'))) {
    test(`${folder}/${one.file}: ${one.about}`, async () => {
      const url = `${server.url}/${folder}/${one.file}`
      const file = await open(url)
      assert.equal(await file.fingerprint(), one.fingerprint)
      for (const { where, rows, candidates } of one.queries) {
        const fresh = await open(url)
        const found = await fresh.locate(where)
        assert.deepEqual(found.rows.flatMap(([start, stop]) => Array.from({ length: stop - start }, (_, i) => start + i)), rows, JSON.stringify(where))
        assert.ok([...fresh.ignored.keys()].every(name => name in one.ignored))
        if (where.length > 1) continue
        const asked = {}
        for (const { name, columns } of file.indexes) {
          const ranges = columns.includes(where[0][0]) ? await file.candidates(name, where[0]) : undefined
          if (ranges) asked[name] = ranges
        }
        assert.deepEqual(asked, candidates, JSON.stringify(where))
      }
      assert.deepEqual([...file.ignored.keys()].sort(), Object.keys(one.ignored).sort())
      for (const index of file.indexes) assert.equal(index.isUsed, !(index.name in one.ignored) && !UNUSED.includes(index.kind))
    })
  }
}

test('the suite is there', () => assert.deepEqual(FOLDERS.sort(), ['changed', 'payloads-1', 'payloads-2']))
