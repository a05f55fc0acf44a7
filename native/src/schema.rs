//! The fields of a file that arrow-rs decodes to the types of pyarrow.

use std::sync::Arc;

use arrow_array::RecordBatchReader;
use arrow_schema::{DataType, FieldRef, Fields, Schema as ArrowSchema};
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, RowGroups};
use parquet::arrow::{FieldLevels, ProjectionMask, parquet_to_arrow_field_levels};
use parquet::basic::{Repetition, Type as PhysicalType};
use parquet::column::page::PageIterator;
use parquet::errors::Result as ParquetResult;
use parquet::file::metadata::{FileMetaData, ParquetMetaData, ParquetMetaDataReader, RowGroupMetaData};
use parquet::schema::types::{SchemaDescriptor, Type};

use crate::pages::{Chunks, Pages};
use crate::thrift::{Read, Refusal};

/// A flat top-level field.
pub struct Field {
    /// The field as pyarrow exports it.
    pub arrow: FieldRef,
    levels: FieldLevels,
    /// The minimum size of a value in PLAIN.
    pub plain_bytes: usize,
    /// arrow-rs asks for the metadata of a file, of which it uses nothing.
    metadata: ParquetMetaData,
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

fn of_field(root: &Arc<Type>, arrow: &FieldRef) -> Read<Option<Field>> {
    let Type::PrimitiveType { basic_info, physical_type, type_length, .. } = root.as_ref() else {
        return Ok(None);
    };
    // nanoseconds of far INT96 values wrap around in another way
    let is_other = basic_info.repetition() == Repetition::REPEATED || *physical_type == PhysicalType::INT96;
    if is_other || !is_copied(arrow.data_type()) {
        return Ok(None);
    }
    let one = Type::group_type_builder("schema").with_fields(vec![root.clone()]).build()?;
    let schema = Arc::new(SchemaDescriptor::new(Arc::new(one)));
    let hint = Fields::from(vec![arrow.clone()]);
    let levels = parquet_to_arrow_field_levels(&schema, ProjectionMask::all(), Some(&hint))?;
    let metadata = ParquetMetaData::new(FileMetaData::new(2, 0, None, None, schema, None), vec![]);
    let plain_bytes = match physical_type {
        PhysicalType::BOOLEAN => 1,
        PhysicalType::INT64 | PhysicalType::DOUBLE => 8,
        PhysicalType::FIXED_LEN_BYTE_ARRAY => usize::try_from(*type_length).unwrap_or(0).max(1),
        _ => 4,
    };
    let field = Field { arrow: arrow.clone(), levels, plain_bytes, metadata };
    let found = field.reader(vec![], 0, 1, None)?.schema();
    Ok((found.field(0).data_type() == arrow.data_type()).then_some(field))
}

/// Whether results have buffers of their own size: views keep whole pages, and dictionaries all values.
fn is_copied(kind: &DataType) -> bool {
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
    /// Returns a reader of the rows of some pages.
    pub fn reader(
        &self,
        chunks: Vec<Pages>,
        num_rows: usize,
        batch_rows: usize,
        selection: Option<parquet::arrow::arrow_reader::RowSelection>,
    ) -> ParquetResult<ParquetRecordBatchReader> {
        let given = Given { chunks: std::sync::Mutex::new(chunks), num_rows, metadata: &self.metadata };
        ParquetRecordBatchReader::try_new_with_row_groups(&self.levels, &given, batch_rows, selection)
    }
}

struct Given<'a> {
    chunks: std::sync::Mutex<Vec<Pages>>,
    num_rows: usize,
    metadata: &'a ParquetMetaData,
}

impl RowGroups for Given<'_> {
    fn num_rows(&self) -> usize {
        self.num_rows
    }

    fn column_chunks(&self, _: usize) -> ParquetResult<Box<dyn PageIterator>> {
        let chunks = std::mem::take(&mut *self.chunks.lock().expect("no other thread has it"));
        Ok(Box::new(Chunks(chunks.into_iter())))
    }

    fn row_groups(&self) -> Box<dyn Iterator<Item = &RowGroupMetaData> + '_> {
        Box::new(std::iter::empty())
    }

    fn metadata(&self) -> &ParquetMetaData {
        self.metadata
    }
}
