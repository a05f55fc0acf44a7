//! Selected numbers and texts of pages in PLAIN, or with codes of a dictionary in PLAIN, without arrow-rs.
//!
//! The pages of a column are decompressed into the same memory, and only selected values are copied.

use std::borrow::Cow;
use std::ops::Range;

use arrow_array::{ArrayRef, OffsetSizeTrait, make_array};
use arrow_buffer::{ArrowNativeType, BooleanBufferBuilder, Buffer, NullBuffer};
use arrow_data::ArrayData;
use arrow_schema::DataType;
use parquet::basic::Type;

use crate::pages::Pages;
use crate::schema::Field;
use crate::thrift::{Read, Reader, Refusal};

const TOO_FEW: Refusal = Refusal("a page has fewer values");
const NO_MEMORY: Refusal = Refusal("there is too little memory");

/// The code of a null.
const NULL: u32 = u32::MAX;

/// Returns the selected values of a column; None if arrow-rs is to decode them.
pub fn selected(field: &Field, chunks: &[Pages], ranges: &[Range<usize>]) -> Read<Option<ArrayRef>> {
    let kind = field.arrow.data_type();
    let Some(physical) = field.physical.filter(|_| chunks.iter().all(Pages::are_copied)) else {
        return Ok(None);
    };
    let array = match (physical, kind, kind.primitive_width()) {
        (Type::INT32 | Type::FLOAT, _, Some(4)) => {
            collect(Numbers(vec![], u32::from_le_bytes), chunks, ranges, kind)
        }
        (Type::INT64 | Type::DOUBLE, _, Some(8)) => {
            collect(Numbers(vec![], u64::from_le_bytes), chunks, ranges, kind)
        }
        (Type::INT64, DataType::Decimal128(..), _) => {
            let wide = |value| i128::from(i64::from_le_bytes(value));
            collect(Numbers(vec![], wide), chunks, ranges, kind)
        }
        (Type::BYTE_ARRAY, DataType::Utf8 | DataType::Binary, _) => {
            collect(Texts(vec![0i32], vec![]), chunks, ranges, kind)
        }
        (Type::BYTE_ARRAY, DataType::LargeUtf8 | DataType::LargeBinary, _) => {
            collect(Texts(vec![0i64], vec![]), chunks, ranges, kind)
        }
        _ => return Ok(None),
    };
    array.map(Some)
}

/// The values of an array.
trait Values {
    /// A value in a page.
    type Stored<'a>: Copy;

    fn null<'a>() -> Self::Stored<'a>;
    fn plain(bytes: &[u8], count: usize) -> Read<Cow<'_, [Self::Stored<'_>]>>;
    fn reserve(&mut self, length: usize) -> Read<()>;
    fn append<'a>(&mut self, values: impl Iterator<Item = Self::Stored<'a>>) -> Read<()>;
    fn buffers(self) -> Vec<Buffer>;
}

struct Numbers<const WIDTH: usize, T, F: Fn([u8; WIDTH]) -> T>(Vec<T>, F);

impl<const WIDTH: usize, T: ArrowNativeType, F: Fn([u8; WIDTH]) -> T> Values for Numbers<WIDTH, T, F> {
    type Stored<'a> = [u8; WIDTH];

    fn null<'a>() -> Self::Stored<'a> {
        [0; WIDTH]
    }

    fn plain(bytes: &[u8], count: usize) -> Read<Cow<'_, [Self::Stored<'_>]>> {
        bytes.as_chunks().0.get(..count).map(Cow::Borrowed).ok_or(TOO_FEW)
    }

    fn reserve(&mut self, length: usize) -> Read<()> {
        self.0.try_reserve_exact(length).map_err(|_| NO_MEMORY)
    }

    fn append<'a>(&mut self, values: impl Iterator<Item = Self::Stored<'a>>) -> Read<()> {
        self.0.extend(values.map(&self.1));
        Ok(())
    }

    fn buffers(self) -> Vec<Buffer> {
        vec![Buffer::from_vec(self.0)]
    }
}

/// The ends of the texts, after a zero, and their bytes.
struct Texts<O>(Vec<O>, Vec<u8>);

impl<O: OffsetSizeTrait> Values for Texts<O> {
    type Stored<'a> = &'a [u8];

    fn null<'a>() -> Self::Stored<'a> {
        &[]
    }

