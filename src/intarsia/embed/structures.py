"""The structures to write into a file: Parquet's own, chunk by chunk, and the embedded indexes."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import field, replace
from typing import Any, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa

from intarsia.embed.chunk import Chunk, ChunkState, Outcome, chunks_of, computed_statistics, without_bounds
from intarsia.embed.chunk_statistics import BESIDE_NAN, Bloom, Statistics
from intarsia.embed.column_data import FileColumns
from intarsia.embed.leaf_values import LeafReader, leaf_readers
from intarsia.embed.original import Original
from intarsia.embed.page_index import PageIndex, trusted_page_index
from intarsia.embed.report import Note, Reason
from intarsia.errors import FormatError, IndexBuildError, IndexPayloadError, IntarsiaError
from intarsia.file import ChunkKey, ParquetInput
from intarsia.format import thrift
from intarsia.format.blob import BLOB_HEADER_BYTES, blob_header, checksum
from intarsia.format.directory import Entry
from intarsia.format.structs import OffsetIndex
from intarsia.indexes.base import Index
from intarsia.indexes.embedded import EmbeddedIndexes
from intarsia.indexes.layout import Granularity, check_granularity, parameters
from intarsia.indexes.registry import find_index
from intarsia.once import cached_property
from intarsia.predicate.nodes import render_column
from intarsia.records import dataclass
from intarsia.rows.selection import Rows

_Result = TypeVar("_Result")

#: Number of chunks processed concurrently; each needs memory for its decoded values.
_THREADS = 2

#: Smaller chunks are processed serially, because Python's overhead exceeds decoding and hashing.
_SMALL_CHUNK_BYTES = 64 << 10

#: The structures that Parquet itself defines, in the order in which they are computed.
STANDARD = (PageIndex, Statistics, Bloom)

#: One of them. Its `complete` adds it to a chunk that has rows, unless the chunk has a trusted one.
Structure: TypeAlias = "PageIndex | Statistics | Bloom"

#: A standard structure, or an object that implements `intarsia.indexes.base.Index`.
Attachable: TypeAlias = "Structure | Index"

#: One or several indexes; a single one needs no list.
Attachables: TypeAlias = "Attachable | Iterable[Attachable]"

_ELSEWHERE = Reason("column-in-another-file", "its data is in another file")


@dataclass
class StructureCompleter:
    """Completes the structures of an original file, of which `run` and `take` update ``states``.

    Each chunk is read and decoded once for all structures, and released before the next one. Those that
    another process has completed are in ``outcomes``. By the names of structures, ``built`` has the bytes
    that those add which some chunk lacked, and ``kept`` those that some chunk already had.
    """

    file: ParquetInput
    states: dict[ChunkKey, ChunkState]
    notes: list[Note] = field(default_factory=list)
    built: Counter[str] = field(default_factory=Counter)
    kept: set[str] = field(default_factory=set)
    outcomes: Mapping[ChunkKey, Sequence[Outcome]] = field(default_factory=dict)
    footer_only: bool = False

    def work(self, structures: Sequence[Structure]) -> list[tuple[ChunkKey, list[Structure]]]:
        """Return the chunks to process, each with its structures.

        Raises:
            IndexBuildError: If a column cannot have a requested structure.
            ColumnNotFoundError: If the file has no such column.
        """
        by_leaf: dict[int, list[Structure]] = {}
        for structure in structures:
            for ordinal in structure.leaves(self.file):
                by_leaf.setdefault(ordinal, []).append(structure)
        return [(key, by_leaf[key.leaf]) for key, _ in chunks_of(self.file.footer) if key.leaf in by_leaf]

    def run(
        self, work: Sequence[tuple[ChunkKey, Sequence[Structure]]], advance: Callable[[str], None]
    ) -> None:
        """Complete chunks, and call ``advance`` with the column's name after each of them."""
        pending = iter(work)
        if self.footer_only or any(isinstance(state.offset_index, bytes) for state in self.states.values()):
            # The file was indexed before. If nothing is to be built, threads would take longer than the work.
            for item in pending:
                advance(self.take(item, self.complete(item)))
                if self.built:
                    break
        metas = [chunk.meta_data for _, chunk in chunks_of(self.file.footer)]
        sizes = [meta.total_compressed_size for meta in metas if meta is not None]
        threads = _THREADS if sum(sizes) >= _SMALL_CHUNK_BYTES * len(sizes) else 1
        rest = list(pending)
        with ThreadPoolExecutor(threads) as pool:
            # decoding and hashing mostly run without Python's global lock
            for item, outcomes in zip(rest, pool.map(self.complete, rest), strict=True):
                advance(self.take(item, outcomes))
        for leaf in {key.leaf for key, _ in work if self.file.footer.leaves[key.leaf].is_float}:
            self._withhold_bounds(leaf)

    def _withhold_bounds(self, leaf: int) -> None:
        """Remove the computed bounds of a column if they are not those of all chunks; see `BESIDE_NAN`."""
        before, after = {}, {}
        for ordinal, group in enumerate(self.file.footer.metadata.row_groups):
            key, meta = ChunkKey(ordinal, leaf), group.columns[leaf].meta_data
            if meta is not None and meta.num_values:
                found = self.states[key].statistics or meta.statistics
                if found is None or found.null_count != meta.num_values:
                    before[key] = meta.statistics is not None and meta.statistics.min_value is not None
                    after[key] = found is not None and found.min_value is not None
        if all(after.values()) or before == after:
            return
        is_lost = any(before[key] and not after[key] for key in after)  # a writer's own, such as NaN
        for key, has_bounds in after.items():
            state, chunk = self.states[key], self.chunk(key)
            statistics = state.statistics
            if statistics is None and is_lost and chunk is not None and chunk.meta.statistics is not None:
                with suppress(FormatError, IndexBuildError):
                    statistics = computed_statistics(chunk, chunk.meta.statistics)
            if has_bounds and statistics is not None:
                self.states[key] = replace(state, statistics=without_bounds(statistics))
                name = self.file.footer.leaves[leaf].name
                self.notes.append(
                    Note(name, key.row_group, Statistics.kind, BESIDE_NAN.text, BESIDE_NAN.code)
                )

    def chunk(self, key: ChunkKey) -> Chunk | None:
        """Return a chunk of the original file; None if its data is in another file."""
        chunk = self.file.footer.metadata.row_groups[key.row_group].columns[key.leaf]
        if chunk.file_path or chunk.meta_data is None:
            return None
        return Chunk(self.file, key, chunk.meta_data, self._readers[key.leaf], self.footer_only)

    @cached_property
    def _readers(self) -> list[LeafReader]:
        return leaf_readers(self.file.footer)

    def first_rows(self, key: ChunkKey) -> Rows | None:
        """Return the first row of each data page of a chunk; None if it has no trusted OffsetIndex."""
        chunk = self.chunk(key)
        location = None if chunk is None else trusted_page_index(chunk, self.states[key]).offset_index
        if chunk is None or location is None:
            return None
        index, _ = thrift.parse(OffsetIndex, chunk.bytes_of(location))
        return np.array([page.first_row_index for page in index.page_locations], dtype=np.int64)

    def complete(self, item: tuple[ChunkKey, Sequence[Structure]]) -> Sequence[Outcome]:
        """Return the outcomes of the structures of one chunk; without rows there is nothing to do."""
        key, structures = item
        if key in self.outcomes:
            return self.outcomes[key]
        if self.file.footer.metadata.row_groups[key.row_group].num_rows == 0:
            return []
        chunk, state = self.chunk(key), self.states[key]
        if chunk is None:
            return [Outcome(state, None, _ELSEWHERE)] * len(structures)
        outcomes = []
        for structure in structures:
            outcomes.append(structure.complete(chunk, state))
            state = outcomes[-1].state
        return outcomes

    def take(self, item: tuple[ChunkKey, Sequence[Structure]], outcomes: Sequence[Outcome]) -> str:
        """Keep the completed structures of a chunk, and return the name of its column."""
        key, structures = item
        column = self.file.footer.leaves[key.leaf].name
        for structure, outcome in zip(structures, outcomes, strict=False):
            if outcome.built:
                self.built[structure.name] += outcome.state.num_added_bytes(self.states[key])
            elif outcome.built is not None:
                self.kept.add(structure.name)
            self.states[key] = outcome.state
            if outcome.reason is not None:
                code, text = outcome.reason
                self.notes.append(Note(column, key.row_group, structure.name, text, code))
        return column


