"""Distinct values in DataFusion's form: what we write, and what others wrote and the user vouches for."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import intarsia as ia
from intarsia.cli import main
from intarsia.errors import ColumnNotFoundError, IndexBuildError, IndexPayloadError
from intarsia.format.datafusion import parse_block, parse_lines, serialize_block
from intarsia.indexes.base import Layout
from intarsia.indexes.datafusion import OpenLines, build_block, open_block
from intarsia.predicate import bind, condition_mask, conditions
from tests.indexes.test_datafusion_golden import GOLDEN, distinct_values
from tests.predicate import strategies
from tests.predicate.oracle import matches

KEY = b"distinct_index_offset"
INDEX = ia.Distinct("word", layout="datafusion")
SCHEMA = pa.schema({"x": pa.string()})

#: Makes it worth while to read an index.
PADDING = "padding " * 100


def table_of(words: list[str | None]) -> pa.Table:
    return pa.table({"word": pa.array(words, pa.string()), "n": range(len(words))})


def bytes_by_another_writer(table: pa.Table, values: list[str], key: bytes | None = None) -> bytes:
    """A file as DataFusion's example writes it: the block behind the row groups, before the footer."""
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, table.schema, compression="none", write_statistics=False) as writer:
        writer.write_table(table, row_group_size=max(1, len(table) // 2))
        offset = sink.tell()
        sink.write(serialize_block(values))
        writer.add_key_value_metadata({KEY: str(offset).encode() if key is None else key})
    return bytes(sink.getvalue())


def padded(words: list[str | None]) -> pa.Table:
    padding = [f"{row}{PADDING}" for row in range(len(words))]
    return pa.table({"word": pa.array(words, pa.string()), "padding": padding})


def scanned(path: Path, where: str, **options: str) -> tuple[list[str], ia.table.ScanReport]:
    scan = ia.open(path, **options).scan(where)
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
    assert golden == (GOLDEN / "datafusion.parquet").read_bytes()
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
    ("words", "index", "message"),
    [
        (["a", "b\nc"], INDEX, r"'b\\nc'.*newline.*leave layout out"),
        (["a", "b\r"], INDEX, "carriage return"),
        (["", None], INDEX, "empty text"),
        (["a", "b"], ia.Distinct("word", max_values=1, layout="datafusion"), "raise max_values"),
        (["a"], ia.Distinct("n", layout="datafusion"), "int64.*text only"),
    ],
    ids=["newline", "carriage return", "empty", "too many", "type"],
)
def test_what_the_form_cannot_hold_is_refused(tmp_path, words, index, message):
    path = tmp_path / "t.parquet"
    pq.write_table(table_of(words), path)
    before = path.read_bytes()
    with pytest.raises(IndexBuildError, match=message):
        ia.attach(path, [index])
    assert path.read_bytes() == before


def test_text_that_is_no_utf8_is_refused():
    broken = pa.array([b"\xff"]).view(pa.string())
    with pytest.raises(IndexBuildError, match="UTF-8"):
        build_block("word", broken)


def test_a_file_has_one(tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"word": ["a"], "other": ["b"]}), path)
    other = ia.Distinct("other", layout="datafusion")
    with pytest.raises(IndexBuildError, match="room for one"):
        ia.attach(path, [INDEX, other])
    ia.attach(path, [INDEX])
    before = path.read_bytes()
    with pytest.raises(IndexBuildError, match=r"distinct_index_offset.*distinct.word.:file has"):
        ia.attach(path, [other])
    assert path.read_bytes() == before


def test_the_one_that_another_writer_wrote_is_kept(tmp_path):
    path = tmp_path / "t.parquet"
    path.write_bytes(bytes_by_another_writer(padded(["a", "b"]), ["a", "b"]))
    before = path.read_bytes()
    with pytest.raises(IndexBuildError, match="the original file has"):
        ia.attach(path, [INDEX])
    assert path.read_bytes() == before
    ia.attach(path, [ia.Distinct("padding", "file")])
    assert distinct_values(path) == {"a", "b"}
    found, report = scanned(path, "word = 'absent'", distinct_index="word")
    assert (found, report.ignored) == ([], [])
    assert [step["index"] for step in report.to_dict()["pruned_by"]] == [KEY.decode()]
    (size,) = {sum(shown.to_dict()["sizes"].values()) for shown in [ia.inspect(path)]}
    assert size == path.stat().st_size
    assert min(ia.inspect(path).to_dict()["sizes"].values()) >= 0


def test_files_are_written_with_it(tmp_path):
    path = tmp_path / "t.parquet"
    ia.write_table(table_of(["b", "a", None]), path, indexes=[INDEX])
    assert distinct_values(path) == {"a", "b"}


