//! Selected numbers and texts in PLAIN, or with codes of a dictionary in PLAIN, without arrow-rs.
//!
//! The pages of a column are decompressed into the same memory, and only selected values are copied.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

use arrow_array::{ArrayRef, OffsetSizeTrait, make_array};
use arrow_buffer::{ArrowNativeType, BooleanBufferBuilder, Buffer, NullBuffer};
use arrow_data::{ArrayData, ArrayDataBuilder};
use arrow_schema::DataType;
use parquet::basic::Type;

use crate::codecs::Scratch;
use crate::pages::Pages;
use crate::schema::Field;
use crate::thrift::{Read, Reader, Refusal};

const TOO_FEW: Refusal = Refusal("a page has fewer values");
const NO_MEMORY: Refusal = Refusal("there is too little memory");

/// Returns the selected values of a column, those of texts as a dictionary array if this is asked for; None if
/// arrow-rs is to decode them.
pub fn selected(
    field: &Field,
    chunks: &[Pages],
    ranges: &[Range<usize>],
    as_dictionary: bool,
) -> Read<Option<ArrayRef>> {
    let kind = field.arrow.data_type();
    let are_copied = chunks.iter().all(Pages::are_copied);
    let Some(physical) = field.physical.filter(|_| are_copied) else { return Ok(None) };
    let length = ranges.iter().map(Range::len).sum();
    let given = (chunks, ranges, length, kind);
    let array = match (physical, kind, kind.primitive_width()) {
        (Type::INT32 | Type::FLOAT, _, Some(4)) => collect(Numbers(room(length)?, u32::from_le_bytes), given),
        (Type::INT64 | Type::DOUBLE, _, Some(8)) => {
            collect(Numbers(room(length)?, u64::from_le_bytes), given)
        }
        (Type::INT64, DataType::Decimal128(..), _) => {
            collect(Numbers(room(length)?, |value| i128::from(i64::from_le_bytes(value))), given)
        }
        (Type::BYTE_ARRAY, DataType::Utf8 | DataType::Binary, _) if as_dictionary => {
            collect(Codes::<i32>::of(length, kind)?, given)
        }
        (Type::BYTE_ARRAY, DataType::LargeUtf8 | DataType::LargeBinary, _) if as_dictionary => {
            collect(Codes::<i64>::of(length, kind)?, given)
        }
        (Type::BYTE_ARRAY, DataType::Utf8 | DataType::Binary, _) => collect(Texts::<i32>::of(length)?, given),
        (Type::BYTE_ARRAY, DataType::LargeUtf8 | DataType::LargeBinary, _) => {
            collect(Texts::<i64>::of(length)?, given)
        }
        _ => return Ok(None),
    };
    array.map(Some)
}

fn room<T>(length: usize) -> Read<Vec<T>> {
    let mut found = Vec::new();
    found.try_reserve_exact(length).map_err(|_| NO_MEMORY)?;
    Ok(found)
}

/// The values of an array.
trait Values {
    /// A value in a page.
    type Stored<'a>: Copy;

    /// Returns what the codes of a dictionary page stand for.
    fn dictionary<'a>(&mut self, page: &'a [u8], count: usize) -> Read<Cow<'a, [Self::Stored<'a>]>>;
    /// Appends some of the values in PLAIN that are left of a page, and nulls; the bytes behind them are left.
    fn append_plain(&mut self, page: &mut &[u8], places: Range<usize>, valid: Option<&[bool]>) -> Read<()>;
    /// Appends values and nulls.
    fn append<'a>(&mut self, values: impl Iterator<Item = Option<Self::Stored<'a>>>) -> Read<()>;
    /// Adds the values to an array of a type.
    fn fill(self, array: ArrayDataBuilder) -> Read<ArrayDataBuilder>;
}

struct Numbers<const WIDTH: usize, T, F: Fn([u8; WIDTH]) -> T>(Vec<T>, F);

impl<const WIDTH: usize, T: ArrowNativeType, F: Fn([u8; WIDTH]) -> T> Values for Numbers<WIDTH, T, F> {
    type Stored<'a> = [u8; WIDTH];

