//! Decompression of pages into exactly the size that their headers claim.

use std::cell::Cell;
use std::io::Read as _;

use bytes::Bytes;
use flate2::bufread::GzDecoder;

use crate::thrift::{Read, Refusal};

pub const UNCOMPRESSED: i32 = 0;
const SNAPPY: i32 = 1;
const GZIP: i32 = 2;
const LZ4_HADOOP: i32 = 5;
const ZSTD: i32 = 6;
const LZ4_RAW: i32 = 7;

/// The maximum size of a page.
const MAX_BYTES: usize = 1 << 30;

/// The maximum size of the memory that a thread keeps.
const MAX_SCRATCH_BYTES: usize = 1 << 22;

/// Returns the maximum size of a page of a codec, as a multiple of its compressed size.
pub fn expansion(codec: i32) -> Read<usize> {
    match codec {
        UNCOMPRESSED => Ok(1),
        SNAPPY => Ok(22),
        GZIP => Ok(1032),
        ZSTD => Ok(1 << 15),
        LZ4_HADOOP | LZ4_RAW => Ok(255),
        _ => Err(Refusal("a codec is decoded by pyarrow")),
    }
}

thread_local! {
    static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Memory of the thread for a page: new memory costs up to half as much as decompressing into it.
pub struct Scratch(pub Vec<u8>);

impl Scratch {
    pub fn take() -> Self {
        Scratch(SCRATCH.take())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if self.0.capacity() <= MAX_SCRATCH_BYTES {
            SCRATCH.set(std::mem::take(&mut self.0));
        }
    }
}

pub fn decompress(codec: i32, body: Bytes, raw_bytes: usize) -> Read<Bytes> {
    let mut out = Vec::new();
    if decompress_into(codec, &body, raw_bytes, &mut out)? { Ok(Bytes::from(out)) } else { Ok(body) }
}

/// Decompresses into the first bytes of memory that may be used again; returns false if nothing is compressed.
pub fn decompress_into(codec: i32, body: &[u8], raw_bytes: usize, out: &mut Vec<u8>) -> Read<bool> {
    if codec == UNCOMPRESSED {
        return if body.len() == raw_bytes { Ok(false) } else { Err(Refusal("a page has another size")) };
    }
    if raw_bytes > MAX_BYTES || raw_bytes / expansion(codec)? > body.len() {
        return Err(Refusal("a page claims to be larger than its bytes can expand to"));
    }
    let missing = raw_bytes.saturating_sub(out.len());
    out.try_reserve_exact(missing).map_err(|_| Refusal("there is too little memory for a page"))?;
    out.resize(raw_bytes, 0);
    let found = match codec {
        _ if raw_bytes == 0 => Some(0),
        SNAPPY => snap::raw::Decoder::new().decompress(body, out).ok(),
        GZIP => gzip(body, out),
        LZ4_HADOOP => hadoop(body, out),
        ZSTD => zstd::bulk::decompress_to_buffer(body, out.as_mut_slice()).ok(),
        _ => lz4_flex::block::decompress_into(body, out).ok(),
    };
    if found == Some(raw_bytes) { Ok(true) } else { Err(Refusal("a page does not decompress to its size")) }
}

/// Decompresses the first member, as pyarrow does.
fn gzip(body: &[u8], out: &mut [u8]) -> Option<usize> {
    let mut stream = GzDecoder::new(body);
    stream.read_exact(out).ok()?;
    // reading the end compares the checksum
    (stream.read(&mut [0]).ok()? == 0).then_some(out.len())
}

/// Decompresses blocks of LZ4, before each of which are its sizes.
fn hadoop(mut body: &[u8], out: &mut [u8]) -> Option<usize> {
    let mut written = 0;
    while !body.is_empty() {
        let (sizes, rest) = body.split_at_checked(8)?;
        let size = |at: usize| u32::from_be_bytes(sizes[at..at + 4].try_into().expect("4 bytes")) as usize;
        let (block, rest) = rest.split_at_checked(size(4))?;
        let into = out[written..].get_mut(..size(0))?;
        if lz4_flex::block::decompress_into(block, into).ok()? != size(0) {
            return None;
        }
        (written, body) = (written + size(0), rest);
    }
    Some(written)
}
