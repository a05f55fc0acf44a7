"""Look up the class of an index kind, built in or registered by a package.

A package registers a kind by an entry point of the same name in the group ``intarsia.indexes``. A class is
imported when a file or a caller names its kind.
"""

from __future__ import annotations

import sys
from functools import cache, lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

#: The entry-point group in which packages register their index classes.
GROUP = "intarsia.indexes"

#: The built-in kinds and the locations of their classes.
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


def _registered() -> dict[str, EntryPoint]:
    return _entry_points(tuple(sys.path))


@lru_cache(maxsize=1)
def _entry_points(search_path: tuple[str, ...]) -> dict[str, EntryPoint]:  # noqa: ARG001
    """Return the registered kinds. The cache is keyed by ``sys.path``, because it may change."""
    from importlib import metadata  # slow to import and rarely needed

    return {entry.name: entry for entry in metadata.entry_points(group=GROUP)}


def known_kinds() -> tuple[str, ...]:
    """Return the built-in and registered kinds in alphabetical order.

    Example:
        >>> "distinct" in known_kinds()
        True
    """
    return tuple(sorted({*_BUILT_IN, *_registered()}))


def find_index_class(kind: str) -> type[Any] | None:
    """Return the class of an index kind, or None if no installed package has it or its import fails.

    Example:
        >>> find_index_class("distinct").__name__
        'Distinct'
    """
    loaded = _load(kind)
    return loaded if isinstance(loaded, type) else None


def why_unknown(kind: str) -> str:
    """Return why the class of an index kind cannot be found, as a sentence fragment.

    Example:
        >>> why_unknown("nonesuch")
        "no installed package has indexes of kind 'nonesuch'"
    """
    loaded = _load(kind)
    return loaded if isinstance(loaded, str) else f"the class of kind {kind!r} is {loaded.__qualname__}"


def _load(kind: str) -> type[Any] | str:
    """Return the class of a kind, or why it cannot be found."""
    if kind in _BUILT_IN:
        module, _, name = _BUILT_IN[kind].partition(":")
        built_in: type[Any] = getattr(import_module(module), name)
        return built_in
    if kind not in _registered():
        return f"no installed package has indexes of kind {kind!r}"
    return _load_registered(_registered()[kind])


@cache
def _load_registered(entry: EntryPoint) -> type[Any] | str:
    registered = f"indexes of kind {entry.name!r} are registered by {entry.value!r}, which "
    try:
        loaded = entry.load()
    except Exception as error:  # noqa: BLE001  a broken package must not prevent a file from being read
        return f"{registered}cannot be imported: {type(error).__name__}: {error}"
    if not isinstance(loaded, type):
        return f"{registered}is not a class"
    if getattr(loaded, "kind", None) != entry.name or not isinstance(getattr(loaded, "version", None), int):
        return f"{registered}has the kind {getattr(loaded, 'kind', None)!r}, or has no version"
    return loaded
