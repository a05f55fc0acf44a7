"""Checks that the metadata which Intarsia trusts matches the data of a file.

The data come from `pyarrow.parquet.read_table`. The checks cover the bounds and counts that scans use, Bloom
filters, and the results of COUNT, MIN and MAX.
"""

from __future__ import annotations

import itertools
import math
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import intarsia as ia
from intarsia.arrow.comparison import comparison_type
from intarsia.file import ChunkKey, ParquetInput
from intarsia.indexes.bloom import BloomFilters
from intarsia.indexes.column_index import ColumnIndexes
from intarsia.indexes.statistics import statistics_bounds
from intarsia.predicate.bound import BoundCompare
from intarsia.rows.ordering import ordering_for
from intarsia.rows.selection import RowSelection
from tests.predicate import oracle
from tests.reading.exact import leaf_at

#: The number of distinct values of a column that scans look up.
LOOKUPS = 2

#: From this size on, larger than random tables, Arrow drops duplicates, which it supports for most types.
MANY_ROWS = 1000


def assert_truth(path) -> pa.Table:
    """Compare all trusted metadata of a file with its data; return the data."""
    full = pq.read_table(path)
    with ParquetInput.open(path) as file:
        for leaf in file.footer.leaves:
            if leaf.is_flat:
                column = leaf_at(full, leaf.name).combine_chunks()
                check_bounds(file, leaf, column)
                check_bloom_filters(file, leaf, column)
                check_answers(path, leaf.name, column)
    return full


# --- bounds and counts ---


def check_bounds(file, leaf, column):
    ordering = ordering_for(leaf, file.leaf_types[leaf.ordinal])
    check_granules(f"statistics of {leaf.name}", statistics_bounds(file, leaf, ordering), column)
    (outlines,) = file.metadata.outlines([leaf])
    keys = [ChunkKey(group, leaf.ordinal) for group in np.flatnonzero(outlines.has_column_index).tolist()]
    file.load_page_index(keys, keys)
    index = ColumnIndexes(file)
    for key in keys:
        bounds = index.bounds(key)
        if bounds is not None:
            check_granules(f"column index of {leaf.name}, row group {key.row_group}", bounds, column)


def check_granules(name, bounds, column):
    for granule in range(len(bounds)):
        start, stop = int(bounds.starts[granule]), int(bounds.stops[granule])
        values, place = column[start:stop], f"{name}, rows {start} to {stop}"
        if bounds.null_counts[granule] >= 0:
            assert bounds.null_counts[granule] == values.null_count, place
        if bounds.all_null[granule]:
            assert values.null_count == len(values), place
        if bounds.ordering is None:
            continue
        keys = bounds.ordering.keys(values)
        if bounds.ordering.is_float:
            nan = np.isnan(keys)
            if bounds.nan_counts[granule] >= 0:
                assert bounds.nan_counts[granule] == nan.sum(), place
            keys = keys[~nan]
        if bounds.known[granule]:
            low, high = bounds.minima[granule], bounds.maxima[granule]
            outside = [key for key in keys.tolist() if not low <= key <= high]
            assert not outside, f"{place}: {outside} are not within {low!r} and {high!r}"


# --- Bloom filters ---


def check_bloom_filters(file, leaf, column):
    """No present value is excluded; each is probed separately."""
    chunks = [group.columns[leaf.ordinal].meta_data for group in file.footer.metadata.row_groups]
    if not any(meta is not None and meta.bloom_filter_offset for meta in chunks):
        return
    edges = file.footer.row_group_starts.tolist()
    kind = comparison_type(column.type)
    for start, stop in itertools.pairwise(edges):
        for value in distinct(column[start:stop]):
            predicate = BoundCompare(leaf.path, kind, "=", value)
            scope = RowSelection.union_of(np.array([start]), np.array([stop]))
            filters = BloomFilters(file)
            reach = filters.reach(predicate)
            if reach is None:
                continue
            here = np.asarray(edges[:-1]) == start
            (verdict,) = filters.evaluate({predicate: reach & here}, _EverythingAtStake(len(here)))
            kept = verdict.possible
            message = (
                f"the Bloom filter of {leaf.name}, rows {start} to {stop}, excludes {exact(value, kind)!r}"
            )
            assert kept is None or (kept & scope).num_rows == stop - start, message


class _EverythingAtStake:
    def __init__(self, row_groups):
        self._row_groups = row_groups

    def num_bytes(self):
        return np.full(self._row_groups, 1 << 62)


def distinct(column):
    """The distinct values without nulls and NaN, and with one zero, like literals."""
    plain = comparison_type(column.type)
    found = {}
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    column = column.cast(plain) if column.type != plain else column
    for value in column.unique() if len(column) > MANY_ROWS else column:
        key = exact(value, plain)
        if key is None or (isinstance(key, float) and math.isnan(key)):
            continue
        is_zero = key == 0 and pa.types.is_floating(plain)
        found.setdefault(key, pa.scalar(0.0, plain) if is_zero else value)
    return list(found.values())


def exact(value, kind):
    return oracle.exact_values(pa.array([value], kind))[0]


# --- answers ---


def check_answers(path, name, column):
    """COUNT, MIN, MAX, IS NULL, and some lookups."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ia.IntarsiaWarning)
        table = ia.open(path)
        values = [value for value in oracle.exact_values(column) if value is not None]
        found = table.aggregate({"*": ["count"], name: ["count", "min", "max"]})
        assert found["*"]["count"] == len(column)
        assert found[name]["count"] == len(values), name
        expect_extremes(name, found[name], values, column.type)
        assert table.count(f"{quoted(name)} IS NULL") == len(column) - len(values), name
        for value in spread(distinct(column)):
            wanted = exact(value, value.type)
            count = sum(other == wanted for other in values)
            assert table.count([(name, "=", value)]) == count, f"{name} = {wanted!r}"
            below = sum(other < wanted for other in values)
            assert table.count([(name, "<", value)]) == below, f"{name} < {wanted!r}"


def spread(values):
    step = max(1, len(values) // LOOKUPS)
    return values[::step][:LOOKUPS]


def quoted(name):
    return ".".join(f'"{part}"' for part in name.split("."))


def expect_extremes(name, found, values, kind):
    numbers = [v for v in values if not (isinstance(v, float) and math.isnan(v))]
    if not values:
        assert (found["min"], found["max"]) == (None, None), name
        return
    for function, extreme in (("min", min), ("max", max)):
        answer = found[function]
        if len(numbers) < len(values) and (function == "max" or not numbers):
            assert math.isnan(answer), name
        else:
            assert answer_value(answer, kind) == extreme(numbers), f"{function} of {name}: {answer}"


def answer_value(answer, kind):
    if isinstance(answer, pa.Scalar):
        return exact(answer, answer.type)
    if isinstance(kind, pa.DictionaryType):
        kind = kind.value_type
    if isinstance(kind, pa.UuidType):
        return answer.bytes
    return exact(answer, comparison_type(kind))
