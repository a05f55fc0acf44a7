"""The distinct values of a text column, per file, in the format of DataFusion's example.

`intarsia.format.blob` has the bytes. The format does not distinguish a value with a newline from two
values. It does not contain the column or whether there are nulls, and has no checksum and no fingerprint.
`Distinct` therefore rejects values with a newline, and its entry in the directory protects the payload. A
block that another program wrote is used only once it is attached, which compares it with the column.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from intarsia.arrow.comparison import compares_alike
from intarsia.errors import IndexBuildError, IndexPayloadError
from intarsia.file import ParquetInput
from intarsia.format.blob import (
    DATAFUSION_HEADER_BYTES,
    DATAFUSION_KEY,
    parse_block,
    parse_header,
    parse_lines,
    parse_offset,
    serialize_block,
)
from intarsia.indexes.base import OpenIndex
from intarsia.indexes.layout import Layout
from intarsia.predicate.bound import BoundNull, Condition
from intarsia.predicate.evaluate import condition_mask
from intarsia.rows.selection import RowSelection


@dataclass(frozen=True)
class OpenLines(OpenIndex):
    """The lines of a block.

    Attributes:
        lines: The lines as strings, one per value.
        num_rows: The number of rows in the file.
    """

    lines: pa.Array
    num_rows: int

    def candidate_rows(self, condition: Condition) -> RowSelection | None:
        """Return no row if no value matches the condition, else all rows. None if it is on nulls."""
        if isinstance(condition, BoundNull):
            return None
        if not compares_alike(self.lines.type, condition.type):
            raise IndexPayloadError(
                f"it contains text, and the column is {condition.type}", reason="type-mismatch"
            )
        has_match = condition_mask(condition, self.lines).true_count > 0
        return RowSelection.all(self.num_rows) if has_match else RowSelection.none()


def build_block(column: str, values: pa.Array) -> bytes:
    """Build the block of a column.

    Args:
        column: The name of the column, for messages.
        values: Its distinct values, ascending. Nulls are dropped, as in DataFusion's example.

    Raises:
        IndexBuildError: If DataFusion would read different values.
    """
    if not pa.types.is_string(values.type):
        raise IndexBuildError(
            f"Distinct: {column!r} is {values.type}, but DataFusion's form only supports text; omit form",
            reason="not-a-string-column",
            column=column,
        )
    try:
        texts: list[str] = values.drop_null().to_pylist()
    except UnicodeDecodeError as error:
        raise IndexBuildError(
            f"Distinct: {column!r} contains text that is not UTF-8; use RowMap",
            reason="not-utf8",
            column=column,
        ) from error
    for text in texts:
        if "\n" in text or text.endswith("\r"):
            raise IndexBuildError(
                f"Distinct: {column!r} contains {text[:40]!r}, and DataFusion's form cannot store values "
                "that contain a newline or end in a carriage return; omit form",
                reason="value-with-newline",
                column=column,
            )
    if texts == [""]:
        raise IndexBuildError(
            f"Distinct: the only value of {column!r} is the empty text, which DataFusion's form cannot "
            "distinguish from no value; omit form",
            reason="only-empty-text",
            column=column,
        )
    return serialize_block(texts)


def open_block(block: bytes, layout: Layout) -> OpenLines:
    """Open a block from `build_block`.

    Raises:
        IndexPayloadError: If the block is damaged.
    """
    return OpenLines(pa.array(parse_block(block), pa.string()), layout.num_rows)


def difference(block: bytes, file: ParquetInput) -> str | None:
    """Compare a block with the one that another program wrote to the file.

    Args:
        block: The block built from the file's values.
        file: The file, whose footer has the key.

    Returns:
        How they differ, as a sentence fragment. None if both list the same values, in any order.
    """
    try:
        theirs = _read_lines(file)
    except IndexPayloadError as error:
        return str(error)
    missing = set(parse_block(block)) - set(theirs)
    if missing:
        return f"it lacks {min(missing)[:40]!r}, so it belongs to another column or is out of date"
    if len(set(theirs)) > len(set(parse_block(block))):
        return "it lists values that the column lacks, so it belongs to another column or is out of date"
    return None


def _read_lines(file: ParquetInput) -> list[str]:
    offset = parse_offset(file.footer.key_values[DATAFUSION_KEY], file.footer)
    head = file.source.read(offset, offset + DATAFUSION_HEADER_BYTES)
    stop = offset + parse_header(head, offset, file.footer)
    return parse_lines(file.source.read(offset + DATAFUSION_HEADER_BYTES, stop))