#: Payloads up to this size are stored in the directory, which readers of the footer have already read.
INLINE_BYTES = 1024


@dataclass(frozen=True)
class Blob:
    """The entry of an index, whose offset is not yet set, and its payload."""

    entry: Entry
    payload: bytes

    @property
    def num_bytes(self) -> int:
        """Its size in the file, without its part of the directory unless the payload is inline."""
        return len(self.payload) if self.entry.inline is not None else self.entry.length

    def pieces(self, fingerprint: str) -> tuple[bytes, ...]:
        """Return the consecutive bytes to write into the file; empty if the payload is inline."""
        if self.entry.inline is not None:
            return ()
        return blob_header(fingerprint, len(self.payload), self.entry.xxh3), self.payload

    def footer_keys(self, offset: int) -> Mapping[bytes, bytes]:
        """Return the footer keys that the index needs besides the directory, for a blob at ``offset``."""
        if self.entry.inline is not None:
            return {}
        index = find_index(self.entry).index
        return {} if index is None else footer_keys_of(index, offset + BLOB_HEADER_BYTES)

    def check_same_payload(self, key: bytes, file: ParquetInput) -> None:
        """Check that a footer key of the original file points to the same payload.

        Raises:
            IndexBuildError: If it does not.
        """
        index = find_index(self.entry).index
        detail = "a file can contain only one"
        found = "" if index is None else index.difference(self.payload, file)
        if found is None:
            return
        if found:
            detail = f"its value points to a different index: {found}"
        raise IndexBuildError(
            f"{self.entry.name} needs the footer key {key.decode()!r}, which the original file has; {detail}",
            reason="footer-key-taken",
        )


