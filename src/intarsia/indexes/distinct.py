"""The distinct values of a column, and the granules of each value.

The payload (see `intarsia.indexes.granules`) has one row per value::

    value     the column's plain type   distinct values in ascending order, then null if any row is null
    granules  list<uint32>              ordinals of the granules that contain the value, ascending

The granules with more values than the limit are unlisted and cannot be skipped.

If ``form`` is ``"datafusion"``, the payload is a block of `intarsia.format.blob`, in the format of
DataFusion's example. The format does not distinguish a value with a newline from two values. It does not
contain the column or whether there are nulls, and has no checksum and no fingerprint. `Distinct` therefore
rejects values with a newline, and its entry in the directory protects the payload. A block that another
program wrote is used only once it is attached, which compares it with the column.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from intarsia.arrow.comparison import compares_alike, comparison_array, flags_of, sortable_type
from intarsia.errors import CorruptFileError, IndexBuildError, IndexPayloadError
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
from intarsia.indexes.base import GatheredPart, GatheredParts, GranuleValues, Index, OpenIndex, PayloadPart
from intarsia.indexes.granules import (
    batch_from_bytes,
    batch_to_bytes,
    covered_granules,
    granule_rows,
    is_mostly_unlisted,
    merged_edges,
    parse_granules,
    pieces_of_granules,
    serialize_granules,
)
from intarsia.indexes.layout import (
    MOST_ROWS,
    ColumnData,
    Granularity,
    Layout,
    check_choice,
    check_granularity,
    check_integer,
    refuse_nested,
)
from intarsia.once import cached_property
from intarsia.predicate.bound import BoundNull, Condition
from intarsia.predicate.evaluate import condition_mask
from intarsia.rows.bounds import Bools
from intarsia.rows.selection import Rows, RowSelection

#: A granule whose distinct values take more bytes is unlisted and cannot be skipped.
MAX_GRANULE_BYTES = 16 << 20

#: The maximum size of the values of all granules. Building takes six times as much memory.
MAX_BYTES = 96 << 20

#: By default a granule lists half as many distinct values as it has rows, within this minimum and maximum. If
#: values rarely repeat, a list of them is as large as the data that it could save.
_MIN_LISTED, _ROWS_PER_LISTED, _MAX_LISTED = 1_000, 2, 10_000

#: The maximum size of the values of all files in a lake index, which a condition reads whole.
MAX_GATHERED_BYTES = 8 << 20


@dataclass(frozen=True)
class Distinct(Index):
    """The distinct values of a column, per granule.

    It prunes every condition on its column, because the condition is evaluated on the values themselves:
    ``=``, ``IN``, ``NOT IN``, ``<>``, ``IS NULL``, ranges and ``LIKE``.

    Args:
        column: The column, dotted if it is nested. It must not be inside a list or a map.
        granularity: ``"page"``, ``"row_group"``, ``"file"``, or a number of rows.
        max_values: The maximum number of distinct values of a granule. A granule with more values, or with
            values of more than 16 MiB, cannot be skipped. By default the limit is half of the granule's rows,
            at least 1,000 and at most 10,000 (10,000 in DataFusion's form). If the values of all granules
            take more than 96 MiB, the index is rejected.
        form: ``"granules"``, or ``"datafusion"`` for the form of the example in DataFusion's blog: the
            values of the file, with their offset in the footer key ``distinct_index_offset``. This form
            needs a text column, implies ``granularity="file"``, and does not evaluate ``IS NULL``. A file
            can contain only one. More than ``max_values`` values, or a value with a newline, are rejected. If
            another program has already written the form to a file, its block and key are kept: `attach`
            compares the values with the column, and rejects the index if they differ.

    Example:
        >>> import intarsia as ia
        >>> ia.Distinct("country", granularity="row_group")
        Distinct(column='country', granularity='row_group', max_values=None, form='granules')
    """

    kind: ClassVar[str] = "distinct"
    version: ClassVar[int] = 2
    purpose: ClassVar[str] = "skip granules by the values in them"

    column: str
    granularity: Granularity = "page"
    max_values: int | None = None
    form: str = "granules"

    def __post_init__(self) -> None:
        """Check the parameters, and replace the default granularity by that of the form."""
        check_choice(self, "form", "granules", "datafusion")
        check_granularity(self)
        if self._is_datafusion and self.granularity == "page":
            object.__setattr__(self, "granularity", "file")
        if self.max_values is not None:
            check_integer(self, "max_values", 0, MOST_ROWS)
        if self._is_datafusion and self.granularity != "file":
            raise IndexBuildError(
                f"Distinct: granularity is {self.granularity!r}, but DataFusion's form only supports "
                "'file'; omit granularity or form",
                reason="invalid-granularity",
                column=self.column,
            )

    @property
    def _is_datafusion(self) -> bool:
        return self.form == "datafusion"

    def build(self, chunk: ColumnData) -> bytes:
        """List the distinct values, and the granules that contain each of them."""
        edges = chunk.layout.edges(self.granularity, self.column)
        value_type = refuse_nested(self, self.column, chunk.type_of(self.column))
        limits = self._limits(edges).tolist()
        batches = (
            (row, piece if pa.types.is_dictionary(piece.type) else comparison_array(piece, value_type))
            for row, piece in chunk.encoded_batches(self.column)
        )
        values, granules = [pa.array([], sortable_type(value_type))], [np.empty(0, dtype=np.uint32)]
        unlisted, num_bytes = [], 0
        for granule, pieces in enumerate(pieces_of_granules(edges, batches)):
            found = _distinct_values(pieces, value_type, limits[granule])
            if found is None:
                unlisted.append(granule)
                continue
            values.append(found)
            granules.append(np.full(len(found), granule, dtype=np.uint32))
            num_bytes += found.nbytes
            if num_bytes > MAX_BYTES:
                raise IndexBuildError(
                    f"Distinct: the values of all granules take more than {MAX_BYTES:,} bytes; use larger "
                    "granules, a smaller max_values, or BloomGranule",
                    reason="index-too-large",
                )
        batch = _listed(pa.concat_arrays(values), np.concatenate(granules), value_type)
        if self._is_datafusion:
            if unlisted:
                raise IndexBuildError(
                    f"Distinct: {self.column!r} has more than {limits[0]} distinct values, or more "
                    f"than {MAX_GRANULE_BYTES:,} bytes of them, and DataFusion's form must list all; "
                    "increase max_values, or omit form",
                    reason="too-many-values",
                    column=self.column,
                )
            return build_block(self.column, batch.column("value"))
        return serialize_granules(batch, edges, self.granularity, unlisted=np.array(unlisted, dtype=np.int64))

    def merge(self, parts: Sequence[PayloadPart]) -> bytes | None:
        """Merge the values of all parts, and renumber their granules; None if they may be too large."""
        opened = [self._open_granules(part.payload, part.layout) for part in parts]
        firsts = np.cumsum([0, *(len(part.edges) - 1 for part in opened)])
        value_type = opened[0].values.type
        stored = sortable_type(value_type)
        pieces = [part.values.cast(stored).take(pa.array(part.value_ordinals)) for part in opened]
        if sum(piece.nbytes for piece in pieces) > MAX_BYTES // 2:  # `build` decides by another size
            return None
        granules = [part.granules + first for part, first in zip(opened, firsts, strict=False)]
        unlisted = [part.unlisted + first for part, first in zip(opened, firsts, strict=False)]
        batch = _listed(pa.concat_arrays(pieces), np.concatenate(granules).astype(np.uint32), value_type)
        edges = merged_edges([part.edges for part in opened])
        return serialize_granules(batch, edges, self.granularity, unlisted=np.concatenate(unlisted))

    def _limits(self, edges: Rows) -> Rows:
        """Return the maximum number of distinct values of each granule."""
        num_rows = np.diff(edges)
        if self.max_values is not None:
            return np.full_like(num_rows, self.max_values)
        least = _MAX_LISTED if self._is_datafusion else _MIN_LISTED
        return np.asarray(np.clip(num_rows // _ROWS_PER_LISTED, least, _MAX_LISTED), dtype=np.int64)

    def footer_keys(self, payload_offset: int) -> Mapping[bytes, bytes]:
        """Return the key by which DataFusion's example finds the values."""
        return {DATAFUSION_KEY: b"%d" % payload_offset} if self._is_datafusion else {}

    def difference(self, payload: bytes, file: ParquetInput) -> str | None:
        """Compare the values of the column with those that another program wrote to the file."""
        reason = _difference(payload, file)
        return None if reason is None else f"{reason}; omit form, which needs no footer key"

    def shortfall(self, payload: bytes, layout: Layout) -> str | None:
        """Return why most rows can never be skipped, or None."""
        edges = layout.edges(self.granularity, self.column)
        if self._is_datafusion or not is_mostly_unlisted(payload, edges):
            return None
        limit = "" if self.max_values is None else f" (max_values={self.max_values})"
        return f"most rows are in granules whose distinct values are too many or too long to be listed{limit}"

    def can_prune(self, condition: Condition) -> bool:
        """Return whether the condition can be evaluated. DataFusion's form has no nulls."""
        return not (self._is_datafusion and isinstance(condition, BoundNull))

    def lists_values(self, condition: Condition) -> bool:
        """Return whether the condition is evaluated on the values themselves; always, if it can be."""
        return self.can_prune(condition)

    def can_enumerate(self, column: str) -> bool:
        """Return whether ``column`` is the indexed column. DataFusion's form has no nulls and no rows."""
        return column == self.column and not self._is_datafusion

    def open(self, payload: bytes, layout: Layout) -> OpenDistinct | OpenLines:
        """Open the values and their granules."""
        if self._is_datafusion:
            return OpenLines(pa.array(parse_block(payload), pa.string()), layout.num_rows)
        return self._open_granules(payload, layout)

    def _open_granules(self, payload: bytes, layout: Layout) -> OpenDistinct:
        found = parse_granules(payload, layout, self.granularity, f"Distinct({self.column!r})")
        try:
            values, lists = found.batch.column("value"), found.batch.column("granules")
            if not pa.types.is_list(lists.type) or lists.type.value_type != pa.uint32() or lists.null_count:
                raise ValueError(f"its granules have the type {lists.type}, or are null")
            granules = lists.flatten().to_numpy()
        except (pa.ArrowException, KeyError, ValueError) as error:
            raise found.damaged(error) from error
        num_entries = len(granules) + len(found.unlisted)
        # granules of a number of rows are not empty, so each has at least one value, which may be null
        has_gaps = isinstance(self.granularity, int) and num_entries < found.num_granules
        if has_gaps or (len(granules) and granules.max() >= found.num_granules):
            raise found.other_rows()
        offsets = np.asarray(lists.offsets.to_numpy())
        return OpenDistinct(found.edges, values, offsets - offsets[0], granules, found.unlisted)

    def digest(self, payload: bytes, layout: Layout) -> bytes | None:
        """Reduce the payload to the distinct values of the file; None if they are incomplete or too large."""
        if self._is_datafusion:  # it does not record whether there are nulls
            return None
        opened = self._open_granules(payload, layout)
        if len(opened.unlisted) or opened.values.nbytes > MAX_GATHERED_BYTES:
            return None
        return batch_to_bytes(pa.record_batch({"value": opened.values}))

    def gather(self, digests: Sequence[bytes]) -> list[GatheredPart] | None:
        """Build the values of all files, and the files of each value; None if that would be too large."""
        if sum(map(len, digests)) > 64 * MAX_GATHERED_BYTES:
            return None
        lists = [batch_from_bytes(digest).column("value") for digest in digests]
        files = np.repeat(np.arange(len(lists), dtype=np.uint32), list(map(len, lists)))
        values = pa.concat_arrays([values.cast(sortable_type(values.type)) for values in lists])
        distinct, offsets, order = _group(values)
        batch = pa.record_batch({"value": distinct.cast(lists[0].type)})
        found = [
            GatheredPart("values", batch_to_bytes(batch)),
            GatheredPart("offsets", offsets.astype("<i4").tobytes()),
            GatheredPart("files", files[order].astype("<u4").tobytes()),
        ]
        return found if sum(len(part.data) for part in found) <= MAX_GATHERED_BYTES else None

    def open_gathered(self, parts: GatheredParts, num_files: int) -> GatheredDistinct:
        """Open the values of all files."""
        return GatheredDistinct(parts, num_files)


@dataclass(frozen=True)
class GatheredDistinct(OpenIndex):
    """The distinct values of many files, read on first use. A file is a granule of one row."""

    parts: GatheredParts
    num_files: int

    def cost_bytes(self, condition: Condition) -> int:
        """Return the size of all parts."""
        return sum(map(self.parts.num_bytes, self.parts.names()))

    def candidate_files(self, condition: Condition) -> Bools | None:
        """Return the files with a matching value."""
        return covered_granules(self._opened.edges, self._opened.candidate_rows(condition))

    def certain_files(self, condition: Condition) -> Bools | None:
        """Return the files in which all values match."""
        return covered_granules(self._opened.edges, self._opened.certain_rows(condition))

    @cached_property
    def _opened(self) -> OpenDistinct:
        try:
            values = batch_from_bytes(self.parts.read("values")).column("value")
        except (ValueError, KeyError) as error:
            raise CorruptFileError(f"gathered values: {error}", reason="damaged-payload") from error
        offset_bytes, file_bytes = self.parts.read("offsets"), self.parts.read("files")
        if len(offset_bytes) != 4 * (len(values) + 1) or len(file_bytes) % 4:
            raise CorruptFileError("gathered values and their lists differ in number", reason="other-files")
        offsets = np.frombuffer(offset_bytes, dtype="<i4")
        files = np.frombuffer(file_bytes, dtype="<u4")
        if (
            offsets[0] != 0
            or offsets[-1] != len(files)
            or (np.diff(offsets) < 0).any()
            or files.max(initial=0) >= max(self.num_files, 1)
        ):
            raise CorruptFileError("gathered values describe other files", reason="other-files")
        return OpenDistinct(
            np.arange(self.num_files + 1), values, offsets, files, np.empty(0, dtype=np.int64)
        )


@dataclass(frozen=True)
class OpenDistinct(OpenIndex):
    """The distinct values. Value ``i`` occurs in the granules ``granules[offsets[i]:offsets[i + 1]]``."""

    edges: Rows
    values: pa.Array
    offsets: npt.NDArray[np.int32]
    granules: npt.NDArray[np.uint32]
    unlisted: Rows

    def candidate_rows(self, condition: Condition) -> RowSelection:
        """Return the rows of the granules with a matching value."""
        hit = self._num_listed(self._matches(condition)) > 0
        hit[self.unlisted] = True
        return granule_rows(self.edges, hit)

    def certain_rows(self, condition: Condition) -> RowSelection:
        """Return the rows of the granules in which all values match."""
        full = self._num_listed(self._matches(condition)) == self._num_values
        full[self.unlisted] = False
        return granule_rows(self.edges, full)

    @property
    def value_ordinals(self) -> npt.NDArray[np.int64]:
        """The ordinal of the value of each element of ``granules``."""
        return np.repeat(np.arange(len(self.values)), np.diff(self.offsets))

    def granule_values(self) -> GranuleValues:
        """Return the distinct values of each granule."""
        num_rows = np.diff(self.edges)
        is_listed = np.ones(len(num_rows), dtype=bool)
        is_listed[self.unlisted] = False
        return GranuleValues(
            self.values, self.value_ordinals, self.granules.astype(np.int64), is_listed, num_rows
        )

    def _matches(self, condition: Condition) -> npt.NDArray[np.bool_]:
        if isinstance(condition, BoundNull):  # IS NULL does not depend on the type
            condition = replace(condition, type=self.values.type)
        if not compares_alike(self.values.type, condition.type):  # pyarrow may crash on arbitrary casts
            raise IndexPayloadError(
                f"it contains values of type {self.values.type}, not {condition.type}", reason="type-mismatch"
            )
        return flags_of(condition_mask(condition, self.values))

    @cached_property
    def _num_values(self) -> npt.NDArray[np.int64]:
        return np.bincount(self.granules, minlength=len(self.edges) - 1)

    def _num_listed(self, chosen: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
        """Return the number of chosen values in each granule, without a look at the lists of the others."""
        lists = RowSelection.union_of(self.offsets[:-1][chosen], self.offsets[1:][chosen])
        return np.bincount(self.granules[lists.rows()], minlength=len(self.edges) - 1)


def _distinct_values(pieces: Iterable[pa.Array], value_type: pa.DataType, limit: int) -> pa.Array | None:
    """Return the distinct values of a granule, of the type that sorts; None if they are too many."""
    found = pa.array([], sortable_type(value_type))
    for piece in pieces:
        if pa.types.is_dictionary(piece.type):  # keeps only used entries, which may have duplicates
            piece = comparison_array(pc.unique(piece), value_type)
        values = pc.unique(piece.cast(found.type))
        if len(found) and values.nbytes <= MAX_GRANULE_BYTES:
            values = pc.unique(pa.concat_arrays([found, values]))
        # values beyond the limit are dropped, so memory stays bounded for a granule as large as a file
        if len(values) > limit or values.nbytes > MAX_GRANULE_BYTES:
            return None
        found = values
    return found


def _listed(values: pa.Array, granules: npt.NDArray[np.uint32], value_type: pa.DataType) -> pa.RecordBatch:
    """Return the batch of a payload, given each value and its granule, in the order of granules."""
    distinct, offsets, order = _group(values)
    lists = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(granules[order], pa.uint32()))
    list_type = pa.list_(pa.field("item", pa.uint32(), nullable=False))
    return pa.record_batch(
        [distinct.cast(value_type), lists.cast(list_type)],
        schema=pa.schema([pa.field("value", value_type), pa.field("granules", list_type)]),
    )


def _group(values: pa.Array) -> tuple[pa.Array, npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    """Return the distinct values in ascending order (null last), the start of each run, and the order."""
    encoded = pc.dictionary_encode(values, null_encoding="encode")
    ranks = pc.array_sort_indices(encoded.dictionary).to_numpy()  # null comes last
    rank_of = np.empty(len(ranks), dtype=np.int64)
    rank_of[ranks] = np.arange(len(ranks))
    positions = rank_of[encoded.indices.to_numpy()] if len(values) else np.empty(0, dtype=np.int64)
    order = np.argsort(positions, kind="stable")
    counts = np.bincount(positions, minlength=len(ranks))
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    return encoded.dictionary.take(pa.array(ranks)), offsets, order


# --- the form of DataFusion ---------------------------------------------------------------------------------


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


def _difference(block: bytes, file: ParquetInput) -> str | None:
    """Return how a block differs from that of another program, as a sentence fragment; None for the same."""
    try:
        offset = parse_offset(file.footer.key_values[DATAFUSION_KEY], file.footer)
        head = file.source.read(offset, offset + DATAFUSION_HEADER_BYTES)
        stop = offset + parse_header(head, offset, file.footer)
        theirs = set(parse_lines(file.source.read(offset + DATAFUSION_HEADER_BYTES, stop)))
    except IndexPayloadError as error:
        return str(error)
    ours = set(parse_block(block))
    if missing := ours - theirs:
        return f"it lacks {min(missing)[:40]!r}, so it belongs to another column or is out of date"
    if theirs - ours:
        return "it lists values that the column lacks, so it belongs to another column or is out of date"
    return None
