/**
 * Ranges of a file: over HTTP, or of a Blob, such as a file that a user has chosen. Ranges that are asked for in the
 * same turn of the event loop are read together, and what was read last is kept. Every request is counted.
 */

/** The first request: the end of the file, which has the footer, and often the indexes before it. */
const TAIL_BYTES = 1 << 15

/** Ranges with at most so many bytes between them are read in one request. */
const GAP_BYTES = 1 << 14

/** The most bytes that are kept, unless the end of the file and the last range are larger. */
const KEPT_BYTES = 1 << 26

/** @typedef {{ start: number, stop: number, resolve: (data: ArrayBuffer) => void, reject: (error: unknown) => void }} Wanted */

export class Source {
  /**
   * @param {string} name for errors
   * @param {number} byteLength
   * @param {(start: number, stop: number) => Promise<ArrayBuffer>} read
   */
  constructor(name, byteLength, read) {
    this.name = name
    this.byteLength = byteLength
    this.requests = 0
    this.bytes = 0
    this.read = read
    /** @type {[number, ArrayBuffer][]} */
    this.kept = []
    this.keptBytes = 0
    /** @type {[number, number][]} */
    this.ranges = []
    /** @type {Wanted[]} */
    this.wanted = []
  }

  /** @param {number} start @param {number} [stop] @returns {Promise<ArrayBuffer>} */
  slice(start, stop = this.byteLength) {
    if (!(start >= 0 && start <= stop && stop <= this.byteLength)) {
      return Promise.reject(new Error(`${this.name}: bytes ${start} to ${stop} are outside the file`))
    }
    const kept = start === stop ? new ArrayBuffer(0) : this.find(start, stop)
    if (kept) return Promise.resolve(kept)
    return new Promise((resolve, reject) => {
      if (!this.wanted.length) setTimeout(() => this.flush())
      this.wanted.push({ start, stop, resolve, reject })
    })
  }

  /** @param {number} start @param {number} stop */
  find(start, stop) {
    const kept = this.kept.find(([at, data]) => at <= start && stop <= at + data.byteLength)
    return kept?.[1].slice(start - kept[0], stop - kept[0])
  }

  /** Read what is wanted, adjacent ranges in one request. */
  flush() {
    const wanted = this.wanted.sort((a, b) => a.start - b.start)
    this.wanted = []
    while (wanted.length) {
      const batch = [/** @type {Wanted} */ (wanted.shift())]
      let { start, stop } = batch[0]
      while (wanted.length && wanted[0].start <= stop + GAP_BYTES) {
        const next = /** @type {Wanted} */ (wanted.shift())
        stop = Math.max(stop, next.stop)
        batch.push(next)
      }
      this.request(start, stop).then(
        data => batch.forEach(one => one.resolve(data.slice(one.start - start, one.stop - start))),
        error => batch.forEach(one => one.reject(error)),
      )
    }
  }

  /** @param {number} start @param {number} stop */
  async request(start, stop) {
    const data = await this.read(start, stop)
    if (data.byteLength !== stop - start) throw new Error(`${this.name}: ${data.byteLength} bytes instead of ${stop - start}`)
    this.keep(start, data)
    return data
  }

  /** @param {number} start @param {ArrayBuffer} data */
  keep(start, data) {
    this.requests += 1
    this.bytes += data.byteLength
    this.ranges.push([start, start + data.byteLength])
    this.kept.push([start, data])
    this.keptBytes += data.byteLength
    while (this.keptBytes > KEPT_BYTES && this.kept.length > 2) {
      this.keptBytes -= this.kept.splice(1, 1)[0][1].byteLength // the first one is the end of the file
    }
  }
}

/** @param {Blob} blob @returns {Source} */
export function blobSource(blob) {
  const name = blob instanceof File ? blob.name : 'the file'
  return new Source(name, blob.size, (start, stop) => blob.slice(start, stop).arrayBuffer())
}

/**
 * Open a file over HTTP. Its end is read at once.
 *
 * @param {string} url
 * @param {typeof fetch} [fetchFn]
 * @param {RequestInit} [init] options of each request, such as headers
 * @returns {Promise<Source>}
 */
export async function httpSource(url, fetchFn = fetch, init = {}) {
  /** @param {Record<string, string>} more */
  const get = async more => {
    const headers = new Headers(init.headers)
    for (const [name, value] of Object.entries(more)) headers.set(name, value)
    const ask = () => fetchFn(url, { ...init, headers })
    // a server may close a kept connection at the moment of a request, so one is repeated
    const response = await ask().catch(ask).catch(error => {
      throw new Error(`${url}: ${error.cause?.message ?? error.message}`, { cause: error })
    })
    if (response.status === 206) return response
    await response.body?.cancel()
    if (response.status === 412) throw new Error(`${url}: the file was replaced while it was read; open it again`)
    if (response.status === 200) throw new Error(`${url}: the server ignores ranges; use one that supports them`)
    throw new Error(`${url}: the server answered ${response.status}`)
  }
  const first = await get({ Range: `bytes=-${TAIL_BYTES}` })
  const total = Number(first.headers.get('content-range')?.split('/')[1])
  if (!total) throw new Error(`${url}: no Content-Range; let the server expose this header (CORS)`)
  const etag = first.headers.get('etag')
  // a strong ETag prevents a mix of two versions of the file
  /** @type {Record<string, string>} */
  const version = etag && !etag.startsWith('W/') ? { 'If-Match': etag } : {}
  const source = new Source(url, total, async (start, stop) =>
    (await get({ ...version, Range: `bytes=${start}-${stop - 1}` })).arrayBuffer())
  const tail = await first.arrayBuffer()
  source.keep(total - tail.byteLength, tail)
  return source
}
