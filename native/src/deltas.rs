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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_suffixes_are_behind_those_of_prefixes() {
        // blocks of 128 lengths in 4 parts: 34 lengths, whose second part has one, in 1 bit each
        let mut prefixes = vec![0x80, 1, 4, 34, 0, 0, 1, 1, 7, 7];
        prefixes.extend([0; 8]);
        let suffixes = [0x80, 1, 4, 34, 0];
        let both = [&prefixes[..], &suffixes].concat();
        assert_eq!(check(&both, 2, 34), Ok(()));
        assert!(check(&both, 2, 33).is_err());
        assert_eq!(check(&prefixes, 1, 34), Ok(()));
        let many = [&prefixes[..], &[0x80, 1, 4, 35, 0]].concat();
        assert_eq!(check(&many, 2, 34), Err(Refusal("a page has more lengths than values")));
        for stop in 0..prefixes.len() {
            assert!(check(&both[..stop], 2, 34).is_err());
        }
        assert!(check(&[0x80, 1, 0, 34, 0], 2, 34).is_err());
    }
}
