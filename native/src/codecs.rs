//! Decompression of pages into exactly the size that their headers claim.

use bytes::Bytes;

use crate::thrift::{Read, Refusal};

const UNCOMPRESSED: i32 = 0;
const SNAPPY: i32 = 1;
const ZSTD: i32 = 6;
const LZ4_RAW: i32 = 7;

/// The maximum size of a page.
const MAX_BYTES: usize = 1 << 30;

/// Returns the maximum size of a page of a codec, as a multiple of its compressed size.
pub fn expansion(codec: i32) -> Read<usize> {
    match codec {
        UNCOMPRESSED => Ok(1),
        SNAPPY => Ok(22),
        ZSTD => Ok(1 << 15),
        LZ4_RAW => Ok(255),
        _ => Err(Refusal("a codec is decoded by pyarrow")),
    }
}

pub fn decompress(codec: i32, body: Bytes, raw_bytes: usize) -> Read<Bytes> {
    if codec == UNCOMPRESSED {
        return if body.len() == raw_bytes { Ok(body) } else { Err(Refusal("a page has another size")) };
    }
    if raw_bytes == 0 {
        return Ok(Bytes::new());
    }
    if raw_bytes > MAX_BYTES || raw_bytes / expansion(codec)? > body.len() {
        return Err(Refusal("a page claims to be larger than its bytes can expand to"));
    }
    let mut out = Vec::new();
    out.try_reserve_exact(raw_bytes).map_err(|_| Refusal("there is too little memory for a page"))?;
    out.resize(raw_bytes, 0);
    let found = match codec {
        SNAPPY => snap::raw::Decoder::new().decompress(&body, &mut out).ok(),
        ZSTD => zstd::bulk::decompress_to_buffer(&body, &mut out).ok(),
        _ => lz4_flex::block::decompress_into(&body, &mut out).ok(),
    };
    if found != Some(raw_bytes) {
        return Err(Refusal("a page does not decompress to its size"));
    }
    Ok(Bytes::from(out))
}