def carried_blobs(
    original: Original, *, footer_only: bool = False
) -> tuple[dict[Hashable, Blob], list[Note]]:
    """Return the embedded indexes by identity, and notes on damaged ones, which are dropped.

    With ``footer_only``, payloads are neither read nor checked.
    """
    embedded = EmbeddedIndexes(original.current)
    blobs: dict[Hashable, Blob] = {}
    notes: list[Note] = []
    for entry in original.directory.entries if original.directory is not None else ():
        try:
            blobs[entry.identity] = Blob(entry, b"" if footer_only else embedded.read(entry))
        except IndexPayloadError as error:  # noqa: PERF203 - each entry has its own note
            columns, code = ", ".join(entry.column_names), error.reason or "damaged-payload"
            reason = f"the attached index is damaged and was dropped: {error}"
            notes.append(Note(columns, None, entry.name, reason, code))
    return blobs, notes


def check_parameters(index: Index) -> tuple[str, tuple[str, ...], Granularity]:
    """Check the parameters of an index, as far as that needs no file.

    Returns:
        Kind, columns as the user named them, and granularity, which identify the index.

    Raises:
        IndexBuildError: If its parameters have no JSON form, or its granularity is unknown.
    """
    if hasattr(index, "granularity"):
        check_granularity(index)
    granularity = getattr(index, "granularity", "file")
    names = call_builder(index, lambda: tuple(index.columns))
    if not all(isinstance(name, str) for name in names):
        raise IndexBuildError(
            f"{index!r} has a column name that is not a string; pass a dotted name for a nested column",
            reason="invalid-column-name",
        )
    _as_stored(index)
    return index.kind, names, granularity


