/**
 * Answers conditions from standard input, for comparison with another reader: lines of JSON with `url` or `path`, `where` and
 * `columns`. Integers above 2^53 are `{"bigint": "…"}`. Prints a line for each, with the ordinals of the matching rows as
 * ranges, and what was read.
 */
import { openAsBlob } from 'node:fs'
import { createInterface } from 'node:readline'
import { open } from '../src/index.js'

/** Files stay open, except for those whose bytes are counted. @type {Map<string, import('../src/index.js').IndexedFile>} */
const files = new Map()

for await (const line of createInterface({ input: process.stdin })) {
  const { path, url, where, columns } = JSON.parse(line, (_, value) => (typeof value?.bigint === 'string' ? BigInt(value.bigint) : value))
  try {
    const file = (!columns && files.get(path ?? url)) || await open(url ?? await openAsBlob(path))
    files.set(path ?? url, file)
    const opened = { bytes: file.source.bytes, requests: file.source.requests }
    const { rows, candidates, prunedBy } = await file.locate(where, columns)
    if (columns) await file.scan({ where, columns })
    console.log(JSON.stringify({
      rows, candidates, prunedBy, ignored: Object.fromEntries(file.ignored), opened, bytes: file.source.bytes, requests: file.source.requests,
    }))
  } catch (error) {
    console.log(JSON.stringify({ error: error.message }))
  }
}
