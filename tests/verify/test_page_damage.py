"""Wrong claims of page headers, and of the footer about pages: checksums, statistics, encodings, sizes."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from intarsia.check.verification import verify
from intarsia.format import thrift
from intarsia.format.enums import Encoding
from tests.verify.damage import Damage
from tests.verify.found import found, little, numbers, only

NUMBERS = pa.table({"id": range(1000)})
WORDS = pa.table({"word": [None if n % 10 == 0 else f"w{n % 300}" for n in range(1000)]})


class TestChecksums:
    """CRC-32 of pages, which pyarrow writes if it is asked to."""

    def write(self, path, table=NUMBERS, **options):
        pq.write_table(
            table, path, write_page_checksum=True, write_statistics=False, max_rows_per_page=100,
            write_batch_size=100, **options
        )  # fmt: skip
        return str(path)

    def spoil(self, path, place, column="id"):
        """Change the last byte of a page, counted with the dictionary page."""
        damage = Damage(path)
        start, pages = damage.pages(column)
        damage.body[start + pages[place].stop - 1] ^= 1
        damage.write()

    @pytest.mark.parametrize("version", ["1.0", "2.0"])
    @pytest.mark.parametrize("codec", ["none", "zstd"])
    def test_true_ones(self, tmp_path, table, version, codec):
        path = self.write(tmp_path / "good.parquet", table, data_page_version=version, compression=codec)
        report = verify(path)
        assert report.findings == ()
        assert report.checked["page_checksums"] > report.checked["pages"]  # dictionary pages have one, too

    @pytest.mark.parametrize("version", ["1.0", "2.0"])
    def test_damaged_values(self, tmp_path, version):
        path = self.write(
            tmp_path / "one.parquet", data_page_version=version, use_dictionary=False, compression="none"
        )
        assert found(path) == []
        self.spoil(path, 3)
        assert "checksum is 0x" in only(path, "page-checksum", index="PageHeader", page=3)

    def test_levels_of_version_2_are_covered(self, tmp_path):
        path = self.write(tmp_path / "one.parquet", WORDS, data_page_version="2.0", compression="zstd")
        damage = Damage(path)
        start, pages = damage.pages("word")
        page = next(page for page in pages if page.is_data)
        damage.body[start + page.body_start + 1] ^= 1
        damage.write()
        assert [finding.page for finding in found(path, "page-checksum")] == [0]

    def test_a_damaged_dictionary(self, tmp_path):
        path = self.write(tmp_path / "one.parquet", compression="none")
        self.spoil(path, 0)
        message = only(path, "page-checksum", index="PageHeader")
        assert "dictionary page" in message


class TestPageStatistics:
    """Statistics in page headers, which pyarrow writes where it writes no page index."""

    @pytest.fixture(params=["1.0", "2.0"])
    def path(self, request, tmp_path):
        path = str(tmp_path / "one.parquet")
        pq.write_table(
            NUMBERS, path, data_page_version=request.param, max_rows_per_page=100, write_batch_size=100
        )
        report = verify(path)
        assert report.findings == ()
        assert report.checked["page_statistics"] == 10
        return path

    def change(self, path, page, **changes):
        def change(header):
            name = "data_page_header" if header.data_page_header else "data_page_header_v2"
            old = getattr(header, name)
            return header._replace(**{name: old._replace(statistics=old.statistics._replace(**changes))})

        damage = Damage(path)
        damage.page_header("id", page, change)
        damage.write()

    def test_bounds_that_exclude_values(self, path):
        bounds = {"min": little(203), "min_value": little(203), "is_min_value_exact": False}
        self.change(path, 2, **bounds)
        message = only(path, "bounds-exclude-values", index="PageHeader", page=2)
        assert numbers(message) == [3, 203, 200]

    def test_null_counts(self, path):
        self.change(path, 2, null_count=1)
        assert numbers(only(path, "null-count", index="PageHeader", page=2)) == [1, 0]

    def test_exactness(self, path):
        self.change(path, 2, max=little(500), max_value=little(500))
        message = only(path, "bound-not-exact", index="PageHeader", page=2)
        assert numbers(message) == [500, 299]


class TestDistinctCounts:
    """The number of distinct values in Statistics."""

    def count(self, path, column, count):
        damage = Damage(path)
        damage.statistics(column, distinct_count=count)
        damage.write()

    @pytest.mark.parametrize(("column", "right"), [("rare", 7), ("id", 400), ("flag", 2), ("nothing", 0)])
    def test_each(self, path, column, right):
        self.count(path, column, right)
        assert found(path) == []
        self.count(path, column, right + 1)
        message = only(path, "distinct-count", index="Statistics", column=column, severity="warning")
        assert numbers(message) == [right + 1, right]

    def test_whether_nan_and_zeros_count_is_left_open(self, tmp_path):
        path = str(tmp_path / "nan.parquet")
        pq.write_table(pa.table({"x": [0.0, -0.0, float("nan"), 1.0]}), path)
        wrong = []
        for count in range(1, 6):
            self.count(path, "x", count)
            wrong += [count] if found(path, "distinct-count") else []
        assert wrong == [1, 5]


class TestEncodings:
    """The encodings of pages according to the footer."""

    @pytest.fixture
    def path(self, tmp_path):
        """Pages of a dictionary that got full, and then plain ones."""
        path = str(tmp_path / "one.parquet")
        pq.write_table(NUMBERS, path, dictionary_pagesize_limit=800, max_rows_per_page=100,
                       write_batch_size=100)  # fmt: skip
        encodings = {page.encoding for page in Damage(path).pages("id")[1] if page.is_data}
        assert encodings == {Encoding.RLE_DICTIONARY, Encoding.PLAIN}
        assert found(path) == []
        return path

    def test_plain_pages_hidden(self, path):
        damage = Damage(path)
        stats = damage.meta("id").get(13)
        stats.items[:] = [item for item in stats.items if item.get(1) == 2 or item.get(2) != Encoding.PLAIN]
        damage.write()
        (finding,) = found(path)
        pages = [page for page in Damage(path).pages("id")[1] if page.is_data]
        first = next(n for n, page in enumerate(pages) if page.encoding == Encoding.PLAIN)
        assert (finding.rule, finding.severity) == ("encoding-stats-hide-pages", "error")
        assert (finding.index, finding.page, finding.column) == ("encoding_stats", first, "id")
        assert "lose rows" in finding.consequence

    def test_wrong_page_counts(self, path):
        damage = Damage(path)
        item = next(item for item in damage.meta("id").get(13).items if item.get(1) == 0)
        item.set(3, thrift.I32, item.get(3) + 1)
        damage.write()
        only(path, "encoding-stats", index="encoding_stats", severity="warning")

    def test_missing_encodings(self, path):
        damage = Damage(path)
        encodings = damage.meta("id").get(2)
        encodings.items[:] = [item for item in encodings.items if item != Encoding.PLAIN]
        damage.write()
        assert "PLAIN" in only(path, "encodings-incomplete", index="encodings")


class TestSizes:
    """Sizes and level histograms in the footer and the OffsetIndex."""

    def change(self, path, column, **fields):
        ids = {"unencoded": 1, "repetition": 2, "definition": 3}
        damage = Damage(path)
        sizes = damage.meta(column).get(16)
        for name, change in fields.items():
            if name == "unencoded":
                sizes.set(1, thrift.I64, change(sizes.get(1)))
            else:
                histogram = sizes.get(ids[name])
                histogram.items[:] = change(histogram.items)
        damage.write()

    def test_bytes_of_values(self, path):
        right = Damage(path).meta("word").get(16).get(1)
        self.change(path, "word", unencoded=lambda old: old + 1)
        message = only(path, "unencoded-bytes", index="SizeStatistics", column="word", severity="warning")
        assert numbers(message) == [right + 1, right]

    def test_bytes_of_values_by_page(self, path):
        damage = Damage(path)
        index = damage.offset_index("word")
        sizes = list(index.unencoded_byte_array_data_bytes)
        sizes[4] += 1
        damage.put_offset_index("word", index._replace(unencoded_byte_array_data_bytes=sizes))
        damage.write()
        only(path, "unencoded-bytes", index="OffsetIndex", column="word", page=4, severity="warning")
        damage = Damage(path)
        damage.put_offset_index("word", index._replace(unencoded_byte_array_data_bytes=sizes[1:]))
        damage.write()
        assert "9 pages" in only(
            path, "unencoded-bytes", index="OffsetIndex", column="word", severity="warning"
        )

    @pytest.mark.parametrize("column", ["n", "part.b.c", "tags.list.element"])
    def test_level_histograms(self, path, column):
        self.change(path, column, definition=lambda old: [old[0] + 1, *old[1:]])
        assert "definition levels" in only(
            path, "level-histogram", index="SizeStatistics", column=column, severity="warning"
        )

    def test_histograms_of_repetition_levels(self, path):
        self.change(path, "tags.list.element", repetition=lambda old: old[::-1])
        only(path, "level-histogram", index="SizeStatistics", column="tags.list.element", severity="warning")

    @pytest.mark.parametrize(
        ("field", "of_group", "name"), [(6, 2, "total_uncompressed_size"), (7, 6, "total_compressed_size")]
    )
    def test_sizes_of_a_chunk(self, path, field, of_group, name):
        damage = Damage(path)
        meta, group = damage.meta("id"), damage.row_group()
        meta.set(field, thrift.I64, meta.get(field) + 1)
        group.set(of_group, thrift.I64, group.get(of_group) + 1)
        damage.write()
        assert name in only(path, "chunk-size", index=None, severity="warning")

    @pytest.mark.parametrize(("field", "name"), [(2, "total_byte_size"), (6, "total_compressed_size")])
    def test_sizes_of_a_row_group(self, path, field, name):
        damage = Damage(path)
        damage.row_group(1).set(field, thrift.I64, 77)
        damage.write()
        message = only(path, "row-group-size", index=None, column=None, row_group=1, severity="warning")
        assert message.startswith(name)
        assert numbers(message)[0] == 77
