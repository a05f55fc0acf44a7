//! The fields of a file that arrow-rs decodes to the types of pyarrow.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, FixedSizeBinaryArray, RecordBatchReader, TimestampNanosecondArray};
use arrow_schema::{DataType, FieldRef, Fields, Schema as ArrowSchema, TimeUnit};
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, RowGroups};
use parquet::arrow::{FieldLevels, ProjectionMask, parquet_to_arrow_field_levels};
use parquet::basic::{ConvertedType, LogicalType, Repetition, Type as PhysicalType};
use parquet::column::page::PageIterator;
use parquet::errors::Result as ParquetResult;
use parquet::file::metadata::{FileMetaData, ParquetMetaData, ParquetMetaDataReader, RowGroupMetaData};
use parquet::schema::types::{SchemaDescriptor, Type};

use crate::pages::{Chunks, Pages};
use crate::thrift::{Read, Refusal};

/// A top-level field.
pub struct Field {
    /// The field as pyarrow exports it.
    pub arrow: FieldRef,
    /// Whether it is read as INT96: as 12 bytes, from which `times` makes what pyarrow makes.
    pub is_int96: bool,
    /// The type of its values in pages, if each row has one.
    pub physical: Option<PhysicalType>,
    levels: FieldLevels,
    pub leaves: Vec<Leaf>,
    /// arrow-rs asks for the metadata of a file, of which it uses nothing.
    metadata: ParquetMetaData,
}

/// What the pages of a leaf are compared with.
pub struct Leaf {
    /// The minimum size of a value in PLAIN.
    pub plain_bytes: usize,
    /// The maximum repetition and definition level.
    pub max_levels: [usize; 2],
    /// The minimum definition level of an element, of each list from the outermost one on.
    pub element_levels: Vec<u32>,
}

/// Returns the fields of a footer that arrow-rs decodes to the given types; None for the others.
pub fn fields(footer: &[u8], arrow: &ArrowSchema) -> Read<Vec<Option<Field>>> {
    let schema = ParquetMetaDataReader::decode_schema(footer)?;
    let roots = schema.root_schema().get_fields();
    if roots.len() != arrow.fields().len() {
        return Err(Refusal("pyarrow has another number of fields"));
    }
    Ok(roots.iter().zip(arrow.fields()).map(|(root, field)| of_field(root, field).ok().flatten()).collect())
}

pub fn of_field(root: &Arc<Type>, arrow: &FieldRef) -> Read<Option<Field>> {
    let is_repeated = root.get_basic_info().repetition() == Repetition::REPEATED;
    let has_int96 = has_leaf(root, |leaf| leaf.get_physical_type() == PhysicalType::INT96);
    let is_int96 = root.is_primitive() && has_int96;
    if !is_copied(arrow.data_type())
        || has_int96 && (is_repeated || !is_int96)
        || has_leaf(root, is_long_decimal)
    {
        return Ok(None);
    }
    let (root, read) = if is_int96 { as_bytes(root, arrow)? } else { (root.clone(), arrow.clone()) };
    let physical = (root.is_primitive() && !is_repeated).then(|| root.get_physical_type());
    let one = Type::group_type_builder("schema").with_fields(vec![root]).build()?;
    let schema = Arc::new(SchemaDescriptor::new(Arc::new(one)));
    let hint = Fields::from(vec![read.clone()]);
    let levels = parquet_to_arrow_field_levels(&schema, ProjectionMask::all(), Some(&hint))?;
    let mut element_levels = vec![];
    add_element_levels(schema.root_schema(), 0, &[], &mut element_levels);
    let leaves = schema.columns().iter().zip(element_levels).map(|(leaf, element_levels)| {
        let plain_bytes = match leaf.physical_type() {
            PhysicalType::BOOLEAN => 1,
            PhysicalType::INT64 | PhysicalType::DOUBLE => 8,
            PhysicalType::FIXED_LEN_BYTE_ARRAY => usize::try_from(leaf.type_length()).unwrap_or(0).max(1),
            _ => 4,
        };
        Leaf {
            plain_bytes,
            max_levels: [leaf.max_rep_level(), leaf.max_def_level()].map(|most| most as usize),
            element_levels,
        }
    });
    let leaves = leaves.collect();
    let metadata = ParquetMetaData::new(FileMetaData::new(2, 0, None, None, schema, None), vec![]);
    let field = Field { arrow: arrow.clone(), is_int96, physical, levels, leaves, metadata };
    let found = field.reader(vec![], 0, 1, None)?.schema();
    Ok(is_alike(found.field(0), &read).then_some(field))
}

/// Whether fields have the same types; pyarrow gives other names to the parts of a map.
fn is_alike(one: &arrow_schema::Field, other: &arrow_schema::Field) -> bool {
    one.is_nullable() == other.is_nullable()
        && match (one.data_type(), other.data_type()) {
            (DataType::List(one), DataType::List(other))
            | (DataType::LargeList(one), DataType::LargeList(other)) => is_alike(one, other),
            (DataType::Map(one, _), DataType::Map(other, _)) => is_alike(one, other),
            (DataType::Struct(all), DataType::Struct(others)) => {
                all.len() == others.len() && all.iter().zip(others).all(|(one, other)| is_alike(one, other))
            }
            (one, other) => one == other,
        }
}