def planned_entry(index: Index, columns: FileColumns) -> Entry:
    """Return the entry of an index before it is built: without its offset, length and checksum.

    Raises:
        IndexBuildError: If the index cannot be built on these columns.
        ColumnNotFoundError: If the file has no such column.
    """
    kind, names, granularity = check_parameters(index)
    paths = tuple(columns.leaf(name).path for name in names)
    # names are quoted if one of them contains a dot
    shown = [render_column(path) if "." in "".join(path) else ".".join(path) for path in paths]
    name = f"{kind}({', '.join(shown)}):{granularity}"
    return Entry(name, kind, index.version, paths, granularity, _as_stored(index), 0, 0, "")


def _as_stored(index: Index) -> dict[str, Any]:
    """Return the parameters in their JSON form, so that they compare equal to those of a stored entry."""
    try:
        plain: dict[str, Any] = json.loads(json.dumps(parameters(index), allow_nan=False))
    except (TypeError, ValueError) as error:
        raise IndexBuildError(
            f"the parameters of {index!r} have no JSON form: {error}; use strings, numbers, booleans, None, "
            "and lists of these",
            reason="invalid-parameters",
        ) from error
    return plain


def same_index(planned: Entry, there: Entry) -> bool:
    """Return whether the stored index equals the planned one."""
    return (
        planned.identity == there.identity
        and planned.kind_version == there.kind_version
        and planned.parameters == there.parameters
    )


def call_builder(index: Index, call: Callable[[], _Result]) -> _Result:
    """Call a method of an index while it is built, and turn its failures into `IndexBuildError`.

    The other files of a run are indexed, although one has values with which an index of a user fails.
    """
    try:
        return call()
    except (IntarsiaError, OSError, MemoryError):
        raise
    except (pa.ArrowException, UnicodeDecodeError) as error:  # for example strings that are not UTF-8
        raise IndexBuildError(
            f"{index!r} cannot be built on these values: {error}", reason="invalid-values"
        ) from error
    except Exception as error:
        raise IndexBuildError(
            f"{index!r} failed with {type(error).__name__}: {error}", reason="index-failed"
        ) from error


def footer_keys_of(index: Index, payload_offset: int) -> Mapping[bytes, bytes]:
    """Return the footer keys of an index.

    Raises:
        IndexBuildError: If its method fails, or does not return bytes by bytes.
    """
    found = call_builder(index, lambda: dict(index.footer_keys(payload_offset)))
    if not all(isinstance(part, bytes) for item in found.items() for part in item):
        raise IndexBuildError(
            f"{index!r} returned {found!r:.80} from footer_keys(); keys and values must be bytes",
            reason="invalid-footer-keys",
        )
    return found


def build_blob(index: Index, planned: Entry, columns: FileColumns, payload: bytes | None = None) -> Blob:
    """Build an index, unless its payload is passed.

    Raises:
        IndexBuildError: If the index cannot be built on these columns.
    """
    payload = call_builder(index, lambda: index.build(columns)) if payload is None else payload
    if not isinstance(payload, bytes):
        raise IndexBuildError(
            f"{index!r} built {type(payload).__name__}; build() must return bytes", reason="invalid-payload"
        )
    is_named = bool(footer_keys_of(index, 0))
    inline = payload if len(payload) <= INLINE_BYTES and not is_named else None
    length = 0 if inline is not None else BLOB_HEADER_BYTES + len(payload)
    unit = columns.int96_unit(planned.columns)
    entry = replace(planned, length=length, xxh3=checksum(payload), inline=inline, int96_unit=unit)
    return Blob(entry, payload)
