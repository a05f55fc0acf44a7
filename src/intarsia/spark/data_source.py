"""``spark.read.format("intarsia")``: single pages, read by Python in the tasks of Spark.

The predicate is an option. Spark's own pushdown to data sources in Python is not used, because it loses rows
if one frame is filtered twice, as of Spark 4.3.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from intarsia.errors import UnsupportedFeatureError, WriteError
from intarsia.lake.opening import open as open_table
from intarsia.lake.split import Split
from intarsia.spark.sessions import using_worker_python

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: The bytes that a task reads, approximately.
_SPLIT_BYTES = 32 << 20

#: Arrow types that Spark represents with another width or encoding.
_WIDENED = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
    pa.large_string(): pa.string(),
    pa.string_view(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.binary_view(): pa.binary(),
}


def register(spark: SparkSession) -> None:
    """Register the format ``"intarsia"`` with a session.

    ``spark.read.format("intarsia").option("where", …).load(path)`` has the rows of
    ``intarsia.open(path).scan(where)``, with the rules of Intarsia's SQL, by which NaN is not equal to NaN.
    Indexes of every kind skip files, row groups and pages. The predicate is evaluated when the frame is
    created and when it runs. Its options are ``where``, and ``columns`` with names between commas. Spark does
    not pass its own filters and columns to the source, so options are faster than ``frame.where``.

    Args:
        spark: The session; classic or Connect.

    Example:
        >>> ias.register(spark)  # doctest: +SKIP
        >>> frame = spark.read.format("intarsia").option("where", "tailnum = 'N14228'")  # doctest: +SKIP
        >>> frame.option("columns", "origin,dest").load("lake/").show()  # doctest: +SKIP
    """
    from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

    class SplitReader(DataSourceReader):
        """Reads the splits of a plan."""

        def __init__(self, options: Mapping[str, str]) -> None:
            self.options = options

        def partitions(self) -> list[InputPartition]:
            """Plan the scan."""
            return [InputPartition(split) for split in _scan(self.options).plan(_SPLIT_BYTES)]

        def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
            """Read one split, on an executor."""
            split = getattr(partition, "value", None)
            if isinstance(split, Split):  # if there are no partitions, Spark reads a partition of its own
                rows = split.to_arrow()
                yield from rows.cast(spark_schema(rows.schema)).to_batches()

    class Intarsia(DataSource):
        """The format."""

        @classmethod
        def name(cls) -> str:
            """Return the name for ``spark.read.format``."""
            return "intarsia"

        def schema(self) -> Any:
            """Return the columns of the scan."""
            from pyspark.sql.pandas.types import from_arrow_schema

            return from_arrow_schema(spark_schema(_scan(self.options).schema))

        def reader(self, schema: Any) -> DataSourceReader:  # noqa: ARG002
            """Return the reader."""
            return SplitReader(dict(self.options))

    with using_worker_python(spark):
        spark.dataSource.register(Intarsia)


def _scan(options: Mapping[str, str]) -> Any:
    if not options.get("path"):
        raise WriteError("format('intarsia') needs a path; pass it to load()", reason="no-path")
    names = options.get("columns")
    columns = None if names is None else [name.strip() for name in names.split(",")]
    return open_table(options["path"]).scan(options.get("where"), columns)


def spark_schema(schema: pa.Schema) -> pa.Schema:
    """Return the types in which Spark accepts the columns.

    Raises:
        UnsupportedFeatureError: If Spark has no type for a column.
    """
    return pa.schema([pa.field(field.name, _spark_type(field.type, field.name)) for field in schema])


def _spark_type(data_type: pa.DataType, column: str) -> pa.DataType:
    if data_type in _WIDENED:
        return _WIDENED[data_type]
    if pa.types.is_dictionary(data_type):
        return _spark_type(data_type.value_type, column)
    if pa.types.is_timestamp(data_type):
        return pa.timestamp("us", None if data_type.tz is None else "UTC")
    if pa.types.is_fixed_size_binary(data_type):
        return pa.binary()
    if pa.types.is_struct(data_type):
        return pa.struct([field.with_type(_spark_type(field.type, column)) for field in data_type])
    if pa.types.is_map(data_type):
        key, item = (_spark_type(part, column) for part in (data_type.key_type, data_type.item_type))
        return pa.map_(key, item)
    if pa.types.is_list(data_type) or pa.types.is_large_list(data_type):
        return pa.list_(_spark_type(data_type.value_type, column))
    if pa.types.is_time(data_type) or pa.types.is_duration(data_type) or pa.types.is_null(data_type):
        raise UnsupportedFeatureError(
            f"column {column!r} has type {data_type}, which Spark cannot accept from Python; leave it out "
            "with option('columns', …)",
            reason="unsupported-type",
            column=column,
        )
    return pa.date32() if pa.types.is_date(data_type) else data_type