    fn dictionary<'a>(&mut self, page: &'a [u8], count: usize) -> Read<Cow<'a, [Self::Stored<'a>]>> {
        page.as_chunks().0.get(..count).map(Cow::Borrowed).ok_or(TOO_FEW)
    }

    fn append_plain(&mut self, page: &mut &[u8], places: Range<usize>, valid: Option<&[bool]>) -> Read<()> {
        let (stored, stop) = (page.as_chunks().0, places.end);
        append(self, stored.get(places).ok_or(TOO_FEW)?.iter().copied(), valid)?;
        *page = &page[stop * WIDTH..];
        Ok(())
    }

    fn append<'a>(&mut self, values: impl Iterator<Item = Option<Self::Stored<'a>>>) -> Read<()> {
        self.0.extend(values.map(|value| value.map_or(T::default(), &self.1)));
        Ok(())
    }

    fn fill(self, array: ArrayDataBuilder) -> Read<ArrayDataBuilder> {
        Ok(array.add_buffer(Buffer::from_vec(self.0)))
    }
}

/// The ends of the texts, after a zero, and their bytes.
struct Texts<O>(Vec<O>, Vec<u8>);

impl<O: OffsetSizeTrait> Texts<O> {
    fn of(length: usize) -> Read<Self> {
        let mut ends = room(length + 1)?;
        ends.push(O::usize_as(0));
        Ok(Texts(ends, Vec::new()))
    }
}

impl<O: OffsetSizeTrait> Values for Texts<O> {
    type Stored<'a> = &'a [u8];

    fn dictionary<'a>(&mut self, mut page: &'a [u8], count: usize) -> Read<Cow<'a, [Self::Stored<'a>]>> {
        let mut texts = room(count.min(page.len() / 4))?;
        for _ in 0..count {
            texts.push(text(&mut page)?);
        }
        Ok(Cow::Owned(texts))
    }

    fn append_plain(&mut self, page: &mut &[u8], places: Range<usize>, valid: Option<&[bool]>) -> Read<()> {
        for _ in 0..places.start {
            text(page)?;
        }
        let mut found = *page;
        for _ in places.clone() {
            text(page)?;
        }
        let num_bytes = found.len() - page.len() - 4 * places.len();
        self.1.try_reserve(num_bytes).map_err(|_| NO_MEMORY)?;
        append(self, places.map(|_| text(&mut found).unwrap_or_default()), valid)
    }

    fn append<'a>(&mut self, values: impl Iterator<Item = Option<Self::Stored<'a>>>) -> Read<()> {
        for text in values.map(Option::unwrap_or_default) {
            let length = self.1.len() + text.len();
            if length > i32::MAX as usize || self.1.try_reserve(text.len()).is_err() {
                return Err(NO_MEMORY);
            }
            self.1.extend_from_slice(text);
            self.0.push(O::usize_as(length));
        }
        Ok(())
    }

    fn fill(mut self, array: ArrayDataBuilder) -> Read<ArrayDataBuilder> {
        self.1.shrink_to_fit();
        Ok(array.add_buffer(Buffer::from_vec(self.0)).add_buffer(Buffer::from_vec(self.1)))
    }
}

/// Takes a text in PLAIN from the bytes.
fn text<'a>(page: &mut &'a [u8]) -> Read<&'a [u8]> {
    let (length, rest) = page.split_first_chunk().ok_or(TOO_FEW)?;
    let (text, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize).ok_or(TOO_FEW)?;
    *page = rest;
    Ok(text)
}

/// The ordinals of texts among the distinct ones of all dictionary pages, and these.
struct Codes<'a, O> {
    codes: Vec<i32>,
    known: HashMap<Vec<u8>, i32>,
    texts: Texts<O>,
    kind: &'a DataType,
}

impl<'a, O: OffsetSizeTrait> Codes<'a, O> {
    fn of(length: usize, kind: &'a DataType) -> Read<Self> {
        Ok(Codes { codes: room(length)?, known: HashMap::new(), texts: Texts::of(0)?, kind })
    }
}

