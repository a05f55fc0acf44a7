"""The indexes that could skip rows for a condition or by the shape of a column, and their options."""

from __future__ import annotations

import dataclasses
import json
import keyword
import re
import shlex
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from intarsia.advice.report import ColumnShape
from intarsia.embed import Bloom, PageIndex, Statistics
from intarsia.embed.column_data import FileColumns
from intarsia.embed.structures import STANDARD, Attachable
from intarsia.errors import IntarsiaError
from intarsia.file import ParquetInput
from intarsia.file.schema import FileSchema
from intarsia.indexes.base import Index, defines, prunes
from intarsia.indexes.bloom_granule import BloomGranule
from intarsia.indexes.distinct import Distinct
from intarsia.indexes.ngram import Ngram
from intarsia.indexes.registry import find_index_class, known_kinds
from intarsia.indexes.rowmap import RowMap
from intarsia.indexes.zonemap import ZoneMap
from intarsia.predicate import Condition
from intarsia.predicate.bound import BoundFunction, is_lookup, on_values
from intarsia.predicate.nodes import dotted

#: Built-in indexes of one column. Of those of one kind, the first that can evaluate a condition is built.
_BUILT_IN: tuple[tuple[str, Callable[[str], Index]], ...] = (
    ("zone_map", ZoneMap),
    ("distinct", Distinct),
    ("ngram", Ngram),
    ("ngram", partial(Ngram, ignore_case=True)),
    ("bloom_granule", BloomGranule),
    ("row_map", RowMap),
)

#: Names that an option accepts without quotes.
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")


def filtered_leaf(condition: Condition, schema: FileSchema) -> str | None:
    """Return the leaf in a list or map whose Bloom filter could skip rows; None for other conditions."""
    on_value = on_values(condition)
    leaf = None if on_value is condition else schema.leaves_of_values.get(on_value.path)
    return leaf.name if leaf is not None and is_lookup(on_value) else None


def indexes_for(condition: Condition) -> list[Attachable]:
    """Return the indexes of the column of a condition that could skip rows."""
    column = ".".join(condition.path)
    found: dict[str, Attachable] = {}
    others = [kind for kind in known_kinds() if kind not in dict(_BUILT_IN)]
    makers: list[tuple[str, Callable[[str], Any]]] = [*_BUILT_IN]
    makers += [(kind, cls) for kind in others if (cls := find_index_class(kind)) is not None]
    for kind, make in makers:
        if kind in found:
            continue
        try:
            index = make(column)
        except (IntarsiaError, TypeError, ValueError):  # its parameters are not a column
            continue
        if isinstance(index, Index) and _can_prune(index, condition):
            found[kind] = index
    standard: list[Attachable] = [Bloom(column)] if is_lookup(condition) else []
    return [*standard, *found.values()]


def _can_prune(index: Index, condition: Condition) -> bool:
    # a kind that does not say what it prunes is not tried
    return (isinstance(condition, BoundFunction) or defines(index, "can_prune")) and prunes(index, condition)


def name_of(index: Attachable) -> str:
    """Return the name of an index in reports, such as ``"row_map(user)"``.

    Example:
        >>> name_of(Bloom("user")), name_of(RowMap("user")), name_of(PageIndex())
        ('bloom(user)', 'row_map(user)', 'page_index')
    """
    if isinstance(index, STANDARD):
        return index.name
    more = "".join(f", {name}={value!r}" for name, value in _parameters(index).items())
    return f"{index.kind}({', '.join(index.columns)}{more})"


def options_of(index: Attachable) -> list[str]:
    """Return an index as options of ``intarsia index``.

    Example:
        >>> options_of(PageIndex()), options_of(Bloom("user")), options_of(RowMap("my column"))
        (['--page-index'], ['--bloom', 'user'], ['--add', "row_map('my column')"])
        >>> options_of(Ngram("note", ignore_case=True))
        ['--add', 'ngram(note, ignore_case=True)']
    """
    if isinstance(index, (PageIndex, Statistics)):
        return [f"--{index.kind.replace('_', '-')}"]
    column = column_of(index) or ""
    is_plain = _PLAIN_NAME.fullmatch(column) is not None
    if isinstance(index, (Bloom, Distinct)) and is_plain:
        return [f"--{index.kind}", column]
    more = [f"{name}={value!r}" for name, value in _parameters(index).items()]
    is_name = all(part and not keyword.iskeyword(part) for part in column.split("."))
    shown = column if is_plain and is_name else repr(column)
    return ["--add", f"{index.kind}({', '.join([shown, *more])})"]


def _parameters(index: Any) -> dict[str, Any]:
    """Return the parameters that differ from their defaults, without the column."""
    return {
        field.name: value
        for field in dataclasses.fields(index)
        if field.name != "column" and (value := getattr(index, field.name)) != field.default
    }


def column_of(index: Attachable) -> str | None:
    """Return the column of an index, dotted; None if it has none."""
    return dotted(index.columns[0]) if index.columns else None


