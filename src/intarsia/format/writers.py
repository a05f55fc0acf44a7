"""Which writers' bounds and page indexes are not to be believed, by ``created_by``.

Every entry names what was seen in files of that writer.  Doubt costs speed, belief can cost rows.
"""

from __future__ import annotations

import re

from intarsia.format.footer import Leaf
from intarsia.format.structs import Type

_VERSION = re.compile(r"^(?P<name>[\w./\-]+)(?: version (?P<version>\d+(?:\.\d+)*))?")

_BYTES = (Type.BYTE_ARRAY, Type.FIXED_LEN_BYTE_ARRAY)


def parse_writer(created_by: str) -> tuple[str, tuple[int, ...]]:
    """Name and version of a writer; the version is empty where there is none.

    Example:
        >>> parse_writer("parquet-mr version 1.9.0 (build 38262e2)")
        ('parquet-mr', (1, 9, 0))
        >>> parse_writer("github.com/segmentio/parquet-go(build )")
        ('github.com/segmentio/parquet-go', ())
        >>> parse_writer("xitongsys/parquet-go version 1.5")
        ('xitongsys/parquet-go', (1, 5))
    """
    text = created_by.strip().lower()
    if text.startswith("github.com/"):
        return re.split(r"[\s(]", text, maxsplit=1)[0], ()
    found = _VERSION.match(text)
    if found is None:
        return text, ()
    version = found["version"]
    return found["name"], tuple(int(part) for part in version.split(".")) if version else ()


def distrusts_statistics(created_by: str, leaf: Leaf) -> str | None:
    """Why ``min_value`` and ``max_value`` of this leaf are not believed; None if they are."""
    name, version = parse_writer(created_by)
    if leaf.type in _BYTES:
        if name == "parquet-mr" and version < (1, 8, 0):
            return "parquet-mr before 1.8.0 wrote wrong bounds of binary columns (PARQUET-251)"
        if "parquet-go" in name:
            return f"{name} cuts the upper bounds of binary columns without raising them"
    return None


def trusts_page_headers(created_by: str, leaf: Leaf) -> bool:
    """Whether statistics in the page headers of a leaf are what the writer makes its page indexes of.

    Arrow C++ has made both of the same numbers since it has page indexes (13.0); checked with 13.0, 17.0,
    22.0, 23.0 and 26.0.
    """
    name, version = parse_writer(created_by)
    is_flat = len(leaf.path) == 1 and leaf.max_repetition_level == 0
    return (
        name == "parquet-cpp-arrow" and version >= (13,) and is_flat and leaf.type in (Type.INT32, Type.INT64)
    )


def distrusts_deprecated_statistics(leaf: Leaf) -> str | None:
    """Why the deprecated ``min`` and ``max`` of this leaf are not believed; None if they are.

    They compare as signed numbers, whatever the type and the writer, so only signed numbers can use them.
    """
    if leaf.type in _BYTES or leaf.type in (Type.INT96, Type.BOOLEAN):
        return "deprecated bounds compare bytes as signed"
    integer = leaf.logical.INTEGER if leaf.logical else None
    if integer is not None and not integer.isSigned:
        return "deprecated bounds compare unsigned numbers as signed"
    return None


def distrusts_null_counts(created_by: str, leaf: Leaf) -> str | None:
    """Why no count of nulls of this leaf is believed, nor that its bounds are values; None if they are."""
    name, _ = parse_writer(created_by)
    if name == "parquet-cpp-arrow" and leaf.type == Type.BYTE_ARRAY and len(leaf.path) > 1:
        return f"{name} counts what a dictionary holds below a null struct as values (seen in 26.0)"
    return None


def distrusts_exact_bounds(created_by: str, leaf: Leaf) -> str | None:
    """Why bounds that are said to be values need not be, where a chunk has a dictionary and nulls.

    None if they are.  They do enclose the values.
    """
    name, _ = parse_writer(created_by)
    if name == "parquet-cpp-arrow" and leaf.type == Type.BYTE_ARRAY:
        return f"{name} takes a null for one more value that occurs of an Arrow dictionary (seen in 26.0)"
    return None


def distrusts_page_index(created_by: str, leaf: Leaf) -> str | None:
    """Why the page index of this leaf is not believed at all; None if it is."""
    name, _ = parse_writer(created_by)
    if "parquet-go" in name:
        return f"{name} wrote page sizes without headers, counted values as rows, or cut upper bounds"
    if not leaf.is_flat and "hyparquet" in name:
        return f"{name} wrote pages that start within a row"
    return None
