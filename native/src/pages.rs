//! The pages of a chunk, checked against what was planned, for arrow-rs to decode.

use std::vec::IntoIter;

use bytes::Bytes;
use parquet::basic::Encoding;
use parquet::column::page::{Page, PageIterator, PageMetadata, PageReader};
use parquet::errors::{ParquetError, Result as ParquetResult};

use crate::codecs::{UNCOMPRESSED, decompress, decompress_into, expansion};
use crate::deltas::check;
use crate::headers::{Kind, PageHeader, parse};
use crate::schema::Leaf;
use crate::thrift::{Read, Refusal};
use crate::values::Runs;

/// Where bytes are: a buffer, and the start and stop in it.
pub type Span = (Bytes, usize, usize);

/// Some data pages of a chunk, or all of it.
#[derive(pyo3::FromPyObject)]
pub struct Chunk {
    /// The chunk's `CompressionCodec`.
    pub codec: i32,
    /// The bytes of the pages.
    pub span: Span,
    /// The dictionary page, if it is apart from them.
    pub dictionary: Option<Span>,
    /// The offset of each data page from the first one; empty for a whole chunk.
    pub page_starts: Vec<usize>,
    /// The number of rows of each data page; of a whole chunk, their sum.
    pub page_rows: Vec<usize>,
    /// The number of values of a whole chunk.
    pub num_values: usize,
}

impl Chunk {
    pub fn num_rows(&self) -> usize {
        self.page_rows.iter().sum()
    }
}

/// A chunk claims at most this many values, and this many more for each byte.
const MAX_VALUES: usize = 1 << 22;
const MAX_VALUES_PER_BYTE: usize = 1 << 10;

/// This many levels of lists are decoded into memory to be counted or checked.
const LEVELS_AT_ONCE: usize = 1 << 14;

/// A page whose header agrees with its bytes.
pub struct CheckedPage {
    pub header: PageHeader,
    body: Bytes,
    /// The number of rows, if they are counted and all pages begin with one.
    num_rows: Option<usize>,
}

/// The pages of a chunk whose headers agree with the plan. A page is decompressed when it is decoded, but those of
/// lists before, as only their levels show which rows they have.
pub struct Pages {
    /// The size of the pages before compression, as their headers claim it.
    pub raw_bytes: usize,
    /// The number of values, nulls and empty lists.
    pub num_values: usize,
    codec: i32,
    max_levels: [usize; 2],
    pages: IntoIter<CheckedPage>,
    next: Option<CheckedPage>,
}

impl Pages {
    /// Parses and checks the headers of a leaf's pages.
    pub fn of(chunk: &Chunk, leaf: &Leaf, checksums: bool) -> Read<Pages> {
        let most = expansion(chunk.codec)?;
        let (data, start, stop) = &chunk.span;
        if *stop > data.len() || start > stop {
            return Err(Refusal("a range is outside the bytes"));
        }
        let is_list = leaf.max_levels[0] > 0;
        let mut pages = Vec::with_capacity(chunk.page_rows.len() + 1);
        if let Some((data, start, stop)) = &chunk.dictionary {
            let (page, end) = page_at(data, *start, *stop, is_list, checksums)?;
            if page.header.kind != Kind::Dictionary || end != *stop {
                return Err(Refusal("the bytes before the data pages are not one dictionary page"));
            }
            pages.push(page);
        }
        if chunk.page_starts.is_empty() {
            let (mut at, mut found) = (*start, 0);
            let num_values = if is_list { chunk.num_values } else { chunk.num_rows() };
            while found < num_values {
                let (page, end) = page_at(data, at, *stop, is_list, checksums)?;
                match page.header.kind {
                    Kind::Dictionary if !pages.is_empty() => {
                        return Err(Refusal("a chunk has a second dictionary page"));
                    }
                    Kind::Dictionary => (),
                    _ => found += page.header.num_values,
                }
                pages.push(page);
                at = end;
            }
            if found != num_values {
                return Err(Refusal("the pages of a chunk have another number of values"));
            }
        } else {
            if chunk.page_starts.len() != chunk.page_rows.len() {
                return Err(Refusal("a plan has another number of pages"));
            }
            let ends = chunk.page_starts[1..].iter().map(|next| start + next).chain([*stop]);
            for ((first, end), rows) in chunk.page_starts.iter().zip(ends).zip(&chunk.page_rows) {
                let (page, found) = page_at(data, start + first, end, is_list, checksums)?;
                let is_other = !is_list && page.header.num_values != *rows;
                if page.header.kind == Kind::Dictionary || found != end || is_other {
                    return Err(Refusal("a page is not the one in the OffsetIndex"));
                }
                pages.push(page);
            }
        }
        // memory is reserved for what pages claim, and by one of arrow-rs's readers for the values of dictionaries
        let is_false = |PageHeader { kind, num_values, raw_bytes, body_bytes, .. }: &PageHeader| {
            raw_bytes / most > *body_bytes
                || *kind == Kind::Dictionary && *num_values > raw_bytes / leaf.plain_bytes
        };
        if pages.iter().any(|page| is_false(&page.header)) {
            return Err(Refusal("a page claims more than its bytes can hold"));
        }
        let raw_bytes = pages.iter().map(|page| page.header.raw_bytes).sum();
        let data = |page: &&CheckedPage| page.header.kind != Kind::Dictionary;
        let num_values = pages.iter().filter(data).map(|page| page.header.num_values).sum();
        if num_values > MAX_VALUES + MAX_VALUES_PER_BYTE * (stop - start) {
            return Err(Refusal("the pages claim too many values"));
        }
        let mut codec = chunk.codec;
        if is_list {
            for page in &mut pages {
                page.body = page.raw(codec)?;
            }
            codec = UNCOMPRESSED;
            count_rows(&mut pages, chunk, leaf)?;
        }
        let mut pages = pages.into_iter();
        let next = pages.next();
        Ok(Pages { raw_bytes, num_values, codec, max_levels: leaf.max_levels, pages, next })
    }

