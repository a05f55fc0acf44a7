//! Page headers, of which only what decoding needs is kept.

use crate::thrift::{FALSE, I32, Read, Reader, Refusal, STRUCT, TRUE};

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    Data,
    Dictionary,
    DataV2,
}

/// The header of a page. Sizes and counts are not negative, and nothing else is checked.
#[derive(Clone, Debug)]
pub struct PageHeader {
    pub kind: Kind,
    pub raw_bytes: usize,
    pub body_bytes: usize,
    pub crc: Option<u32>,
    pub num_values: usize,
    pub encoding: i32,
    /// The encodings of repetition and definition levels, of version 1.
    pub level_encodings: [i32; 2],
    /// Of version 2.
    pub levels: LevelSizes,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct LevelSizes {
    pub num_nulls: usize,
    pub num_rows: usize,
    /// The sizes of the repetition and definition levels.
    pub num_bytes: [usize; 2],
    pub is_compressed: bool,
}

/// Parses the header at an offset, and returns it and the offset of its end.
pub fn parse(bytes: &[u8], at: usize) -> Read<(PageHeader, usize)> {
    let mut reader = Reader::new(bytes, at)?;
    // by field id: those of the page, and those of the header of its type
    let mut page: [Option<i32>; 5] = [None; 5];
    let mut of_type: [Option<i32>; 7] = [None; 7];
    let mut found_type = 0;
    let mut is_compressed = true;
    reader.fields(|reader, id, kind| {
        match (id, kind) {
            (1..=4, I32) => page[id as usize] = Some(reader.i32()?),
            (5 | 7 | 8, STRUCT) if found_type == 0 => {
                found_type = id;
                reader.fields(|reader, id, kind| {
                    match (id, kind) {
                        (1..=6, I32) => of_type[id as usize] = Some(reader.i32()?),
                        (7, TRUE | FALSE) => is_compressed = kind == TRUE,
                        _ => return Ok(false),
                    }
                    Ok(true)
                })?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    let number = |found: Option<i32>| found.ok_or(Refusal("the header of a page lacks a field"));
    let size = |found: Option<i32>| {
        usize::try_from(number(found)?).map_err(|_| Refusal("a page has a negative size"))
    };
    let kind = match (number(page[1])?, found_type) {
        (0, 5) => Kind::Data,
        (2, 7) => Kind::Dictionary,
        (3, 8) => Kind::DataV2,
        _ => return Err(Refusal("a page is of another type")),
    };
    let mut levels = LevelSizes::default();
    if kind == Kind::DataV2 {
        levels = LevelSizes {
            num_nulls: size(of_type[2])?,
            num_rows: size(of_type[3])?,
            num_bytes: [size(of_type[6])?, size(of_type[5])?],
            is_compressed,
        };
    }
    let header = PageHeader {
        kind,
        raw_bytes: size(page[2])?,
        body_bytes: size(page[3])?,
        crc: page[4].map(|crc| crc as u32),
        num_values: size(of_type[1])?,
        encoding: number(of_type[if kind == Kind::DataV2 { 4 } else { 2 }])?,
        level_encodings: if kind == Kind::Data { [number(of_type[4])?, number(of_type[3])?] } else { [0; 2] },
        levels,
    };
    Ok((header, reader.position))
}