impl<O: OffsetSizeTrait> Values for Codes<'_, O> {
    type Stored<'a> = i32;

    fn append_plain(&mut self, _: &mut &[u8], _: Range<usize>, _: Option<&[bool]>) -> Read<()> {
        Err(Refusal("a page has no codes"))
    }

    fn dictionary<'a>(&mut self, page: &'a [u8], count: usize) -> Read<Cow<'a, [i32]>> {
        let mut codes = room(count)?;
        for text in self.texts.dictionary(page, count)?.iter() {
            let next = i32::try_from(self.known.len()).map_err(|_| NO_MEMORY)?;
            codes.push(*self.known.entry(text.to_vec()).or_insert(next));
            if codes.last() == Some(&next) {
                self.texts.append([Some(*text)].into_iter())?;
            }
        }
        Ok(Cow::Owned(codes))
    }

    fn append<'a>(&mut self, values: impl Iterator<Item = Option<Self::Stored<'a>>>) -> Read<()> {
        self.codes.extend(values.map(Option::unwrap_or_default));
        Ok(())
    }

    fn fill(self, array: ArrayDataBuilder) -> Read<ArrayDataBuilder> {
        let texts = ArrayData::builder(self.kind.clone()).len(self.known.len());
        let kind = DataType::Dictionary(Box::new(DataType::Int32), Box::new(self.kind.clone()));
        let array = array.data_type(kind).add_buffer(Buffer::from_vec(self.codes));
        Ok(array.add_child_data(self.texts.fill(texts)?.build()?))
    }
}

/// What is selected: the pages of chunks, ranges of their rows, the number of these, and the type.
type Given<'a> = (&'a [Pages], &'a [Range<usize>], usize, &'a DataType);

fn collect<V: Values>(mut values: V, (chunks, mut ranges, length, kind): Given<'_>) -> Read<ArrayRef> {
    // the first one keeps the memory, so that of the dictionary, which is larger
    let (mut raw_dictionary, mut raw, mut codes) = (Scratch::take(), Scratch::take(), Vec::new());
    let mut nulls: Option<BooleanBufferBuilder> = None;
    let (mut first, mut num_found) = (0, 0);
    for chunk in chunks {
        let num_rows: usize = chunk.data().map(|page| page.header.num_values).sum();
        let is_selected = ranges.first().is_some_and(|range| range.start < first + num_rows);
        let dictionary = chunk
            .dictionary()
            .filter(|_| is_selected)
            .map(|page| {
                values.dictionary(chunk.plain(page, &mut raw_dictionary.0)?.1, page.header.num_values)
            })
            .transpose()?;
        for page in chunk.data() {
            let (start, num_values) = (first, page.header.num_values);
            first += num_values;
            let within = &ranges[..ranges.partition_point(|range| range.start < first)];
            let Some(last) = within.last().filter(|_| num_values > 0) else { continue };
            ranges = &ranges[within.len() - usize::from(last.end > first)..];
            let (levels, bytes) = chunk.plain(page, &mut raw.0)?;
            let valid = levels.map_or(Ok(None), |levels| validity(levels, num_values))?;
            let num_valid = |rows: Range<usize>| {
                valid.as_ref().map_or(rows.len(), |valid| valid[rows].iter().filter(|one| **one).count())
            };
            if valid.is_some() && nulls.is_none() {
                let mut before = BooleanBufferBuilder::new(length);
                before.append_n(num_found, true);
                nulls = Some(before);
            }
            let is_plain = page.header.encoding == 0;
            let (mut rest, mut runs, mut row, mut at) = (bytes, Runs::of_dictionary(bytes), 0, 0);
            for range in within {
                let rows = range.start.max(start) - start..range.end.min(first) - start;
                num_found += rows.len();
                let here = valid.as_ref().map(|valid| &valid[rows.clone()]);
                match (&mut nulls, here) {
                    (Some(nulls), Some(valid)) => nulls.append_slice(valid),
                    (Some(nulls), None) => nulls.append_n(rows.len(), true),
                    _ => (),
                }
                let skipped = num_valid(row..rows.start);
                let places = skipped..skipped + num_valid(rows.clone());
                row = rows.end;
                if is_plain {
                    values.append_plain(&mut rest, places, here)?;
                    continue;
                }
                let stored = dictionary.as_ref().ok_or(Refusal("a page lacks its dictionary"))?;
                codes.clear();
                runs.read(at + places.start..at + places.end, stored.len(), &mut codes)?;
                at += places.end;
                append(&mut values, codes.iter().map(|code| stored[*code as usize]), here)?;
            }
        }
    }
    let nulls = nulls.map(|mut nulls| NullBuffer::new(nulls.finish())).filter(|found| found.null_count() > 0);
    let array = values.fill(ArrayData::builder(kind.clone()).len(length).nulls(nulls))?;
    Ok(make_array(array.build()?))
}

