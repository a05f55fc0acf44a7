"""Writers whose files are read back, each with its supported types and options for small pages."""

from __future__ import annotations

import datafusion
import duckdb
import fastparquet
import pandas as pd
import polars as pl
import pyarrow as pa
from hypothesis import strategies as st

from tests.predicate import strategies as flat

_INTEGERS = [*flat.INTEGERS]
_FLOATS = [pa.float32(), pa.float64()]
_TIMES = [pa.timestamp("ms"), pa.timestamp("us"), pa.timestamp("ns"), pa.timestamp("us", "UTC")]
_DECIMALS = [pa.decimal128(4, 1), pa.decimal128(9, 2), pa.decimal128(17, 3), pa.decimal128(30, 6)]
_LISTS = [pa.list_(pa.int32()), pa.list_(pa.struct([("p", pa.int64()), ("q", pa.string())]))]


class DuckDB:
    """No page index, one page per chunk, Bloom filters on columns of few values, row groups of 2048 rows.

    Arrow's dictionaries become ENUM.
    """

    types = (
        *_INTEGERS,
        *_FLOATS,
        *_TIMES,
        *_DECIMALS,
        pa.decimal128(38, 0),
        pa.date32(),
        pa.time64("us"),
        pa.string(),
        pa.binary(),
        pa.bool_(),
        pa.uuid(),
        pa.dictionary(pa.uint8(), pa.string()),
    )
    nested = (*_LISTS, pa.map_(pa.string(), pa.int16()))
    max_rows = 40

    @staticmethod
    def write(draw, table, path):
        codec = draw(st.sampled_from(["uncompressed", "snappy", "zstd"]))
        version = draw(st.sampled_from(["V1", "V2"]))
        limit = draw(st.sampled_from([None, 1, 1 << 20]))
        dictionary = "" if limit is None else f", DICTIONARY_SIZE_LIMIT {limit}"
        with duckdb.connect() as connection:
            connection.execute("SET threads = 1")
            connection.register("made", table)
            connection.execute(
                f"COPY made TO '{path}' "
                f"(FORMAT parquet, COMPRESSION {codec}, PARQUET_VERSION {version}{dictionary})"
            )


class Polars:
    """A page index, and one or few pages per chunk."""

    types = (
        *_INTEGERS,
        *_FLOATS,
        *_TIMES,
        *_DECIMALS,
        pa.date32(),
        pa.time64("ns"),
        pa.large_string(),
        pa.large_binary(),
        pa.bool_(),
        pa.dictionary(pa.uint32(), pa.large_string()),
    )
    nested = (pa.large_list(pa.int32()), pa.large_list(pa.struct([("p", pa.int64())])))
    max_rows = 60

    @staticmethod
    def write(draw, table, path):
        pl.from_arrow(table).write_parquet(
            path,
            compression=draw(st.sampled_from(["uncompressed", "snappy", "zstd", "lz4", "gzip"])),
            row_group_size=draw(st.integers(1, 60)),
            data_page_size=draw(st.sampled_from([1, 16, 100])),
            statistics=draw(st.sampled_from([True, "full", False])),
        )


class DataFusion:
    """A page index with bounds truncated to few bytes."""

    types = (
        *_INTEGERS,
        *flat.FLOATS,
        *_TIMES,
        *_DECIMALS,
        pa.date32(),
        pa.time32("ms"),
        pa.time64("us"),
        pa.string(),
        pa.large_string(),
        pa.string_view(),
        pa.binary(),
        pa.binary(3),
        pa.bool_(),
        pa.dictionary(pa.int32(), pa.string()),
    )
    nested = (*_LISTS, pa.map_(pa.string(), pa.int16()))
    max_rows = 60

    @staticmethod
    def write(draw, table, path):
        options = datafusion.ParquetWriterOptions(
            max_row_group_size=draw(st.integers(1, 60)),
            data_pagesize_limit=draw(st.sampled_from([1, 50, 1 << 20])),
            write_batch_size=draw(st.integers(1, 8)),
            data_page_row_count_limit=draw(st.sampled_from([1, 7, 20_000])),
            writer_version=draw(st.sampled_from(["1.0", "2.0"])),
            compression=draw(st.sampled_from(["uncompressed", "snappy", "zstd(1)", "lz4_raw"])),
            dictionary_enabled=draw(st.booleans()),
            dictionary_page_size_limit=draw(st.sampled_from([8, 1 << 20])),
            statistics_enabled=draw(st.sampled_from(["page", "page", "chunk", "none"])),
            column_index_truncate_length=draw(st.sampled_from([1, 2, 64])),
            statistics_truncate_length=draw(st.sampled_from([None, 1, 2])),
            bloom_filter_on_write=draw(st.booleans()),
            bloom_filter_ndv=8,
            skip_arrow_metadata=draw(st.booleans()),
            allow_single_file_parallelism=False,
        )
        context = datafusion.SessionContext()
        context.from_arrow(table).write_parquet_with_options(
            path, options, datafusion.DataFrameWriteOptions(single_file_output=True)
        )


class FastParquet:
    """No page index, and only deprecated bounds; categorical columns have a dictionary page."""

    types = (
        *_INTEGERS,
        *_FLOATS,
        pa.timestamp("ms"),
        pa.timestamp("us"),
        pa.timestamp("ns"),
        pa.timestamp("us", "UTC"),
        pa.string(),
        pa.binary(),
        pa.bool_(),
        pa.dictionary(pa.int8(), pa.string()),
        pa.dictionary(pa.int8(), pa.int16()),
        pa.dictionary(pa.int32(), pa.int64()),
        pa.dictionary(pa.int32(), pa.uint32()),
        pa.dictionary(pa.int32(), pa.float64()),
        pa.dictionary(pa.int32(), pa.timestamp("us")),
    )
    nested = ()
    max_rows = 40

    @staticmethod
    def write(draw, table, path):
        columns = {}
        for field, column in zip(table.schema, table.columns, strict=True):
            for name, leaf in _leaves(field.name, column):
                columns[name] = leaf.to_pandas(types_mapper=_nullable if draw(st.booleans()) else None)
        frame = pd.DataFrame(columns)
        fastparquet.write(
            str(path),
            frame,
            stats=draw(st.sampled_from([True, True, "auto"])),
            has_nulls=draw(st.sampled_from([True, None])),
            row_group_offsets=draw(st.sampled_from([1, 7, 50])),
            compression=draw(st.sampled_from(["UNCOMPRESSED", "SNAPPY", "GZIP", "ZSTD"])),
            times=draw(st.sampled_from(["int64", "int64", "int96"])),
        )


def _leaves(name, column):
    """fastparquet does not flatten or support structs."""
    if not pa.types.is_struct(column.type):
        return [(name, column)]
    array = column.combine_chunks()
    return [(f"{name}_{field.name}", leaf) for field, leaf in zip(array.type, array.flatten(), strict=True)]


_INTEGERS_WITH_NULLS = {
    f"{prefix}int{width}": f"{prefix.upper()}Int{width}" for prefix in ("", "u") for width in (8, 16, 32, 64)
}
_NULLABLE = {
    pa.bool_(): pd.BooleanDtype(),
    pa.float32(): pd.Float32Dtype(),
    pa.float64(): pd.Float64Dtype(),
    **{kind: pd.api.types.pandas_dtype(_INTEGERS_WITH_NULLS[str(kind)]) for kind in _INTEGERS},
}


def _nullable(kind):
    return _NULLABLE.get(kind)


WRITERS = {writer.__name__.lower(): writer for writer in (DuckDB, Polars, DataFusion)}
