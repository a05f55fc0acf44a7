//! Any bytes are decoded as pages or refused, and selected rows are those of all rows.
//!
//! An input is a type, a codec, the number of rows, a selection, flags, and the bytes of a chunk.
#![no_main]

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, LazyLock};

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use bytes::Bytes;
use intarsia_native::decode::column;
use intarsia_native::headers::{Kind, parse};
use intarsia_native::pages::Chunk;
use intarsia_native::schema::{Field, of_field};
use libfuzzer_sys::fuzz_target;
use parquet::arrow::parquet_to_arrow_schema;
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::SchemaDescriptor;

/// In the order of `seeds.py`.
const TYPES: [&str; 18] = [
    "boolean x;",
    "int32 x;",
    "int64 x;",
    "float x;",
    "double x;",
    "binary x;",
    "binary x (STRING);",
    "fixed_len_byte_array(7) x;",
    "fixed_len_byte_array(6) x (DECIMAL(12, 2));",
    "int64 x (TIMESTAMP(MICROS, true));",
    "int32 x (INTEGER(8, false));",
    "int32 x (DATE);",
    "int64 x (DECIMAL(12, 2));",
    "binary x (UNKNOWN);",
    "int96 x;",
    "group x { optional int64 y; }",
    "group x (LIST) { repeated group list { optional int64 element; } }",
    "group x (LIST) { repeated group list { optional group element (LIST) {
        repeated group list { optional binary element (STRING); } } } }",
];

static FIELDS: LazyLock<Vec<Field>> = LazyLock::new(|| {
    let each = TYPES.iter().flat_map(|kind| [format!("required {kind}"), format!("optional {kind}")]);
    each.map(|text| {
        let root = Arc::new(parse_message_type(&format!("message m {{ {text} }}")).unwrap());
        let arrow = parquet_to_arrow_schema(&SchemaDescriptor::new(root.clone()), None).unwrap();
        of_field(&root.get_fields()[0], &arrow.fields()[0]).unwrap().unwrap()
    })
    .collect()
});

/// A panic of arrow-rs is a refusal, as it is for Python, and any other one is an error.
fn decoded(
    field: &Field,
    leaves: &[Vec<Chunk>],
    ranges: &[Range<usize>],
    as_dictionary: bool,
    checksums: bool,
) -> Option<ArrayRef> {
    let run = || column(field, leaves, ranges, as_dictionary, checksums);
    let found = catch_unwind(AssertUnwindSafe(run)).ok()?.ok()?;
    found.to_data().validate_full().unwrap();
    assert_eq!(found.len(), ranges.iter().map(Range::len).sum::<usize>());
    Some(found)
}

fuzz_target!(
    init: {
        let abort = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let is_foreign = |file: &str| file.contains("/registry/src/");
            if !info.location().is_some_and(|place| is_foreign(place.file())) {
                abort(info);
            }
        }));
    },
    |data: &[u8]| {
        let &[kind, codec, low, high, start, num_selected, flags, ref bytes @ ..] = data else { return };
        let field = &FIELDS[usize::from(kind) % FIELDS.len()];
        let bytes = Bytes::copy_from_slice(bytes);
        let mut chunk = Chunk {
            codec: i32::from(codec % 10),
            span: (bytes.clone(), 0, bytes.len()),
            dictionary: None,
            page_starts: vec![],
            page_rows: vec![usize::from(u16::from_le_bytes([low, high])).max(1)],
            num_values: 0,
        };
        let is_list = field.leaves[0].max_levels[0] > 0;
        plan(&mut chunk, &bytes, is_list, flags & 1 != 0);
        let num_rows = chunk.num_rows();
        let leaves = [vec![chunk]];
        let checksums = flags & 2 != 0;
        let start = usize::from(start).min(num_rows.saturating_sub(1));
        let stop = (start + usize::from(num_selected)).min(num_rows);
        if start == stop {
            return;
        }
        let part = decoded(field, &leaves, &[start..stop], false, checksums);
        let Some(all) = decoded(field, &leaves, &[0..num_rows], false, checksums) else { return };
        // arrow-rs may refuse to skip damaged values that it reads
        if let Some(part) = part {
            assert_eq!(part.to_data(), all.slice(start, stop - start).to_data());
        }
        let step = usize::from(flags >> 2) + 1;
        let ranges: Vec<_> = (0..num_rows).step_by(step + 1).map(|at| at..(at + step).min(num_rows)).collect();
        let pieces: Vec<_> = ranges.iter().map(|range| all.slice(range.start, range.len())).collect();
        let pieces: Vec<_> = pieces.iter().map(|piece| piece.as_ref()).collect();
        let expected = arrow_select::concat::concat(&pieces).unwrap();
        if let Some(found) = decoded(field, &leaves, &ranges, false, checksums) {
            assert_eq!(found.to_data(), expected.to_data());
        }
        if let Some(found) = decoded(field, &leaves, &ranges, true, checksums) {
            let coded = found.as_any_dictionary();
            let texts = arrow_select::take::take(coded.values(), coded.keys(), None).unwrap();
            assert_eq!(texts.to_data(), expected.to_data());
        }
    }
);

/// The number of rows of all pages of lists but the last one, as in `seeds.py`.
const PAGE_ROWS: usize = 8;

/// Counts the values of a chunk, and plans its single pages as an OffsetIndex with true places and counts would.
fn plan(chunk: &mut Chunk, bytes: &Bytes, is_list: bool, are_single: bool) {
    let (mut at, mut first, mut rows, mut starts) = (0, 0, vec![], vec![]);
    let mut rows_left = chunk.num_rows();
    while let Ok((header, body)) = parse(bytes, at) {
        let stop = body.saturating_add(header.body_bytes);
        if stop > bytes.len() || header.num_values > 1 << 16 {
            break;
        }
        if header.kind == Kind::Dictionary && at == 0 {
            chunk.dictionary = Some((bytes.clone(), 0, stop));
            first = stop;
        } else {
            starts.push(at - first);
            let in_page = if is_list { rows_left.min(PAGE_ROWS) } else { header.num_values };
            rows_left = rows_left.saturating_sub(PAGE_ROWS);
            rows.push(in_page);
            chunk.num_values += header.num_values;
        }
        at = stop;
    }
    if are_single && !starts.is_empty() {
        chunk.span = (bytes.clone(), first, at);
        (chunk.page_starts, chunk.page_rows) = (starts, rows);
    }
}
