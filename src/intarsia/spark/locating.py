"""`locate`: the files and rows of a lake that contain given keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from intarsia.errors import ColumnNotFoundError, PredicateError
from intarsia.predicate import In
from intarsia.spark.checksums import quoted
from intarsia.spark.lake_files import Source
from intarsia.spark.reading import read
from intarsia.spark.spark_types import INTEGERS
from intarsia.spark.sql_text import spark_sql

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: The column of the keys and of the lake, or several, or the lake's column for each column of the keys.
Key: TypeAlias = "str | Sequence[str] | Mapping[str, str]"

#: Up to this number of keys, files are pruned by their indexes. More keys are joined without pruning.
MAX_KEYS = 10_000


def locate(spark: SparkSession, keys: DataFrame, path: Source, *, key: Key) -> DataFrame:
    """Return the file and the row number of each row of a lake that has one of the keys.

    This is the first step in erasing or exporting the rows of many people. Spark joins the keys with the key
    columns of the lake, and reads no other columns. With up to 10,000 distinct keys, only the files that
    might contain one of them are read, by partition values, the lake index and the indexes of files.

    Args:
        spark: The session; classic or Connect.
        keys: The keys. Equal keys count once. Nulls match no row.
        path: As for `read`.
        key: The column that has the keys in both, or several columns; or a mapping from columns of ``keys``
            to columns of the lake. Columns of the lake are top-level.

    Returns:
        A lazy DataFrame with the columns of the keys as in ``keys``, and ``path`` (the URI of the file, as in
        ``_metadata.file_path``) and ``row`` (bigint, the row number in the file, from 0). Keys that the lake
        does not contain have no row.

    Raises:
        ColumnNotFoundError: If a key column does not exist.

    Example:
        >>> people = spark.createDataFrame([("N14228",), ("N24211",)], ["tailnum"])  # doctest: +SKIP
        >>> ias.locate(spark, people, "lake/", key="tailnum").show()  # doctest: +SKIP
    """
    pairs = _pairs(key)
    for name, _ in pairs:
        if name not in keys.columns:
            raise ColumnNotFoundError(name, keys.columns)
    requested = keys.select(*(keys[quoted(name)] for name, _ in pairs)).distinct()
    whole = read(spark, path)
    for _, name in pairs:
        if name not in whole.columns:
            raise ColumnNotFoundError(name, whole.columns)
    rows = read(spark, path, _condition(requested, whole, pairs))
    located = rows.select(
        *(rows[quoted(name)].alias(f"_key{ordinal}") for ordinal, (_, name) in enumerate(pairs)),
        rows.metadataColumn("_metadata")["file_path"].alias("path"),
        rows.metadataColumn("_metadata")["row_index"].alias("row"),
    )
    # unique names, because a key may be named like a column of the result
    named = requested.toDF(*(f"_requested{ordinal}" for ordinal in range(len(pairs))))
    equal = [named[f"_requested{ordinal}"] == located[f"_key{ordinal}"] for ordinal in range(len(pairs))]
    return named.join(located, equal).select(
        *(named[f"_requested{ordinal}"].alias(name) for ordinal, (name, _) in enumerate(pairs)),
        located["path"],
        located["row"],
    )


def _pairs(key: Key) -> list[tuple[str, str]]:
    if isinstance(key, str):
        return [(key, key)]
    pairs = list(key.items()) if isinstance(key, Mapping) else [(name, name) for name in key]
    if not pairs:
        raise ValueError("key is empty; pass the name of at least one column")
    return pairs


def _condition(requested: DataFrame, whole: DataFrame, pairs: Sequence[tuple[str, str]]) -> str | None:
    """Return a condition in Spark SQL that all located rows match; None if there are too many keys."""
    found = requested.limit(MAX_KEYS + 1).toArrow()
    if found.num_rows > MAX_KEYS:
        return None
    conditions = []
    for ordinal, (_, name) in enumerate(pairs):
        values = found.column(ordinal).unique().drop_null().to_pylist()
        if not values:
            return "false"
        types = {
            requested.schema[ordinal].dataType.simpleString(),
            whole.schema[name].dataType.simpleString(),
        }
        if len(types) > 1 and not types <= INTEGERS:
            continue  # Spark's equality may convert values in another way than its IN does
        try:
            conditions.append(spark_sql(In((name,), tuple(values))))
        except PredicateError:  # Spark SQL has no literals of this type
            continue
    return " AND ".join(f"({text})" for text in conditions) or None