def command_of(paths: Sequence[str], indexes: Iterable[Attachable], *, lake_index: bool) -> str | None:
    """Return the command that adds indexes.

    Args:
        paths: The files of the table, as passed to ``intarsia``.
        indexes: The indexes; may be empty.
        lake_index: Whether to build the lake index.

    Returns:
        The command as text for a shell; None if there is nothing to do.

    Example:
        >>> command_of(["my lake/"], [PageIndex(), Bloom("user")], lake_index=True)
        "intarsia index 'my lake/' --page-index --bloom user --lake-index cache"
        >>> command_of(["lake/"], [], lake_index=True)
        'intarsia lake-index lake/'
    """
    options = [option for index in indexes for option in options_of(index)]
    if not options:
        return shlex.join(["intarsia", "lake-index", *paths]) if lake_index else None
    return shlex.join(
        ["intarsia", "index", *paths, *options, *(["--lake-index", "cache"] if lake_index else [])]
    )


def literal(value: object) -> str:
    """Return a value as Python; texts are in double quotes, because shells take the code in single ones.

    Example:
        >>> literal("a b"), literal(3), literal(["a", "b"])
        ('"a b"', '3', '["a", "b"]')
    """
    if isinstance(value, (list, tuple)):
        items = ", ".join(map(literal, value))
        return f"[{items}]" if isinstance(value, list) else f"({items},)"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


def python_of(index: Any) -> tuple[str, str]:
    """Return an index as Python: the import that it needs, empty for a class of `intarsia`, and the call.

    Example:
        >>> python_of(Ngram("note", ignore_case=True))
        ('', 'ia.Ngram("note", ignore_case=True)')
    """
    name, module = type(index).__name__, type(index).__module__
    arguments = [literal(index.column)] if hasattr(index, "column") else []
    arguments += [f"{parameter}={literal(value)}" for parameter, value in _parameters(index).items()]
    call = f"{name}({', '.join(arguments)})"
    return ("", f"ia.{call}") if module.startswith("intarsia.") else (f"from {module} import {name}", call)


# --- shapes of columns --------------------------------------------------------------------------------

#: A column with at most this many distinct values in the sample has few of them, if each repeats.
FEW_VALUES = 1_000
REPEATED = 10

#: A column is sorted if this share of adjacent, different values is in order, and this share of a few values
#: that are far apart. A time that restarts each day is not sorted: its bounds contain the whole day.
SORTED_PART = 0.95
SORTED_FAR_PART = 0.75
FAR_VALUES = 64

#: Values are clustered if pieces of this many rows have at most this part of the distinct values on average.
PIECE_ROWS = 1_000
CLUSTERED_PART = 0.5

#: A column is unique if this part of its values are distinct.
UNIQUE_PART = 0.95


def shapes_of(file: ParquetInput) -> list[ColumnShape]:
    """Return the shape of each leaf column of a file."""
    columns = FileColumns(file)
    return [
        _shape(columns, leaf.name) if leaf.is_flat else ColumnShape(leaf.name, "nested")
        for leaf in file.footer.leaves
    ]


def _shape(columns: FileColumns, column: str) -> ColumnShape:
    if columns.layout.num_rows == 0:
        return ColumnShape(column, "no-rows")
    try:
        values = pa.chunked_array([piece for _, piece in columns.batches(column)])
        present = values.drop_null()
        distinct = pc.count_distinct(present).as_py() if len(present) else 0
        code = _code(present, distinct)
    except (IntarsiaError, pa.ArrowException):
        return ColumnShape(column, "not-comparable")
    return ColumnShape(column, code, len(values), values.null_count, distinct)


def _code(present: pa.ChunkedArray, distinct: int) -> str:
    if distinct == 0:
        return "all-null"
    if distinct == 1:
        return "constant"
    one = pa.concat_arrays(present.chunks)
    values = one.cast(one.type.value_type) if pa.types.is_dictionary(one.type) else one
    if _ordered_part(values) >= SORTED_PART and _ordered_part(_far_values(values), 1) >= SORTED_FAR_PART:
        return "sorted"
    if distinct <= FEW_VALUES and len(values) >= REPEATED * distinct:
        starts = range(0, len(values), max(PIECE_ROWS, len(values) // 64))
        pieces = [pc.count_distinct(values[start : start + PIECE_ROWS]).as_py() for start in starts]
        is_clustered = sum(pieces) / len(pieces) <= CLUSTERED_PART * distinct
        return "clustered" if is_clustered else "few-values"
    return "unique" if distinct >= UNIQUE_PART * len(values) else "scattered"


def _far_values(values: pa.Array) -> pa.Array:
    """Return a few values in order, from random positions, because values may repeat at any fixed step."""
    positions = np.random.default_rng(0).integers(0, len(values), FAR_VALUES)
    return values.take(pa.array(np.sort(positions)))


def _ordered_part(values: pa.Array, if_equal: float = 0) -> float:
    """Return the share of adjacent, different values that are in order; the better of both directions."""
    up = pc.sum(pc.less(values[:-1], values[1:])).as_py() or 0
    down = pc.sum(pc.greater(values[:-1], values[1:])).as_py() or 0
    return max(up, down) / (up + down) if up + down else if_equal
