"""Index kinds and their classes: the built-in ones, and those that packages announce.

A package announces a kind by an entry point in the group ``intarsia.indexes``, named as the kind.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from intarsia.errors import IndexBuildError, near_matches
from intarsia.indexes.distinct import Distinct
from intarsia.indexes.histogram import Histogram
from intarsia.indexes.rowmap import RowMap
from intarsia.indexes.zonemap import ZoneMap

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

#: Entry-point group in which packages announce their index classes.
GROUP = "intarsia.indexes"

_BUILT_IN: dict[str, type[Any]] = {cls.kind: cls for cls in (Distinct, Histogram, RowMap, ZoneMap)}


@cache
def _announced() -> dict[str, EntryPoint]:
    from importlib import metadata  # slow to import, and seldom needed

    return {entry.name: entry for entry in metadata.entry_points(group=GROUP)}


def find_index_class(kind: str) -> type[Any] | None:
    """The class of an index kind; None if no installed package knows it.

    Example:
        >>> find_index_class("distinct").__name__
        'Distinct'
    """
    if kind in _BUILT_IN:
        return _BUILT_IN[kind]
    entry = _announced().get(kind)
    return None if entry is None else entry.load()


def index_class(kind: str) -> type[Any]:
    """The class of an index kind.

    Raises:
        IndexBuildError: If no installed package knows the kind; near matches are named.
    """
    found = find_index_class(kind)
    if found is None:
        known = sorted({*_BUILT_IN, *_announced()})
        near = near_matches(kind, known)
        hint = f"did you mean {near[0]!r}?" if near else f"known here: {', '.join(known)}"
        raise IndexBuildError(f"no index of kind {kind!r} is installed; {hint}")
    return found
