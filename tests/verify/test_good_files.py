"""Files by several writers, with and without attached indexes, cause no finding."""

import duckdb
import fastparquet
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datafusion import SessionContext

from intarsia.check.verification import verify
from intarsia.embed import Bloom, PageIndex, Statistics, attach
from intarsia.indexes.bloom_granule import BloomGranule
from intarsia.indexes.distinct import Distinct
from intarsia.indexes.rowmap import RowMap
from intarsia.indexes.sample import Sample
from intarsia.indexes.zonemap import ZoneMap
from intarsia.write import write_table

TYPES_OF_ARROW_ONLY = ["h", "huge"]


def small_pages(**options):
    return {"write_page_index": True, "max_rows_per_page": 40, "write_batch_size": 40, **options}


def lines(path):
    return [str(finding) for finding in verify(path).findings]


@pytest.mark.parametrize(
    "options",
    [
        {},
        small_pages(),
        small_pages(row_group_size=300),
        small_pages(data_page_version="2.0", compression="zstd"),
        small_pages(use_dictionary=False, compression="none"),
        small_pages(store_decimal_as_integer=True, compression="gzip"),
        small_pages(use_deprecated_int96_timestamps=True, compression="lz4"),
    ],
)
def test_pyarrow(tmp_path, table, options):
    path = str(tmp_path / "file.parquet")
    pq.write_table(table, path, **options)
    assert lines(path) == []


def test_everything_is_checked(path, table):
    report = verify(path)
    assert report.findings == ()
    assert report.ok
    leaves = table.num_columns + 1  # the struct has two
    assert report.checked["row_groups"] == 3
    assert report.checked["column_chunks"] == report.checked["offset_indexes"] == 3 * leaves
    assert report.checked["column_indexes"] >= 3 * (leaves - 1)
    assert report.checked["bloom_filters"] == 9
    assert report.checked["pages"] > 300


def test_no_rows(tmp_path, table):
    path = str(tmp_path / "file.parquet")
    pq.write_table(table.slice(0, 0), path, write_page_index=True)
    assert lines(path) == []


def test_only_nan(tmp_path):
    path = str(tmp_path / "file.parquet")
    pq.write_table(pa.table({"x": [float("nan")] * 100}), path, **small_pages())
    assert lines(path) == []


def test_polars(tmp_path, table):
    path = str(tmp_path / "file.parquet")
    pl.from_arrow(table.drop_columns(["h"])).write_parquet(path, row_group_size=300, data_page_size=800)
    assert lines(path) == []


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_duckdb(tmp_path, table, version):
    path = str(tmp_path / "file.parquet")
    some = table.drop_columns(TYPES_OF_ARROW_ONLY)
    with duckdb.connect() as connection:
        connection.register("good", some)
        connection.sql(
            f"copy good to '{path}' (format parquet, parquet_version {version}, row_group_size 2048)"
        )
    assert lines(path) == []
    assert verify(path).checked["bloom_filters"] > 0


def test_datafusion(tmp_path, table):
    context = SessionContext()
    context.register_record_batches("good", [table.drop_columns(TYPES_OF_ARROW_ONLY).to_batches()])
    context.sql("select * from good").write_parquet(str(tmp_path / "out"))
    files = list((tmp_path / "out").glob("*.parquet"))
    assert files
    for file in files:
        assert lines(file) == []
        assert verify(file).checked["column_indexes"] > 0


def test_fastparquet(tmp_path, table):
    path = str(tmp_path / "file.parquet")
    frame = table.select(["id", "u64", "word", "at"]).to_pandas()
    frame["x"] = np.where(np.arange(len(frame)) % 7, np.arange(len(frame)) / 8, np.nan)
    fastparquet.write(path, frame, row_group_offsets=300, stats=True)
    # its bounds of UTC timestamps are not trusted
    assert {(note.severity, note.column) for note in verify(path).findings} == {("note", "at")}


