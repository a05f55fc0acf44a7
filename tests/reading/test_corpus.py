"""Valid and invalid files by many writers are read as pyarrow reads them, and filtered by their values."""

from __future__ import annotations

import warnings
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from intarsia.predicate import And, Comparison, In, IsNull, Not
from tests.conftest import CORPUS, SHARED
from tests.predicate import oracle
from tests.reading.exact import assert_same_rows, bits, leaf_at

#: Without those that test_variant.py reads, because conditions cannot compare VARIANT columns.
FILES = sorted(
    path for path in CORPUS.rglob("*") if ".parquet" in path.name and path.parent.name != "shredded_variant"
)
LARGE_FILES = [
    SHARED / "corpus" / "parquet-testing/data/alltypes_tiny_pages.parquet",
    SHARED / "corpus" / "duckdb/data/parquet-testing/page_stats_skip.parquet",
]

REFUSED = {
    "PARQUET-1481.parquet": (ia.CorruptFileError, "unknown-physical-type"),
    "encrypt_columns_plaintext_footer.parquet.encrypted": (ia.UnsupportedFeatureError, "encrypted-column"),
    "uniform_encryption.parquet.encrypted": (ia.UnsupportedFeatureError, "encrypted-footer"),
}

#: Files whose page index is ignored, with a part of the reason.
IGNORED = {
    "datapage_v1-uncompressed-checksum.parquet": "contradictory-nulls",
    "alltypes_invalid_pages.parquet": "page-outside-chunk",
}

MANY_ROWS = 2_000

corpus_file = pytest.mark.parametrize(
    "path",
    [path for path in FILES if path.name not in REFUSED]
    + [
        pytest.param(path, marks=pytest.mark.skipif(not path.exists(), reason="needs ../shared/corpus"))
        for path in LARGE_FILES
    ],
    ids=lambda path: path.name,
)


def test_corpus_is_complete():
    assert len(FILES) == 31
    assert set(REFUSED) | set(IGNORED) <= {path.name for path in FILES}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("where", [None, [("float_field", ">", 0)]])
def test_refused(name, where):
    (path,) = (path for path in FILES if path.name == name)
    kind, reason = REFUSED[name]
    with pytest.raises(kind) as caught:
        ia.open(path).scan(where).to_arrow()
    assert (caught.value.reason, caught.value.path) == (reason, str(path))


def test_plain_columns_beside_encrypted_ones():
    (path,) = (path for path in FILES if path.name == "encrypt_columns_plaintext_footer.parquet.encrypted")
    table = ia.open(path).scan(columns=["boolean_field", "int64_field"]).to_arrow()
    assert table.num_rows == 50
    some = ia.open(path).scan("boolean_field = TRUE", ["boolean_field", "int64_field"]).to_arrow()
    assert some.equals(table.filter(table["boolean_field"]))


@pytest.mark.parametrize(
    "ask",
    [
        lambda table: table.scan("boolean_field").to_arrow(),
        lambda table: list(table.scan("boolean_field")),
        lambda table: table.explain("boolean_field"),
        lambda table: table.plan("boolean_field"),
    ],
    ids=["table", "batches", "explain", "plan"],
)
def test_errors_of_encrypted_columns_name_the_file(ask):
    (path,) = (path for path in FILES if path.name == "encrypt_columns_plaintext_footer.parquet.encrypted")
    with pytest.raises(ia.UnsupportedFeatureError) as caught:
        ask(ia.open(path))
    assert (caught.value.reason, caught.value.path) == ("encrypted-column", str(path))


@corpus_file
def test_full_scan_equals_pyarrow(path):
    assert_same_rows(ia.open(path).scan().to_arrow(), pq.read_table(path))
    batches = list(ia.open(path).scan())
    assert sum(batch.num_rows for batch in batches) == pq.read_metadata(path).num_rows


def flat_columns(schema, above=""):
    """Dotted paths of the columns that predicates can use."""
    for field in schema:
        name = above + field.name
        if pa.types.is_struct(field.type):
            yield from flat_columns([field.type.field(i) for i in range(field.type.num_fields)], f"{name}.")
        elif not pa.types.is_nested(field.type):
            yield name


def literal_of(scalar):
    """A value of a column as a literal: temporal values as scalars, others as Python values."""
    return scalar if pa.types.is_temporal(scalar.type) else scalar.as_py()


def predicates_at(name, column):
    """Comparisons with the first, the middle and the last value of a column."""
    plain = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
    present = plain.drop_null()
    few = len(column) > MANY_ROWS
    places = sorted({0, len(present) // 2, len(present) - 1} if len(present) else ())
    yield IsNull(name)
    for place in places:
        value = literal_of(present[place])
        in_the_middle = place == places[len(places) // 2]
        if in_the_middle or not few:
            yield Comparison(name, "=", value)
        if in_the_middle:
            yield Not(Comparison(name, "<", value))
        if in_the_middle and not few:
            yield IsNull(name, negated=True)
            for op in ("<>", "<", "<=", ">", ">="):
                yield Comparison(name, op, value)
    if len(places) > 1 and not few:
        ends = literal_of(present[0]), literal_of(present[len(present) - 1])
        yield In(name, ends)
        yield In(name, ends, negated=True)
        yield And((Comparison(name, ">=", ends[0]), Comparison(name, "<=", ends[1])))


@corpus_file
def test_filtered_scan_equals_pyarrow_and_filter(path):
    full = pq.read_table(path)
    table = ia.open(path)
    codes = set()
    for name in flat_columns(full.schema):
        column = leaf_at(full, name)
        exact, expected, types = oracle.exact_values(column), bits(column), {name: column.type}
        for node in predicates_at(name, column):
            keep = [oracle.matches(node, {name: value}, types) is True for value in exact]
            scan = table.scan(node, [name])
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ia.IntarsiaWarning)
                found = scan.to_arrow()
            assert bits(found.column(0)) == [v for v, kept in zip(expected, keep, strict=True) if kept], node
            codes |= {note.code for note in scan.report.ignored}
            if isinstance(node, Comparison) and node.op == "=" and full.num_rows <= MANY_ROWS:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", ia.IntarsiaWarning)
                    assert_same_rows(table.scan(node).to_arrow(), full, keep)
    if path.name in IGNORED:
        assert codes == {IGNORED[path.name]}
    else:
        assert codes == set()


def test_real_data_with_page_index(data_dir, tmp_path):
    """A day of flights, found by pages, equals pyarrow's filter."""
    (source,) = Path(data_dir).glob("flights*.parquet")
    head = pq.ParquetFile(source).read_row_group(0).slice(0, 200_000)
    path = tmp_path / "flights.parquet"
    pq.write_table(head, path, write_page_index=True, row_group_size=60_000)
    for name in head.column_names:
        value = literal_of(head[name].drop_null()[77_777 % len(head[name].drop_null())])
        scan = ia.open(path).scan(Comparison(name, "=", value))
        expected = head.filter(pa.compute.equal(head[name], pa.scalar(value, head[name].type)))
        assert scan.to_arrow().equals(expected)
        assert scan.report.rows_matched == expected.num_rows > 0
