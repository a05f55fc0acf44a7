//! Structs of parquet.thrift, borrowed from the bytes of a footer.

use crate::thrift::{BINARY, FALSE, I32, I64, LIST, Read, Reader, Refusal, STRUCT, TRUE, expect};

/// `Statistics` of parquet.thrift.
#[derive(Debug, Default, Clone, Copy)]
pub struct Statistics<'a> {
    pub max: Option<&'a [u8]>,
    pub min: Option<&'a [u8]>,
    pub null_count: Option<i64>,
    pub distinct_count: Option<i64>,
    pub max_value: Option<&'a [u8]>,
    pub min_value: Option<&'a [u8]>,
    pub is_max_value_exact: Option<bool>,
    pub is_min_value_exact: Option<bool>,
    pub nan_count: Option<i64>,
}

/// `SizeStatistics` of parquet.thrift.
#[derive(Debug, Default, Clone, Copy)]
pub struct Sizes<'a> {
    pub unencoded: Option<i64>,
    pub repetition_levels: Option<&'a [u8]>,
    pub definition_levels: Option<&'a [u8]>,
}

/// `ColumnMetaData` of parquet.thrift. Lists are the checked bytes that `Reader::list` reads.
#[derive(Debug, Default, Clone, Copy)]
pub struct MetaData<'a> {
    pub kind: i32,
    pub encodings: &'a [u8],
    pub path: Option<&'a [u8]>,
    pub codec: i32,
    pub num_values: i64,
    pub uncompressed: i64,
    pub compressed: i64,
    pub data_page: i64,
    pub dictionary_page: Option<i64>,
    pub statistics: Option<Statistics<'a>>,
    pub encoding_stats: Option<&'a [u8]>,
    pub bloom_offset: Option<i64>,
    pub bloom_length: Option<i32>,
    pub sizes: Option<Sizes<'a>>,
}

/// `ColumnChunk` of parquet.thrift.
#[derive(Debug, Default, Clone, Copy)]
pub struct Chunk<'a> {
    pub file_path: Option<&'a [u8]>,
    pub file_offset: i64,
    pub meta_data: Option<MetaData<'a>>,
    pub offset_index_offset: Option<i64>,
    pub offset_index_length: Option<i32>,
    pub column_index_offset: Option<i64>,
    pub column_index_length: Option<i32>,
}

/// `PageEncodingStats` of parquet.thrift: page type, encoding, count.
pub type PageStats = (i32, i32, i32);

/// Reads the next chunk.
pub fn chunk<'a>(reader: &mut Reader<'a>) -> Read<Chunk<'a>> {
    let mut found = Chunk::default();
    reader.fields(|reader, id, kind| {
        match id {
            1 => found.file_path = Some(binary(reader, kind)?),
            2 => found.file_offset = long(reader, kind)?,
            3 => found.meta_data = Some(within(reader, kind, meta_data)?),
            4 => found.offset_index_offset = Some(long(reader, kind)?),
            5 => found.offset_index_length = Some(int(reader, kind)?),
            6 => found.column_index_offset = Some(long(reader, kind)?),
            7 => found.column_index_length = Some(int(reader, kind)?),
            8 | 9 => return Err(Refusal("a column is encrypted")),
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok(found)
}

fn meta_data<'a>(reader: &mut Reader<'a>) -> Read<MetaData<'a>> {
    let mut found = MetaData::default();
    let mut required = 0u32;
    reader.fields(|reader, id, kind| {
        match id {
            1 => found.kind = int(reader, kind)?,
            2 => found.encodings = ints(reader, kind, I32)?,
            3 => found.path = Some(list(reader, kind, BINARY, |one| one.text().map(drop))?),
            4 => found.codec = int(reader, kind)?,
            5 => found.num_values = long(reader, kind)?,
            6 => found.uncompressed = long(reader, kind)?,
            7 => found.compressed = long(reader, kind)?,
            9 => found.data_page = long(reader, kind)?,
            11 => found.dictionary_page = Some(long(reader, kind)?),
            12 => found.statistics = Some(within(reader, kind, statistics)?),
            13 => found.encoding_stats = Some(list(reader, kind, STRUCT, |one| page_stats(one).map(drop))?),
            14 => found.bloom_offset = Some(long(reader, kind)?),
            15 => found.bloom_length = Some(int(reader, kind)?),
            16 => found.sizes = Some(within(reader, kind, sizes)?),
            17 => return Err(Refusal("a column has geospatial statistics")),
            _ => return Ok(false),
        }
        required |= 1 << id;
        Ok(true)
    })?;
    require(required, &[1, 2, 4, 5, 6, 7, 9])?;
    Ok(found)
}