    /// Returns whether all values are in PLAIN or a dictionary.
    pub fn are_plain(&self) -> bool {
        self.all().all(|page| matches!(page.header.encoding, 0 | 2 | 8))
    }

    /// Returns whether `plain` finds values in PLAIN or a dictionary, and levels in RLE.
    pub fn are_copied(&self) -> bool {
        let is_rle =
            |page: &CheckedPage| page.header.kind != Kind::Data || page.header.level_encodings[1] == 3;
        self.are_plain()
            && self.data().all(is_rle)
            && self.dictionary().is_none_or(|page| page.header.encoding != 8)
    }

    fn all(&self) -> impl Iterator<Item = &CheckedPage> {
        self.next.iter().chain(self.pages.as_slice())
    }

    /// Returns the data pages that are left.
    pub fn data(&self) -> impl Iterator<Item = &CheckedPage> {
        self.all().filter(|page| page.header.kind != Kind::Dictionary)
    }

    /// Returns the dictionary page, if it is left.
    pub fn dictionary(&self) -> Option<&CheckedPage> {
        self.next.as_ref().filter(|page| page.header.kind == Kind::Dictionary)
    }

    /// Returns the definition levels of a page, and its values in PLAIN or its codes, decompressed into `raw`.
    pub fn plain<'a>(
        &self,
        page: &'a CheckedPage,
        raw: &'a mut Vec<u8>,
    ) -> Read<(Option<&'a [u8]>, &'a [u8])> {
        let CheckedPage { header, body, .. } = page;
        let is_v2 = header.kind == Kind::DataV2;
        let has_levels = self.max_levels[1] > 0 && header.kind != Kind::Dictionary;
        let (levels, body) = body.split_at(header.levels.num_bytes[1]);
        let is_compressed = !is_v2 || header.levels.is_compressed;
        let raw_bytes = header.raw_bytes - levels.len();
        let is_copied = is_compressed && decompress_into(self.codec, body, raw_bytes, raw)?;
        let values = if is_copied { raw.as_slice() } else { body };
        if is_v2 || !has_levels {
            return Ok((has_levels.then_some(levels), values));
        }
        let [_, levels, values] = split(header, values, self.max_levels)?;
        Ok((Some(levels), values))
    }
}