def test_what_we_wrote_needs_no_name_and_is_shown_once(path):
    ia.attach(path, [INDEX])
    shown = ia.inspect(path)
    assert shown.datafusion_index.is_believed
    assert sum(shown.to_dict()["sizes"].values()) == path.stat().st_size
    assert min(shown.to_dict()["sizes"].values()) >= 0
    assert ia.verify(path).findings == ()
    _, report = scanned(path, "word LIKE '%z%' AND word <> 'foo'")
    assert [step["index"] for step in report.to_dict()["pruned_by"]] == ["distinct(word):file"]
    found, report = scanned(path, "word IS NULL")
    assert (found, report.bytes_index) == ([None], 0)


# --- what it answers, against the rows -------------------------------------------------------------------

WORDS = st.lists(st.none() | st.sampled_from(strategies.WORDS) | st.text("ab\n\ré", max_size=4), max_size=6)


def check_answers(index: OpenLines, words: list[str | None], predicate) -> None:
    array = pa.array(words, pa.string())
    for leaf in conditions(bind(predicate, SCHEMA)):
        found = index.candidate_rows(leaf)
        matching = np.asarray(condition_mask(leaf, array).to_numpy(zero_copy_only=False), dtype=bool)
        assert found is None or found.num_rows == len(array) or not matching.any(), str(leaf)


@given(WORDS, strategies.predicates({"x": pa.string()}))
def test_what_we_wrote_excludes_no_file_that_has_a_matching_row(words, predicate):
    values = pa.array(sorted({word for word in words if word is not None}), pa.string())
    try:
        block = build_block("x", values)
    except IndexBuildError:
        return
    index = open_block(block, Layout(len(words), np.array([0, len(words)]), {}))
    assert index.lines.to_pylist() == (values.to_pylist() or [""])
    check_answers(index, words, predicate)


@given(WORDS, strategies.predicates({"x": pa.string()}), st.randoms(use_true_random=False))
def test_what_others_wrote_excludes_no_file_that_has_a_matching_row(words, predicate, random):
    """Whatever the values and their order: newlines in values make it doubt, not err."""
    values = list({word for word in words if word is not None})
    random.shuffle(values)
    lines = parse_block(serialize_block(values))
    check_answers(OpenLines(pa.array(lines), len(words), are_values=len(lines) == 1), words, predicate)


@pytest.mark.parametrize(
    ("where", "verdict"),
    [
        ("x = 'foo'", True),
        ("x = 'baz'", False),
        ("x = 'foo\nbar'", None),
        ("x IN ('baz', 'foo')", True),
        ("x IN ('baz', 'fo')", False),
        ("x IN ('baz', 'foo\nbar')", None),
        ("x NOT IN ('bar', 'foo')", None),
        ("x <> 'foo'", None),
        ("x < 'bar'", False),
        ("x <= 'bar'", True),
        ("x > 'foo'", True),  # 'foo\nbar' is greater
        ("x > 'fop'", False),
        ("x >= 'foobar'", True),
        ("x >= 'g'", False),
        ("x LIKE 'ba%'", True),
        ("x LIKE 'bb%'", False),
        ("x LIKE 'foo\nb%'", None),
        ("x LIKE '%o\nb%'", None),
        ("x LIKE '%o\nb%z%'", False),
        ("x LIKE '%ar'", True),
        ("x LIKE '%f%z%'", False),
        ("x LIKE 'f%r'", True),
        ("x NOT LIKE '%o%'", None),
        ("x ILIKE '%OO%'", True),
        ("x ILIKE '%OX%'", False),
        ("x ILIKE 'BA_'", True),
        ("x RLIKE '^f.*r$'", True),
        ("x RLIKE '[xyz]'", None),
        ("x IS NULL", None),
        ("x IS NOT NULL", None),
    ],
)
def test_what_others_wrote_answers(where, verdict):
    (leaf,) = conditions(bind(ia.predicate.parse_sql(where), SCHEMA))
    found = OpenLines(pa.array(["foo", "bar"]), 5, are_values=False).candidate_rows(leaf)
    assert (None if found is None else found.num_rows == 5) is verdict


def test_case_is_ignored_on_both_sides():
    (leaf,) = conditions(bind(ia.predicate.parse_sql("x ILIKE '%oo%'"), SCHEMA))
    assert OpenLines(pa.array(["FOO", "bar"]), 5, are_values=False).candidate_rows(leaf).num_rows == 5