fn statistics<'a>(reader: &mut Reader<'a>) -> Read<Statistics<'a>> {
    let mut found = Statistics::default();
    reader.fields(|reader, id, kind| {
        match id {
            1 => found.max = Some(binary(reader, kind)?),
            2 => found.min = Some(binary(reader, kind)?),
            3 => found.null_count = Some(long(reader, kind)?),
            4 => found.distinct_count = Some(long(reader, kind)?),
            5 => found.max_value = Some(binary(reader, kind)?),
            6 => found.min_value = Some(binary(reader, kind)?),
            7 => found.is_max_value_exact = Some(boolean(kind)?),
            8 => found.is_min_value_exact = Some(boolean(kind)?),
            9 => found.nan_count = Some(long(reader, kind)?),
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok(found)
}

fn sizes<'a>(reader: &mut Reader<'a>) -> Read<Sizes<'a>> {
    let mut found = Sizes::default();
    reader.fields(|reader, id, kind| {
        match id {
            1 => found.unencoded = Some(long(reader, kind)?),
            2 => found.repetition_levels = Some(ints(reader, kind, I64)?),
            3 => found.definition_levels = Some(ints(reader, kind, I64)?),
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok(found)
}

/// Reads the next element of `MetaData::encoding_stats`.
pub fn page_stats(reader: &mut Reader<'_>) -> Read<PageStats> {
    let (mut found, mut required) = ([0; 4], 0);
    reader.fields(|reader, id, kind| {
        if !(1..=3).contains(&id) {
            return Ok(false);
        }
        found[id as usize] = int(reader, kind)?;
        required |= 1 << id;
        Ok(true)
    })?;
    require(required, &[1, 2, 3])?;
    Ok((found[1], found[2], found[3]))
}

fn require(found: u32, ids: &[u32]) -> Read<()> {
    if ids.iter().all(|id| found & (1 << id) != 0) {
        Ok(())
    } else {
        Err(Refusal("a required field is absent"))
    }
}

fn within<'a, T>(reader: &mut Reader<'a>, kind: u8, read: fn(&mut Reader<'a>) -> Read<T>) -> Read<T> {
    expect(kind, STRUCT)?;
    read(reader)
}

fn binary<'a>(reader: &mut Reader<'a>, kind: u8) -> Read<&'a [u8]> {
    expect(kind, BINARY)?;
    reader.binary()
}

fn long(reader: &mut Reader<'_>, kind: u8) -> Read<i64> {
    expect(kind, I64)?;
    reader.i64()
}

fn int(reader: &mut Reader<'_>, kind: u8) -> Read<i32> {
    expect(kind, I32)?;
    reader.i32()
}

fn boolean(kind: u8) -> Read<bool> {
    expect(if kind == FALSE { TRUE } else { kind }, TRUE)?;
    Ok(kind == TRUE)
}

fn ints<'a>(reader: &mut Reader<'a>, kind: u8, element: u8) -> Read<&'a [u8]> {
    list(reader, kind, element, |one| match element {
        I32 => one.i32().map(drop),
        _ => one.i64().map(drop),
    })
}

/// Checks a list and its elements, and returns its bytes.
fn list<'a>(
    reader: &mut Reader<'a>,
    kind: u8,
    element: u8,
    check: impl Fn(&mut Reader<'a>) -> Read<()>,
) -> Read<&'a [u8]> {
    expect(kind, LIST)?;
    let start = reader.clone();
    let length = reader.list(element)?;
    (0..length).try_for_each(|_| check(reader))?;
    Ok(start.until(reader))
}
