"""`attach` and `detach`: the bytes that stay, the bytes that are added, and idempotence."""

import json
import os
import shutil
import tracemalloc
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings

import intarsia as ia
from intarsia.embed import Bloom, PageIndex, Statistics, attach, detach
from intarsia.errors import (
    ColumnNotFoundError,
    CorruptFileError,
    IndexBuildError,
    IndexPayloadError,
    NewerDirectoryError,
    UnsupportedFeatureError,
)
from intarsia.file import ParquetInput
from intarsia.format import thrift, thrift_tree
from intarsia.format.blob import unframe
from intarsia.format.directory import belongs, parse_directory
from intarsia.format.structs import OffsetIndex
from intarsia.indexes import Index
from intarsia.indexes.distinct import Distinct
from intarsia.indexes.sample import Sample
from tests.effort import examples
from tests.embed.tables import content, drawn_tables, edit_footer, page_indexes


@dataclass(frozen=True)
class Rows(Index):
    """A third-party index: every value as text, and the page edges."""

    kind: ClassVar[str] = "rows"
    version: ClassVar[int] = 3

    column: str
    granularity: str = "page"
    salt: int = 0

    def build(self, chunk):
        edges = chunk.layout.edges(self.granularity, self.column).tolist()
        values, expected = [], 0
        for first_row, piece in chunk.batches(self.column):
            assert first_row == expected
            expected += len(piece)
            assert piece.type == chunk.type_of(self.column)
            values += piece.to_pylist()
        assert expected == chunk.layout.num_rows
        return json.dumps([edges, [str(value) for value in values]]).encode()

    def open(self, payload, layout):
        raise NotImplementedError


def rows_of(source):
    """Return a value that is equal for equal rows, including NaN, or the error's name if pyarrow fails.

    pyarrow cannot read its own file if it wrote an empty page before a list column's last row.
    """
    sink = pa.BufferOutputStream()
    try:
        table = pq.ParquetFile(source).read().replace_schema_metadata(None).combine_chunks()
    except pa.ArrowInvalid as error:
        return str(error)
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def directory_of(path):
    with ParquetInput.open(path) as file:
        directory = parse_directory(file.footer.key_values[b"intarsia"])
        assert belongs(directory, file.footer) is None
        return directory


def payload_of(path, name):
    directory = directory_of(path)
    entry = next(entry for entry in directory.entries if entry.name == name)
    blob = content(path)[entry.offset : entry.offset + entry.length]
    assert entry.offset % 8 == 0
    return unframe(blob, directory.fingerprint, entry.xxh3)


@pytest.fixture
def table():
    return pa.table(
        {
            "n": pa.array(range(1000), pa.int64()),
            "s": pa.array([f"v{i % 7}" if i % 11 else None for i in range(1000)]).dictionary_encode(),
            "deep": pa.array([{"x": i * 0.5} if i % 5 else None for i in range(1000)]),
            "l": pa.array([[i, None] if i % 3 else [] for i in range(1000)]),
        }
    )


@pytest.fixture
def path(tmp_path, table):
    path = str(tmp_path / "t.parquet")
    pq.write_table(table, path, row_group_size=300, data_page_size=200, write_batch_size=50)
    return path


ALL = [PageIndex(), Distinct("s"), Rows("n"), Rows("deep.x", "row_group")]


@settings(max_examples=examples(40))
@given(drawn=drawn_tables())
def test_original_bytes_are_kept_and_restored(drawn, tmp_path_factory):
    path = str(tmp_path_factory.mktemp("attach") / "a.parquet")
    drawn.write(path)
    before = content(path)
    flat = [field.name for field in drawn.table.schema if pa.types.is_integer(field.type)]
    indexes = [PageIndex(), *(Rows(name, "row_group") for name in flat[:1])]
    report = attach(path, indexes)
    after = content(path)
    assert after[: len(before)] == before
    assert report.bytes_after == len(after)
    assert rows_of(path) == rows_of(pa.BufferReader(before))
    again = attach(path, indexes)
    assert content(path) == after
    assert not again.built
    detached = detach(path)
    assert content(path) == before
    assert detached.detached == (after != before)
    assert not detach(path).detached


