"""What is known of files before they are opened: partition values, and statistics in the log of a format.

Partition columns are the values in the names of folders, with the types that Spark infers.

A log describes the values that a file had when it was written. So its bounds include deleted rows, and may be
wider than the values of a file. They may also be rounded: `LogStatistics` widens them by as much as a log may
round.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from operator import itemgetter
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from intarsia.arrow.comparison import compares_alike, comparison_type, flags_of
from intarsia.arrow.owned_rows import take_values
from intarsia.errors import FormatError
from intarsia.indexes.proof import Verdict
from intarsia.indexes.statistics import BoundsProof, bounds_of_keys
from intarsia.lake.data_file import DataFile, partitions_of
from intarsia.predicate import BoundNull, Condition, Path
from intarsia.records import dataclass
from intarsia.rows.bounds import UNKNOWN, Bounds, might_match
from intarsia.rows.ordering import ArrowOrdering, Keys, arrow_ordering
from intarsia.rows.selection import RowSelection
from intarsia.storage.local import is_utf8, not_utf8

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
            FormatError: If not all files have the same partition columns, or one is not UTF-8.
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
            if not all(is_utf8(f"{name}{text}") for name, text in partition):
                raise not_utf8(files[int(np.argmax(groups == group))].path)
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


#: Decimals with more digits may have been written as JSON numbers, which many writers round to doubles.
_MAX_DIGITS = 15

#: No UTF-8 text contains this byte, so a text that starts with a truncated bound precedes the bound with it.
_BEYOND_TEXT = b"\xff"

#: The first byte of a character above U+FFFF, which JSON may escape as two; deltalake reads some too small.
_ASTRAL = re.compile(rb"[\xf0-\xf4]")


class LogColumn(NamedTuple):
    """The statistics of one column, with one value per file. Null is an unknown value.

    Attributes:
        low: Values that no value of the column is below, except by rounding.
        high: Values that no value of the column is above, except by rounding.
        null_counts: The number of nulls (int64).
        parse: Returns bounds as values, when a condition needs them; None if they are values.
    """

    low: pa.Array
    high: pa.Array
    null_counts: pa.Array
    parse: Callable[[pa.Array], pa.Array] | None = None

    def parsed(self) -> LogColumn:
        """Return the statistics with bounds that are values."""
        if self.parse is None:
            return self
        return LogColumn(self.parse(self.low), self.parse(self.high), self.null_counts)

    def take(self, ordinals: pa.Array) -> LogColumn:
        """Return the statistics of some of the files."""
        low, high, null_counts = (values.take(ordinals) for values in self[:3])
        return LogColumn(low, high, null_counts, self.parse)


@dataclass(frozen=True, eq=False)
class LogStatistics:
    """The statistics of the files of a table.

    Attributes:
        source: The name of the log in reports.
        num_rows: The number of rows of each file, including deleted ones; `UNKNOWN` if it is not recorded.
        columns: The statistics of columns, by their paths in the table.
        is_json: Whether bounds were written as JSON, which rounds times to milliseconds, and long decimals to
            doubles.
        has_wider_types: Whether columns may have had narrower types when files were written. JSON has the
            shortest digits of a float of 32 bits, which are another double.
    """

    source: str
    num_rows: npt.NDArray[np.int64]
    columns: Mapping[Path, LogColumn]
    is_json: bool = False
    has_wider_types: bool = False
    _converted: dict[Path, tuple[pa.DataType, Bounds]] = field(default_factory=dict, init=False, repr=False)

    def part(self, ordinals: Sequence[int]) -> LogStatistics:
        """Return the statistics of some of the files."""
        chosen = pa.array(ordinals, pa.int64())
        columns = {path: column.take(chosen) for path, column in self.columns.items()}
        return replace(self, num_rows=self.num_rows[list(ordinals)], columns=columns)

    @property
    def proof(self) -> BoundsProof:
        """The statistics as a proof whose granules are files."""
        return BoundsProof(self.source, self.bounds, _judge)

    def bounds(self, condition: Condition) -> Bounds | None:
        """Return the bounds of the column of a condition in each file; None if they cannot judge it."""
        data_type = None if isinstance(condition, BoundNull) else condition.type
        return self.bounds_of(condition.path, data_type)

    def bounds_of(self, path: Path, data_type: pa.DataType | None) -> Bounds | None:
        """Return the bounds of a column in each file; None if values of a type do not compare with them.

        Args:
            data_type: The type; None if only nulls matter.
        """
        if path not in self.columns:
            return None
        if path not in self._converted:
            column = self.columns[path].parsed()
            self._converted[path] = column.low.type, self._convert(column)
        own_type, bounds = self._converted[path]
        return bounds if data_type is None or compares_alike(own_type, data_type) else None

    def _convert(self, column: LogColumn) -> Bounds:
        num_files = len(self.num_rows)
        nulls = pc.fill_null(column.null_counts, UNKNOWN).to_numpy()
        nulls = np.where((nulls >= 0) & ((nulls <= self.num_rows) | (self.num_rows < 0)), nulls, UNKNOWN)
        ordering = arrow_ordering(column.low.type)
        known = flags_of(pc.and_(column.low.is_valid(), column.high.is_valid()))
        keep = pa.array(known)
        low = high = np.empty(0, dtype=object)
        if ordering is not None:
            low, high = ordering.keys(column.low.filter(keep)), ordering.keys(column.high.filter(keep))
            widened = self._widen(ordering, low, high)
            if widened is None:
                ordering = None
            else:
                low, high = widened
        rows = np.maximum(self.num_rows, 0)
        edges = np.concatenate([[0], np.cumsum(rows)])
        return bounds_of_keys(
            ordering,
            edges[:-1],
            edges[1:],
            np.flatnonzero(known),
            low,
            high,
            nulls,
            np.full(num_files, UNKNOWN if ordering is not None and ordering.is_float else 0, dtype=np.int64),
            (nulls == self.num_rows) & (nulls > 0),
        )

    def _widen(self, ordering: ArrowOrdering, low: Keys, high: Keys) -> tuple[Keys, Keys] | None:
        """Widen bounds by as much as a log may round them; None if they may be rounded by any amount."""
        data_type = comparison_type(ordering.arrow_type)
        if ordering.is_bytes:
            widened = np.empty(len(high), dtype=object)
            kept = (_ASTRAL.split(key, 1)[0] if self.is_json else key for key in high.tolist())
            widened[:] = [key + _BEYOND_TEXT for key in kept]
            return low, widened
        if not self.is_json:
            return low, high
        if pa.types.is_decimal(data_type):
            return (low - 1, high + 1) if data_type.precision <= _MAX_DIGITS else None
        if pa.types.is_floating(data_type):
            is_narrow = data_type.bit_width == 32 or self.has_wider_types
            number: Any = np.float32 if is_narrow else np.float64
            with np.errstate(over="ignore"):
                return (
                    np.nextafter(low.astype(number), number(-np.inf)).astype(np.float64),
                    np.nextafter(high.astype(number), number(np.inf)).astype(np.float64),
                )
        if pa.types.is_timestamp(data_type):
            step = _PER_MILLISECOND[data_type.unit]
            is_extreme = (low < _LEAST + step) | (high > _GREATEST - step)
            return np.where(is_extreme, _LEAST, low - step), np.where(is_extreme, _GREATEST, high + step)
        return low, high


def _judge(condition: Condition, bounds: Bounds) -> Verdict:
    """Evaluate a condition on the bounds in a log, which include deleted rows, so that no row is certain."""
    return Verdict(condition, RowSelection.from_mask(might_match(condition, bounds)), None)


_PER_MILLISECOND = {"s": 1, "ms": 1, "us": 10**3, "ns": 10**6}
_LEAST, _GREATEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max
