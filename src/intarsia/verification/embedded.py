"""Embedded indexes against the data: do they belong to it, are they whole, do they leave out no matching row?

An index is asked what a scan would ask it, for values that are in the data; what it answers has to hold every
row that a look at the data finds.  Nothing of how an index is built is relied on for that.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from intarsia.comparison import comparison_array, comparison_type
from intarsia.errors import ColumnNotFoundError, FormatError, IndexBuildError, IndexPayloadError
from intarsia.file import ParquetInput
from intarsia.format.directory import KEY, Entry, belongs, parse_directory
from intarsia.format.footer import Leaf
from intarsia.indexes.base import Layout, OpenIndex, SureIndex
from intarsia.indexes.distinct import Distinct, OpenDistinct
from intarsia.indexes.embedded import EmbeddedIndexes
from intarsia.indexes.registry import find_index_class, why_unknown
from intarsia.predicate.bound import BoundCompare, BoundIn, BoundNull, BoundPrefix
from intarsia.predicate.bound import Leaf as BoundLeaf
from intarsia.predicate.evaluate import leaf_mask
from intarsia.retrofit.column_data import FileColumns
from intarsia.selection import RowSelection
from intarsia.verification.findings import Findings

#: So many of a row group's distinct values are asked for, spread over all of them.
SAMPLED_VALUES = 100

_DIRECTORY = "directory"

#: What an index may raise when its payload is not what it seemed, and columns when they cannot be read.
_PAYLOAD_ERRORS = (IndexPayloadError, pa.ArrowException, ValueError, IndexError, KeyError, TypeError)


def find_entries(file: ParquetInput, findings: Findings) -> tuple[Entry, ...]:
    """The entries of a directory that belongs to this file; what keeps them from being used is noted."""
    raw = file.footer.key_values.get(KEY)
    if raw is None:
        return ()
    findings.checked["directories"] += 1
    try:
        directory = parse_directory(raw)
    except IndexPayloadError as error:
        findings.add("directory-damaged", str(error), index=_DIRECTORY)
        return ()
    reason = belongs(directory, file.footer)
    if reason is not None:
        findings.add("directory-stale", reason, index=_DIRECTORY)
        return ()
    return directory.entries


def check_entry(file: ParquetInput, entry: Entry, findings: Findings) -> None:
    """Compare one embedded index with the data, row group by row group."""
    index = _open(file, entry, findings)
    if index is None:
        return
    findings.checked["embedded_indexes"] += 1
    columns = FileColumns(file, lambda _: None)  # no OffsetIndex is believed here
    for path in entry.columns:
        _check_column(file, index, entry, path, columns, findings)
    if isinstance(index, OpenDistinct):
        _compare_with_rebuild(entry, index, columns, findings)


def _check_column(
    file: ParquetInput,
    index: OpenIndex,
    entry: Entry,
    path: tuple[str, ...],
    columns: FileColumns,
    findings: Findings,
) -> None:
    starts = file.footer.row_group_starts
    name = ".".join(path)
    try:
        leaf = columns.leaf(path)
        for first_row, values in columns.batches(path):
            row_group = int(np.searchsorted(starts, first_row, side="right")) - 1
            _check_values(index, entry, leaf, (row_group, first_row), values, findings)
    except (ColumnNotFoundError, IndexBuildError) as error:
        findings.add("index-column", str(error), index=entry.name)
    except FormatError as error:
        findings.at(None, name).add("unreadable-pages", error.message, index=entry.name)
    except (pa.ArrowException, ValueError) as error:  # text that is no UTF-8, times beyond midnight
        message = f"values of the column cannot be compared: {error}"
        findings.at(None, name).add("unchecked", message, index=entry.name)


def _open(file: ParquetInput, entry: Entry, findings: Findings) -> OpenIndex | None:
    cls = find_index_class(entry.kind)
    if cls is None:
        findings.add("index-kind-unknown", why_unknown(entry.kind), index=entry.name)
        return None
    if entry.kind_version > cls.version:
        message = f"it has version {entry.kind_version}, known is {cls.version}"
        findings.add("index-newer", message, index=entry.name)
        return None
    try:
        index = cls(**entry.parameters)
        payload = EmbeddedIndexes(file).read(entry)  # whole, also where a scan would only probe it
        layout = Layout(file.footer.num_rows, file.footer.row_group_starts, {})
        opened: OpenIndex = index.open(payload, layout)
    except _PAYLOAD_ERRORS as error:
        findings.add("index-damaged", str(error), index=entry.name)
        return None
    return opened


# --- asking --------------------------------------------------------------------------------------------


def _check_values(
    index: OpenIndex, entry: Entry, leaf: Leaf, rows: tuple[int, int], values: pa.Array, findings: Findings
) -> None:
    """Ask an index about values of some rows, given their row group and the first of them in the file."""
    row_group, first_row = rows
    kind = comparison_type(values.type)
    compared = comparison_array(values, kind)
    place = findings.at(row_group, leaf.name)
    data = _encoded(compared)
    findings.checked["embedded_rows"] += len(values)
    lost: list[str] = []
    claimed: list[str] = []
    for predicate in questions(leaf.path, kind, data):
        found = RowSelection.from_mask(_mask(predicate, data), first_row)
        try:
            candidates = index.candidate_rows(predicate)
            certain = index.certain_rows(predicate) if isinstance(index, SureIndex) else None
        except _PAYLOAD_ERRORS as error:
            place.add("index-damaged", str(error), index=entry.name)
            return
        if candidates is not None and not (missing := found - candidates).is_empty:
            lost.append(f"{missing.num_rows} of {found.num_rows} rows where {predicate}")
        if certain is not None:
            extra = certain.clip(first_row, first_row + len(values)) - found
            if not extra.is_empty:
                claimed.append(f"{extra.num_rows} rows that are not {predicate}")
    if lost:
        place.add("index-loses-rows", f"it leaves out {_listed(lost)}", index=entry.name)
    if claimed:
        place.add("index-claims-rows", f"it is sure of {_listed(claimed)}", index=entry.name)


def questions(path: tuple[str, ...], kind: pa.DataType, values: pa.Array) -> Iterator[BoundLeaf]:
    """Predicates about values that are there, each of which matches some rows or none.

    Args:
        path: The column.
        kind: The type that it is compared as.
        values: Values of some rows, which may be dictionary-encoded.

    Yields:
        Equality for each sampled value; and for some, each other way to ask.
    """
    yield BoundNull(path, kind)
    yield BoundNull(path, kind, negated=True)
    sample = _sample(values, kind)
    is_float = pa.types.is_floating(kind)
    for value in sample:
        yield BoundCompare(path, kind, "=", value)
    few = [sample[place] for place in sorted({0, len(sample) // 2, len(sample) - 1})] if sample else []
    operators: tuple[Literal["<>", "<", "<=", ">", ">="], ...] = ("<>", "<", "<=", ">", ">=")
    for value in few:
        for op in operators:
            yield BoundCompare(path, kind, op, value, or_nan=is_float and op == "<>")
        if is_float:  # NOT (x < value)
            yield BoundCompare(path, kind, ">=", value, or_nan=True)
        if pa.types.is_string(kind) and (prefix := value.as_py()[:1].encode()):
            yield BoundPrefix(path, kind, prefix)
            yield BoundPrefix(path, kind, prefix, negated=True)
    if len(few) > 1:
        yield BoundIn(path, kind, tuple(few))
        yield BoundIn(path, kind, tuple(few), negated=True)


def _sample(values: pa.Array, kind: pa.DataType) -> list[pa.Scalar]:
    """Distinct values in ascending order, all or some spread over them; no null, NaN or minus zero."""
    distinct = values.dictionary if pa.types.is_dictionary(values.type) else values
    distinct = pc.unique(_sortable(distinct)).drop_null()
    if pa.types.is_floating(kind):
        numbers = distinct.to_numpy(zero_copy_only=False)
        distinct = pa.array(np.unique(numbers[~np.isnan(numbers)] + numbers.dtype.type(0)))
    else:
        distinct = distinct.take(pc.array_sort_indices(distinct))
    if not len(distinct):
        return []
    places = np.linspace(0, len(distinct) - 1, min(SAMPLED_VALUES, len(distinct))).astype(np.int64)
    return list(distinct.take(pa.array(places)).cast(kind))


def _encoded(values: pa.Array) -> pa.Array:
    """Dictionary-encoded, so that each distinct value is judged once."""
    try:
        return pc.dictionary_encode(values)
    except pa.ArrowNotImplementedError:
        return values


def _mask(predicate: BoundLeaf, values: pa.Array) -> npt.NDArray[np.bool_]:
    return np.asarray(leaf_mask(predicate, values).to_numpy(zero_copy_only=False), dtype=bool)


def _listed(items: list[str]) -> str:
    more = f" and {len(items) - 3} more" if len(items) > 3 else ""
    return "; ".join(items[:3]) + more


# --- rebuilding ----------------------------------------------------------------------------------------


def _compare_with_rebuild(
    entry: Entry, stored: OpenDistinct, columns: FileColumns, findings: Findings
) -> None:
    """Build distinct values anew, and compare which granules hold which."""
    try:
        index = Distinct(**entry.parameters)
        rebuilt = index.open(index.build(columns), columns.layout)
    except (IndexBuildError, IndexPayloadError, ColumnNotFoundError, pa.ArrowException, ValueError) as error:
        findings.add("unchecked", f"it cannot be built anew: {error}", index=entry.name)
        return
    if not np.array_equal(stored.edges, rebuilt.edges):
        message = f"it knows {len(stored.edges) - 1} granules, built anew it has {len(rebuilt.edges) - 1}"
        findings.add("index-differs", message, index=entry.name)
        return
    ours, theirs = _pairs(stored, rebuilt)
    granules = len(stored.edges) - 1
    listed = ~np.isin(theirs % granules, stored.unlisted)
    missing = np.setdiff1d(theirs[listed], ours)
    extra = np.setdiff1d(ours, theirs)
    extra = extra[~np.isin(extra % granules, rebuilt.unlisted)]
    if len(missing):
        message = f"{_granules(missing, granules)} hold values that it does not list there"
        findings.add("index-loses-rows", message, index=entry.name)
    if len(extra) or len(np.setdiff1d(stored.unlisted, rebuilt.unlisted)):
        message = f"it lists {len(extra)} values where they are not, or gives up granules that it could list"
        findings.add("index-differs", message, index=entry.name)


def _pairs(one: OpenDistinct, other: OpenDistinct) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """``(value, granule)`` pairs of both as numbers, equal where the pairs are."""
    both = _encoded(pa.concat_arrays([_sortable(one.values), _sortable(other.values)]))
    codes = both.indices.fill_null(len(both.dictionary)).to_numpy().astype(np.int64)
    granules = len(one.edges) - 1
    out = []
    for index, own in ((one, codes[: len(one.values)]), (other, codes[len(one.values) :])):
        out.append(np.repeat(own, np.diff(index.offsets)) * granules + index.granules.astype(np.int64))
    return out[0], out[1]


def _sortable(values: pa.Array) -> pa.Array:
    """Values that pyarrow can hash and sort."""
    kind = values.type
    if pa.types.is_float16(kind):
        return values.cast(pa.float32())
    if pa.types.is_decimal(kind) and kind.bit_width < 128:
        return values.cast(pa.decimal128(kind.precision, kind.scale))
    return values.cast(pa.int64()) if pa.types.is_duration(kind) else values


def _granules(pairs: npt.NDArray[np.int64], granules: int) -> str:
    places = np.unique(pairs % granules)
    shown: Any = ", ".join(map(str, places[:5].tolist()))
    return f"granules {shown}{' …' if len(places) > 5 else ''}" if len(places) > 1 else f"granule {shown}"