    fn plain(mut bytes: &[u8], count: usize) -> Read<Cow<'_, [Self::Stored<'_>]>> {
        let mut texts = Vec::new();
        texts.try_reserve_exact(count.min(bytes.len() / 4)).map_err(|_| NO_MEMORY)?;
        for _ in 0..count {
            let (length, rest) = bytes.split_first_chunk().ok_or(TOO_FEW)?;
            let (text, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize).ok_or(TOO_FEW)?;
            texts.push(text);
            bytes = rest;
        }
        Ok(Cow::Owned(texts))
    }

    fn reserve(&mut self, length: usize) -> Read<()> {
        self.0.try_reserve_exact(length).map_err(|_| NO_MEMORY)
    }

    fn append<'a>(&mut self, values: impl Iterator<Item = Self::Stored<'a>>) -> Read<()> {
        for text in values {
            let length = self.1.len() + text.len();
            if length > i32::MAX as usize || self.1.try_reserve(text.len()).is_err() {
                return Err(NO_MEMORY);
            }
            self.1.extend_from_slice(text);
            self.0.push(O::usize_as(length));
        }
        Ok(())
    }

    fn buffers(mut self) -> Vec<Buffer> {
        self.1.shrink_to_fit();
        vec![Buffer::from_vec(self.0), Buffer::from_vec(self.1)]
    }
}

fn collect<V: Values>(
    mut values: V,
    chunks: &[Pages],
    mut ranges: &[Range<usize>],
    kind: &DataType,
) -> Read<ArrayRef> {
    let length = ranges.iter().map(Range::len).sum();
    values.reserve(length)?;
    let (mut raw, mut raw_dictionary, mut codes) = (Vec::new(), Vec::new(), Vec::new());
    let mut nulls: Option<BooleanBufferBuilder> = None;
    let (mut first, mut num_found) = (0, 0);
    for chunk in chunks {
        let num_rows: usize = chunk.data().map(|page| page.header.num_values).sum();
        let is_selected = ranges.first().is_some_and(|range| range.start < first + num_rows);
        let dictionary = chunk
            .dictionary()
            .filter(|_| is_selected)
            .map(|page| V::plain(chunk.plain(page, &mut raw_dictionary)?.1, page.header.num_values))
            .transpose()?;
        for page in chunk.data() {
            let (start, num_values) = (first, page.header.num_values);
            first += num_values;
            let within = &ranges[..ranges.partition_point(|range| range.start < first)];
            let Some(last) = within.last().filter(|_| num_values > 0) else { continue };
            ranges = &ranges[within.len() - usize::from(last.end > first)..];
            let (levels, bytes) = chunk.plain(page, &mut raw)?;
            let valid = levels.map_or(Ok(None), |levels| validity(levels, num_values))?;
            let num_valid = |rows: Range<usize>| {
                valid.as_ref().map_or(rows.len(), |valid| valid[rows].iter().filter(|one| **one).count())
            };
            let is_coded = page.header.encoding != 0;
            let plain = if is_coded { None } else { Some(V::plain(bytes, num_valid(0..num_values))?) };
            let mut runs = Runs::of_dictionary(bytes);
            let (mut row, mut at) = (0, 0);
            for range in within {
                let rows = range.start.max(start) - start..range.end.min(first) - start;
                at += num_valid(row..rows.start);
                let places = at..at + num_valid(rows.clone());
                (row, at) = (rows.end, places.end);
                let valid_rows = valid.as_ref().map(|valid| &valid[rows.clone()]);
                match (&plain, &dictionary) {
                    (Some(plain), _) => append(&mut values, plain, places, None, valid_rows, &mut codes)?,
                    (None, Some(values_of)) => {
                        append(&mut values, values_of, places, Some(&mut runs), valid_rows, &mut codes)?;
                    }
                    _ => return Err(Refusal("a page lacks its dictionary")),
                }
                if valid.is_some() && nulls.is_none() {
                    let mut before = BooleanBufferBuilder::new(length);
                    before.append_n(num_found, true);
                    nulls = Some(before);
                }
                num_found += rows.len();
                match (&mut nulls, valid_rows) {
                    (Some(nulls), Some(valid)) => nulls.append_slice(valid),
                    (Some(nulls), None) => nulls.append_n(rows.len(), true),
                    _ => (),
                }
            }
        }
    }
    let nulls = nulls.map(|mut nulls| NullBuffer::new(nulls.finish())).filter(|found| found.null_count() > 0);
    let array = ArrayData::builder(kind.clone()).len(length).buffers(values.buffers()).nulls(nulls);
    Ok(make_array(array.build()?))
}

/// Appends the values at some places among those of a page, or with the codes there, and nulls between them.
fn append<V: Values>(
    values: &mut V,
    stored: &[V::Stored<'_>],
    places: Range<usize>,
    runs: Option<&mut Runs<'_>>,
    valid: Option<&[bool]>,
    codes: &mut Vec<u32>,
) -> Read<()> {
    codes.clear();
    match (runs, valid) {
        (None, None) => return values.append(stored[places].iter().copied()),
        (None, _) => codes.extend(places.map(|place| place as u32)),
        (Some(runs), _) => runs.read(places, stored.len(), codes)?,
    }
    if let Some(valid) = valid {
        let mut from = codes.len();
        codes.resize(valid.len(), NULL);
        for (row, is_valid) in valid.iter().enumerate().rev() {
            from -= usize::from(*is_valid);
            codes[row] = if *is_valid { codes[from] } else { NULL };
        }
    }
    values.append(codes.iter().map(|code| stored.get(*code as usize).copied().unwrap_or(V::null())))
}

/// Numbers in the RLE and bit-packing hybrid of Parquet, which are read in ascending order.
struct Runs<'a> {
    rest: &'a [u8],
    width: usize,
    /// The bits of the current run, or its only number.
    run: Result<&'a [u8], u32>,
    /// The positions of the current run.
    at: Range<usize>,
}

