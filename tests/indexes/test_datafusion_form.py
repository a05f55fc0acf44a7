"""Distinct values in DataFusion's form: written by Intarsia, and by others and compared by `attach`."""

from __future__ import annotations

import contextlib
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import intarsia as ia
from intarsia.errors import IndexBuildError, IndexPayloadError
from intarsia.file import ParquetInput
from intarsia.format.blob import parse_block, parse_lines, parse_offset, serialize_block
from intarsia.indexes.distinct import OpenLines, build_block
from intarsia.indexes.layout import Layout
from intarsia.predicate import bind, condition_mask, conditions
from tests.indexes.test_datafusion_golden import GOLDEN, distinct_values
from tests.predicate import strategies
from tests.predicate.oracle import matches

KEY = b"distinct_index_offset"
INDEX = ia.Distinct("word", form="datafusion")
SCHEMA = pa.schema({"x": pa.string()})

#: Makes an index worth reading.
PADDING = "padding " * 100


def table_of(words: list[str | None]) -> pa.Table:
    return pa.table({"word": pa.array(words, pa.string()), "n": range(len(words))})


def bytes_by_another_writer(table: pa.Table, values: list[str], key: bytes | None = None) -> bytes:
    """A file as DataFusion's example writes it: the block behind the row groups, before the footer."""
    sink = pa.BufferOutputStream()
    options = {"compression": "none", "write_statistics": False, "use_dictionary": False}
    with pq.ParquetWriter(sink, table.schema, **options) as writer:
        writer.write_table(table, row_group_size=max(1, len(table) // 2))
        offset = sink.tell()
        sink.write(serialize_block(values))
        writer.add_key_value_metadata({KEY: str(offset).encode() if key is None else key})
    return bytes(sink.getvalue())


def padded(words: list[str | None]) -> pa.Table:
    padding = [f"{row}{PADDING}" for row in range(len(words))]
    return pa.table({"word": pa.array(words, pa.string()), "padding": padding})


def scanned(path: Path, where: str) -> tuple[list[str], ia.ScanReport]:
    scan = ia.open(path).scan(where)
    return scan.to_arrow()["word"].to_pylist(), scan.report


# --- written ---------------------------------------------------------------------------------------------


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(padded(["foo", None, "bar", "", "foo", "Zürich", "a\rb"]), path, compression="none")
    return path


def test_attaching_makes_the_golden_file_and_detaching_the_original(tmp_path):
    path = tmp_path / "golden.parquet"
    original = (GOLDEN / "original.parquet").read_bytes()
    path.write_bytes(original)
    ia.attach(path, [INDEX])
    golden = path.read_bytes()
    assert golden == (GOLDEN / "datafusion-2.parquet").read_bytes()
    ia.attach(path, [INDEX])
    assert path.read_bytes() == golden
    ia.detach(path)
    assert path.read_bytes() == original


def test_the_key_follows_the_block_when_something_else_is_attached(path):
    words = [f"{row:x}" for row in range(1000)]
    pq.write_table(padded(words), path, compression="none")
    ia.attach(path, [ia.Distinct("padding", granularity="file", max_values=0), INDEX])
    assert distinct_values(path) == set(words)
    first = pq.read_metadata(path).metadata[KEY]
    ia.attach(path, [ia.Distinct("padding", granularity="file"), ia.PageIndex()])
    assert pq.read_metadata(path).metadata[KEY] != first
    assert distinct_values(path) == set(words)
    ia.detach(path)
    assert KEY not in (pq.read_metadata(path).metadata or {})


@pytest.mark.parametrize(
    "kind", [pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())], ids=str
)
def test_every_type_of_text(tmp_path, kind):
    words = pa.array(["b", None, "a", "b"]).cast(kind)
    pq.write_table(pa.table({"word": words}), tmp_path / "t")
    ia.attach(tmp_path / "t", [INDEX])
    assert distinct_values(tmp_path / "t") == {"a", "b"}


@pytest.mark.parametrize("words", [[], [None, None]], ids=["no rows", "only nulls"])
def test_without_values(tmp_path, words):
    pq.write_table(table_of(words), tmp_path / "t")
    ia.attach(tmp_path / "t", [INDEX])
    assert ia.open(tmp_path / "t").count("word IS NULL") == len(words)
    assert ia.open(tmp_path / "t").count("word = 'a'") == 0


@pytest.mark.parametrize(
    ("words", "index", "reason"),
    [
        (["a", "b\nc"], INDEX, "value-with-newline"),
        (["a", "b\r"], INDEX, "value-with-newline"),
        (["", None], INDEX, "only-empty-text"),
        (["a", "b"], ia.Distinct("word", max_values=1, form="datafusion"), "too-many-values"),
        (["a"], ia.Distinct("n", form="datafusion"), "not-a-string-column"),
    ],
    ids=["newline", "carriage return", "empty", "too many", "type"],
)
def test_values_that_the_form_cannot_store_are_rejected(tmp_path, words, index, reason):
    path = tmp_path / "t.parquet"
    pq.write_table(table_of(words), path)
    before = path.read_bytes()
    with pytest.raises(IndexBuildError) as caught:
        ia.attach(path, [index])
    assert (caught.value.reason, caught.value.column) == (reason, index.column)
    assert path.read_bytes() == before


def test_text_that_is_not_utf8_is_rejected():
    broken = pa.array([b"\xff"]).view(pa.string())
    with pytest.raises(IndexBuildError) as caught:
        build_block("word", broken)
    assert (caught.value.reason, caught.value.column) == ("not-utf8", "word")


def test_a_file_has_one(tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"word": ["a"], "other": ["b"]}), path)
    other = ia.Distinct("other", form="datafusion")
    with pytest.raises(IndexBuildError) as caught:
        ia.attach(path, [INDEX, other])
    assert caught.value.reason == "footer-key-taken"
    ia.attach(path, [INDEX])
    before = path.read_bytes()
    with pytest.raises(IndexBuildError, match=r"distinct_index_offset.*distinct.word.:file has"):
        ia.attach(path, [other])
    assert path.read_bytes() == before


