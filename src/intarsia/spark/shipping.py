"""The form in which indexes are sent to executors."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final, TypeAlias

from intarsia.embed.index_text import STANDARD_KINDS, parse_indexes
from intarsia.embed.structures import STANDARD, Attachable
from intarsia.errors import IndexBuildError
from intarsia.indexes.layout import parameters
from intarsia.indexes.registry import GROUP, find_index_class, why_unknown

#: An index in the form that is sent to executors: its kind, and its parameters as JSON.
Shipped: TypeAlias = "tuple[str, str]"


def pack_index(index: Attachable) -> Shipped:
    """Return an index in the form that is sent to the executors.

    The class may belong to a third-party package. So only kind and parameters are sent, as they are stored
    in a file, and each executor finds the class in its own packages, like later readers of the files.

    Raises:
        IndexBuildError: If no installed package registers the class.
    """
    cls = type(index)
    if not isinstance(index, STANDARD) and find_index_class(index.kind) is not cls:
        raise IndexBuildError(
            f"{index!r} cannot be sent to Spark's executors: no installed package registers its class; "
            f'register {index.kind} = "{cls.__module__}:{cls.__qualname__}" in the entry-point group '
            f"{GROUP!r}, and install the package here and on the executors",
            reason="unregistered-kind",
        )
    return index.kind, json.dumps(parameters(index))


def unpack_index(shipped: Shipped) -> Attachable:
    """Restore an index from the result of `pack_index`, on an executor.

    Raises:
        IndexBuildError: If no package on the executor has the kind.
    """
    kind, text = shipped
    values, cls = json.loads(text), STANDARD_KINDS.get(kind) or find_index_class(kind)
    if cls is None:
        raise IndexBuildError(
            f"on Spark's executors, {why_unknown(kind)}; install it there, too", reason="unregistered-kind"
        )
    if kind in STANDARD_KINDS and isinstance(values.get("column"), list):
        values["column"] = tuple(values["column"])
    index: Attachable = cls(**values)
    return index


def indexes_to_text(indexes: Iterable[Attachable]) -> str:
    """Return indexes as one line of JSON, for settings and options.

    Raises:
        IndexBuildError: If no installed package registers the class of an index.

    Example:
        >>> from intarsia.embed import Bloom, PageIndex
        >>> indexes_to_text([PageIndex(), Bloom("user")])
        '[["page_index", {"int96": null}], ["bloom", {"column": "user", "fpp": 0.01}]]'
    """
    return json.dumps([(kind, json.loads(text)) for kind, text in map(pack_index, indexes)])


#: The option of a writer, and of a table, that names the indexes of its files.
INDEXES_OPTION: Final = "intarsia.indexes"


def indexes_from_text(text: str) -> list[Attachable]:
    """Restore the indexes from the result of `indexes_to_text`, or from the text of a person.

    Args:
        text: JSON, or indexes as for `intarsia.embed.index_text.parse_indexes`.

    Raises:
        IndexBuildError: If the text describes no indexes, or a kind is unknown.

    Example:
        >>> indexes_from_text('[["bloom", {"column": ["place", "lat"], "fpp": 0.1}]]')
        [Bloom(column=('place', 'lat'), fpp=0.1)]
        >>> indexes_from_text("page_index, bloom(user)")
        [PageIndex(int96=None), Bloom(column='user', fpp=0.01)]
    """
    if not text.lstrip().startswith("["):
        return parse_indexes(text)
    try:
        pairs = [(kind, dict(values)) for kind, values in json.loads(text)]
        return [unpack_index((kind, json.dumps(values))) for kind, values in pairs]
    except (TypeError, ValueError) as error:
        raise IndexBuildError(
            f"{text[:200]!r} does not describe indexes: {error}; use intarsia.spark.write_options, or text "
            "such as 'page_index, bloom(user)'",
            reason="invalid-indexes",
        ) from error