fn page_at(
    data: &Bytes,
    start: usize,
    stop: usize,
    is_list: bool,
    checksums: bool,
) -> Read<(CheckedPage, usize)> {
    let inside = data.get(..stop).ok_or(Refusal("a page is outside the bytes"))?;
    let (header, body) = parse(inside, start)?;
    if header.body_bytes > stop - body {
        return Err(Refusal("a page is longer than its bytes"));
    }
    let end = body + header.body_bytes;
    let levels = &header.levels;
    if header.kind == Kind::DataV2
        && (!is_list && (levels.num_rows != header.num_values || levels.num_bytes[0] != 0)
            || levels.num_bytes.iter().sum::<usize>() > header.body_bytes.min(header.raw_bytes))
    {
        return Err(Refusal("a page of version 2 contradicts itself"));
    }
    let body = data.slice(body..end);
    if checksums && header.crc.is_some_and(|crc| crc != crc32fast::hash(&body)) {
        return Err(Refusal("the checksum of a page is wrong"));
    }
    Ok((CheckedPage { header, body, num_rows: None }, end))
}

/// Counts the rows of decompressed pages of lists, and compares them with the plan.
fn count_rows(pages: &mut [CheckedPage], chunk: &Chunk, leaf: &Leaf) -> Read<()> {
    let (mut is_first, mut each_begins, mut found, mut before) = (true, true, vec![], 0);
    for page in pages.iter_mut().filter(|page| page.header.kind != Kind::Dictionary) {
        let [repetition, definition, _] = split(&page.header, &page.body, leaf.max_levels)?;
        let (mut num_rows, mut begins, mut is_sound) = (0, None, true);
        each_part([repetition, definition], leaf.max_levels, page.header.num_values, |[lists, values]| {
            begins = begins.or(lists.first().map(|level| *level == 0));
            for (list, value) in lists.iter().zip(values) {
                // arrow-rs skips other values than it reads if a list goes on that has no element
                match list.checked_sub(1) {
                    Some(list) => is_sound &= before.min(*value) >= leaf.element_levels[list as usize],
                    None => num_rows += 1,
                }
                before = *value;
            }
        })?;
        let is_other = page.header.kind == Kind::DataV2 && page.header.levels.num_rows != num_rows;
        each_begins &= begins != Some(false);
        if is_other || is_first && !each_begins || !is_sound {
            return Err(Refusal("a page of lists has other rows, or a list without elements goes on"));
        }
        (is_first, page.num_rows) = (false, Some(num_rows));
        found.push(num_rows);
    }
    let is_planned = each_begins && found == chunk.page_rows;
    if !is_planned && (!chunk.page_starts.is_empty() || found.iter().sum::<usize>() != chunk.num_rows()) {
        return Err(Refusal("the pages of lists have other rows"));
    }
    if !each_begins {
        pages.iter_mut().for_each(|page| page.num_rows = None);
    }
    Ok(())
}

/// Calls a function with the levels of a page, some at a time, which are checked to be up to their maximum.
fn each_part<const KINDS: usize>(
    levels: [&[u8]; KINDS],
    most: [usize; KINDS],
    num_values: usize,
    mut visit: impl FnMut([&[u32]; KINDS]),
) -> Read<()> {
    let mut runs: [_; KINDS] = std::array::from_fn(|at| (Runs::of_levels(levels[at], most[at]), vec![]));
    for first in (0..num_values).step_by(LEVELS_AT_ONCE) {
        let stop = num_values.min(first + LEVELS_AT_ONCE);
        for ((runs, part), most) in runs.iter_mut().zip(most) {
            part.clear();
            runs.read(first..stop, most + 1, part)?;
        }
        visit(runs.each_ref().map(|(_, part)| part.as_slice()));
    }
    Ok(())
}

/// Returns the repetition levels, the definition levels and the values of a decompressed page.
fn split<'a>(header: &PageHeader, mut page: &'a [u8], max_levels: [usize; 2]) -> Read<[&'a [u8]; 3]> {
    let mut found = [&page[..0]; 2];
    for (at, levels) in found.iter_mut().enumerate() {
        let mut size = header.levels.num_bytes[at];
        if header.kind == Kind::Data && max_levels[at] > 0 {
            let (length, rest) = page
                .split_first_chunk()
                .filter(|_| header.level_encodings[at] == 3)
                .ok_or(Refusal("a page has no levels, or those of old writers"))?;
            (size, page) = (u32::from_le_bytes(*length) as usize, rest);
        }
        (*levels, page) =
            page.split_at_checked(size).ok_or(Refusal("the levels are longer than the page"))?;
    }
    Ok([found[0], found[1], page])
}

