//! Pages to selected rows.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::available_parallelism;

use arrow_array::cast::AsArray;
use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema};
use arrow_array::{Array, ArrayRef, StructArray};
use arrow_schema::{DataType, Field, Fields, Schema as ArrowSchema};
use parquet::arrow::arrow_reader::RowSelection;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule, PyTuple};

use crate::guard;
use crate::pages::{Chunk, Pages};
use crate::schema::{self, times};
use crate::thrift::{Read, Refusal};
use crate::values::selected;

/// The schema of files: which of their top-level fields are decoded here.
#[pyclass(frozen)]
pub struct Schema {
    fields: Vec<Option<schema::Field>>,
}

#[pymethods]
impl Schema {
    /// Args: a footer without row groups, and the schema as pyarrow reads it.
    #[new]
    fn new(py: Python<'_>, footer: &[u8], arrow: &Bound<'_, PyAny>) -> PyResult<Self> {
        let capsule = arrow.call_method0("__arrow_c_schema__")?.cast_into::<PyCapsule>()?;
        let pointer = capsule.pointer_checked(Some(c"arrow_schema"))?.cast::<FFI_ArrowSchema>();
        // the capsule keeps the struct alive, and its name says what it is
        let arrow = ArrowSchema::try_from(unsafe { pointer.as_ref() });
        guard(py, || Ok(Schema { fields: schema::fields(footer, &arrow?)? }))
    }

    /// For each top-level field whether it is decoded here.
    #[getter]
    fn supported<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.fields.iter().map(Option::is_some))
    }
}

/// Columns, and their fields as pyarrow names them, which it imports as a record batch.
#[pyclass(frozen)]
pub struct Columns(StructArray, DataType);

#[pymethods]
impl Columns {
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
        drop(requested_schema); // a preference, which a producer may ignore
        let schema = FFI_ArrowSchema::try_from(&self.1);
        let schema = schema.map_err(|error| PyValueError::new_err(error.to_string()))?;
        let array = FFI_ArrowArray::new(&self.0.to_data());
        Ok((
            PyCapsule::new_with_value(py, schema, c"arrow_schema")?,
            PyCapsule::new_with_value(py, array, c"arrow_array")?,
        ))
    }
}

/// From this size on, it is tried whether there is enough memory.
const RESERVED_BYTES: usize = 1 << 24;

/// From this size on, columns are decoded in parallel.
const THREADED_BYTES: usize = 1 << 18;

/// Decodes the same rows of several columns.
///
/// Args:
///     schema: The schema of the file.
///     fields: The ordinal of each top-level field, whether its texts, all of them in dictionary pages, are
///         returned as a dictionary array, and the pages of each of its leaves.
///     starts: The first row of each selected range, counted in the pages of each leaf, as 64-bit integers.
///     stops: The row after the last one of each range.
///     checksums: Whether pages that have a checksum are compared with it.
#[pyfunction]
pub fn decode(
    py: Python<'_>,
    schema: &Bound<'_, Schema>,
    fields: Vec<Leaves>,
    starts: &Bound<'_, PyBytes>,
    stops: &Bound<'_, PyBytes>,
    checksums: bool,
) -> PyResult<Columns> {
    let schema = schema.get();
    let ranges: Vec<Range<usize>> =
        numbers(starts.as_bytes()).zip(numbers(stops.as_bytes())).map(|(start, stop)| start..stop).collect();
    guard(py, || {
        let decoded = in_threads(&fields, |(ordinal, as_dictionary, leaves)| {
            let field = schema.fields.get(*ordinal).and_then(Option::as_ref);
            let field = field.ok_or(Refusal("a type is decoded by pyarrow"))?;
            let array = column(field, leaves, &ranges, *as_dictionary, checksums)?;
            let arrow = match *as_dictionary {
                true => Arc::new(Field::new(field.arrow.name(), array.data_type().clone(), true)),
                false => Arc::clone(&field.arrow),
            };
            Ok((arrow, array))
        })?;
        let (fields, arrays): (Vec<_>, Vec<_>) = decoded.into_iter().unzip();
        let num_rows = arrays.first().map_or(0, |array: &ArrayRef| array.len());
        let own = |array: &ArrayRef| Field::new("", array.data_type().clone(), true);
        let types = arrays.iter().map(own).collect();
        let columns = StructArray::try_new_with_length(types, arrays, None, num_rows)?;
        Ok(Columns(columns, DataType::Struct(Fields::from(fields))))
    })
}

