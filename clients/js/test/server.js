import { createReadStream, statSync } from 'node:fs'
import { createServer } from 'node:http'
import { extname, join, normalize } from 'node:path'

/** Modules and style sheets need their type. */
const TYPES = { '.html': 'text/html', '.css': 'text/css', '.js': 'text/javascript', '.mjs': 'text/javascript' }

/** Serve a folder with ranges and ETags on a free port. `requests` counts the responses. @param {string} folder */
export function serve(folder) {
  const state = { requests: 0, url: '', close: () => {} }
  const server = createServer((request, response) => {
    state.requests += 1
    const path = join(folder, normalize(decodeURIComponent(new URL(request.url, 'http://here').pathname)))
    const stat = statSync(path, { throwIfNoEntry: false })
    if (!stat?.isFile()) return response.writeHead(404).end()
    const type = TYPES[extname(path)] ?? 'application/octet-stream'
    const etag = `"${stat.size}-${stat.mtimeMs}"`
    const { range, 'if-match': expected } = request.headers
    if (expected && expected !== etag) return response.writeHead(412).end()
    const [, first, last] = /bytes=(\d*)-(\d*)/.exec(range ?? '') ?? []
    if (first === undefined) return createReadStream(path).pipe(response.writeHead(200, { 'content-type': type, 'content-length': stat.size, etag }))
    const start = first ? Number(first) : Math.max(0, stat.size - Number(last))
    const end = first && last ? Math.min(stat.size - 1, Number(last)) : stat.size - 1
    if (start > end) return response.writeHead(416).end()
    response.writeHead(206, { 'content-range': `bytes ${start}-${end}/${stat.size}`, 'content-length': end - start + 1, etag })
    return createReadStream(path, { start, end }).pipe(response)
  })
  return new Promise(resolve => {
    server.listen(0, '127.0.0.1', () => resolve(Object.assign(state, {
      url: `http://127.0.0.1:${server.address().port}`,
      close: () => { server.closeAllConnections(); server.close() },
    })))
  })
}

if (process.argv[1] === import.meta.filename) console.log((await serve(process.argv[2])).url)
