"""Each rule of `verify` is broken on purpose, and must be found at its place."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from intarsia.check.verification import RULES, verify
from intarsia.embed import Bloom, PageIndex, attach
from intarsia.embed.tail import FooterEdit
from intarsia.errors import CorruptFileError
from intarsia.format import thrift, thrift_tree
from intarsia.format.enums import BoundaryOrder
from intarsia.format.structs import BloomFilterHash, BloomFilterHeader, ColumnIndex, OffsetIndex, PageHeader
from intarsia.indexes.distinct import Distinct
from tests.verify.damage import (
    Damage,
    at,
    change_column_index,
    change_directory,
    change_location,
    change_payload,
    write_lists,
)
from tests.verify.found import found, little, numbers, only

# --- ColumnIndex -----------------------------------------------------------------------------------------


class TestColumnIndex:
    """A wrong ColumnIndex; pages of `id` hold 40 ascending numbers."""

    def test_bounds_that_exclude_values(self, path):
        change_column_index(path, min_values=at(2, little(83)), boundary_order=BoundaryOrder.UNORDERED)
        message = only(path, "bounds-exclude-values", index="ColumnIndex", page=2)
        assert numbers(message) == [3, 83, 80]

    def test_a_truncated_upper_bound_that_was_not_incremented(self, path):
        def cut(old):
            return [bound[:64] for bound in old]

        change_column_index(path, column="long", min_values=cut, max_values=cut, boundary_order=0)
        findings = found(path, "bounds-exclude-values")
        assert {(finding.column, finding.row_group) for finding in findings} == {("long", 0)}
        assert numbers(findings[0].message)[0] == 40

    @pytest.mark.parametrize(
        "column", ["u64", "u8", "x", "h", "raw", "fixed", "price", "huge", "day", "at", "flag", "part.a"]
    )
    def test_every_type(self, path, column):
        index = Damage(path).column_index(column)
        page = next(
            p for p, (a, b) in enumerate(zip(index.min_values, index.max_values, strict=True)) if a != b
        )
        change_column_index(path, column=column, max_values=at(page, index.min_values[page]),
                            boundary_order=BoundaryOrder.UNORDERED)  # fmt: skip
        only(path, "bounds-exclude-values", index="ColumnIndex", column=column, page=page)

    def test_values_in_lists(self, path):
        change_column_index(path, column="tags.list.element", max_values=at(0, little(-(10**9))),
                            min_values=at(0, little(-(10**9))), boundary_order=0)  # fmt: skip
        only(path, "bounds-exclude-values", index="ColumnIndex", column="tags.list.element", page=0)

    def test_bounds_out_of_order(self, path):
        change_column_index(path, min_values=at(2, little(10**6)), boundary_order=BoundaryOrder.UNORDERED)
        assert 10**6 in numbers(only(path, "bounds-out-of-order", index="ColumnIndex", page=2))

    def test_boundary_order(self, path):
        change_column_index(path, boundary_order=BoundaryOrder.DESCENDING)
        assert {finding.rule for finding in found(path)} == {"boundary-order"}
        change_column_index(path, boundary_order=BoundaryOrder.ASCENDING)
        assert found(path) == []
        change_column_index(path, column="n", boundary_order=BoundaryOrder.ASCENDING)
        assert {finding.column for finding in found(path)} == {"n"}
        # unordered is always true
        change_column_index(path, column="n", boundary_order=BoundaryOrder.UNORDERED)
        assert found(path) == []

    def test_null_pages_with_values(self, path):
        change_column_index(path, column="n", null_pages=at(1, True))
        message = only(path, "null-page-with-values", index="ColumnIndex", column="n", page=1)
        assert len(numbers(message)) == 1

    def test_null_pages_that_are_not_marked(self, path):
        change_column_index(path, column="nothing", null_pages=at(1, False))
        only(path, "null-page-not-marked", index="ColumnIndex", column="nothing", page=1, severity="warning")

    def test_null_counts(self, path):
        nulls = Damage(path).column_index("n").null_counts[1]
        change_column_index(path, column="n", null_counts=at(1, 0))
        message = only(path, "null-count", index="ColumnIndex", column="n", page=1)
        assert numbers(message) == [0, nulls]

    def test_null_counts_below_zero(self, path):
        change_column_index(path, column="n", null_counts=at(1, -1))
        only(path, "null-count-invalid", index="ColumnIndex", column="n", page=1)

    def test_no_null_counts(self, path):
        change_column_index(path, column="n", null_counts=None)
        assert found(path) == []

    def test_nan_counts(self, tmp_path):
        path = str(tmp_path / "nan.parquet")
        pq.write_table(pa.table({"x": [1.0, float("nan"), 2.0]}), path, write_page_index=True)
        change_column_index(path, column="x", nan_counts=[1])
        assert found(path) == []
        change_column_index(path, column="x", nan_counts=[0])
        message = only(path, "nan-count", index="ColumnIndex", column="x", page=0)
        assert numbers(message) == [0, 1]

    def test_bounds_that_cannot_be_read(self, path):
        change_column_index(path, max_values=at(1, b"\1"))
        assert "INT64" in only(path, "bound-unreadable", index="ColumnIndex", page=1)

    def test_bounds_that_are_nan(self, path):
        change_column_index(path, column="x", min_values=at(1, np.float64("nan").tobytes()))
        only(path, "bound-is-nan", index="ColumnIndex", column="x", page=1, severity="warning")

    def test_a_page_of_nan(self, tmp_path):
        """NaN may be a bound only under the total order, and only of a page that holds nothing else."""
        path = str(tmp_path / "nan.parquet")
        pq.write_table(pa.table({"x": [float("nan")] * 3}), path, write_page_index=True)
        nan = np.float64("nan").tobytes()
        damage = Damage(path)
        damage.put_column_index("x", ColumnIndex([False], [nan], [nan], 0, [0], nan_counts=[3]))
        damage.write()
        assert {finding.rule for finding in found(path)} == {"bound-is-nan"}
        damage.tree.get(7).items[0] = thrift_tree.Struct({2: (thrift.STRUCT, thrift_tree.Struct())})
        damage.write()
        assert found(path) == []
        change_column_index(path, column="x", null_pages=[True])
        only(path, "null-page-with-values", index="ColumnIndex", column="x", page=0)

    def test_bounds_of_zero_ignore_its_sign(self, tmp_path):
        path = str(tmp_path / "zero.parquet")
        pq.write_table(pa.table({"x": [-0.0, 0.0]}), path, write_page_index=True)
        change_column_index(
            path, column="x", min_values=[np.float64(0.0).tobytes()], max_values=[np.float64(-0.0).tobytes()]
        )
        assert found(path) == []

    def test_level_histograms(self, path):
        index = Damage(path).column_index("tags.list.element")
        pages = len(index.null_pages)
        change_column_index(
            path, column="tags.list.element", definition_level_histograms=[0] * (4 * pages - 1)
        )
        only(path, "level-histogram", index="ColumnIndex", column="tags.list.element", severity="warning")
        wrong = [40, 0] * pages
        change_column_index(path, column="tags.list.element", definition_level_histograms=None,
                            repetition_level_histograms=wrong)  # fmt: skip
        assert {finding.rule for finding in found(path)} == {"level-histogram"}

    def test_true_level_histograms(self, path, tmp_path, table):
        plain = str(tmp_path / "plain.parquet")
        pq.write_table(table, plain)
        attach(plain, [PageIndex()])
        assert Damage(plain).column_index("tags.list.element").repetition_level_histograms
        assert found(plain) == []

    @pytest.mark.parametrize(
        ("changes", "word"),
        [
            ({"min_values": lambda old: old[:-1]}, "min_values"),
            ({"null_counts": lambda old: [*old, 0]}, "null_counts"),
            ({"null_pages": lambda old: old[:-1]}, "min_values"),
            ({"boundary_order": 7}, "7"),
        ],
    )
    def test_wrong_shapes(self, path, changes, word):
        change_column_index(path, **changes)
        assert word in only(path, "column-index-unreadable", index="ColumnIndex")

    def test_missing_pages(self, path):
        def shorter(old):
            return old[:-1]

        change_column_index(path, null_pages=shorter, min_values=shorter, max_values=shorter,
                            null_counts=shorter)  # fmt: skip
        message = only(path, "column-index-page-count", index="ColumnIndex")
        assert numbers(message) == [9, 10]

    def test_bytes_of_another_kind(self, path):
        damage = Damage(path)
        damage.put_column_index("id", b"\xff\xff\xff")
        damage.write()
        only(path, "column-index-unreadable", index="ColumnIndex")

    def test_a_place_outside_the_file(self, path):
        damage = Damage(path)
        damage.chunk("id").set(6, thrift.I64, 10**12)
        damage.write()
        assert "outside" in only(path, "column-index-unreadable", index="ColumnIndex")

    def test_a_missing_offset_index(self, path):
        damage = Damage(path)
        damage.chunk("id").remove(4)
        damage.chunk("id").remove(5)
        damage.write()
        only(path, "column-index-without-offset-index", index="ColumnIndex", severity="warning")

    def test_no_column_orders(self, path, table):
        damage = Damage(path)
        damage.tree.remove(7)
        damage.write()
        findings = found(path)
        assert {finding.rule for finding in findings} == {"no-column-order"}
        assert {finding.index for finding in findings} == {"ColumnIndex", "Statistics"}
        assert verify(path).ok

    def test_an_unknown_order(self, tmp_path):
        path = str(tmp_path / "one.parquet")
        pq.write_table(pa.table({"id": [1, 2]}), path, write_statistics=True, write_page_index=True)
        damage = Damage(path)
        damage.tree.get(7).items[0] = thrift_tree.Struct({9: (thrift.STRUCT, thrift_tree.Struct())})
        damage.write()
        assert {finding.rule for finding in found(path)} == {"no-column-order"}

    def test_bounds_of_a_type_without_order(self, tmp_path):
        path = str(tmp_path / "int96.parquet")
        table = pa.table({"id": pa.array([1, 2], pa.timestamp("ns"))})
        pq.write_table(table, path, use_deprecated_int96_timestamps=True)
        damage = Damage(path)
        damage.statistics("id", min_value=bytes(12), max_value=bytes(12))
        damage.write()
        only(path, "bounds-without-order", index="Statistics", severity="note")

    def test_a_writer_that_is_not_trusted(self, tmp_path):
        path = str(tmp_path / "go.parquet")
        pq.write_table(pa.table({"id": ["a", "b"]}), path, write_page_index=True)
        damage = Damage(path)
        damage.tree.set(6, thrift.BINARY, b"github.com/segmentio/parquet-go")
        damage.write()
        assert {(finding.rule, finding.severity) for finding in found(path)} == {
            ("writer-not-trusted", "note")
        }

    def test_null_counts_in_lists(self, tmp_path):
        """Arrow before version 26 does not count null and empty lists of structs."""
        path, column = str(tmp_path / "lists.parquet"), "l.list.element.x"
        values = [None, [{"x": 1}, None, {"x": None}], []]
        table = pa.table({"l": pa.array(values, pa.list_(pa.struct({"x": pa.int64()})))})
        pq.write_table(table, path, write_page_index=True)
        change_column_index(path, column=column, null_counts=[2])
        assert found(path) == []
        change_column_index(path, column=column, null_counts=[5])
        message = only(path, "null-count", index="ColumnIndex", column=column, page=0)
        assert numbers(message) == [5, 4]

    def test_only_some_of_many_pages_are_listed(self, tmp_path):
        path = str(tmp_path / "many.parquet")
        table = pa.table({"nothing": pa.nulls(100, pa.int32())})
        pq.write_table(table, path, write_page_index=True, max_rows_per_page=4, write_batch_size=4)
        change_column_index(path, column="nothing", null_counts=lambda old: [n + 1 for n in old])
        listed = found(path, "null-count")
        assert [finding.page for finding in listed] == [*range(10), None]
        assert numbers(listed[-1].message) == [15]


# --- OffsetIndex -----------------------------------------------------------------------------------------


class TestOffsetIndex:
    """An OffsetIndex with wrong locations."""

    def test_first_rows(self, path):
        change_location(path, 3, first_row_index=lambda old: old + 1)
        message = only(path, "first-row-index", index="OffsetIndex", page=3)
        assert numbers(message) == [121, 120]

    def test_first_rows_of_lists(self, path):
        change_location(path, 3, column="tags.list.element", first_row_index=lambda old: old + 1)
        only(path, "first-row-index", index="OffsetIndex", column="tags.list.element", page=3)

    def test_offsets(self, path):
        change_location(path, 3, offset=lambda old: old + 1)
        only(path, "page-offset", index="OffsetIndex", page=3)

    def test_pages_that_overlap(self, path):
        change_location(path, 3, offset=lambda old: old - 1)
        only(path, "pages-overlap", index="OffsetIndex", page=3)

    @pytest.mark.parametrize("offset", [4, 10**9, -1])
    def test_pages_outside_their_chunk(self, path, offset):
        change_location(path, 3, column="n", offset=lambda _: offset)
        message = only(path, "page-outside-chunk", index="OffsetIndex", column="n", page=3)
        assert numbers(message)[0] == offset

    def test_sizes(self, path):
        change_location(path, 3, compressed_page_size=lambda old: old + 5)
        only(path, "page-size", index="OffsetIndex", page=3)

    def test_sizes_without_headers(self, tmp_path):
        path = str(tmp_path / "one.parquet")
        pq.write_table(
            pa.table({"id": [1, 2]}), path, write_page_index=True, use_dictionary=False, compression="none"
        )
        header = len(thrift.serialize(thrift.parse(PageHeader, Damage(path).data, 4)[0]))
        change_location(path, 0, compressed_page_size=lambda old: old - header)
        message = only(path, "page-size-without-header", index="OffsetIndex", page=0)
        assert numbers(message)[-1] == header

    def test_missing_pages(self, path):
        damage = Damage(path)
        damage.put_offset_index("id", OffsetIndex(damage.offset_index("id").page_locations[:-1]))
        damage.write()
        assert numbers(only(path, "page-count", index="OffsetIndex")) == [9, 10]

    def test_bytes_of_another_kind(self, path):
        damage = Damage(path)
        damage.put_offset_index("id", b"\xff\xff\xff")
        damage.write()
        assert [finding.rule for finding in found(path)] == [
            "offset-index-unreadable",
            "column-index-without-offset-index",
        ]

    def test_pages_that_start_within_a_row(self, tmp_path):
        path = str(tmp_path / "lists.parquet")
        write_lists(path, [([0, 1], None), ([1, 0], None), ([0], None)])
        only(path, "page-starts-within-row", index="OffsetIndex", column="x", page=1)

    def test_pages_that_split_a_row_without_an_offset_index(self, tmp_path):
        path = str(tmp_path / "lists.parquet")
        write_lists(path, [([0, 1], None), ([1, 0], None)], with_offset_index=False)
        assert found(path) == []

    def test_pages_that_split_a_row_of_version_2(self, tmp_path):
        path = str(tmp_path / "lists.parquet")
        write_lists(path, [([0, 1], {}), ([1, 0], {})], with_offset_index=False)
        only(path, "page-starts-within-row", index=None, column="x", page=1)

    def test_pages_in_which_no_row_starts(self, tmp_path):
        path = str(tmp_path / "lists.parquet")
        write_lists(path, [([0, 1], None), ([1, 1], None), ([0], None)])
        rules = {(finding.rule, finding.page) for finding in found(path)}
        assert rules == {("page-starts-within-row", 1), ("empty-page", 1)}

    def test_values_counted_as_rows(self, tmp_path):
        path = str(tmp_path / "lists.parquet")
        write_lists(path, [([0, 1], None), ([0, 1], None), ([0], None)], first_rows=[0, 2, 4])
        assert [finding.page for finding in found(path, "first-row-index")] == [1, 2]


# --- pages -----------------------------------------------------------------------------------------------


class TestPages:
    """Pages that contradict the footer, or themselves."""

    def test_headers_of_version_2(self, tmp_path):
        path = str(tmp_path / "lists.parquet")
        write_lists(path, [([0, 1], {}), ([0, 0], {"num_rows": 1})], with_offset_index=False)
        message = only(path, "page-header-count", index=None, column="x", page=1)
        assert numbers(message) == [1, 2]

    def test_values(self, path):
        damage = Damage(path)
        damage.meta("nothing").set(5, thrift.I64, 500)
        damage.write()
        assert "value-count" in {finding.rule for finding in found(path)}

    def test_rows(self, tmp_path):
        path = str(tmp_path / "one.parquet")
        pq.write_table(pa.table({"id": list(range(10))}), path)
        damage = Damage(path)
        damage.tree.set(3, thrift.I64, 11)
        damage.row_group().set(3, thrift.I64, 11)
        damage.write()
        rules = {finding.rule: finding.message for finding in found(path)}
        assert numbers(rules["row-count"]) == [10, 11]

    @pytest.mark.parametrize("where", [0, 40])
    def test_damaged_pages(self, tmp_path, where):
        path = str(tmp_path / "one.parquet")
        pq.write_table(pa.table({"id": list(range(1000))}), path, use_dictionary=False, compression="zstd")
        damage = Damage(path)
        start = damage.footer.metadata.row_groups[0].columns[0].meta_data.data_page_offset + where
        damage.body[start : start + 40] = b"\xff" * 40
        damage.write()
        assert "unreadable-pages" in {finding.rule for finding in found(path)}
        assert not verify(path).ok

    def test_encrypted_columns_are_not_checked(self, corpus):
        path = next(corpus.rglob("encrypt_columns_plaintext_footer.parquet.encrypted"))
        assert {(finding.rule, finding.column) for finding in found(path)} == {
            ("unchecked", "float_field"),
            ("unchecked", "double_field"),
        }

    def test_a_damaged_footer_raises(self, path):
        with open(path, "r+b") as file:
            file.truncate(5000)
        with pytest.raises(CorruptFileError) as caught:
            verify(path)
        assert caught.value.path == str(path)


# --- statistics ------------------------------------------------------------------------------------------


class TestStatistics:
    """Wrong statistics of a chunk."""

    def change(self, path, column="id", **changes):
        damage = Damage(path)
        damage.statistics(column, **changes)
        damage.write()

    def test_bounds_that_exclude_values(self, path):
        self.change(path, min_value=little(3), is_min_value_exact=None)
        assert numbers(only(path, "bounds-exclude-values", index="Statistics")) == [3, 3, 0]

    def test_deprecated_bounds(self, path):
        self.change(path, max=little(300), min=little(0))
        assert numbers(only(path, "bounds-exclude-values", index="Statistics"))[0] == 99

    def test_deprecated_bounds_that_readers_must_ignore(self, path):
        self.change(path, column="word", max=b"", min=b"zz")
        assert found(path) == []

    def test_null_counts(self, path):
        self.change(path, column="n", null_count=0)
        assert numbers(only(path, "null-count", index="Statistics", column="n"))[0] == 0

    def test_null_counts_below_zero(self, path):
        self.change(path, column="n", null_count=-1)
        only(path, "null-count-invalid", index="Statistics", column="n")

    def test_nan_counts(self, path):
        self.change(path, column="x", nan_count=1)
        only(path, "nan-count", index="Statistics", column="x")

    def test_exactness(self, path):
        self.change(path, max_value=little(1000), is_max_value_exact=False)
        assert found(path) == []
        self.change(path, max_value=little(1000), is_max_value_exact=True)
        message = only(path, "bound-not-exact", index="Statistics")
        assert numbers(message) == [1000, 399]

    def test_bounds_that_look_exact(self, path):
        """Without a flag, readers take a bound that was not truncated for a value, which it may not be."""
        self.change(path, max_value=little(1000), max=None, is_max_value_exact=None)
        message = only(path, "bound-not-marked", index="Statistics", severity="warning")
        assert numbers(message) == [1000, 399]
        assert verify(path).ok

    @pytest.mark.parametrize(
        ("low", "high", "is_found"),
        [(b"word 1", b"word 4", False), (b"w", b"x", False), (b"word 100", b"word 3999", True)],
    )
    def test_bounds_of_text_that_look_exact(self, tmp_path, low, high, is_found):
        path = str(tmp_path / "text.parquet")
        words = [f"word {n}" for n in range(100, 400)]
        pq.write_table(pa.table({"word": words}), path)
        self.change(
            path, column="word", min_value=low, max_value=high,
            is_min_value_exact=None, is_max_value_exact=None, min=None, max=None,
        )  # fmt: skip
        assert [finding.rule for finding in found(path)] == ["bound-not-marked"] * is_found

    def test_a_single_bound(self, path):
        self.change(path, max_value=None, min_value=little(1), is_min_value_exact=None)
        assert numbers(only(path, "bounds-exclude-values", index="Statistics"))[0] == 1


# --- Bloom filters ---------------------------------------------------------------------------------------


class TestBloomFilters:
    """Wrong Bloom filters."""

    @pytest.mark.parametrize(("column", "count"), [("id", 400), ("fixed", 400), ("word", None)])
    def test_excluded_values(self, path, column, count):
        damage = Damage(path)
        offset = damage.meta(column).get(14)
        length = damage.meta(column).get(15)
        damage.body[offset + length - 32 : offset + length] = bytes(32)
        damage.write()
        message = only(path, "bloom-filter-excludes-values", index="BloomFilter", column=column)
        if count:
            assert numbers(message)[1] == count

    def test_excluded_values_of_a_type_without_order(self, tmp_path):
        path = str(tmp_path / "int96.parquet")
        times = pa.array([None if n % 7 == 0 else n * 10**12 for n in range(300)], pa.timestamp("ns"))
        pq.write_table(pa.table({"id": times}), path, use_deprecated_int96_timestamps=True)
        attach(path, [Bloom("id")])
        report = verify(path)
        assert report.findings == ()
        assert report.checked["bloom_filters"] == 1
        damage = Damage(path)
        stop = damage.meta("id").get(14) + damage.meta("id").get(15)
        damage.body[stop - 32 : stop] = bytes(32)
        damage.write()
        findings = found(path, "bloom-filter-excludes-values")
        assert "1970-01-" in findings[0].message

    @pytest.mark.parametrize("offset", [10**12, 4])
    def test_a_missing_filter(self, path, offset):
        damage = Damage(path)
        damage.meta("id").set(14, thrift.I64, offset)
        damage.write()
        only(path, "bloom-filter-unreadable", index="BloomFilter")

    def test_a_damaged_header(self, path):
        damage = Damage(path)
        offset = damage.meta("id").get(14)
        damage.body[offset : offset + 2] = b"\xff\xff"
        damage.write()
        only(path, "bloom-filter-unreadable", index="BloomFilter")

    def test_an_unknown_algorithm(self, path):
        damage = Damage(path)
        offset = damage.meta("id").get(14)
        header, _ = thrift.parse(BloomFilterHeader, damage.data, offset)
        old = thrift.serialize(header)
        new = thrift.serialize(header._replace(hash=BloomFilterHash()))
        damage.meta("id").set(
            14, thrift.I64, damage.append(new + damage.data[offset + len(old) :][: header.numBytes])
        )
        damage.meta("id").remove(15)
        damage.write()
        assert "XXH64" in only(path, "bloom-filter-unreadable", index="BloomFilter")

    def test_length(self, path):
        damage = Damage(path)
        damage.meta("id").set(15, thrift.I32, damage.meta("id").get(15) + 8)
        damage.write()
        only(path, "bloom-filter-length", index="BloomFilter", severity="warning")


# --- embedded indexes ------------------------------------------------------------------------------------


class TestEmbedded:
    """A directory and indexes that are damaged, foreign or wrong."""

    @pytest.fixture
    def path(self, tmp_path):
        path = str(tmp_path / "embedded.parquet")
        pq.write_table(pa.table({"c": ["a", "b", None, "b", "c", "c"]}), path, row_group_size=2)
        attach(path, [Distinct("c", granularity="row_group")])
        assert found(path) == []
        return path

    def name(self, path):
        return Distinct.kind

    def only(self, path, rule, severity):
        (finding,) = found(path)
        assert (finding.rule, finding.severity) == (rule, severity), str(finding)
        return finding

    def test_copied_directory(self, path, tmp_path):
        copy = str(tmp_path / "copy.parquet")
        directory = pq.read_metadata(path).metadata[b"intarsia"]
        pq.write_table(pq.read_table(path).replace_schema_metadata({b"intarsia": directory}), copy)
        finding = self.only(copy, "directory-foreign", "warning")
        assert finding.index == "directory"
        assert finding.consequence.startswith("readers ignore")

    def test_bytes_appended(self, path):
        """Another writer, which does not support the directory, moved the footer."""
        damage = Damage(path)
        damage.append(bytes(8))
        damage.write()
        finding = self.only(path, "directory-stale", "warning")
        assert finding.consequence.startswith("readers ignore")

    def test_a_directory_of_a_later_version(self, path):
        directory = pq.read_metadata(path).metadata[b"intarsia"]
        edit = FooterEdit((damage := Damage(path)).footer.raw)
        edit.set_key_value(b"intarsia", directory.replace(b'"version":1', b'"version":2', 1))
        damage.tree, _ = thrift_tree.parse_tree(edit.to_bytes())
        damage.write()
        self.only(path, "directory-newer", "note")

    def test_copied_offset_of_datafusion(self, tmp_path):
        path = str(tmp_path / "copy.parquet")
        pq.write_table(pa.table({"a": [1]}).replace_schema_metadata({b"distinct_index_offset": b"4"}), path)
        finding = self.only(path, "datafusion-index-missing", "warning")
        assert finding.index == "distinct_index_offset"

    def test_damaged_directory(self, tmp_path):
        path = str(tmp_path / "odd.parquet")
        pq.write_table(pa.table({"a": [1]}).replace_schema_metadata({b"intarsia": b"[]"}), path)
        self.only(path, "directory-damaged", "warning")

    def entry(self, path, **changes):
        from dataclasses import replace

        change_directory(path, lambda old: replace(old, entries=(replace(old.entries[0], **changes),)))

    def test_unknown_kind(self, path):
        self.entry(path, kind="geohash", name="geohash(c)")
        finding = self.only(path, "index-kind-unknown", "note")
        assert finding.index == "geohash(c)"
        assert "'geohash'" in finding.message

    def test_newer_version(self, path):
        self.entry(path, kind_version=99)
        self.only(path, "index-newer", "note")

    def test_unknown_parameters(self, path):
        self.entry(path, parameters={"columm": "c"})
        self.only(path, "index-damaged", "error")

    def test_unknown_column(self, path):
        self.entry(
            path, columns=("z",), parameters={"column": "z", "granularity": "row_group", "max_values": 9}
        )
        assert "index-column" in {finding.rule for finding in found(path)}

    def test_another_checksum(self, path):
        self.entry(path, xxh3="0" * 16)
        self.only(path, "index-damaged", "error")

    def test_damaged_bytes(self, path):
        change_payload(path, lambda payload: payload)  # as a blob instead of inline
        with open(path, "rb") as file:
            data = file.read()
        place = data.index(b"INTARSIA") + 60
        with open(path, "wb") as file:
            file.write(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        self.only(path, "index-damaged", "error")

    def test_undamaged_bytes_that_are_not_a_payload(self, path):
        change_payload(path, lambda payload: b"nothing")
        self.only(path, "index-damaged", "error")

    def changed(self, granules):
        """A payload that says which row groups hold a, b, c and null."""

        def change(payload):
            with pa.ipc.open_stream(payload) as reader:
                schema = reader.schema
            columns = [
                pa.array(list(granules), schema.field(0).type),
                pa.array(list(granules.values()), schema.field(1).type),
            ]
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, schema) as writer:
                writer.write_batch(pa.record_batch(columns, schema=schema))
            return sink.getvalue().to_pybytes()

        return change

    TRUE = {"a": [0], "b": [0, 1], "c": [2], None: [1]}  # noqa: RUF012

    def test_an_equal_index_with_other_bytes(self, path):
        change_payload(path, self.changed(self.TRUE))
        self.only(path, "index-not-reproduced", "warning")

    def test_an_index_that_loses_rows(self, path):
        change_payload(path, self.changed({**self.TRUE, "b": [0]}))
        findings = found(path, "index-loses-rows")
        assert [(finding.row_group, finding.column) for finding in findings] == [(1, "c")]
        assert "1 of 1 rows where c = 'b'" in findings[0].message
        assert not verify(path).ok

    def test_an_index_without_nulls(self, path):
        change_payload(path, self.changed({value: rows for value, rows in self.TRUE.items() if value}))
        findings = found(path, "index-loses-rows")
        assert "c IS NULL" in findings[0].message
        claims = found(path, "index-claims-rows")
        assert "c IS NOT NULL" in claims[0].message

    def test_an_index_that_could_exclude_more(self, path):
        change_payload(path, self.changed({**self.TRUE, "a": [0, 2]}))
        self.only(path, "index-differs", "warning")
        assert verify(path).ok


class TestValuesThatCannotBeCompared:
    """Values that Arrow lets pass and cannot work with; the indexes on them are not judged."""

    def test_times_beyond_midnight(self, tmp_path):
        path = str(tmp_path / "times.parquet")
        pq.write_table(pa.table({"t": pa.array([1, 2, 3], pa.time64("us"))}), path, use_dictionary=False,
                       compression="none")  # fmt: skip
        attach(path, [Distinct("t", granularity="row_group")])
        self.overwrite(path, little(2), little(2**62))
        assert ("unchecked", "note") in {(finding.rule, finding.severity) for finding in found(path)}

    def test_invalid_utf_8(self, tmp_path):
        path = str(tmp_path / "text.parquet")
        pq.write_table(pa.table({"t": ["aa", "bbbb", "cc"]}), path, use_dictionary=False, compression="none")
        attach(path, [Distinct("t", granularity="row_group")])
        self.overwrite(path, b"bbbb", b"\xff\xfe\xff\xff")
        assert not verify(path).ok

    def overwrite(self, path, old, new):
        with open(path, "rb") as file:
            data = file.read()
        with open(path, "wb") as file:
            file.write(data.replace(old, new, 1))


# --- the report ------------------------------------------------------------------------------------------


def test_every_rule_is_tested():
    text = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    assert [rule for rule in RULES if f'"{rule}"' not in text] == []


def test_report(path):
    change_column_index(path, column="n", null_counts=at(1, 0))
    report = verify(path)
    assert not report.ok
    document = report.to_dict()
    assert document["ok"] is False
    (finding,) = document["findings"]
    assert finding == {
        "severity": "error",
        "rule": "null-count",
        "file": path,
        "row_group": 0,
        "column": "n",
        "page": 1,
        "index": "ColumnIndex",
        "message": finding["message"],
        "consequence": RULES["null-count"][1],
    }
    assert str(report.findings[0]).startswith(f"error: {path}: row group 0, column n, page 1, ColumnIndex: ")
    assert document["checked"]["row_groups"] == 3
    assert document["seconds"] > 0


def test_progress(path):
    attach(path, [Distinct("word", granularity="row_group")])
    seen = []
    verify(path, progress=lambda done, total, label: seen.append((done, total, label)))
    total = seen[0][1]
    assert [done for done, _, _ in seen] == list(range(1, total + 1))
    assert seen[0][2] == "id"
    assert seen[-1][2].startswith("distinct")


def test_known_bad_files(corpus):
    def rules(name):
        return {(finding.severity, finding.rule) for finding in found(next(corpus.rglob(name)))}

    assert rules("datapage_v1-uncompressed-checksum.parquet") == {
        ("error", "null-page-with-values"),
        ("error", "null-count-invalid"),
    }
    assert rules("alltypes_invalid_pages.parquet") >= {("error", "page-outside-chunk")}
    assert rules("nan_in_stats.parquet") == {  # by parquet-cpp 1.3.2
        ("note", "writer-not-trusted"),
        ("warning", "bound-is-nan"),
        ("warning", "row-group-size"),
    }
    assert rules("bloom_filter.parquet") == {("warning", "no-column-order")}
    with pytest.raises(CorruptFileError):
        found(next(corpus.rglob("PARQUET-1481.parquet")))