def test_a_block_of_another_writer_is_kept(tmp_path):
    path = tmp_path / "t.parquet"
    path.write_bytes(bytes_by_another_writer(padded(["a", "b", None]), ["b", "a"]))
    before = path.read_bytes()
    key = pq.read_metadata(path).metadata[KEY]
    _, report = scanned(path, "word = 'absent'")
    assert report.files_read == 1  # the column of the block is not known yet
    for _ in range(2):
        ia.attach(path, [INDEX])
        assert pq.read_metadata(path).metadata[KEY] == key
        assert distinct_values(path) == {"a", "b"}
    found, report = scanned(path, "word = 'absent'")
    assert (found, report.ignored, report.files_read) == ([], [], 0)
    assert [step["index"] for step in report.to_dict()["pruned_by"]] == ["distinct(word):file"]
    ia.attach(path, [ia.Distinct("padding", "file")])
    assert scanned(path, "word = 'absent'")[1].files_read == 0
    assert scanned(path, "word <> 'c'")[0] == ["a", "b"]
    (size,) = {sum(shown.to_dict()["sizes"].values()) for shown in [ia.inspect(path)]}
    assert size == path.stat().st_size
    assert min(ia.inspect(path).to_dict()["sizes"].values()) >= 0
    assert ia.verify(path).findings == ()
    ia.detach(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "listed",
    [["a"], ["a", "b", "c"], ["x", "y"], []],
    ids=["too few", "too many", "others", "none"],
)
def test_a_block_with_other_values_is_rejected(tmp_path, listed):
    """The block is of another column, or was written before the file changed."""
    path = tmp_path / "t.parquet"
    path.write_bytes(bytes_by_another_writer(padded(["a", "b", None]), listed))
    before = path.read_bytes()
    with pytest.raises(IndexBuildError) as caught:
        ia.attach(path, [INDEX])
    assert caught.value.reason == "footer-key-taken"
    assert path.read_bytes() == before
    ia.attach(path, [ia.Distinct("word", granularity="file")])
    assert scanned(path, "word = 'absent'")[1].files_read == 0


def test_files_are_written_with_the_block(tmp_path):
    path = tmp_path / "t.parquet"
    ia.write_table(table_of(["b", "a", None]), path, indexes=[INDEX])
    assert distinct_values(path) == {"a", "b"}


def test_an_attached_block_needs_no_name_and_is_shown_once(path):
    ia.attach(path, [INDEX])
    shown = ia.inspect(path)
    assert shown.datafusion_index.is_trusted
    assert sum(shown.to_dict()["sizes"].values()) == path.stat().st_size
    assert min(shown.to_dict()["sizes"].values()) >= 0
    assert ia.verify(path).findings == ()
    _, report = scanned(path, "word LIKE '%z%' AND word <> 'foo'")
    assert [step["index"] for step in report.to_dict()["pruned_by"]] == ["distinct(word):file"]
    found, report = scanned(path, "word IS NULL")
    assert (found, report.bytes_index) == ([None], 0)