@pytest.mark.parametrize("where", ["x <> 'a'", "x NOT IN ('a', 'b')", "x NOT LIKE 'a%'", "x RLIKE '[xyz]'"])
def test_one_line_is_one_value(where):
    (leaf,) = conditions(bind(ia.predicate.parse_sql(where), SCHEMA))
    assert OpenLines(pa.array(["a"]), 5, are_values=True).candidate_rows(leaf).is_empty


def test_bytes_that_are_no_block():
    block = serialize_block(["foo", "bar"])
    assert parse_block(block) == ["foo", "bar"]
    for damaged in (b"", block[:11], block[:-1], block + b"\n", b"IDX2" + block[4:]):
        with pytest.raises(IndexPayloadError, match="no block"):
            parse_block(damaged)
    with pytest.raises(IndexPayloadError, match="UTF-8"):
        parse_lines(b"\xff")


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


def test_only_files_that_hold_the_value_are_read(lake):
    found, report = scanned(lake, "word = 'foo'", distinct_index="word")
    assert found == ["foo"] * 3
    assert (report.files_total, report.files_read) == (3, 2)
    (step,) = (step for step in report.to_dict()["pruned_by"] if step["index"] == KEY.decode())
    assert (step["column"], step["files"], step["rows"]) == ("word", 1, 2)
    found, unnamed = scanned(lake, "word = 'foo'")
    assert found == ["foo"] * 3
    assert not any(step["index"] == KEY.decode() for step in unnamed.to_dict()["pruned_by"])


def test_other_columns_and_nulls_do_not_ask_it(lake):
    for where in ("padding = 'x'", "word IS NULL"):
        found, report = scanned(lake, where, distinct_index="word")
        assert found == []
        assert not any(step["index"] == KEY.decode() for step in report.to_dict()["pruned_by"])


def test_it_is_not_read_where_that_costs_more_than_the_data(tmp_path):
    many = [f"value {number}" for number in range(5000)]
    (tmp_path / "t.parquet").write_bytes(bytes_by_another_writer(table_of(["a", "b"]), many))
    found, report = scanned(tmp_path / "t.parquet", "word = 'absent'", distinct_index="word")
    assert (found, report.ignored, report.files_read) == ([], [], 1)


def test_a_block_that_is_longer_than_one_read(tmp_path):
    many = [f"value {number}" for number in range(5000)]
    (tmp_path / "t.parquet").write_bytes(bytes_by_another_writer(padded(many), many))
    for where, rows in (("word = 'value 4999'", 1), ("word = 'absent'", 0)):
        found, report = scanned(tmp_path / "t.parquet", where, distinct_index="word")
        assert (len(found), report.ignored, report.files_read) == (rows, [], rows)


def test_a_column_that_is_not_there_is_named(lake):
    with pytest.raises(ColumnNotFoundError, match="wordd"):
        ia.open(lake, distinct_index="wordd").scan("word = 'foo'")


def is_true(predicate, word: str | None) -> bool:
    exact = None if word is None else word.encode()
    return matches(predicate, {"word": exact}, {"word": pa.string()}) is True


FILES = st.lists(WORDS.filter(bool), min_size=1, max_size=3)


@given(FILES, strategies.predicates({"word": pa.string()}))
def test_scans_give_the_rows_that_a_full_read_and_a_filter_give(tmp_path_factory, files, predicate):
    folder = tmp_path_factory.mktemp("lake")
    for ordinal, words in enumerate(files):
        values = list({word for word in words if word is not None})
        (folder / f"{ordinal}.parquet").write_bytes(bytes_by_another_writer(padded(words), values))
    pruned = ia.open(folder, distinct_index="word").scan(predicate)
    plain = pq.read_table(folder)
    expected = [row for row in plain.to_pylist() if is_true(predicate, row["word"])]
    assert pruned.to_arrow().to_pylist() == expected
    assert pruned.report.ignored == []


# --- damage ----------------------------------------------------------------------------------------------


def check_ignored(path: Path, match: str = "") -> str:
    """One note, nothing excluded by it, and the rows that match."""
    words = pq.read_table(path)["word"].to_pylist()
    for where, expected in (("word = 'foo'", words.count("foo")), ("word = 'absent'", 0)):
        scan = ia.open(path, distinct_index="word").scan(where)
        with pytest.warns(ia.IntarsiaWarning, match=match) as caught:
            assert scan.to_arrow().num_rows == expected
        assert len(caught) == 1
        (note,) = scan.report.ignored
        assert note.index in (KEY.decode(), "distinct(word):file")
        assert not any("distinct" in step["index"] for step in scan.report.to_dict()["pruned_by"])
    return note.reason