/// Appends the `element_levels` of each leaf in the children of a node.
fn add_element_levels(node: &Type, level: u32, lists: &[u32], found: &mut Vec<Vec<u32>>) {
    for child in node.get_fields() {
        let repetition = child.get_basic_info().repetition();
        let level = level + u32::from(repetition != Repetition::REQUIRED);
        let own: &[u32] = if repetition == Repetition::REPEATED { &[level] } else { &[] };
        let lists = [lists, own].concat();
        if child.is_primitive() {
            found.push(lists);
        } else {
            add_element_levels(child, level, &lists, found);
        }
    }
}

fn has_leaf(field: &Type, is_wanted: fn(&Type) -> bool) -> bool {
    if field.is_primitive() {
        return is_wanted(field);
    }
    field.get_fields().iter().any(|one| has_leaf(one, is_wanted))
}

/// Whether values are decimals of any length: arrow-rs reads those without bytes as 0, pyarrow as an error.
fn is_long_decimal(leaf: &Type) -> bool {
    let info = leaf.get_basic_info();
    let is_decimal = info.converted_type() == ConvertedType::DECIMAL
        || matches!(info.logical_type_ref(), Some(LogicalType::Decimal { .. }));
    is_decimal && leaf.get_physical_type() == PhysicalType::BYTE_ARRAY
}

/// Returns a field of INT96 as one of 12 bytes: nanoseconds of years that have none wrap around in another way.
fn as_bytes(root: &Type, arrow: &FieldRef) -> Read<(Arc<Type>, FieldRef)> {
    if !matches!(arrow.data_type(), DataType::Timestamp(TimeUnit::Nanosecond, _)) {
        return Err(Refusal("an INT96 is not a timestamp"));
    }
    let bytes = Type::primitive_type_builder(root.name(), PhysicalType::FIXED_LEN_BYTE_ARRAY)
        .with_length(12)
        .with_repetition(root.get_basic_info().repetition())
        .build()?;
    let read = arrow.as_ref().clone().with_data_type(DataType::FixedSizeBinary(12));
    Ok((Arc::new(bytes), Arc::new(read)))
}

/// Returns the timestamps of INT96 values: nanoseconds of the day, and the Julian day.
pub fn times(values: &FixedSizeBinaryArray, kind: &DataType) -> ArrayRef {
    let (each, _) = values.value_data().as_chunks::<12>();
    let nanoseconds = each.iter().map(|value| {
        let (time, day) = value.split_at(8);
        let time = u64::from_le_bytes(time.try_into().expect("8 bytes"));
        let day = u64::from(u32::from_le_bytes(day.try_into().expect("4 bytes")));
        if day == 0 {
            return 0; // as in pyarrow, for which such a value is null
        }
        let since = day.wrapping_sub(2_440_588).wrapping_mul(86_400_000_000_000);
        since.wrapping_add(time) as i64
    });
    let found = TimestampNanosecondArray::new(nanoseconds.collect(), values.nulls().cloned());
    Arc::new(found.with_data_type(kind.clone()))
}

/// Whether results have buffers of their own size: views keep whole pages, and dictionaries all values.
fn is_copied(kind: &DataType) -> bool {
    match kind {
        DataType::Struct(fields) => return fields.iter().all(|field| is_copied(field.data_type())),
        DataType::List(field) | DataType::LargeList(field) | DataType::Map(field, _) => {
            return is_copied(field.data_type());
        }
        _ => (),
    }
    kind.is_primitive()
        || matches!(
            kind,
            DataType::Boolean
                | DataType::Null
                | DataType::Binary
                | DataType::LargeBinary
                | DataType::Utf8
                | DataType::LargeUtf8
                | DataType::FixedSizeBinary(_)
        )
}

impl Field {
    /// Returns a reader of the rows of some pages of each leaf.
    pub fn reader(
        &self,
        leaves: Vec<Vec<Pages>>,
        num_rows: usize,
        batch_rows: usize,
        selection: Option<parquet::arrow::arrow_reader::RowSelection>,
    ) -> ParquetResult<ParquetRecordBatchReader> {
        let given = Given { leaves: std::sync::Mutex::new(leaves), num_rows, metadata: &self.metadata };
        ParquetRecordBatchReader::try_new_with_row_groups(&self.levels, &given, batch_rows, selection)
    }
}

struct Given<'a> {
    leaves: std::sync::Mutex<Vec<Vec<Pages>>>,
    num_rows: usize,
    metadata: &'a ParquetMetaData,
}

impl RowGroups for Given<'_> {
    fn num_rows(&self) -> usize {
        self.num_rows
    }

    fn column_chunks(&self, leaf: usize) -> ParquetResult<Box<dyn PageIterator>> {
        let mut leaves = self.leaves.lock().expect("no other thread has it");
        let chunks = leaves.get_mut(leaf).map(std::mem::take).unwrap_or_default();
        Ok(Box::new(Chunks(chunks.into_iter())))
    }

    fn row_groups(&self) -> Box<dyn Iterator<Item = &RowGroupMetaData> + '_> {
        Box::new(std::iter::empty())
    }

    fn metadata(&self) -> &ParquetMetaData {
        self.metadata
    }
}
