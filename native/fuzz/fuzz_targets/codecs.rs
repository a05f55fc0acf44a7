//! Any bytes decompress to the size that is claimed or are refused, and what is compressed is decompressed.
#![no_main]

use std::io::Write;

use bytes::Bytes;
use flate2::write::GzEncoder;
use intarsia_native::codecs::{decompress, expansion};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let &[codec, a, b, c, ref body @ ..] = data else { return };
    let codec = i32::from(codec % 10);
    let claimed = u32::from_le_bytes([a, b, c, 0]) as usize;
    let body = Bytes::copy_from_slice(body);
    if let Ok(found) = decompress(codec, body.clone(), claimed) {
        assert_eq!(found.len(), claimed);
        assert!(claimed == 0 || claimed < (body.len() + 1) * expansion(codec).unwrap());
    }
    let Some(compressed) = compress(codec, &body) else { return };
    // a writer may compress more than the limit on what a reader believes
    if body.len() / expansion(codec).unwrap() > compressed.len() {
        return;
    }
    assert_eq!(decompress(codec, compressed.clone(), body.len()), Ok(body.clone()));
    if !body.is_empty() {
        assert!(decompress(codec, compressed.clone(), body.len() - 1).is_err() || body.len() == 1);
        assert!(decompress(codec, compressed, body.len() + 1).is_err());
    }
});

fn compress(codec: i32, data: &[u8]) -> Option<Bytes> {
    Some(Bytes::from(match codec {
        0 => data.to_vec(),
        1 => snap::raw::Encoder::new().compress_vec(data).unwrap(),
        2 => {
            let mut stream = GzEncoder::new(vec![], flate2::Compression::fast());
            stream.write_all(data).unwrap();
            stream.finish().unwrap()
        }
        5 => data.chunks(100).flat_map(framed).collect(),
        6 => zstd::bulk::compress(data, 1).unwrap(),
        7 => lz4_flex::block::compress(data),
        _ => return None,
    }))
}

/// A block of LZ4 as Hadoop writes it.
fn framed(block: &[u8]) -> Vec<u8> {
    let body = lz4_flex::block::compress(block);
    let sizes = [block.len() as u32, body.len() as u32].map(u32::to_be_bytes);
    [&sizes[0][..], &sizes[1], &body].concat()
}