impl CheckedPage {
    /// Returns the page without compression.
    fn raw(&self, codec: i32) -> Read<Bytes> {
        let CheckedPage { header, body, .. } = self;
        let num_levels = header.levels.num_bytes.iter().sum();
        let is_compressed = header.kind != Kind::DataV2 || header.levels.is_compressed;
        let codec = if is_compressed { codec } else { UNCOMPRESSED };
        let values = decompress(codec, body.slice(num_levels..), header.raw_bytes - num_levels)?;
        Ok(match codec {
            UNCOMPRESSED => body.clone(),
            _ if num_levels == 0 => values,
            _ => Bytes::from([&body[..num_levels], &values].concat()),
        })
    }

    fn decoded(self, codec: i32, max_levels: [usize; 2]) -> Read<Page> {
        let (buf, header) = (self.raw(codec)?, self.header);
        let encoding = encoding_of(header.encoding)?;
        let num_values =
            u32::try_from(header.num_values).map_err(|_| Refusal("a page has too many values"))?;
        if header.kind == Kind::Dictionary {
            return Ok(Page::DictionaryPage { buf, num_values, encoding, is_sorted: false });
        }
        let lists = match encoding {
            Encoding::DELTA_LENGTH_BYTE_ARRAY => 1,
            Encoding::DELTA_BYTE_ARRAY => 2,
            _ => 0,
        };
        // arrow-rs does not check levels that have as many bits as the maximum; those of lists are checked before
        let has_others = max_levels[0] == 0 && !(max_levels[1] + 1).is_power_of_two();
        if lists > 0 || has_others {
            let [_, levels, values] = split(&header, &buf, max_levels)?;
            if has_others {
                each_part([levels], [max_levels[1]], header.num_values, |_| ())?;
            }
            if lists > 0 {
                check(values, lists, header.num_values)?;
            }
        }
        if header.kind == Kind::Data {
            let [repetition, definition] = header.level_encodings;
            return Ok(Page::DataPage {
                buf,
                num_values,
                encoding,
                def_level_encoding: encoding_of(definition)?,
                rep_level_encoding: encoding_of(repetition)?,
                statistics: None,
            });
        }
        let [rep_levels_byte_len, def_levels_byte_len] = header.levels.num_bytes.map(|size| size as u32);
        Ok(Page::DataPageV2 {
            buf,
            num_values,
            encoding,
            num_nulls: header.levels.num_nulls as u32,
            num_rows: header.levels.num_rows as u32,
            def_levels_byte_len,
            rep_levels_byte_len,
            is_compressed: false,
            statistics: None,
        })
    }
}

#[allow(deprecated)] // old writers encode levels in BIT_PACKED
fn encoding_of(number: i32) -> Read<Encoding> {
    Ok(match number {
        0 => Encoding::PLAIN,
        2 => Encoding::PLAIN_DICTIONARY,
        3 => Encoding::RLE,
        4 => Encoding::BIT_PACKED,
        5 => Encoding::DELTA_BINARY_PACKED,
        6 => Encoding::DELTA_LENGTH_BYTE_ARRAY,
        7 => Encoding::DELTA_BYTE_ARRAY,
        8 => Encoding::RLE_DICTIONARY,
        9 => Encoding::BYTE_STREAM_SPLIT,
        _ => return Err(Refusal("an encoding is unknown")),
    })
}

impl PageReader for Pages {
    fn get_next_page(&mut self) -> ParquetResult<Option<Page>> {
        let page = std::mem::replace(&mut self.next, self.pages.next());
        let decoded = page.map(|page| page.decoded(self.codec, self.max_levels)).transpose();
        decoded.map_err(|refusal| ParquetError::General(refusal.0.to_string()))
    }

    fn peek_next_page(&mut self) -> ParquetResult<Option<PageMetadata>> {
        Ok(self.next.as_ref().map(|page| PageMetadata {
            num_rows: page.num_rows,
            num_levels: Some(page.header.num_values),
            is_dict: page.header.kind == Kind::Dictionary,
        }))
    }

    fn skip_next_page(&mut self) -> ParquetResult<()> {
        self.next = self.pages.next();
        Ok(())
    }
}

impl Iterator for Pages {
    type Item = ParquetResult<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

/// The pages of several chunks of one leaf.
pub struct Chunks(pub IntoIter<Pages>);

impl Iterator for Chunks {
    type Item = ParquetResult<Box<dyn PageReader>>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(|pages| Ok(Box::new(pages) as Box<dyn PageReader>))
    }
}

impl PageIterator for Chunks {}
