//! Whether values can be in a dictionary page, found without decoding it.

use bytes::Bytes;
use memchr::memmem;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;

use crate::codecs::{Scratch, decompress_into};
use crate::guard;
use crate::thrift::{Read, Refusal};

/// The byte strings of a condition: a page with a match has all of those of one alternative.
type Sought = Vec<Vec<PyBackedBytes>>;

/// Return for each condition whether a dictionary page is proven to have no matching value.
///
/// Args:
///     data: Bytes that contain the page.
///     place: The start and the end of the page in them, without its header.
///     codec: Its compression.
///     raw_bytes: Its decompressed size.
///     width: The size of the values, which are numbers; None for other values.
///     sought: The alternatives of each condition; None for one that cannot be decided.
#[pyfunction]
pub fn lacking(
    py: Python<'_>,
    data: Bytes,
    place: (usize, usize),
    codec: i32,
    raw_bytes: i64,
    width: Option<usize>,
    sought: Vec<Option<Sought>>,
) -> PyResult<Vec<bool>> {
    guard(py, || {
        let (start, stop) = place;
        if start > stop || stop > data.len() {
            return Err(Refusal("a page is outside the bytes"));
        }
        let raw_bytes = usize::try_from(raw_bytes).map_err(|_| Refusal("a page has a negative size"))?;
        let (body, mut raw) = (&data[start..stop], Scratch::take());
        let values = if decompress_into(codec, body, raw_bytes, &mut raw.0)? { &raw.0 } else { body };
        let lacks = |sought: &Option<Sought>| match sought {
            None => Ok(false),
            Some(alternatives) => has_any(values, width, alternatives).map(|found| !found),
        };
        sought.iter().map(lacks).collect()
    })
}

fn has_any(values: &[u8], width: Option<usize>, alternatives: &Sought) -> Read<bool> {
    let has = |all, one: &PyBackedBytes| Read::Ok(all && contains(values, width, one)?);
    alternatives.iter().try_fold(false, |any, strings| Read::Ok(any || strings.iter().try_fold(true, has)?))
}

/// Returns whether values in PLAIN contain one: numbers of a width, or other bytes.
pub fn contains(values: &[u8], width: Option<usize>, sought: &[u8]) -> Read<bool> {
    Ok(match width {
        None => memmem::find(values, sought).is_some(),
        Some(8) => has_number::<8>(values, sought)?,
        Some(4) => has_number::<4>(values, sought)?,
        Some(_) => return Err(Refusal("numbers have another size")),
    })
}

fn has_number<const WIDTH: usize>(values: &[u8], sought: &[u8]) -> Read<bool> {
    let sought: &[u8; WIDTH] = sought.try_into().map_err(|_| Refusal("a value has another size"))?;
    let (numbers, _) = values.as_chunks::<WIDTH>();
    // without an early exit, so that it is compiled to vector instructions
    Ok(numbers.iter().fold(false, |found, one| found | (one == sought)))
}