@pytest.mark.parametrize(
    ("key", "match"),
    [
        (b"-5", "no offset"),
        (b"", "no offset"),
        (b" 7", "no offset"),
        (b"1e3", "no offset"),
        ("٣".encode(), "no offset"),
        (b"9" * 400, "no offset"),
        (b"0", "outside"),
        (b"999999999999999999", "outside"),
        (b"4", "among the data"),
        (b"700", "among the data"),
    ],
)
def test_offsets_that_lead_elsewhere(tmp_path, key, match):
    path = tmp_path / "t.parquet"
    path.write_bytes(bytes_by_another_writer(padded(["foo", "bar"]), ["other"], key))
    check_ignored(path, match)


@pytest.mark.parametrize("place", range(12))
def test_a_damaged_header(tmp_path, place):
    path = tmp_path / "t.parquet"
    data = bytearray(bytes_by_another_writer(padded(["foo", "bar"]), ["other"]))
    data[data.index(b"IDX1") + place] ^= 0xFF
    path.write_bytes(data)
    check_ignored(path, "does not stand there|lead out")


def test_values_that_are_no_utf8(tmp_path):
    path = tmp_path / "t.parquet"
    data = bytes_by_another_writer(padded(["foo"]), ["other"])
    path.write_bytes(data.replace(b"\0other", b"\0\xff\xfe\xff\xfe\xff"))
    check_ignored(path, "UTF-8")


@pytest.mark.parametrize("place", [*range(-48, -36), *range(-32, 19)])  # four are reserved
def test_every_byte_of_what_we_wrote_is_checked(tmp_path, place):
    path = tmp_path / "t.parquet"
    pq.write_table(padded(["foo", "bar"]), path, compression="none", write_statistics=False)
    ia.attach(path, [INDEX])
    data = bytearray(path.read_bytes())
    data[data.index(b"IDX1") + place] ^= 1
    path.write_bytes(data)
    check_ignored(path)


def test_a_copied_key_is_noticed(lake, tmp_path):
    source, copy = lake / "a.parquet", tmp_path / "copy.parquet"
    key = pq.read_metadata(source).metadata[KEY]
    table = padded(["foo", *["new"] * 40]).replace_schema_metadata({KEY: key})
    pq.write_table(table, copy, compression="none", write_statistics=False)
    check_ignored(copy, "among the data")
    pq.write_table(table.slice(0, 1), copy, compression="none", write_statistics=False)
    check_ignored(copy, "does not stand there|outside")


def test_a_copied_directory_makes_the_key_a_copy(path, tmp_path):
    """Both keys came from another file, even if a block should stand where this one says."""
    ia.attach(path, [INDEX])
    copy = tmp_path / "copy.parquet"
    stale = pq.read_metadata(path).metadata[b"intarsia"]
    table = padded(["foo", "bar"]).replace_schema_metadata({b"intarsia": stale})
    copy.write_bytes(bytes_by_another_writer(table, ["other"]))
    scan = ia.open(copy, distinct_index="word").scan("word = 'foo'")
    with pytest.warns(ia.IntarsiaWarning):
        assert scan.to_arrow().num_rows == 1
    assert any(note.index == KEY.decode() and "another file's" in note.reason for note in scan.report.ignored)


def test_the_directory_knows_the_column_better(path):
    ia.attach(path, [INDEX])
    scan = ia.open(path, distinct_index="padding").scan(f"padding = '0{PADDING}'")
    with pytest.warns(ia.IntarsiaWarning, match="it is about word"):
        assert scan.to_arrow().num_rows == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _, report = scanned(path, "word LIKE '%no%'", distinct_index="word")
    assert [step["index"] for step in report.to_dict()["pruned_by"]] == ["distinct(word):file"]


def test_a_column_that_is_no_text(tmp_path):
    path = tmp_path / "t.parquet"
    table = padded(["foo", "bar"]).append_column("n", pa.array([1, 2]))
    path.write_bytes(bytes_by_another_writer(table, ["foo", "bar"]))
    scan = ia.open(path, distinct_index="n").scan("n = 2")
    with pytest.warns(ia.IntarsiaWarning, match="it is about text"):
        assert scan.to_arrow().num_rows == 1


# --- the command -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", [["query", "--format", "jsonl"], ["explain", "--json"]], ids=str)
def test_the_command(lake, capfdbinary, command):
    name, *options = command
    where = ["--where", "word = 'baz'", "--distinct-index", "word"]
    assert main([name, str(lake), *where, *options]) == 0
    out = capfdbinary.readouterr().out.decode()
    assert '"baz"' in out if name == "query" else '"distinct_index_offset"' in out
