"""Look up the class of an index kind, built in or registered by a package, and construct attached indexes.

A package registers a kind by an entry point of the same name in the group ``intarsia.indexes``. A class is
imported when a file or a caller names its kind.
"""

from __future__ import annotations

import json
import pkgutil
import sys
from collections.abc import Callable
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Literal

from intarsia.file import FileMetadata
from intarsia.format.blob import DATAFUSION_KEY
from intarsia.format.directory import KEY, Entry
from intarsia.indexes.base import Index
from intarsia.predicate.bound import Path
from intarsia.records import dataclass

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


#: Number of index objects that are kept.
_REMEMBERED = 256


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


def find_index_class(kind: str) -> type[Index] | None:
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


def _load(kind: str) -> type[Index] | str:
    """Return the class of a kind, or why it cannot be found."""
    if kind in _BUILT_IN:
        return _load_built_in(_BUILT_IN[kind])
    if kind not in _registered():
        return f"no installed package has indexes of kind {kind!r}"
    return _load_registered(_registered()[kind])


_load_built_in: Callable[[str], type[Index]] = cache(pkgutil.resolve_name)


@cache
def _load_registered(entry: EntryPoint) -> type[Index] | str:
    registered = f"indexes of kind {entry.name!r} are registered by {entry.value!r}, which "
    try:
        loaded = entry.load()
    except Exception as error:  # noqa: BLE001  a broken package must not prevent a file from being read
        return f"{registered}cannot be imported: {type(error).__name__}: {error}"
    if not isinstance(loaded, type):
        return f"{registered}is not a class"
    if not issubclass(loaded, Index):
        return f"{registered}does not derive from intarsia.indexes.Index"
    if getattr(loaded, "kind", None) != entry.name or not isinstance(getattr(loaded, "version", None), int):
        return f"{registered}has the kind {getattr(loaded, 'kind', None)!r}, or has no version"
    return loaded


@dataclass(frozen=True)
class FoundIndex:
    """The attached index object, or why it cannot be constructed.

    Attributes:
        index: The object, with the class of the entry's kind and the entry's parameters, or None.
        fault: Why there is no object: the kind is unknown, a later version wrote the entry, or its parameters
            are not valid.
        reason: The same as a sentence fragment.
    """

    index: Index | None
    fault: Literal["kind-unknown", "newer", "damaged"] | None = None
    reason: str | None = None

    @property
    def code(self) -> str:
        """The fault as a code of `IntarsiaError.reason`."""
        return "unknown-kind" if self.fault == "kind-unknown" else f"{self.fault}-index"


def find_index(entry: Entry) -> FoundIndex:
    """Construct the attached index object from its entry."""
    cls = find_index_class(entry.kind)
    if cls is None:
        return FoundIndex(None, "kind-unknown", why_unknown(entry.kind))
    if entry.kind_version > cls.version:
        detail = f"it has version {entry.kind_version}, and the latest known version is {cls.version}"
        return FoundIndex(None, "newer", detail)
    # the files of a lake have the same indexes; classes of other packages may fail at any time
    construct = _constructed if entry.kind in _BUILT_IN else _constructed.__wrapped__
    return construct(cls, entry.parameters_json, entry.column_names, entry.granularity)


@lru_cache(maxsize=_REMEMBERED)
def _constructed(
    cls: type[Index], parameters: str, columns: tuple[str, ...], granularity: str | int
) -> FoundIndex:
    try:
        index = cls(**json.loads(parameters))
        names = tuple(index.columns)
        found = getattr(index, "granularity", granularity)
    except Exception as error:  # noqa: BLE001 - the class may come from any package
        return FoundIndex(None, "damaged", f"its parameters are not valid for its kind: {error}")
    if names != columns or found != granularity:
        return FoundIndex(None, "damaged", "its parameters name other columns or granules than the directory")
    return FoundIndex(index)


def may_index(metadata: FileMetadata, paths: frozenset[Path]) -> bool:
    """Return whether a file may have embedded indexes of some columns, without parsing its directory."""
    keys = metadata.footer.key_values
    raw = keys.get(KEY, b"")
    if DATAFUSION_KEY in keys or b"\\" in raw or not raw.isascii():  # the names may be escaped
        return True
    return any(name in raw for name in _quoted_names(paths))


def has_indexes(metadata: FileMetadata) -> bool:
    """Return whether a file may have embedded indexes, without parsing its directory."""
    return may_index(metadata, frozenset({("columns",)}))  # a field of each entry


@lru_cache(maxsize=_REMEMBERED)
def _quoted_names(paths: frozenset[Path]) -> list[bytes]:
    return [json.dumps(path[-1]).encode() for path in paths]