@pytest.mark.parametrize("pages", [False, True])
def test_retrofitted(tmp_path, table, pages):
    path = str(tmp_path / "file.parquet")
    pq.write_table(table, path, row_group_size=400, **(small_pages() if pages else {}))
    flat = [name for name in table.column_names if name not in ("tags", "part")] + ["part.a", "part.b.c"]
    attach(
        path,
        [
            PageIndex(),
            *(Distinct(name, granularity="page" if pages else "row_group") for name in flat),
            Distinct("word", granularity="file", max_values=3),
            Distinct("n", granularity=64),
        ],
    )
    assert lines(path) == []
    report = verify(path)
    assert report.checked["embedded_indexes"] == len(flat) + 2
    assert report.checked["embedded_rows"] == (len(flat) + 2) * table.num_rows


def test_added_statistics_and_bloom_filters(tmp_path, table):
    path = str(tmp_path / "file.parquet")
    pq.write_table(table, path, row_group_size=400, write_statistics=False)
    names = ["id", "u64", "x", "word", "raw", "fixed", "price", "day", "at"]
    attach(path, [PageIndex(), Statistics(), *map(Bloom, names)])
    assert lines(path) == []
    assert verify(path).checked["bloom_filters"] == 3 * len(names)


def test_written_with_indexes(tmp_path, table):
    path = str(tmp_path / "file.parquet")
    indexes = [Bloom("id"), ZoneMap("price"), RowMap("word"), BloomGranule("day"), Sample(50)]
    write_table(table, path, indexes=indexes, sort_by=["u8", "id"], rows_per_page=100)
    assert lines(path) == []
    report = verify(path)
    assert report.checked["embedded_rebuilt"] == report.checked["embedded_indexes"] == 4
    assert report.checked["sorting_orders"] == 1


def test_checksums_and_sizes_of_many_pages(tmp_path):
    """Dictionaries that get full, pages of both versions, rows sorted and declared as sorted."""
    rng = np.random.default_rng(3)
    table = pa.table(
        {
            "id": range(20_000),
            "text": [f"name {n} of the many" for n in rng.integers(0, 9_000, 20_000).tolist()],
            "list": [[n] * (n % 4) if n % 13 else None for n in range(20_000)],
        }
    )
    path = str(tmp_path / "file.parquet")
    for version in ("1.0", "2.0"):
        pq.write_table(
            table, path, data_page_version=version, write_page_checksum=True, data_page_size=20_000,
            dictionary_pagesize_limit=50_000, sorting_columns=[pq.SortingColumn(0)], row_group_size=9_000,
        )  # fmt: skip
        assert lines(path) == []
        assert verify(path).checked["page_checksums"] > 30


def test_the_corpus(corpus):
    """Files that are known to be good, of parquet-mr, Impala, parquet-rs, parquet-cpp."""
    good = [
        "binary_truncated_min_max", "byte_stream_split.zstd", "continued_page",
        "data_index_bloom_encoding_stats", "datapage_v2.snappy", "decimals_1_10", "delta_byte_array",
        "fixed_length_byte_array", "fixed_length_decimal", "float16_nonzeros_and_nans", "int32_decimal",
        "int32_with_null_pages", "int96_from_spark", "nested_decimals", "nested_lists.snappy",
        "nullable.impala", "old_list_structure", "sort_columns",
        "test-file-with-no-column-indexes-1",
        # pages that readers had trouble with; no index describes them wrongly
        "ARROW-GH-43605",
    ]  # fmt: skip
    found = {name: lines(next(corpus.rglob(f"{name}.parquet"))) for name in good}
    # bounds of floats by old parquet-mr, which are right here
    of_writer = "(scans ignore it, even if it is correct in this file)"
    found = {name: [line for line in report if of_writer not in line] for name, report in found.items()}
    assert {name: report for name, report in found.items() if report} == {}


@pytest.mark.parametrize("name", ["alltypes_tiny_pages", "page_stats_skip"])
def test_the_large_corpus(large_corpus, name):
    assert lines(next(large_corpus.rglob(f"{name}.parquet"))) == []


def test_nan_of_every_kind(tmp_path):
    """Signaling NaN as well, which NumPy warns about."""
    path = str(tmp_path / "file.parquet")
    bits = np.array([0x7F800001, 0x7FC00000, 0xFFC00000, 0x3F800000], dtype=np.uint32)
    pq.write_table(pa.table({"x": bits.view(np.float32)}), path, write_page_index=True)
    assert lines(path) == []