def test_attaching_twice_changes_nothing(path):
    attach(path, ALL)
    once, stat = content(path), os.stat(path)
    report = attach(path, ALL)
    assert content(path) == once
    assert os.stat(path) == stat or os.stat(path).st_ino == stat.st_ino  # not even written again
    assert report.built == ()
    assert set(report.kept) == {"page_index", "distinct(s):page", "rows(n):page", "rows(deep.x):row_group"}
    assert not report.changed


def test_attaching_one_by_one_equals_attaching_all_at_once(path, tmp_path):
    other = str(tmp_path / "other.parquet")
    shutil.copyfile(path, other)
    attach(path, ALL)
    for index in ALL:
        attach(other, [index])
    assert content(other) == content(path)


def test_attaching_more_keeps_existing_indexes(path):
    attach(path, [Rows("n"), Distinct("s")])
    before = payload_of(path, "rows(n):page")
    report = attach(path, [PageIndex()])
    assert report.built == ("page_index",)
    assert sorted(report.kept) == ["distinct(s):page", "rows(n):page"]
    assert payload_of(path, "rows(n):page") == before
    report = attach(path, [Distinct("n", "file")])
    assert len(directory_of(path).entries) == 3
    found, _ = page_indexes(path)
    assert all(offset_index for _, offset_index in found.values())


def test_other_parameters_replace_the_old_index(path):
    attach(path, [Rows("n"), Rows("s")])
    report = attach(path, [Rows("n", salt=1)])
    assert (report.built, report.kept) == (("rows(n):page",), ("rows(s):page",))
    assert [entry.parameters["salt"] for entry in directory_of(path).entries] == [1, 0]
    attach(path, [Rows("n", "file")])
    assert len(directory_of(path).entries) == 3


def test_an_index_gets_the_columns_and_page_edges(path, table):
    attach(path, [Rows("n"), Rows("deep.x"), Rows("s", "row_group")])
    found, _ = page_indexes(path)
    assert not any(offset_index for _, offset_index in found.values())  # the edges come from the pages
    edges, values = json.loads(payload_of(path, "rows(n):page"))
    assert values == [str(value) for value in table["n"].to_pylist()]
    attach(path, [PageIndex()])
    found, footer = page_indexes(path)
    starts = footer.row_group_starts
    assert edges == [
        int(starts[group]) + location.first_row_index
        for (group, leaf), (_, offset_index) in found.items()
        if leaf == 0
        for location in offset_index.page_locations
    ] + [1000]
    assert len(edges) > 8
    _, values = json.loads(payload_of(path, "rows(deep.x):page"))
    assert values == [str(value and value["x"]) for value in table["deep"].to_pylist()]
    edges, values = json.loads(payload_of(path, "rows(s):row_group"))
    assert edges == [0, 300, 600, 900, 1000]
    assert values == [str(value) for value in table["s"].to_pylist()]


def test_keys_that_another_program_changes_are_kept(path):
    """A program that writes another footer at the same offset, such as fastparquet, leaves indexes valid."""
    edit_footer(path, set_keys({b"kept": b"1", b"changed": b"1", b"removed": b"1"}))
    shutil.copy(path, f"{path}.before")
    attach(path, [Distinct("s")])
    edit_footer(path, set_keys({b"changed": b"2", b"new": b"2", b"removed": None}))
    report = attach(path, [PageIndex(), Distinct("n")])
    assert report.kept == ("distinct(s):page",)
    assert pq.read_metadata(path).metadata.items() >= {b"kept": b"1", b"changed": b"2", b"new": b"2"}.items()
    assert b"removed" not in pq.read_metadata(path).metadata
    assert attach(path, [PageIndex(), Distinct("n")]).bytes_added == 0
    assert ia.verify(path).findings == ()
    with pytest.warns(ia.IntarsiaWarning, match="changed, new, removed"):
        detach(path)
    assert content(path) == content(f"{path}.before")