impl<'a> Runs<'a> {
    fn of(rest: &'a [u8], width: usize) -> Self {
        Runs { rest, width, run: Err(0), at: 0..0 }
    }

    fn of_dictionary(bytes: &'a [u8]) -> Self {
        bytes.split_first().map_or(Runs::of(bytes, 0), |(width, rest)| Runs::of(rest, usize::from(*width)))
    }

    fn advance(&mut self) -> Read<()> {
        let mut reader = Reader::new(self.rest, 0)?;
        let head = reader.varint()?;
        let count = usize::try_from(head >> 1).unwrap_or(usize::MAX).min(u32::MAX as usize);
        let (mut length, num_left) = (count, self.rest.len() - reader.position());
        if self.width > 32 {
            return Err(Refusal("codes have more than 32 bits"));
        }
        if head & 1 == 1 {
            // some writers omit the bits behind the last value
            let bits = reader.take(num_left.min(count * self.width))?;
            length = (8 * count).min((8 * bits.len()).checked_div(self.width).unwrap_or(usize::MAX));
            self.run = Ok(bits);
        } else {
            let bytes = reader.take(self.width.div_ceil(8))?;
            self.run = Err(bytes.iter().rev().fold(0, |number, byte| number << 8 | u32::from(*byte)));
        }
        self.rest = &self.rest[reader.position()..];
        self.at = self.at.end..self.at.end + length;
        Ok(())
    }

    /// Appends the numbers at some positions, which are behind those read before; they are below a limit.
    fn read(&mut self, mut range: Range<usize>, limit: usize, numbers: &mut Vec<u32>) -> Read<()> {
        let first = numbers.len();
        while !range.is_empty() {
            while self.at.end <= range.start {
                self.advance()?;
            }
            let stop = range.end.min(self.at.end);
            match self.run {
                Ok(bits) => {
                    let mask = (1u64 << self.width) - 1;
                    let places = range.start - self.at.start..stop - self.at.start;
                    numbers.extend(places.map(|place| {
                        let (from, shift) = (place * self.width / 8, place * self.width % 8);
                        let word = bits[from..].first_chunk().map_or_else(
                            || bits[from..].iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)),
                            |word| u64::from_le_bytes(*word),
                        );
                        (word >> shift & mask) as u32
                    }));
                }
                Err(number) => numbers.resize(numbers.len() + stop - range.start, number),
            }
            range.start = stop;
        }
        if numbers[first..].iter().any(|number| *number as usize >= limit) {
            return Err(Refusal("a code or level is too large"));
        }
        Ok(())
    }
}

/// Returns which values of a page have the definition level 1, and not 0; None if all have.
fn validity(levels: &[u8], num_values: usize) -> Read<Option<Vec<bool>>> {
    let mut runs = Runs::of(levels, 1);
    runs.advance()?;
    if runs.run == Err(1) && runs.at.end >= num_values {
        return Ok(None);
    }
    let mut found = Vec::new();
    runs.read(0..num_values, 2, &mut found)?;
    Ok(Some(found.into_iter().map(|level| level == 1).collect()))
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

    #[test]
    fn codes_are_read_at_their_places() {
        // 7 times 260, then the numbers from 0 on in 9 bits, of which the last group lacks its end
        let mut bytes = vec![9, 14, 4, 1, 5];
        let bits = (0..12u128).fold(0, |bits, number| bits | number << (9 * number));
        bytes.extend(&bits.to_le_bytes()[..14]);
        let read = |ranges: &[Range<usize>], limit| {
            let (mut runs, mut found) = (Runs::of_dictionary(&bytes), Vec::new());
            ranges.iter().try_for_each(|range| runs.read(range.clone(), limit, &mut found)).map(|()| found)
        };
        let all: Vec<u32> = [260; 7].into_iter().chain(0..12).collect();
        assert_eq!(read(&[0..19], 261), Ok(all));
        assert_eq!(read(&[6..9, 12..13, 18..19], 261), Ok(vec![260, 0, 1, 5, 11]));
        assert!(read(&[0..1], 260).is_err());
        assert!(read(&[18..20], 261).is_err());
        assert!(Runs::of_dictionary(&[]).read(0..1, 1, &mut vec![]).is_err());
        assert_eq!(Runs::of_dictionary(&[0, 6]).read(1..3, 1, &mut vec![]), Ok(()));
    }
}