/// A top-level field: its ordinal, whether it becomes a dictionary array, and the pages of each of its leaves.
type Leaves = (usize, bool, Vec<Vec<Chunk>>);

/// Calls a function for each field, in order, in as many threads as pay.
fn in_threads<'a, T: Send>(
    fields: &'a [Leaves],
    work: impl Fn(&'a Leaves) -> Read<T> + Sync,
) -> Read<Vec<T>> {
    let num_bytes = |chunk: &Chunk| chunk.span.2.saturating_sub(chunk.span.1);
    let num_bytes: usize = fields.iter().flat_map(|(_, _, leaves)| leaves).flatten().map(num_bytes).sum();
    let cores = if num_bytes < THREADED_BYTES { 1 } else { available_parallelism().map_or(1, usize::from) };
    let next = AtomicUsize::new(0);
    let run = || {
        let at = || next.fetch_add(1, Ordering::Relaxed);
        let found = std::iter::from_fn(|| Some(at()).filter(|at| *at < fields.len()));
        found.map(|at| Ok((at, work(&fields[at])?))).collect::<Read<Vec<_>>>()
    };
    let mut found = std::thread::scope(|scope| {
        let others: Vec<_> = (1..cores.min(fields.len())).map(|_| scope.spawn(run)).collect();
        let mut found = run()?;
        for other in others {
            found.extend(other.join().map_err(|_| Refusal("a panic"))??);
        }
        Read::Ok(found)
    })?;
    found.sort_by_key(|(at, _)| *at);
    Ok(found.into_iter().map(|(_, decoded)| decoded).collect())
}

fn numbers(bytes: &[u8]) -> impl Iterator<Item = usize> {
    bytes.chunks_exact(8).map(|number| usize::from_le_bytes(number.try_into().expect("8 bytes")))
}

/// Decodes rows of a field from the pages of its leaves.
pub fn column(
    field: &schema::Field,
    leaves: &[Vec<Chunk>],
    ranges: &[Range<usize>],
    as_dictionary: bool,
    checksums: bool,
) -> Read<ArrayRef> {
    let num_rows = ranges.iter().map(Range::len).sum();
    let total_rows = leaves.first().map_or(0, |chunks| chunks.iter().map(Chunk::num_rows).sum());
    if ranges.last().is_none_or(|last| last.end > total_rows) || leaves.len() != field.leaves.len() {
        return Err(Refusal("rows are selected beyond the pages, or a leaf has none"));
    }
    let (mut pages, mut num_bytes) = (Vec::with_capacity(leaves.len()), 0usize);
    for (chunks, leaf) in leaves.iter().zip(&field.leaves) {
        if chunks.iter().map(Chunk::num_rows).sum::<usize>() != total_rows {
            return Err(Refusal("the leaves of a field have different numbers of rows"));
        }
        let of_leaf =
            chunks.iter().map(|chunk| Pages::of(chunk, leaf, checksums)).collect::<Read<Vec<_>>>()?;
        if field.is_int96 && !of_leaf.iter().all(Pages::are_plain) {
            return Err(Refusal("INT96 is in an encoding that it cannot have"));
        }
        let raw_bytes: usize = of_leaf.iter().map(|pages| pages.raw_bytes).sum();
        let num_values: usize = of_leaf.iter().map(|pages| pages.num_values).sum();
        num_bytes = num_bytes.saturating_add(raw_bytes + 3 * leaf.plain_bytes.max(8) * num_values);
        pages.push(of_leaf);
    }
    // allocations inside arrow-rs that fail end the process
    if num_bytes > RESERVED_BYTES && Vec::<u8>::new().try_reserve_exact(num_bytes).is_err() {
        return Err(Refusal("there is too little memory"));
    }
    if let [chunks] = pages.as_slice()
        && let Some(array) = selected(field, chunks, ranges, as_dictionary)?
    {
        return Ok(array);
    }
    if as_dictionary {
        return Err(Refusal("a column is not only in dictionary pages"));
    }
    let selection = (num_rows < total_rows)
        .then(|| RowSelection::from_consecutive_ranges(ranges.iter().cloned(), total_rows));
    let batch = field
        .reader(pages, total_rows, num_rows, selection)?
        .next()
        .ok_or(Refusal("there are no rows"))??;
    if batch.num_rows() != num_rows {
        return Err(Refusal("the pages have another number of rows"));
    }
    let mut array = batch.column(0).clone();
    drop(batch);
    if field.is_int96 {
        return Ok(times(array.as_fixed_size_binary(), field.arrow.data_type()));
    }
    array.shrink_to_fit();
    Ok(array)
}
