"""Partition columns: the values in the names of folders, with the types that Spark infers."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from intarsia.arrow.owned_rows import take_values
from intarsia.errors import FormatError
from intarsia.lake.data_file import DataFile, partitions_of
from intarsia.predicate import Path

#: Whether the types of partition columns are inferred from their values, or all are text.
PartitionTypes: TypeAlias = Literal["infer", "text"]

_INTEGER = re.compile(r"-?[0-9]{1,20}")
_FLOAT = re.compile(r"-?[0-9]*\.[0-9]+|NaN|-?Infinity")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIMESTAMP = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9])?")

_INT32, _INT64, _DOUBLE = pa.int32(), pa.int64(), pa.float64()
_DAY, _MOMENT, _TEXT = pa.date32(), pa.timestamp("us"), pa.string()

#: Types that have the values of several; other mixtures are text, even int64 with double, as in Spark.
_WIDER = {
    frozenset({_INT32, _INT64}): _INT64,
    frozenset({_INT32, _DOUBLE}): _DOUBLE,
    frozenset({_DAY, _MOMENT}): _MOMENT,
}


@dataclass(frozen=True, eq=False)
class Partitions:
    """The partition columns of a table's files.

    Attributes:
        values: For each column, a value for each file; null where it is not known.
        is_known: For the columns whose value is not known in all files, whether it is in each file.
        replaces_columns: Whether the values replace columns of the same names in files. Otherwise they are
            used to exclude files, and where a file lacks the column.
    """

    values: Mapping[Path, pa.Array]
    is_known: Mapping[Path, npt.NDArray[np.bool_]] = field(default_factory=dict)
    replaces_columns: bool = True

    @classmethod
    def of_folders(cls, files: Sequence[DataFile], types: PartitionTypes = "infer") -> Partitions:
        """Return the partition columns in the names of folders.

        Raises:
            FormatError: If not all files have the same partition columns.
        """
        partitions, groups = partitions_of(files)
        names = [*map(itemgetter(0), next(iter(partitions), ()))]
        for group, partition in enumerate(partitions):
            own_names = [*map(itemgetter(0), partition)]
            if own_names != names:
                raise FormatError(
                    f"its folders have the partition columns {own_names}, but the folders of other files "
                    f"have {names}; open them as separate tables",
                    reason="mixed-partition-columns",
                    path=files[int(np.argmax(groups == group))].path,
                )
        columns: dict[Path, pa.Array] = {}
        for ordinal, name in enumerate(names):
            texts = [partition[ordinal][1] for partition in partitions]
            values = typed_values(texts) if types == "infer" else pa.array(texts, _TEXT)
            columns[name,] = values.take(groups)
        return cls(columns)

    def part(self, ordinals: Sequence[int]) -> Partitions:
        """Return the partition columns of some of the files, with the types of all."""
        return Partitions(
            {path: take_values(values, ordinals) for path, values in self.values.items()},
            {path: is_known[list(ordinals)] for path, is_known in self.is_known.items()},
            self.replaces_columns,
        )

    def listed(self, file_bytes: npt.NDArray[np.int64]) -> pa.Table:
        """Return the distinct values, with ``num_files`` and ``num_bytes``; see `Table.partitions`."""
        columns = {path[0]: values for path, values in self.values.items() if path not in self.is_known}
        # by position, because a column may have any name
        keys = [*map(str, range(len(columns)))]
        found = pa.table([*columns.values(), pa.array(file_bytes)], names=[*keys, "bytes"])
        sums = found.group_by(keys, use_threads=False).aggregate([("bytes", "count"), ("bytes", "sum")])
        return sums.select([*keys, "bytes_count", "bytes_sum"]).rename_columns(
            [*columns, "num_files", "num_bytes"]
        )


def typed_values(texts: Iterable[str | None]) -> pa.Array:
    """Convert partition values to the type that Spark infers for them.

    It is ``int32``, ``int64``, ``double``, a date, a timestamp without a time zone, or text. Mixed values are
    text, except integers, integers of 32 bits with doubles, and dates with timestamps. Numbers with an
    exponent and integers beyond 64 bits, which are decimals in Spark, are text.

    Args:
        texts: The values in the names of folders; None for null.

    Example:
        >>> typed_values(["1", None, "3000000000"]).type, typed_values(["2024-01-01"]).type
        (DataType(int64), DataType(date32[day]))
        >>> typed_values(["2024-01-01", "today"]).to_pylist()
        ['2024-01-01', 'today']
    """
    listed = list(texts)
    found = {text: _typed(text) for text in dict.fromkeys(listed) if text is not None}
    types = {data_type for data_type, _ in found.values()}
    data_type = types.pop() if len(types) == 1 else _WIDER.get(frozenset(types), _TEXT)
    if data_type == _TEXT:
        return pa.array(listed, _TEXT)
    values = {text: _converted(value, data_type) for text, (_, value) in found.items()}
    return pa.array([None if text is None else values[text] for text in listed], data_type)


def _typed(text: str) -> tuple[pa.DataType, object]:
    """Return the type of one value, and the value."""
    if _INTEGER.fullmatch(text):
        number = int(text)
        for data_type in (_INT32, _INT64):
            if -(1 << data_type.bit_width - 1) <= number < 1 << data_type.bit_width - 1:
                return data_type, number
        return _TEXT, text
    if _FLOAT.fullmatch(text):
        return _DOUBLE, float(text)
    for data_type, pattern, parse in (
        (_DAY, _DATE, dt.date.fromisoformat),
        (_MOMENT, _TIMESTAMP, _moment),
    ):
        if pattern.fullmatch(text):
            try:
                return data_type, parse(text)
            except ValueError:
                break
    return _TEXT, text


def _moment(text: str) -> dt.datetime:
    whole, _, fraction = text.partition(".")
    return dt.datetime.fromisoformat(whole).replace(microsecond=int(fraction or 0) * 100_000)


def _converted(value: object, data_type: pa.DataType) -> object:
    """Convert a typed value to a wider type."""
    if data_type == _MOMENT and isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        return dt.datetime(value.year, value.month, value.day)
    return float(value) if data_type == _DOUBLE and isinstance(value, int) else value