def set_keys(changes):
    def change(tree):
        items = [item for item in tree.get(5).items if item.get(1) not in changes]
        for key, value in changes.items():
            if value is not None:
                items.append(thrift_tree.Struct({1: (thrift.BINARY, key), 2: (thrift.BINARY, value)}))
        tree.set(5, thrift.LIST, thrift_tree.List(thrift.STRUCT, items))

    return change


def test_foreign_keys_and_unknown_fields_survive(path):
    def change(tree):
        tree.set(500, thrift.BINARY, b"a field of a later version")
        group = tree.get(4).items[0]
        group.set(32767, thrift.BINARY, b"an extension")
        group.set(900, thrift.I64, 7)
        group.get(1).items[0].set(901, thrift.STRUCT, thrift_tree.Struct({1: (thrift.BOOL_TRUE, True)}))
        group.get(1).items[0].get(3).set(902, thrift.LIST, thrift_tree.List(thrift.I32, [1, 2, 3]))
        tree.get(5).items.append(
            thrift_tree.Struct({1: (thrift.BINARY, b"\xff\x00"), 2: (thrift.BINARY, b"bytes")})
        )
        tree.get(5).items.append(thrift_tree.Struct({1: (thrift.BINARY, b"no value")}))

    tree = edit_footer(path, change)
    attach(path, ALL)
    with ParquetInput.open(path) as file:
        new, _ = thrift_tree.parse_tree(file.footer.raw)
    assert new.get(500) == b"a field of a later version"
    group = new.get(4).items[0]
    assert group.get(32767) == b"an extension"
    assert group.get(900) == 7
    assert group.get(1).items[0].get(901) == thrift_tree.Struct({1: (thrift.BOOL_TRUE, True)})
    assert group.get(1).items[0].get(3).get(902).items == [1, 2, 3]
    assert new.get(5).items[:-1] == tree.get(5).items
    assert new.get(5).items[-1].get(1) == b"intarsia"


def test_a_copied_directory_is_stale_and_replaced(path, tmp_path):
    attach(path, ALL)
    copy = str(tmp_path / "copy.parquet")
    pq.write_table(pq.read_table(path).replace_schema_metadata(pq.ParquetFile(path).metadata.metadata), copy)
    with ParquetInput.open(copy) as file:
        assert belongs(parse_directory(file.footer.key_values[b"intarsia"]), file.footer) is not None
    before = content(copy)
    with pytest.raises(IndexPayloadError) as caught:
        detach(copy)
    assert (caught.value.reason, caught.value.path) == ("foreign-directory", copy)
    assert content(copy) == before
    assert not attach(copy, []).changed
    report = attach(copy, [Rows("n")])
    assert report.stale is not None
    assert report.bytes_original == len(before)
    assert [entry.kind for entry in directory_of(copy).entries] == ["rows"]
    detach(copy)
    assert content(copy) == before


def test_a_directory_of_a_later_version_is_not_changed(path):
    entry = {1: (thrift.BINARY, b"intarsia"), 2: (thrift.BINARY, b'{"version":2}')}
    edit_footer(path, lambda tree: tree.get(5).items.append(thrift_tree.Struct(entry)))
    before = content(path)
    for action in (lambda: attach(path, ALL), lambda: detach(path)):
        with pytest.raises(NewerDirectoryError) as caught:
            action()
        assert (caught.value.reason, caught.value.path) == ("newer-directory", str(path))
    assert content(path) == before


def test_a_damaged_blob_is_dropped_or_rebuilt(path):
    attach(path, [Rows("n"), Rows("s")])
    whole = content(path)
    entry = directory_of(path).entries[0]
    damaged = bytearray(whole)
    damaged[entry.offset + 60] ^= 1
    with open(path, "wb") as file:
        file.write(damaged)
    report = attach(path, [Rows("n")])
    assert report.built == ("rows(n):page",)
    assert report.notes == ()
    assert {entry.name for entry in directory_of(path).entries} == {"rows(n):page", "rows(s):page"}
    with open(path, "wb") as file:
        file.write(damaged)
    report = attach(path, [PageIndex()])
    assert [note.code for note in report.notes] == ["damaged-payload"]
    assert [entry.name for entry in directory_of(path).entries] == ["rows(s):page"]


