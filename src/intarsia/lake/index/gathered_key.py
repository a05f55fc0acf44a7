"""The key of a gathered structure: the kind, columns and parameters that its payloads have in common."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from intarsia.format.directory import Entry
from intarsia.indexes.embedded import find_index
from intarsia.indexes.gathering import Gathers


class GatheredKey(NamedTuple):
    """The kind, columns and parameters that the payloads of one structure have in common.

    Attributes:
        kind: The kind of the index.
        kind_version: The version of the class that built the payload.
        name: The name in reports.
        columns: The indexed columns.
        granularity: The granularity of the payload.
        parameters: The fields of the index object, as JSON.
    """

    kind: str
    kind_version: int
    name: str
    columns: tuple[tuple[str, ...], ...]
    granularity: str | int
    parameters: str


def index_of(key: GatheredKey) -> Gathers | None:
    """Construct the index object of a key; None if its kind is unknown or does not gather."""
    entry = Entry(
        key.name,
        key.kind,
        key.kind_version,
        key.columns,
        key.granularity,
        json.loads(key.parameters),
        0,
        0,
        "0" * 16,
    )
    found = find_index(entry).index
    return found if isinstance(found, Gathers) else None


def key_of(entry: Mapping[str, Any]) -> GatheredKey | None:
    """Return the key in the description of a structure; None if fields are missing or of other types."""
    fields: list[Any] = [entry.get(name) for name in GatheredKey._fields]
    types: list[Any] = [str, int, str, list, (str, int), dict]
    if not all(isinstance(value, type_) for value, type_ in zip(fields, types, strict=True)):
        return None
    kind, version, name, columns, granularity, parameters = fields
    paths = tuple(map(tuple, columns))
    return GatheredKey(kind, version, name, paths, granularity, json.dumps(parameters, sort_keys=True))
