"""Distinct values of a text column in the form of DataFusion's example, for the file as a whole.

See `intarsia.format.datafusion` for the bytes.  The form cannot tell a value with a newline from two values,
nor say whether there are nulls, of which column it is, or whether it still holds: there is no checksum and no
fingerprint.  What `Distinct` writes has no value with a newline, and is protected by its entry in the
directory.  What another program wrote is used once it was attached: that reads the column and compares.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from intarsia.arrow.comparison import compares_alike
from intarsia.errors import IndexBuildError, IndexPayloadError
from intarsia.file import ParquetInput
from intarsia.format.datafusion import (
    HEADER_BYTES,
    KEY,
    parse_block,
    parse_header,
    parse_lines,
    parse_offset,
    serialize_block,
)
from intarsia.indexes.base import Layout
from intarsia.predicate.bound import BoundNull, Condition
from intarsia.predicate.evaluate import condition_mask
from intarsia.rows.selection import RowSelection


@dataclass(frozen=True)
class OpenLines:
    """The lines of a block.

    Attributes:
        lines: The lines, as strings; each is a value.
        num_rows: Rows of the file.
    """

    lines: pa.Array
    num_rows: int

    def candidate_rows(self, predicate: Condition) -> RowSelection | None:
        """No row, if no value can meet the predicate; else all. None where the form cannot tell."""
        if isinstance(predicate, BoundNull):
            return None
        if not compares_alike(self.lines.type, predicate.type):
            raise IndexPayloadError(f"it is about text, and the column is {predicate.type}")
        matches = np.asarray(condition_mask(predicate, self.lines).to_numpy(zero_copy_only=False), dtype=bool)
        return RowSelection.all(self.num_rows) if matches.any() else RowSelection.none()


def build_block(column: str, values: pa.Array) -> bytes:
    """The block of a column.

    Args:
        column: Its name, for messages.
        values: Its distinct values, ascending; nulls are left out, as in DataFusion's example.

    Raises:
        IndexBuildError: If DataFusion would read other values than these.
    """
    if not pa.types.is_string(values.type):
        raise IndexBuildError(
            f"Distinct: {column!r} is {values.type}, and DataFusion's form holds text only; leave layout out"
        )
    remedy = "leave layout out, which takes every value"
    try:
        texts: list[str] = values.drop_null().to_pylist()
    except UnicodeDecodeError as error:
        raise IndexBuildError(f"Distinct: {column!r} holds text that is no UTF-8; use RowMap") from error
    for text in texts:
        if "\n" in text or text.endswith("\r"):
            raise IndexBuildError(
                f"Distinct: {column!r} holds {text[:40]!r}, and DataFusion's form puts newlines between "
                f"values: one that holds a newline, or ends in a carriage return, would be lost; {remedy}"
            )
    if texts == [""]:
        raise IndexBuildError(
            f"Distinct: the only value of {column!r} is the empty text, which DataFusion's form cannot tell "
            f"from no value; {remedy}"
        )
    return serialize_block(texts)


def open_block(block: bytes, layout: Layout) -> OpenLines:
    """Open what `build_block` made.

    Raises:
        IndexPayloadError: If it is damaged.
    """
    return OpenLines(pa.array(parse_block(block), pa.string()), layout.num_rows)


def difference(block: bytes, file: ParquetInput) -> str | None:
    """What keeps the block of a file, which another program wrote, from saying what ours says.

    Args:
        block: Ours, of the file's values.
        file: The file, whose footer has the key.

    Returns:
        The reason, in words; None if both list the same values, in whatever order.
    """
    try:
        theirs = _read_lines(file)
    except IndexPayloadError as error:
        return str(error)
    missing = set(parse_block(block)) - set(theirs)
    if missing:
        return f"it lacks {min(missing)[:40]!r}: it is about another column, or the file was changed since"
    if len(set(theirs)) > len(set(parse_block(block))):
        return "it lists values that the column does not have: it is about another column, or out of date"
    return None


def _read_lines(file: ParquetInput) -> list[str]:
    offset = parse_offset(file.footer.key_values[KEY], file.footer)
    head = file.source.read(offset, offset + HEADER_BYTES)
    stop = offset + parse_header(head, offset, file.footer)
    return parse_lines(file.source.read(offset + HEADER_BYTES, stop))