def test_a_damaged_attached_page_index_is_rebuilt(path):
    attach(path, [PageIndex()])
    whole = content(path)
    with ParquetInput.open(path) as file:
        chunk = file.footer.metadata.row_groups[0].columns[0]
    for place in (chunk.offset_index_offset + 3, chunk.column_index_offset + 1):
        damaged = bytearray(whole)
        damaged[place] ^= 0xFF
        with open(path, "wb") as file:
            file.write(damaged)
        attach(path, [PageIndex()])
        assert content(path) == whole


def test_encoding_stats_are_added_once(path):
    attach(path, [PageIndex()])
    with ParquetInput.open(path) as file:
        stats = file.footer.metadata.row_groups[0].columns[0].meta_data.encoding_stats
    assert stats
    assert [stat.page_type for stat in stats]


def test_an_existing_page_index_is_kept_in_place(tmp_path, table):
    path = str(tmp_path / "own.parquet")
    pq.write_table(table, path, write_page_index=True, data_page_size=200, write_batch_size=50)
    before = content(path)
    report = attach(path, [PageIndex()])
    assert report.kept == ("page_index",)
    assert content(path) == before
    attach(path, [Rows("n")])
    old, _ = page_indexes(path)
    with ParquetInput.open(path) as file:
        chunk = file.footer.metadata.row_groups[0].columns[0]
    assert chunk.offset_index_offset < len(before)
    assert old[0, 0][0] is not None


def test_a_lone_offset_index_gets_a_column_index(tmp_path):
    path = str(tmp_path / "alone.parquet")
    table = pa.table({"x": [1.0, 2.0, 3.0, 4.0]})
    pq.write_table(table, path, write_page_index=True)

    def without_column_index(tree):
        chunk = tree.get(4).items[0].get(1).items[0]
        chunk.remove(6)
        chunk.remove(7)

    place = edit_footer(path, without_column_index).get(4).items[0].get(1).items[0].get(4)
    attach(path, [PageIndex()])
    found, new = page_indexes(path)
    assert found[0, 0][0].nan_counts == [0]
    assert new.metadata.row_groups[0].columns[0].offset_index_offset == place


def test_wrong_offset_index_is_replaced(tmp_path):
    """`attach` notices a contradiction with the pages only if bounds are missing; `verify` always does."""
    path = str(tmp_path / "wrong.parquet")
    pq.write_table(
        pa.table({"x": range(100)}), path, write_page_index=True, data_page_size=50, write_batch_size=10
    )
    good, _ = page_indexes(path)
    raw = bytearray(content(path))
    with ParquetInput.open(path) as file:
        chunk = file.footer.metadata.row_groups[0].columns[0]
    start, stop = chunk.offset_index_offset, chunk.offset_index_offset + chunk.offset_index_length
    index, _ = thrift.parse(OffsetIndex, bytes(raw[start:stop]))
    locations = list(index.page_locations)
    locations[2] = locations[2]._replace(first_row_index=locations[1].first_row_index)
    raw[start:stop] = thrift.serialize(OffsetIndex(locations)).ljust(stop - start, b"\0")[: stop - start]
    with open(path, "wb") as file:
        file.write(raw)
    attach(path, [PageIndex()])
    found, _ = page_indexes(path)
    assert found[0, 0][1].page_locations == good[0, 0][1].page_locations


@pytest.mark.parametrize(("offset", "in_metadata"), [(4, False), (6, False), (14, True)])
def test_a_structure_outside_the_file_is_removed(tmp_path, offset, in_metadata):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"x": range(100)}), path)

    def damage(tree):
        chunk = tree.get(4).items[0].get(1).items[0]
        place = chunk.get(3) if in_metadata else chunk
        place.set(offset, thrift.I64, 1_000_000)
        place.set(offset + 1, thrift.I32, 50)

    edit_footer(path, damage)
    assert not ia.verify(path).ok
    attach(path, [Distinct("x")])
    assert ia.verify(path).ok


