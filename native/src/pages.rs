//! The pages of a chunk, checked against what was planned, for arrow-rs to decode.

use std::vec::IntoIter;

use bytes::Bytes;
use parquet::basic::{Encoding, Type};
use parquet::column::page::{Page, PageIterator, PageMetadata, PageReader};
use parquet::errors::{ParquetError, Result as ParquetResult};

use crate::codecs::{decompress, decompress_into, expansion};
use crate::deltas::check;
use crate::headers::{Kind, PageHeader, parse};
use crate::schema::Leaf;
use crate::thrift::{Read, Refusal};

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
}

impl Chunk {
    pub fn num_rows(&self) -> usize {
        self.page_rows.iter().sum()
    }
}

/// A chunk claims at most this many values, and this many more for each byte.
const MAX_VALUES: usize = 1 << 22;
const MAX_VALUES_PER_BYTE: usize = 1 << 10;

/// A page whose header agrees with its bytes.
pub struct CheckedPage {
    pub header: PageHeader,
    body: Bytes,
}

/// The pages of a chunk whose headers agree with the plan. A page is decompressed when it is decoded.
pub struct Pages {
    /// The size of the pages before compression, as their headers claim it.
    pub raw_bytes: usize,
    codec: i32,
    has_levels: bool,
    pages: IntoIter<CheckedPage>,
    next: Option<CheckedPage>,
}

