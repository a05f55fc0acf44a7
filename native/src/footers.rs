//! Chunks of many row groups at once: as columns of numbers, and as the tuples of `intarsia.format.structs`.

use std::collections::HashMap;

use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyTuple, PyType};

use crate::guard;
use crate::structs::{self, Chunk, MetaData, PageStats, Sizes, Statistics};
use crate::thrift::{BINARY, I32, I64, Read, Reader, Refusal, STRUCT};

/// The chunks of a row group: the bytes of its footer, and the offset in them and the number of the chunks.
pub type Group = (PyBackedBytes, usize, usize);

/// The encodings of a chunk, and the numbers of its pages.
type Pages = (Vec<i32>, Vec<PageStats>);

/// Columns of `outlines`, in the order of `intarsia.format.row_groups.OUTLINE`.
const COLUMNS: usize = 11;

/// The limit on offsets and sizes, whose sum must fit into 64 bits.
const MAX_SIZE: i64 = 1 << 61;

const TOO_MANY: Refusal = Refusal("there is too little memory for the chunks");

/// Return offsets and counts of chunks.
///
/// Args:
///     groups: The bytes of the footer of each row group, the offset of its first chunk, and their number.
///     ordinals: The chunks.
///
/// Returns:
///     Native 64-bit integers, one for each column, chunk and row group in this order, and the distinct
///     encodings and numbers of pages.
#[pyfunction]
pub fn outlines<'py>(
    py: Python<'py>,
    groups: Vec<Group>,
    ordinals: Vec<usize>,
) -> PyResult<(Bound<'py, PyBytes>, Vec<Pages>)> {
    let (table, pages) = guard(py, || outline_table(&groups, &ordinals))?;
    // SAFETY: any initialized integers are bytes
    let bytes = unsafe { std::slice::from_raw_parts(table.as_ptr().cast::<u8>(), size_of_val(&table[..])) };
    Ok((PyBytes::new(py, bytes), pages))
}

fn outline_table(groups: &[Group], ordinals: &[usize]) -> Read<(Vec<i64>, Vec<Pages>)> {
    let width = ordinals.len().checked_mul(groups.len()).ok_or(TOO_MANY)?;
    let mut table = Vec::new();
    let length = COLUMNS.checked_mul(width).ok_or(TOO_MANY)?;
    table.try_reserve_exact(length).map_err(|_| TOO_MANY)?;
    table.resize(length, 0);
    let mut known: HashMap<(&[u8], &[u8]), usize> = HashMap::new();
    let mut pages = Vec::new();
    let mut found = Vec::new();
    for (at, group) in groups.iter().enumerate() {
        found.clear();
        each_chunk(group, ordinals.iter().copied().max(), |chunk| found.push(chunk))?;
        for (position, ordinal) in ordinals.iter().enumerate() {
            let chunk = &found[*ordinal];
            let lists = chunk
                .meta_data
                .as_ref()
                .map_or((&[][..], &[][..]), |meta| (meta.encodings, meta.encoding_stats.unwrap_or_default()));
            let of_pages = match known.get(&lists) {
                Some(of_pages) => *of_pages,
                None => {
                    pages.push((
                        ints(lists.0, |one| one.i32(), I32)?,
                        ints(lists.1, structs::page_stats, STRUCT)?,
                    ));
                    known.insert(lists, pages.len() - 1);
                    pages.len() - 1
                }
            };
            for (column, value) in outline(chunk, of_pages as i64).into_iter().enumerate() {
                table[column * width + position * groups.len() + at] = value;
            }
        }
    }
    Ok((table, pages))
}

fn outline(chunk: &Chunk<'_>, of_pages: i64) -> [i64; COLUMNS] {
    let mut found = [-1; COLUMNS];
    found[6..].copy_from_slice(&[
        of_pages,
        chunk.offset_index_offset.unwrap_or(0),
        chunk.offset_index_length.unwrap_or(0).into(),
        chunk.column_index_offset.unwrap_or(0),
        chunk.column_index_length.unwrap_or(0).into(),
    ]);
    let possible = |number: i64| -MAX_SIZE < number && number < MAX_SIZE;
    if let Some(meta) = &chunk.meta_data
        && chunk.file_path.is_none_or(<[u8]>::is_empty)
        && possible(meta.data_page)
        && possible(meta.compressed)
    {
        let dictionary = meta.dictionary_page.filter(|offset| (1..meta.data_page).contains(offset));
        let first = dictionary.unwrap_or(meta.data_page);
        found[..6].copy_from_slice(&[
            first,
            first + meta.compressed,
            meta.data_page,
            meta.num_values,
            meta.uncompressed,
            meta.codec.into(),
        ]);
    }
    found
}

/// Reads the chunks of a row group up to one of them.
fn each_chunk<'a>(
    (footer, first, count): &'a Group,
    last: Option<usize>,
    mut visit: impl FnMut(Chunk<'a>),
) -> Read<()> {
    let Some(last) = last else { return Ok(()) };
    if last >= *count {
        return Err(Refusal("a row group has fewer columns"));
    }
    let mut reader = Reader::new(footer, *first)?;
    (0..=last).try_for_each(|_| structs::chunk(&mut reader).map(&mut visit))
}