def test_bounds_without_column_orders_are_computed(path):
    """Declaring an order would make them valid; readers without page indexes skip row groups by bounds."""

    def change(tree):
        tree.remove(7)
        for group in tree.get(4).items:
            for chunk in group.get(1).items:
                statistics = chunk.get(3).get(12)
                if statistics.get(5) is not None:  # wrong bounds
                    statistics.set(5, thrift.BINARY, statistics.get(6))

    edit_footer(path, change)
    before, undefined = content(path), bounds_of(path)
    attach(path, [Statistics()])
    defined = bounds_of(path)
    detach(path)
    attach(path, [Rows("n")])
    assert bounds_of(path) == undefined
    for _ in range(2):
        attach(path, [PageIndex()])
        with ParquetInput.open(path) as file:
            assert len(file.footer.metadata.column_orders) == len(file.footer.leaves)
        assert bounds_of(path) == defined != undefined
    attach(path, [Rows("n")])
    assert bounds_of(path) == defined
    assert ia.verify(path).ok
    detach(path)
    assert content(path) == before


def bounds_of(path):
    with ParquetInput.open(path) as file:
        found = [
            chunk.meta_data.statistics for group in file.footer.metadata.row_groups for chunk in group.columns
        ]
        return [(one.min_value, one.max_value) for one in found]


def test_empty_files(tmp_path):
    for rows in (0, 3):
        for groups in (True, False):
            path = str(tmp_path / f"{rows}{groups}.parquet")
            table = pa.table({"a": pa.array(range(rows), pa.int32()), "l": pa.array([[1]] * rows)})
            with pq.ParquetWriter(path, table.schema) as writer:
                if groups:
                    writer.write_table(table)
            before = content(path)
            report = attach(path, [PageIndex(), Rows("a"), Distinct("a")])
            assert report.notes == ()
            assert pq.read_table(path).num_rows == (rows if groups else 0)
            detach(path)
            assert content(path) == before


def test_progress_counts_to_the_end(path):
    seen = []
    attach(path, ALL, progress=lambda *step: seen.append(step))
    totals = {total for _, total, _ in seen}
    assert totals == {4 * 4 + 3}
    assert [done for done, _, _ in seen] == list(range(1, 20))
    assert {"n", "deep.x", "distinct(s):page"} <= {label for _, _, label in seen}


def test_report_is_json(path):
    report = attach(path, [PageIndex(), Rows("n")]).to_dict()
    assert json.loads(json.dumps(report)) == report
    assert report["bytes_added"] == report["bytes_after"] - report["bytes_before"] > 0
    assert json.dumps(detach(path).to_dict())


# --- refusals --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("index", "error"),
    [
        (Rows("nope"), ColumnNotFoundError),
        (Rows("deep"), IndexBuildError),
        (Rows("l"), IndexBuildError),
        (Rows("n", "galaxy"), IndexBuildError),
        (Rows("n", salt=object()), IndexBuildError),
        ("n", IndexBuildError),
    ],
)
def test_impossible_indexes_do_not_change_the_file(path, index, error):
    before = content(path)
    with pytest.raises(error):
        attach(path, [PageIndex(), index])
    assert content(path) == before
    assert os.listdir(os.path.dirname(path)) == ["t.parquet"]


def test_the_same_index_twice_is_refused(path):
    with pytest.raises(IndexBuildError) as caught:
        attach(path, [Rows("n"), Rows("n", salt=1)])
    assert caught.value.reason == "duplicate-index"


@pytest.mark.parametrize("cut", [0, 1, 11, 200, -1, -4, -9])
def test_truncated_files(path, cut):
    whole = content(path)
    with open(path, "wb") as file:
        file.write(whole[:cut])
    for action in (lambda: attach(path, ALL), lambda: detach(path)):
        with pytest.raises(CorruptFileError) as caught:
            action()
        assert caught.value.path == str(path)
    assert content(path) == whole[:cut]


