"""Index kinds and their classes: the built-in ones, and those that packages announce.

A package announces a kind by an entry point in the group ``intarsia.indexes``, named as the kind.  A class is
imported when a file or a caller names its kind.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

#: Entry-point group in which packages announce their index classes.
GROUP = "intarsia.indexes"

#: The built-in kinds, and where their classes are.
_BUILT_IN = {
    "bloom_granule": "intarsia.indexes.bloom_granule:BloomGranule",
    "distinct": "intarsia.indexes.distinct:Distinct",
    "histogram": "intarsia.indexes.histogram:Histogram",
    "hll": "intarsia.indexes.hll:Hll",
    "ngram": "intarsia.indexes.ngram:Ngram",
    "row_map": "intarsia.indexes.rowmap:RowMap",
    "sample": "intarsia.indexes.sample:Sample",
    "zone_map": "intarsia.indexes.zonemap:ZoneMap",
}


@cache
def _announced() -> dict[str, EntryPoint]:
    from importlib import metadata  # slow to import, and seldom needed

    return {entry.name: entry for entry in metadata.entry_points(group=GROUP)}


def known_kinds() -> tuple[str, ...]:
    """The kinds that are built in or announced, in alphabetical order.

    Example:
        >>> "distinct" in known_kinds()
        True
    """
    return tuple(sorted({*_BUILT_IN, *_announced()}))


def find_index_class(kind: str) -> type[Any] | None:
    """The class of an index kind; None if no installed package knows it, or the one that does is broken.

    Example:
        >>> find_index_class("distinct").__name__
        'Distinct'
    """
    found = _load(kind)
    return found if isinstance(found, type) else None


def why_unknown(kind: str) -> str:
    """Why there is no class of an index kind, in words.

    Example:
        >>> why_unknown("nonesuch")
        "no installed package knows indexes of kind 'nonesuch'"
    """
    found = _load(kind)
    return found if isinstance(found, str) else f"the class of kind {kind!r} is {found.__qualname__}"


def _load(kind: str) -> type[Any] | str:
    """The class of a kind, or why there is none."""
    if kind in _BUILT_IN:
        module, _, name = _BUILT_IN[kind].partition(":")
        built_in: type[Any] = getattr(import_module(module), name)
        return built_in
    if kind not in _announced():
        return f"no installed package knows indexes of kind {kind!r}"
    return _load_announced(_announced()[kind])


@cache
def _load_announced(entry: EntryPoint) -> type[Any] | str:
    whose = f"indexes of kind {entry.name!r} are announced by {entry.value!r}, which "
    try:
        found = entry.load()
    except Exception as error:  # noqa: BLE001  another's package must not keep a file from being read
        return f"{whose}cannot be imported: {type(error).__name__}: {error}"
    if not isinstance(found, type):
        return f"{whose}is no class"
    if getattr(found, "kind", None) != entry.name or not isinstance(getattr(found, "version", None), int):
        return f"{whose}has the kind {getattr(found, 'kind', None)!r}, or no version"
    return found