# --- its results compared with the rows ------------------------------------------------------------------

WORDS = st.lists(st.none() | st.sampled_from(strategies.WORDS) | st.text("ab\n\ré", max_size=4), max_size=6)


def check_answers(index: OpenLines, words: list[str | None], predicate) -> None:
    array = pa.array(words, pa.string())
    for leaf in conditions(bind(predicate, SCHEMA)):
        found = index.candidate_rows(leaf)
        matching = np.asarray(condition_mask(leaf, array).to_numpy(zero_copy_only=False), dtype=bool)
        assert found is None or found.num_rows == len(array) or not matching.any(), str(leaf)


@given(WORDS, strategies.predicates({"x": pa.string()}))
def test_an_attached_block_never_excludes_a_file_with_a_matching_row(words, predicate):
    values = pa.array(sorted({word for word in words if word is not None}), pa.string())
    try:
        block = build_block("x", values)
    except IndexBuildError:
        return
    index = ia.Distinct("x", form="datafusion").open(block, Layout(len(words), np.array([0, len(words)]), {}))
    assert index.lines.to_pylist() == (values.to_pylist() or [""])
    check_answers(index, words, predicate)


def test_bytes_that_are_not_a_block():
    block = serialize_block(["foo", "bar"])
    assert parse_block(block) == ["foo", "bar"]
    for damaged in (b"", block[:11], block[:-1], block + b"\n", b"IDX2" + block[4:]):
        with pytest.raises(IndexPayloadError) as caught:
            parse_block(damaged)
        assert caught.value.reason == "no-block"
    with pytest.raises(IndexPayloadError) as caught:
        parse_lines(b"\xff")
    assert caught.value.reason == "not-utf8"


# --- lakes whose files another writer made ---------------------------------------------------------------


@pytest.fixture
def lake(tmp_path):
    """The three files of DataFusion's example."""
    folder = tmp_path / "lake"
    folder.mkdir()
    files = {"a": ["foo", "bar", "foo"], "b": ["baz", "qux"], "c": ["foo", "quux", "quux"]}
    for name, words in files.items():
        data = bytes_by_another_writer(padded(words), list(dict.fromkeys(words)))
        (folder / f"{name}.parquet").write_bytes(data)
    return folder


def test_only_files_with_the_value_are_read(lake):
    found, plain = scanned(lake, "word = 'foo'")
    assert (found, plain.files_read) == (["foo"] * 3, 3)
    for path in lake.iterdir():
        ia.attach(path, [INDEX])
    found, report = scanned(lake, "word = 'foo'")
    assert found == ["foo"] * 3
    assert (report.files_total, report.files_read) == (3, 2)
    (step,) = report.to_dict()["pruned_by"]
    assert (step["index"], step["column"]) == ("distinct(word):file", "word")
    assert (step["files"], step["rows"]) == (1, 2)


def test_the_block_is_not_read_if_it_costs_more_than_the_data(tmp_path):
    words = [f"value {number}" for number in range(5000)]
    options = {"write_statistics": False, "compression": "zstd", "use_dictionary": False}
    pq.write_table(table_of(words), tmp_path / "t.parquet", **options)
    ia.attach(tmp_path / "t.parquet", [INDEX])
    for where, rows in (("word = 'value 4999'", 1), ("word = 'absent'", 0)):
        found, report = scanned(tmp_path / "t.parquet", where)
        assert (len(found), report.ignored) == (rows, [])
        assert (report.bytes_index, report.files_read) == (0, 1)


def is_true(predicate, word: str | None) -> bool:
    exact = None if word is None else word.encode()
    return matches(predicate, {"word": exact}, {"word": pa.string()}) is True


@given(WORDS.filter(bool), strategies.predicates({"word": pa.string()}))
def test_scans_give_the_rows_that_a_full_read_and_a_filter_give(tmp_path_factory, words, predicate):
    path = tmp_path_factory.mktemp("lake") / "t.parquet"
    values = list({word for word in words if word is not None})
    path.write_bytes(bytes_by_another_writer(padded(words), values))
    with contextlib.suppress(IndexBuildError):  # values that the form cannot store
        ia.attach(path, [INDEX])
    scan = ia.open(path).scan(predicate)
    expected = [row for row in pq.read_table(path).to_pylist() if is_true(predicate, row["word"])]
    assert scan.to_arrow().to_pylist() == expected
    assert scan.report.ignored == []