@pytest.mark.parametrize(
    "index", [*(Distinct(name, granularity="row_group") for name in ("n", "t", "s.x")), Sample(40)], ids=repr
)
@pytest.mark.parametrize("values_too", [False, True], ids=["rows", "values, too"])
def test_a_row_group_with_fewer_rows_than_it_claims(tmp_path, index, values_too):
    path = str(tmp_path / "t.parquet")
    numbers = range(30)
    columns = {"n": numbers, "t": [str(n) for n in numbers], "s": [{"x": n} for n in numbers]}
    pq.write_table(pa.table(columns), path, row_group_size=10)

    def claim_more(footer):
        footer.set(3, thrift.I64, 40)
        footer.get(4).items[1].set(3, thrift.I64, 20)
        for chunk in footer.get(4).items[1].get(1).items if values_too else ():
            chunk.get(3).set(5, thrift.I64, 20)

    edit_footer(path, claim_more)
    before = content(path)
    with pytest.raises(CorruptFileError) as caught:
        attach(path, [index])
    assert caught.value.path == path
    assert content(path) == before


HUGE = 4_294_967_294

EVERY_KIND = [
    *(
        ia.RowMap("n"),
        ia.BloomGranule("n", granularity=1 << 20),
        ia.Hll("n"),
        ia.Histogram("n"),
        ia.Sample(5),
    ),
    *(ia.Distinct("t"), ia.ZoneMap("n", granularity=1 << 20), ia.Ngram("t", granularity="row_group")),
]


@pytest.mark.parametrize("index", EVERY_KIND, ids=lambda index: index.kind)
@pytest.mark.parametrize("values_too", [False, True], ids=["rows", "values, too"])
def test_a_footer_that_claims_four_billion_rows(tmp_path, index, values_too):
    """Impala's huge_num_rows.parquet does; no index may allocate memory for them."""
    path = str(tmp_path / "t.parquet")
    pq.write_table(pa.table({"n": [1], "t": ["a"]}), path)

    def claim_more(footer):
        footer.set(3, thrift.I64, HUGE)
        footer.get(4).items[0].set(3, thrift.I64, HUGE)
        for chunk in footer.get(4).items[0].get(1).items if values_too else ():
            chunk.get(3).set(5, thrift.I64, HUGE)

    edit_footer(path, claim_more)
    before = content(path)
    tracemalloc.start()
    with pytest.raises(CorruptFileError) as caught:
        attach(path, [index])
    assert tracemalloc.get_traced_memory()[1] < 10 << 20
    tracemalloc.stop()
    assert caught.value.path == path
    report = attach(path, [PageIndex(), Bloom("n")])
    assert not report.changed
    assert all(note.code.endswith("-count-mismatch") for note in report.notes)
    assert content(path) == before


def test_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        attach(str(tmp_path / "none.parquet"), [PageIndex()])


def test_file_without_columns(tmp_path):
    path = str(tmp_path / "none.parquet")
    pq.write_table(pa.table({}), path)
    with pytest.raises(UnsupportedFeatureError) as caught:
        attach(path, [PageIndex()])
    assert (caught.value.reason, caught.value.path) == ("no-columns", path)


def test_types_without_order_get_an_offset_index(tmp_path):
    path = str(tmp_path / "int96.parquet")
    table = pa.table({"t": pa.array([1, 2, None], pa.timestamp("ns"))})
    pq.write_table(table, path, use_deprecated_int96_timestamps=True)
    report = attach(path, [PageIndex()])
    assert [(note.column, note.row_group, note.code) for note in report.notes] == [("t", None, "no-order")]
    found, _ = page_indexes(path)
    assert found[0, 0][0] is None
    assert found[0, 0][1].page_locations[0].first_row_index == 0
    assert attach(path, [PageIndex()]).built == ()
