"""Partition columns: the values in the names of folders, with the types that Spark infers."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
        types: Whether types are inferred.

    Raises:
        FormatError: If not all files have the same partition columns.
    """

    def __init__(self, files: Sequence[DataFile], types: PartitionTypes = "infer") -> None:
        self._files = files
        found = [file.partition for file in files]
        code_of = {partition: code for code, partition in enumerate(dict.fromkeys(found))}
        codes = [*map(code_of.__getitem__, found)]
        self._distinct = list(code_of)
        self._codes: npt.NDArray[np.int64] = np.array(codes, dtype=np.int64)
        self._code_of = code_of
        names = [name for name, _ in self._distinct[0]] if files else []
        for ordinal, partition in enumerate(self._distinct):
            own_names = [name for name, _ in partition]
            if own_names != names:
                raise FormatError(
                    f"its folders have the partition columns {own_names}, but the folders of other files "
                    f"have {names}; open them as separate tables",
                    reason="mixed-partition-columns",
                    path=files[codes.index(ordinal)].path,
                )
        self._columns: dict[str, pa.Array] = {}
        for ordinal, name in enumerate(names):
            texts = [partition[ordinal][1] for partition in self._distinct]
            self._columns[name] = typed_values(texts) if types == "infer" else pa.array(texts, _TEXT)

    @cached_property
    def types(self) -> dict[str, pa.DataType]:
        """The type of each partition column."""
        return {name: values.type for name, values in self._columns.items()}

    @cached_property
    def values(self) -> dict[Path, pa.Array]:
        """The values of each partition column, one for each file."""
        return {(name,): take_values(values, self._codes) for name, values in self._columns.items()}

    @cached_property
    def _constants(self) -> list[Mapping[Path, pa.Scalar] | None]:
        return [None] * len(self._distinct)

    def of_file(self, file: DataFile) -> Mapping[Path, pa.Scalar]:
        """Return the values of the partition columns in one of the files."""
        code = self._code_of[file.partition]
        known = self._constants[code]
        if known is None:
            known = {(name,): values[code] for name, values in self._columns.items()}
            self._constants[code] = known
        return known

    def part(self, ordinals: Sequence[int]) -> DeclaredPartitions:
        """Return the partition columns of some of the files, with the types of all."""
        columns = {path[0]: take_values(values, ordinals) for path, values in self.values.items()}
        return DeclaredPartitions([self._files[ordinal] for ordinal in ordinals], columns)

    @property
    def replaces_columns(self) -> bool:
        """Whether the values replace columns of the same names in files."""
        return True

    def known(self) -> Iterator[tuple[npt.NDArray[np.int64], frozenset[Path]]]:
        """Yield the ordinals of all files, and the partition columns whose values are known in them."""
        yield np.arange(len(self._files)), frozenset(self.values)

    def listed(self) -> pa.Table:
        """Return the distinct values, with ``num_files`` and ``num_bytes``; see `Table.partitions`."""
        num_bytes = np.array([file.size_bytes for file in self._files], dtype=np.int64)
        counts = np.bincount(self._codes, minlength=len(self._distinct))
        sizes = np.zeros(len(self._distinct), dtype=np.int64)
        np.add.at(sizes, self._codes, num_bytes)
        return _listed(self._columns, counts, sizes)


class DeclaredPartitions:
    """The partition columns of a table whose format records their values for each file.

    Args:
        files: The files.
        columns: For each column, a value for each file; null where it is not known.
        is_known: For each column, whether the value in each file is known; all are if it is missing.
        replaces_columns: Whether the values replace columns of the same names in files. Otherwise they are
            used to exclude files, and where a file lacks the column.
    """

    def __init__(
        self,
        files: Sequence[DataFile],
        columns: Mapping[str, pa.Array],
        is_known: Mapping[str, npt.NDArray[np.bool_]] | None = None,
        *,
        replaces_columns: bool = True,
    ) -> None:
        self._files = files
        self._is_known = is_known or {}
        self._ordinals = {file.path: ordinal for ordinal, file in enumerate(files)}
        self.values: Mapping[Path, pa.Array] = {(name,): values for name, values in columns.items()}
        self.replaces_columns = replaces_columns

    @property
    def types(self) -> dict[str, pa.DataType]:
        """The type of each partition column."""
        return {path[0]: values.type for path, values in self.values.items()}

    def part(self, ordinals: Sequence[int]) -> DeclaredPartitions:
        """Return the partition columns of some of the files."""
        return DeclaredPartitions(
            [self._files[ordinal] for ordinal in ordinals],
            {path[0]: take_values(values, ordinals) for path, values in self.values.items()},
            {name: is_known[list(ordinals)] for name, is_known in self._is_known.items()},
            replaces_columns=self.replaces_columns,
        )

    def known(self) -> Iterator[tuple[npt.NDArray[np.int64], frozenset[Path]]]:
        """Yield groups of ordinals of files, and the partition columns whose values are known in them."""
        paths = list(self.values)
        if not self._is_known:
            yield np.arange(len(self._files)), frozenset(paths)
            return
        masks = np.stack([self.is_known(path) for path in paths])
        patterns, codes = np.unique(masks, axis=1, return_inverse=True)
        for code, pattern in enumerate(patterns.T):
            known = frozenset(path for path, is_known in zip(paths, pattern, strict=True) if is_known)
            yield np.flatnonzero(codes.ravel() == code), known

    def is_known(self, path: Path) -> npt.NDArray[np.bool_]:
        """Return whether the value of a partition column is known, for each file."""
        return self._is_known.get(path[0], np.ones(len(self._files), dtype=bool))

    def of_file(self, file: DataFile) -> Mapping[Path, pa.Scalar]:
        """Return the known values of the partition columns in one of the files."""
        ordinal = self._ordinals[file.path]
        return {
            path: values[ordinal]
            for path, values in self.values.items()
            if path[0] not in self._is_known or self._is_known[path[0]][ordinal]
        }

    def listed(self) -> pa.Table:
        """Return the distinct values, with ``num_files`` and ``num_bytes``; see `Table.partitions`."""
        columns = {path[0]: values for path, values in self.values.items() if path[0] not in self._is_known}
        sizes = np.array([file.size_bytes for file in self._files], dtype=np.int64)
        return _listed(columns, np.ones(len(self._files), dtype=np.int64), sizes)


def _listed(columns: Mapping[str, pa.Array], counts: np.ndarray, sizes: np.ndarray) -> pa.Table:
    """Add up the numbers and sizes of files by the values of columns."""
    names = list(columns)
    # by position, because a column may have any name; different texts may have one value: 07 and 7
    keys = pa.table(
        [*columns.values(), pa.array(counts.astype(np.int64)), pa.array(sizes)],
        names=[*map(str, range(len(names))), "files", "bytes"],
    )
    sums = [("files", "sum"), ("bytes", "sum")]
    found = keys.group_by([*map(str, range(len(names)))], use_threads=False).aggregate(sums)
    grouped = [found[str(ordinal)] for ordinal in range(len(names))]
    return pa.table(
        [*grouped, found["files_sum"], found["bytes_sum"]], names=[*names, "num_files", "num_bytes"]
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