/// Return the values of an optional list whose elements have been checked.
fn ints<'a, T>(
    list: &'a [u8],
    mut read: impl FnMut(&mut Reader<'a>) -> Read<T>,
    element: u8,
) -> Read<Vec<T>> {
    if list.is_empty() {
        return Ok(Vec::new());
    }
    let mut reader = Reader::new(list, 0)?;
    let length = reader.list(element)?;
    (0..length).map(|_| read(&mut reader)).collect()
}

/// The classes of `intarsia.format.structs`, and the function that makes a tuple of a class.
#[derive(FromPyObject)]
pub struct Structs<'py> {
    #[pyo3(attribute("ColumnChunk"))]
    chunk: Bound<'py, PyType>,
    #[pyo3(attribute("ColumnMetaData"))]
    meta_data: Bound<'py, PyType>,
    #[pyo3(attribute("Statistics"))]
    statistics: Bound<'py, PyType>,
    #[pyo3(attribute("PageEncodingStats"))]
    page_stats: Bound<'py, PyType>,
    #[pyo3(attribute("SizeStatistics"))]
    sizes: Bound<'py, PyType>,
}

/// Return the chunk of one leaf in each row group.
///
/// Args:
///     groups: See `outlines`.
///     ordinal: The ordinal of the leaf.
///     structs: The module with the classes of the chunks.
#[pyfunction]
pub fn chunks<'py>(
    py: Python<'py>,
    groups: Vec<Group>,
    ordinal: usize,
    structs: Structs<'py>,
) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let found = guard(py, || {
        let mut found = Vec::with_capacity(groups.len());
        for group in &groups {
            let mut last = Chunk::default();
            each_chunk(group, Some(ordinal), |chunk| last = chunk)?;
            found.push(last);
        }
        Ok(found)
    })?;
    let new = Maker { new: py.get_type::<PyTuple>().getattr("__new__")?, structs };
    found.iter().map(|chunk| new.chunk(py, chunk)).collect()
}

/// Makes named tuples, without their own `__new__`, which is a Python function.
struct Maker<'py> {
    new: Bound<'py, PyAny>,
    structs: Structs<'py>,
}

impl<'py> Maker<'py> {
    fn chunk(&self, py: Python<'py>, chunk: &Chunk<'_>) -> PyResult<Bound<'py, PyAny>> {
        let meta_data = chunk.meta_data.as_ref().map(|meta| self.meta_data(py, meta)).transpose()?;
        let values = (
            chunk.file_offset,
            chunk.file_path.map(|path| PyBytes::new(py, path)),
            meta_data,
            chunk.offset_index_offset,
            chunk.offset_index_length,
            chunk.column_index_offset,
            chunk.column_index_length,
            py.None(),
            py.None(),
        );
        self.new.call1((&self.structs.chunk, values))
    }

    fn meta_data(&self, py: Python<'py>, meta: &MetaData<'_>) -> PyResult<Bound<'py, PyAny>> {
        let statistics = meta.statistics.as_ref().map(|one| self.statistics(py, one)).transpose()?;
        let sizes = meta.sizes.as_ref().map(|one| self.sizes(one)).transpose()?;
        let stats = match meta.encoding_stats {
            None => None,
            Some(list) => {
                let counts = ints(list, structs::page_stats, STRUCT)?;
                let new = |one| self.new.call1((&self.structs.page_stats, one));
                Some(counts.into_iter().map(new).collect::<PyResult<Vec<_>>>()?)
            }
        };
        let path = meta.path.map(|list| ints(list, |one| one.text(), BINARY)).transpose()?;
        let values = [
            meta.kind.into_pyobject(py)?.into_any(),
            ints(meta.encodings, |one| one.i32(), I32)?.into_pyobject(py)?,
            meta.codec.into_pyobject(py)?.into_any(),
            meta.num_values.into_pyobject(py)?.into_any(),
            meta.uncompressed.into_pyobject(py)?.into_any(),
            meta.compressed.into_pyobject(py)?.into_any(),
            meta.data_page.into_pyobject(py)?.into_any(),
            meta.dictionary_page.into_pyobject(py)?,
            statistics.into_pyobject(py)?,
            stats.into_pyobject(py)?,
            meta.bloom_offset.into_pyobject(py)?,
            meta.bloom_length.into_pyobject(py)?,
            sizes.into_pyobject(py)?,
            py.None().into_bound(py),
            path.into_pyobject(py)?,
        ];
        self.new.call1((&self.structs.meta_data, PyTuple::new(py, values)?))
    }

    fn statistics(&self, py: Python<'py>, found: &Statistics<'_>) -> PyResult<Bound<'py, PyAny>> {
        let bytes = |value: Option<&[u8]>| value.map(|value| PyBytes::new(py, value));
        let values = (
            bytes(found.max),
            bytes(found.min),
            found.null_count,
            found.distinct_count,
            bytes(found.max_value),
            bytes(found.min_value),
            found.is_max_value_exact,
            found.is_min_value_exact,
            found.nan_count,
        );
        self.new.call1((&self.structs.statistics, values))
    }

    fn sizes(&self, found: &Sizes<'_>) -> PyResult<Bound<'py, PyAny>> {
        let longs = |list: Option<&[u8]>| list.map(|list| ints(list, |one| one.i64(), I64)).transpose();
        let values = (found.unencoded, longs(found.repetition_levels)?, longs(found.definition_levels)?);
        self.new.call1((&self.structs.sizes, values))
    }
}
