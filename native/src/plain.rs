//! Selected numbers of pages in PLAIN, each of which is decompressed into the same memory.

use std::ops::Range;

use arrow_array::{ArrayRef, make_array};
use arrow_buffer::{ArrowNativeType, BooleanBufferBuilder, Buffer, NullBuffer};
use arrow_data::ArrayData;
use arrow_schema::DataType;

use crate::pages::Pages;
use crate::thrift::{Read, Reader, Refusal};

/// Returns selected numbers of a type as wide as in pages; None if arrow-rs is to decode them.
pub fn plain_numbers(chunks: &[Pages], ranges: &[Range<usize>], kind: &DataType) -> Read<Option<ArrayRef>> {
    if !chunks.iter().all(|chunk| chunk.data().all(|page| page.is_plain())) {
        return Ok(None);
    }
    match kind.primitive_width() {
        Some(4) => selected(chunks, ranges, kind, u32::from_le_bytes).map(Some),
        Some(8) => selected(chunks, ranges, kind, u64::from_le_bytes).map(Some),
        _ => Ok(None),
    }
}

fn selected<const WIDTH: usize, T: ArrowNativeType>(
    chunks: &[Pages],
    mut ranges: &[Range<usize>],
    kind: &DataType,
    number: impl Fn([u8; WIDTH]) -> T,
) -> Read<ArrayRef> {
    let length = ranges.iter().map(Range::len).sum();
    let mut found = Vec::new();
    found.try_reserve_exact(length).map_err(|_| Refusal("there is too little memory"))?;
    let mut nulls: Option<BooleanBufferBuilder> = None;
    let (mut raw, mut spread, mut first) = (Vec::new(), Vec::new(), 0);
    for (chunk, page) in chunks.iter().flat_map(|chunk| chunk.data().map(move |page| (chunk, page))) {
        let num_values = page.header.num_values;
        let stop = first + num_values;
        if ranges.first().is_some_and(|range| range.start < stop) {
            let (levels, bytes) = chunk.plain(page, &mut raw)?;
            let (mut values, _) = bytes.as_chunks::<WIDTH>();
            let valid = levels.map_or(Ok(None), |levels| validity(levels, num_values))?;
            if let Some(valid) = &valid {
                spread.clear();
                let mut each = values.iter();
                let value = |is_valid: &bool| if *is_valid { each.next().copied() } else { Some([0; WIDTH]) };
                spread.extend(valid.iter().map_while(value));
                values = &spread;
                nulls.get_or_insert_with(|| {
                    let mut before = BooleanBufferBuilder::new(length);
                    before.append_n(found.len(), true);
                    before
                });
            }
            let values = values.get(..num_values).ok_or(Refusal("a page has fewer values"))?;
            while let Some((range, others)) = ranges.split_first().filter(|(range, _)| range.start < stop) {
                let of_page = range.start.max(first) - first..range.end.min(stop) - first;
                found.extend(values[of_page.clone()].iter().map(|value| number(*value)));
                match (&mut nulls, &valid) {
                    (Some(nulls), Some(valid)) => nulls.append_slice(&valid[of_page]),
                    (Some(nulls), None) => nulls.append_n(of_page.len(), true),
                    _ => (),
                }
                if range.end > stop {
                    break;
                }
                ranges = others;
            }
        }
        first = stop;
    }
    let nulls = nulls.map(|mut nulls| NullBuffer::new(nulls.finish())).filter(|found| found.null_count() > 0);
    let array = ArrayData::builder(kind.clone()).len(length).add_buffer(Buffer::from_vec(found)).nulls(nulls);
    Ok(make_array(array.build()?))
}

/// Returns which values of a page have the definition level 1, and not 0; None if all have.
fn validity(levels: &[u8], num_values: usize) -> Read<Option<Vec<bool>>> {
    let (mut reader, mut valid) = (Reader::new(levels, 0)?, Vec::new());
    while valid.len() < num_values {
        let (left, head) = (num_values - valid.len(), reader.varint()?);
        let count = usize::try_from(head >> 1).unwrap_or(usize::MAX);
        if head & 1 == 1 {
            let bits = reader.take(count.min(left.div_ceil(8)))?;
            valid.extend((0..left.min(8 * bits.len())).map(|at| bits[at / 8] >> (at % 8) & 1 == 1));
            continue;
        }
        let level = reader.byte()?;
        if level == 1 && count >= num_values {
            return Ok(None);
        }
        if level > 1 {
            return Err(Refusal("a definition level is too large"));
        }
        valid.resize(valid.len() + count.min(left), level == 1);
    }
    Ok(Some(valid))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_runs_and_bits() {
        assert_eq!(validity(&[10, 1], 5), Ok(None));
        assert_eq!(validity(&[4, 0, 3, 0b101, 2, 1], 5), Ok(Some(vec![false, false, true, false, true])));
        assert_eq!(validity(&[2, 1, 2, 0], 2), Ok(Some(vec![true, false])));
        assert!(validity(&[2, 1], 2).is_err());
        assert!(validity(&[4, 2], 2).is_err());
        assert!(validity(&[5, 1], 12).is_err());
        assert!(validity(&[0, 0, 0], 1).is_err());
    }
}