# --- damage ----------------------------------------------------------------------------------------------


def check_ignored(path: Path) -> None:
    """One note, nothing excluded by it, and the rows that match."""
    words = pq.read_table(path)["word"].to_pylist()
    for where, expected in (("word = 'foo'", words.count("foo")), ("word = 'absent'", 0)):
        scan = ia.open(path).scan(where)
        with pytest.warns(ia.IntarsiaWarning) as caught:
            assert scan.to_arrow().num_rows == expected
        assert len(caught) == 1
        (note,) = scan.report.ignored
        assert note.index == "distinct(word):file"
        assert not any("distinct" in step["index"] for step in scan.report.to_dict()["pruned_by"])


def check_refused(path: Path) -> None:
    """It is not attached, and reading the file ignores it."""
    before = path.read_bytes()
    with pytest.raises(IndexBuildError) as caught:
        ia.attach(path, [INDEX])
    assert caught.value.reason == "footer-key-taken"
    assert path.read_bytes() == before
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "foo" in scanned(path, "word = 'foo'")[0]


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        (b"-5", "invalid-block-offset"),
        (b"", "invalid-block-offset"),
        (b" 7", "invalid-block-offset"),
        (b"1e3", "invalid-block-offset"),
        ("٣".encode(), "invalid-block-offset"),
        (b"9" * 400, "invalid-block-offset"),
        (b"0", "block-outside-body"),
        (b"999999999999999999", "block-outside-body"),
        (b"4", "block-within-data"),
        (b"700", "block-within-data"),
    ],
)
def test_invalid_offsets(tmp_path, key, reason):
    path = tmp_path / "t.parquet"
    path.write_bytes(bytes_by_another_writer(padded(["foo", "bar"]), ["foo", "bar"], key))
    with ParquetInput.open(path) as file, pytest.raises(IndexPayloadError) as caught:
        parse_offset(key, file.footer)
    assert caught.value.reason == reason
    check_refused(path)


@pytest.mark.parametrize("place", range(12))
def test_a_damaged_header(tmp_path, place):
    path = tmp_path / "t.parquet"
    data = bytearray(bytes_by_another_writer(padded(["foo", "bar"]), ["foo", "bar"]))
    data[data.index(b"IDX1") + place] ^= 0xFF
    path.write_bytes(data)
    check_refused(path)


def test_values_that_are_not_utf8(tmp_path):
    path = tmp_path / "t.parquet"
    data = bytes_by_another_writer(padded(["foo"]), ["other"])
    path.write_bytes(data.replace(b"\0other", b"\0\xff\xfe\xff\xfe\xff"))
    check_refused(path)


@pytest.mark.parametrize("place", [*range(-48, -36), *range(-32, 19)])  # four are reserved
def test_every_byte_of_an_attached_block_is_checked(tmp_path, place):
    path = tmp_path / "t.parquet"
    pq.write_table(padded(["foo", "bar"]), path, compression="none", write_statistics=False)
    ia.attach(path, [INDEX])
    data = bytearray(path.read_bytes())
    data[data.index(b"IDX1") + place] ^= 1
    path.write_bytes(data)
    check_ignored(path)


def test_a_copied_key_is_detected(lake, tmp_path):
    source, copy = lake / "a.parquet", tmp_path / "copy.parquet"
    key = pq.read_metadata(source).metadata[KEY]
    table = padded(["foo", *["new"] * 40]).replace_schema_metadata({KEY: key})
    pq.write_table(table, copy, compression="none", write_statistics=False)
    check_refused(copy)
    pq.write_table(table.slice(0, 1), copy, compression="none", write_statistics=False)
    check_refused(copy)


def test_a_column_that_is_not_text(tmp_path):
    path = tmp_path / "t.parquet"
    table = padded(["1", "2"]).append_column("n", pa.array([1, 2]))
    path.write_bytes(bytes_by_another_writer(table, ["1", "2"]))
    with pytest.raises(IndexBuildError) as caught:
        ia.attach(path, [ia.Distinct("n", form="datafusion")])
    assert (caught.value.reason, caught.value.column) == ("not-a-string-column", "n")
