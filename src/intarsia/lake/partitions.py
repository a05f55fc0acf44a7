"""Partition columns: the values in the names of folders, with the types that Spark infers."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from intarsia.arrow.owned_rows import take_values
from intarsia.errors import FormatError
from intarsia.lake.data_file import DataFile
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


class Partitions:
    """The partition columns of a table's files.

    Args:
        files: The files.
        columns: For each column, a value for each group of files; null where it is not known.
        is_known: For each column, whether the value in each group is known; all are if it is missing.
        groups: The group of each file, by ordinal; None if each file is one.
        replaces_columns: Whether the values replace columns of the same names in files. Otherwise they are
            used to exclude files, and where a file lacks the column.
    """

    def __init__(
        self,
        files: Sequence[DataFile],
        columns: Mapping[str, pa.Array],
        is_known: Mapping[str, npt.NDArray[np.bool_]] | None = None,
        *,
        groups: npt.NDArray[np.int64] | None = None,
        replaces_columns: bool = True,
    ) -> None:
        self._files = files
        self._columns = columns
        self._is_known = is_known or {}
        self._groups: npt.NDArray[np.int64] = np.arange(len(files)) if groups is None else groups
        self._constants: dict[int, Mapping[Path, pa.Scalar]] = {}
        self.replaces_columns = replaces_columns
        self.types: dict[str, pa.DataType] = {name: values.type for name, values in columns.items()}

    @classmethod
    def of_folders(cls, files: Sequence[DataFile], types: PartitionTypes = "infer") -> Partitions:
        """Return the partition columns in the names of folders.

        Raises:
            FormatError: If not all files have the same partition columns.
        """
        found = [file.partition for file in files]
        group_of = {partition: group for group, partition in enumerate(dict.fromkeys(found))}
        groups = [*map(group_of.__getitem__, found)]
        names = [name for name, _ in next(iter(group_of), ())]
        for group, partition in enumerate(group_of):
            own_names = [name for name, _ in partition]
            if own_names != names:
                raise FormatError(
                    f"its folders have the partition columns {own_names}, but the folders of other files "
                    f"have {names}; open them as separate tables",
                    reason="mixed-partition-columns",
                    path=files[groups.index(group)].path,
                )
        columns: dict[str, pa.Array] = {}
        for ordinal, name in enumerate(names):
            texts = [partition[ordinal][1] for partition in group_of]
            columns[name] = typed_values(texts) if types == "infer" else pa.array(texts, _TEXT)
        return cls(files, columns, groups=np.array(groups, dtype=np.int64))

    @cached_property
    def values(self) -> Mapping[Path, pa.Array]:
        """The values of each partition column, one for each file; null where they are not known."""
        return {(name,): take_values(values, self._groups) for name, values in self._columns.items()}

    @cached_property
    def _group_of(self) -> Mapping[str, int]:
        return {file.path: group for file, group in zip(self._files, self._groups.tolist(), strict=True)}

    def of_file(self, file: DataFile) -> Mapping[Path, pa.Scalar]:
        """Return the known values of the partition columns in one of the files."""
        group = self._group_of[file.path]
        if group not in self._constants:
            self._constants[group] = {
                (name,): values[group]
                for name, values in self._columns.items()
                if name not in self._is_known or self._is_known[name][group]
            }
        return self._constants[group]

    def part(self, ordinals: Sequence[int]) -> Partitions:
        """Return the partition columns of some of the files, with the types of all."""
        groups, new = np.unique(self._groups[list(ordinals)], return_inverse=True)
        return Partitions(
            [self._files[ordinal] for ordinal in ordinals],
            {name: take_values(values, groups) for name, values in self._columns.items()},
            {name: is_known[groups] for name, is_known in self._is_known.items()},
            groups=new.ravel(),
            replaces_columns=self.replaces_columns,
        )

    @property
    def is_known(self) -> Mapping[Path, npt.NDArray[np.bool_]]:
        """For the columns whose value is not known in all files, whether it is in each file."""
        return {(name,): known[self._groups] for name, known in self._is_known.items()}

    def listed(self) -> pa.Table:
        """Return the distinct values, with ``num_files`` and ``num_bytes``; see `Table.partitions`."""
        columns = {name: values for name, values in self._columns.items() if name not in self._is_known}
        num_groups = int(self._groups.max(initial=-1)) + 1
        counts, sizes = np.bincount(self._groups, minlength=num_groups), np.zeros(num_groups, dtype=np.int64)
        np.add.at(sizes, self._groups, np.array([file.size_bytes for file in self._files], dtype=np.int64))
        # by position, because a column may have any name; different texts may have one value: 07 and 7
        keys = [*map(str, range(len(columns)))]
        found = pa.table(
            [*columns.values(), pa.array(counts, pa.int64()), pa.array(sizes)],
            names=[*keys, "files", "bytes"],
        )
        sums = found.group_by(keys, use_threads=False).aggregate([("files", "sum"), ("bytes", "sum")])
        return sums.select([*keys, "files_sum", "bytes_sum"]).rename_columns(
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
