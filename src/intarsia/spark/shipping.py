"""The form in which indexes are sent to executors."""

from __future__ import annotations

import json
from typing import TypeAlias

from intarsia.embed import Bloom, PageIndex, Statistics
from intarsia.embed.attach import STANDARD, Attachable
from intarsia.errors import IndexBuildError
from intarsia.indexes.base import parameters
from intarsia.indexes.registry import GROUP, find_index_class, why_unknown

#: An index in the form that is sent to executors: kind and JSON parameters, or a standard structure as it is.
Shipped: TypeAlias = "tuple[str, str] | PageIndex | Statistics | Bloom"


def pack_index(index: Attachable) -> Shipped:
    """Return an index in the form that is sent to the executors.

    The class may belong to a third-party package. So only kind and parameters are sent, as they are stored
    in a file, and each executor finds the class in its own packages, like later readers of the files.

    Raises:
        IndexBuildError: No installed package announces the class.
    """
    if isinstance(index, STANDARD):
        return index
    found = find_index_class(index.kind)
    if found is not type(index):
        cls = type(index)
        raise IndexBuildError(
            f"{index!r} cannot be sent to Spark's executors: no installed package declares its class; "
            f'declare {index.kind} = "{cls.__module__}:{cls.__qualname__}" in the entry-point group '
            f"{GROUP!r}, and install the package here and on the executors",
            reason="unregistered-kind",
        )
    return index.kind, json.dumps(parameters(index))


def unpack_index(shipped: Shipped) -> Attachable:
    """Restore an index from the result of `pack_index`, on an executor.

    Raises:
        IndexBuildError: No package on the executor has the kind.
    """
    if not isinstance(shipped, tuple):
        return shipped
    kind, stored = shipped
    cls = find_index_class(kind)
    if cls is None:
        raise IndexBuildError(
            f"on Spark's executors, {why_unknown(kind)}; install it there, too", reason="unregistered-kind"
        )
    index: Attachable = cls(**json.loads(stored))
    return index