impl Pages {
    /// Parses and checks the headers of a leaf's pages.
    pub fn of(chunk: &Chunk, leaf: &Leaf, checksums: bool) -> Read<Pages> {
        let most = expansion(chunk.codec)?;
        let (data, start, stop) = &chunk.span;
        let num_rows = chunk.num_rows();
        if *stop > data.len() || start > stop || num_rows > MAX_VALUES + MAX_VALUES_PER_BYTE * (stop - start)
        {
            return Err(Refusal("a range is outside the bytes, or claims too many values"));
        }
        let mut pages = Vec::with_capacity(chunk.page_rows.len() + 1);
        if let Some((data, start, stop)) = &chunk.dictionary {
            let (page, end) = page_at(data, *start, *stop, checksums)?;
            if page.header.kind != Kind::Dictionary || end != *stop {
                return Err(Refusal("the bytes before the data pages are not one dictionary page"));
            }
            pages.push(page);
        }
        if chunk.page_starts.is_empty() {
            let (mut at, mut found) = (*start, 0);
            while found < num_rows {
                let (page, end) = page_at(data, at, *stop, checksums)?;
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
            if found != num_rows {
                return Err(Refusal("the pages of a chunk have another number of values"));
            }
        } else {
            if chunk.page_starts.len() != chunk.page_rows.len() {
                return Err(Refusal("a plan has another number of pages"));
            }
            let ends = chunk.page_starts[1..].iter().map(|next| start + next).chain([*stop]);
            for ((first, end), rows) in chunk.page_starts.iter().zip(ends).zip(&chunk.page_rows) {
                let (page, found) = page_at(data, start + first, end, checksums)?;
                if page.header.kind == Kind::Dictionary || found != end || page.header.num_values != *rows {
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
        let mut pages = pages.into_iter();
        let next = pages.next();
        Ok(Pages { raw_bytes, codec: chunk.codec, has_levels: leaf.has_levels, pages, next })
    }

    /// Returns whether all values are in PLAIN or a dictionary.
    pub fn are_plain(&self) -> bool {
        self.all().all(|page| matches!(page.header.encoding, 0 | 2 | 8))
    }

    /// Returns whether `plain` finds values in PLAIN or a dictionary, texts only in a dictionary, and levels in RLE.
    pub fn are_copied(&self, physical: Type) -> bool {
        let is_rle =
            |page: &CheckedPage| page.header.kind != Kind::Data || page.header.definition_encoding == 3;
        let is_coded = |page: &CheckedPage| page.header.encoding != 0;
        self.are_plain()
            && self.data().all(|page| is_rle(page) && (is_coded(page) || physical != Type::BYTE_ARRAY))
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
        let CheckedPage { header, body } = page;
        let is_v2 = header.kind == Kind::DataV2;
        let has_levels = self.has_levels && header.kind != Kind::Dictionary;
        let (levels, body) = body.split_at(if is_v2 { header.levels.definition_bytes } else { 0 });
        let is_compressed = !is_v2 || header.levels.is_compressed;
        let raw_bytes = header.raw_bytes - levels.len();
        let is_copied = is_compressed && decompress_into(self.codec, body, raw_bytes, raw)?;
        let values = if is_copied { raw.as_slice() } else { body };
        if is_v2 || !has_levels {
            return Ok((has_levels.then_some(levels), values));
        }
        let behind = behind_levels(values, true, Encoding::RLE)?;
        Ok((Some(&values[4..values.len() - behind.len()]), behind))
    }
}

fn page_at(data: &Bytes, start: usize, stop: usize, checksums: bool) -> Read<(CheckedPage, usize)> {
    let inside = data.get(..stop).ok_or(Refusal("a page is outside the bytes"))?;
    let (header, body) = parse(inside, start)?;
    if header.body_bytes > stop - body {
        return Err(Refusal("a page is longer than its bytes"));
    }
    let end = body + header.body_bytes;
    let levels = &header.levels;
    if header.kind == Kind::DataV2
        && (levels.num_rows != header.num_values
            || levels.repetition_bytes != 0
            || levels.definition_bytes > header.body_bytes.min(header.raw_bytes))
    {
        return Err(Refusal("a page of version 2 contradicts itself"));
    }
    let body = data.slice(body..end);
    if checksums && header.crc.is_some_and(|crc| crc != crc32fast::hash(&body)) {
        return Err(Refusal("the checksum of a page is wrong"));
    }
    Ok((CheckedPage { header, body }, end))
}

impl CheckedPage {
    fn decoded(self, codec: i32, has_levels: bool) -> Read<Page> {
        let CheckedPage { header, body } = self;
        let encoding = encoding_of(header.encoding)?;
        let num_values =
            u32::try_from(header.num_values).map_err(|_| Refusal("a page has too many values"))?;
        Ok(match header.kind {
            Kind::Dictionary => {
                let buf = decompress(codec, body, header.raw_bytes)?;
                Page::DictionaryPage { buf, num_values, encoding, is_sorted: false }
            }
            Kind::Data => {
                let buf = decompress(codec, body, header.raw_bytes)?;
                let def_level_encoding = encoding_of(header.definition_encoding)?;
                if let Some(lists) = lists_of_lengths(encoding) {
                    check(behind_levels(&buf, has_levels, def_level_encoding)?, lists, header.num_values)?;
                }
                let rep_level_encoding = Encoding::RLE;
                let statistics = None;
                Page::DataPage {
                    buf,
                    num_values,
                    encoding,
                    def_level_encoding,
                    rep_level_encoding,
                    statistics,
                }
            }
            Kind::DataV2 => {
                let levels = header.levels;
                let buf = if levels.is_compressed {
                    let raw_bytes = header.raw_bytes - levels.definition_bytes;
                    let values = decompress(codec, body.slice(levels.definition_bytes..), raw_bytes)?;
                    let mut joined = body[..levels.definition_bytes].to_vec();
                    joined.extend_from_slice(&values);
                    Bytes::from(joined)
                } else {
                    body
                };
                if let Some(lists) = lists_of_lengths(encoding) {
                    check(&buf[levels.definition_bytes..], lists, header.num_values)?;
                }
                Page::DataPageV2 {
                    buf,
                    num_values,
                    encoding,
                    num_nulls: levels.num_nulls as u32,
                    num_rows: num_values,
                    def_levels_byte_len: levels.definition_bytes as u32,
                    rep_levels_byte_len: 0,
                    is_compressed: false,
                    statistics: None,
                }
            }
        })
    }
}

fn lists_of_lengths(encoding: Encoding) -> Option<usize> {
    match encoding {
        Encoding::DELTA_LENGTH_BYTE_ARRAY => Some(1),
        Encoding::DELTA_BYTE_ARRAY => Some(2),
        _ => None,
    }
}

/// Returns the values of a page of version 1.
fn behind_levels(page: &[u8], has_levels: bool, encoding: Encoding) -> Read<&[u8]> {
    if !has_levels {
        return Ok(page);
    }
    let size = page.first_chunk().filter(|_| encoding == Encoding::RLE).map(|size| u32::from_le_bytes(*size));
    let values = size.and_then(|size| page[4..].get(size as usize..));
    values.ok_or(Refusal("the definition levels are longer than the page, or of old writers"))
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
        let decoded = page.map(|page| page.decoded(self.codec, self.has_levels)).transpose();
        decoded.map_err(|refusal| ParquetError::General(refusal.0.to_string()))
    }

    fn peek_next_page(&mut self) -> ParquetResult<Option<PageMetadata>> {
        Ok(self.next.as_ref().map(|page| PageMetadata {
            num_rows: None,
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