/// Appends values, and nulls between them.
fn append<'a, V: Values>(
    values: &mut V,
    mut found: impl Iterator<Item = V::Stored<'a>>,
    valid: Option<&[bool]>,
) -> Read<()> {
    match valid {
        None => values.append(found.map(Some)),
        Some(valid) => {
            values.append(valid.iter().map(|is_valid| if *is_valid { found.next() } else { None }))
        }
    }
}

/// Numbers in the RLE and bit-packing hybrid of Parquet, which are read in ascending order.
pub struct Runs<'a> {
    rest: &'a [u8],
    width: usize,
    /// The bits of the current run, or its only number.
    run: Result<&'a [u8], u32>,
    /// The positions of the current run.
    at: Range<usize>,
}

impl<'a> Runs<'a> {
    /// Returns the codes of a page.
    pub fn of_dictionary(bytes: &'a [u8]) -> Self {
        let (width, rest) = bytes.split_first().unwrap_or((&0, bytes));
        Runs { rest, width: usize::from(*width), run: Err(0), at: 0..0 }
    }

    /// Returns levels up to a maximum.
    pub fn of_levels(bytes: &'a [u8], most: usize) -> Self {
        let width = (usize::BITS - most.leading_zeros()) as usize;
        Runs { rest: bytes, width, run: Err(0), at: 0..0 }
    }

    fn advance(&mut self) -> Read<()> {
        let mut reader = Reader::new(self.rest, 0)?;
        let head = reader.varint()?;
        let count = usize::try_from(head >> 1).unwrap_or(usize::MAX).min(u32::MAX as usize);
        let (mut length, num_left) = (count, self.rest.len() - reader.position);
        if self.width > 32 || count == 0 {
            return Err(Refusal("codes have more than 32 bits, or a run is empty"));
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
        self.rest = &self.rest[reader.position..];
        self.at = self.at.end..self.at.end + length;
        Ok(())
    }

    /// Appends the numbers at some positions, which are behind those read before. All are below a limit.
    pub fn read(&mut self, mut range: Range<usize>, limit: usize, numbers: &mut Vec<u32>) -> Read<()> {
        while !range.is_empty() {
            while self.at.end <= range.start {
                self.advance()?;
            }
            let stop = range.end.min(self.at.end);
            match self.run {
                Ok(bits) => {
                    let mask = (1u64 << self.width) - 1;
                    let mut bit = (range.start - self.at.start) * self.width;
                    numbers.extend((range.start..stop).map(|_| {
                        let (rest, shift) = (&bits[bit / 8..], bit % 8);
                        bit += self.width;
                        let word = rest.first_chunk().map_or_else(
                            || rest.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)),
                            |word| u64::from_le_bytes(*word),
                        );
                        (word >> shift & mask) as u32
                    }));
                }
                Err(number) => numbers.resize(numbers.len() + stop - range.start, number),
            }
            range.start = stop;
        }
        if numbers.iter().max().is_some_and(|most| *most as usize >= limit) {
            return Err(Refusal("a code or level is too large"));
        }
        Ok(())
    }
}

/// Returns which values of a page have the definition level 1, and not 0; None if all have.
pub fn validity(levels: &[u8], num_values: usize) -> Read<Option<Vec<bool>>> {
    let mut runs = Runs::of_levels(levels, 1);
    runs.advance()?;
    if runs.run == Err(1) && runs.at.end >= num_values {
        return Ok(None);
    }
    let mut found = Vec::new();
    runs.read(0..num_values, 2, &mut found)?;
    Ok(Some(found.into_iter().map(|level| level == 1).collect()))
}
