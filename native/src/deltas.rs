//! The lengths before texts in DELTA_LENGTH_BYTE_ARRAY and DELTA_BYTE_ARRAY: there are not more of them than values.
//!
//! arrow-rs allocates memory for as many lengths as a page claims, and the process ends if there is too little.

use crate::thrift::{Read, Reader, Refusal};

/// Checks the numbers of lengths at the beginning of the values of a page.
///
/// Args:
///     lists: How often there are lengths: once, or those of prefixes and those of suffixes.
pub fn check(values: &[u8], lists: usize, num_values: usize) -> Read<()> {
    let mut reader = Reader::new(values, 0)?;
    for list in 0..lists {
        let (block, num_parts, count) = (number(&mut reader)?, number(&mut reader)?, number(&mut reader)?);
        if count > num_values {
            return Err(Refusal("a page has more lengths than values"));
        }
        if list + 1 == lists {
            break;
        }
        reader.i64()?; // the first one
        let per_part = block.checked_div(num_parts).ok_or(Refusal("a block of lengths has no parts"))?;
        let mut left = count.saturating_sub(1);
        while left > 0 {
            reader.i64()?; // what is added to each of the block
            for width in reader.take(num_parts)? {
                if left > 0 {
                    reader.take(usize::from(*width).saturating_mul(per_part) / 8)?;
                    left = left.saturating_sub(per_part.max(1));
                }
            }
        }
    }
    Ok(())
}

fn number(reader: &mut Reader<'_>) -> Read<usize> {
    usize::try_from(reader.varint()?).map_err(|_| Refusal("a number has more than 32 bits"))
}
