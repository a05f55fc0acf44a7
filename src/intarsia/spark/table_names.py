"""The columns of tables of Delta and Iceberg, which may have other names in files, as sessions send them."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from intarsia.lake.definition import ColumnNames, NamedField

#: From this field id on, columns are metadata, such as the path of the file.
_FIRST_RESERVED: Final = 2**31 - 201


def delta_names(table: Mapping[str, Any]) -> ColumnNames:
    """Return the columns that a Delta table has in its files.

    Args:
        table: The ``mode`` of its column mapping, and its ``schema`` in Spark's JSON.

    Example:
        >>> mapping = {"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "col-1"}
        >>> field = {"name": "user", "type": "long", "nullable": True, "metadata": mapping}
        >>> schema = json.dumps({"type": "struct", "fields": [field]})
        >>> [field.name for field in delta_names({"mode": "name", "schema": schema}).fields]
        ['user']
    """
    fields = tuple(map(_mapped, json.loads(table["schema"])["fields"]))
    return ColumnNames(fields, by_id=table["mode"] == "id")


def _mapped(field: Mapping[str, Any]) -> NamedField:
    mapping = field["metadata"]
    name = mapping["delta.columnMapping.physicalName"]
    children = tuple(map(_mapped, _children(field)))
    return NamedField(field["name"], mapping["delta.columnMapping.id"], (name,), children)


def iceberg_names(table: Mapping[str, Any]) -> tuple[ColumnNames, frozenset[str]]:
    """Return the columns that an Iceberg table has in its files, and those of them that have defaults.

    Columns whose values come from the partition are left out: Iceberg does not read them from files.

    Args:
        table: Its ``schema`` and ``name_mapping`` in Iceberg's JSON, and the ids of the columns whose values
            come ``from_partitions``.

    Returns:
        The columns; and the names, in lower case, of those with a default in files without them.

    Example:
        >>> field = {"id": 1, "name": "user", "required": False, "type": "long", "initial-default": 7}
        >>> schema = json.dumps({"type": "struct", "fields": [field]})
        >>> names, filled = iceberg_names({"schema": schema, "name_mapping": None, "from_partitions": []})
        >>> [field.name for field in names.fields], filled
        (['user'], frozenset({'user'}))
    """
    aliases = dict(_aliases(json.loads(table["name_mapping"] or "[]")))
    hidden = set(table["from_partitions"])
    fields = [
        field
        for field in json.loads(table["schema"])["fields"]
        if field["id"] < _FIRST_RESERVED and hidden.isdisjoint(_ids(field))
    ]
    filled = frozenset(field["name"].lower() for field in fields if _has_default(field))
    return ColumnNames(tuple(_named(field, aliases) for field in fields), by_id=True), filled


def _children(field: Mapping[str, Any]) -> Collection[Mapping[str, Any]]:
    """Return the fields of a struct; those in lists and maps are not conditions of a column."""
    data_type = field["type"]
    is_struct = isinstance(data_type, dict) and data_type["type"] == "struct"
    return data_type["fields"] if is_struct else ()


def _named(field: Mapping[str, Any], aliases: Mapping[int, tuple[str, ...]]) -> NamedField:
    children = tuple(_named(child, aliases) for child in _children(field))
    return NamedField(field["name"], field["id"], aliases.get(field["id"], ()), children)


def _ids(field: Mapping[str, Any]) -> Iterator[int]:
    yield field["id"]
    for child in _children(field):
        yield from _ids(child)


def _has_default(field: Mapping[str, Any]) -> bool:
    return field.get("initial-default") is not None or any(map(_has_default, _children(field)))


def _aliases(mapping: Collection[Mapping[str, Any]]) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Yield the ids of a name mapping, and the names that the fields have in files without ids."""
    for one in mapping:
        if one.get("field-id") is not None:
            yield one["field-id"], tuple(one["names"])
        yield from _aliases(one.get("fields", ()))
