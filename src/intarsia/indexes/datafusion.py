"""Distinct values of a text column in the form of DataFusion's example, for the file as a whole.

See `intarsia.format.datafusion` for the bytes.  The form cannot tell a value with a newline from two values,
nor say whether there are nulls, and has neither checksum nor fingerprint.  What `Distinct` writes has no
value with a newline, and is protected by its entry in the directory.  What another writer wrote is used only
where the user names the column; that the block is about this column, and about all rows that are in the
file now, is then the user's word.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from intarsia.arrow.comparison import compares_alike
from intarsia.errors import IndexBuildError, IndexPayloadError
from intarsia.file import ParquetInput
from intarsia.format.blob import BLOB_HEADER_BYTES
from intarsia.format.datafusion import (
    HEADER_BYTES,
    KEY,
    parse_block,
    parse_header,
    parse_lines,
    parse_offset,
    serialize_block,
)
from intarsia.format.directory import KEY as DIRECTORY_KEY
from intarsia.indexes.base import Layout
from intarsia.predicate.bound import (
    BoundCompare,
    BoundIn,
    BoundMatch,
    BoundNull,
    BoundPrefix,
    Condition,
    Path,
)
from intarsia.predicate.evaluate import condition_mask
from intarsia.predicate.required import fold_case, ignores_case, required_texts
from intarsia.rows.selection import RowSelection

#: What reports call an index of this form that no directory names.
NAME = KEY.decode()

#: Bytes that are read of a block at first: most have no more.
_FIRST_READ_BYTES = 4096


@dataclass(frozen=True)
class OpenLines:
    """The lines of a block.

    Attributes:
        lines: The lines, as strings.
        num_rows: Rows of the file.
        are_values: Whether each is a value; else some may be parts of a value that holds newlines.
    """

    lines: pa.Array
    num_rows: int
    are_values: bool

    def candidate_rows(self, predicate: Condition) -> RowSelection | None:
        """No row, if no value can meet the predicate; else all. None where the form cannot tell."""
        if isinstance(predicate, BoundNull):
            return None
        if not compares_alike(self.lines.type, predicate.type):
            raise IndexPayloadError(f"it is about text, and the column is {predicate.type}")
        may_match = self._meets(predicate) if self.are_values else self._may_meet(predicate)
        if may_match is None:
            return None
        return RowSelection.all(self.num_rows) if may_match else RowSelection.none()

    def _meets(self, predicate: Condition) -> bool:
        return bool(pc.any(condition_mask(predicate, self.lines)).as_py())

    def _may_meet(self, predicate: Condition) -> bool | None:
        """The same where a value with newlines may have come as several lines, of which it consists.

        A text without newline that such a value contains is in one of its lines, and one that it starts with
        is at the start of its first line.
        """
        if isinstance(predicate, BoundIn) and not predicate.negated:
            is_told = not any("\n" in value.as_py() for value in predicate.values)
            return self._meets(predicate) if is_told else None
        if isinstance(predicate, BoundPrefix) and not predicate.negated and b"\n" not in predicate.prefix:
            return self._meets(predicate)
        if isinstance(predicate, BoundMatch):
            return self._may_contain(predicate)
        if isinstance(predicate, BoundCompare):
            text = predicate.value.as_py()
            if predicate.op == "=":
                return None if "\n" in text else self._meets(predicate)
            if predicate.op in ("<", "<="):  # the first line is a prefix of the value, and not greater
                return self._meets(predicate)
            if predicate.op in (">", ">="):  # or equal to the start of the text, which the value goes on from
                return self._meets(predicate) or self._has_prefix_of(text)
        return None

    def _has_prefix_of(self, text: str) -> bool:
        return any(text.startswith(line) for line in self.lines.to_pylist())

    def _may_contain(self, predicate: BoundMatch) -> bool | None:
        texts = [text for text in required_texts(predicate) if "\n" not in text]
        lines = fold_case(self.lines) if ignores_case(predicate) else self.lines
        found = (pc.any(pc.match_substring(lines, text)).as_py() for text in texts)
        return all(found) if texts else None


# --- what Distinct writes --------------------------------------------------------------------------------


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
    return OpenLines(pa.array(parse_block(block), pa.string()), layout.num_rows, are_values=True)


# --- what others write -----------------------------------------------------------------------------------


def open_named(file: ParquetInput, column: Path, most_bytes: int) -> OpenLines | None:
    """Open the block that a file has, if any.

    What cannot be believed is noted in ``file.ignored``.

    Args:
        file: The file.
        column: The column that it is about, as the user says.
        most_bytes: Unless it is smaller than this, it is not worth reading.
    """
    value = file.footer.key_values.get(KEY)
    if value is None:
        return None
    try:
        offset = parse_offset(value, file.footer)
        if _is_embedded(file, offset, column):
            return None
        lines = _read_lines(file, offset, most_bytes)
    except IndexPayloadError as error:
        file.distrust(NAME, str(error))
        return None
    if lines is None:
        return None
    return OpenLines(pa.array(lines, pa.string()), file.footer.num_rows, are_values=len(lines) == 1)


def _is_embedded(file: ParquetInput, offset: int, column: Path) -> bool:
    """Whether the directory has an entry for the block, which is then asked as such, under its checksum.

    Raises:
        IndexPayloadError: If the directory shows that the block is not what the user says.
    """
    found = file.directory
    if found is None:
        if DIRECTORY_KEY in file.footer.key_values:
            raise IndexPayloadError(
                "the Intarsia directory beside it is another file's, so the key may be, too"
            )
        return False
    if offset < found.original_length:
        return False
    for entry in found.entries:
        if entry.inline is None and entry.offset + BLOB_HEADER_BYTES == offset:
            if column not in entry.columns:
                raise IndexPayloadError(f"it is about {', '.join(entry.column_names)}, as the directory says")
            return True
    raise IndexPayloadError(f"byte {offset} lies among other indexes")


def _read_lines(file: ParquetInput, offset: int, most_bytes: int) -> list[str] | None:
    head = file.source.read(offset, min(offset + _FIRST_READ_BYTES, file.footer.start))
    length = parse_header(head, offset, file.footer)
    if length >= most_bytes:
        return None
    rest = file.source.read(offset + len(head), offset + length) if length > len(head) else b""
    return parse_lines((head + rest)[HEADER_BYTES:length])
