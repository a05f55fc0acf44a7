"""Complete the standard structures of a file, one column chunk at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

from intarsia.embed.bloom import Bloom
from intarsia.embed.chunk import Chunk, ChunkState, Outcome, chunks_of
from intarsia.embed.leaf_values import LeafReader, leaf_readers
from intarsia.embed.page_index import PageIndex, trusted_page_index
from intarsia.embed.report import Note, Reason
from intarsia.embed.statistics import Statistics
from intarsia.file import ChunkKey, ParquetInput
from intarsia.indexes.base import Index

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
    another process has completed are in ``outcomes``.
    """

    file: ParquetInput
    states: dict[ChunkKey, ChunkState]
    notes: list[Note] = field(default_factory=list)
    built: Counter[str] = field(default_factory=Counter)
    kept: Counter[str] = field(default_factory=Counter)
    weights: Counter[str] = field(default_factory=Counter)
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
                if any(self.built.values()):
                    break
        rest = list(pending)
        if rest:
            with ThreadPoolExecutor(self._threads) as pool:
                # decoding and hashing mostly run without Python's global lock
                for item, outcomes in zip(rest, pool.map(self.complete, rest), strict=True):
                    advance(self.take(item, outcomes))

    @property
    def _threads(self) -> int:
        metas = [chunk.meta_data for _, chunk in chunks_of(self.file.footer)]
        sizes = [meta.total_compressed_size for meta in metas if meta is not None]
        return _THREADS if sum(sizes) >= _SMALL_CHUNK_BYTES * len(sizes) else 1

    def chunk(self, key: ChunkKey) -> Chunk | None:
        """Return a chunk of the original file; None if its data is in another file."""
        chunk = self.file.footer.metadata.row_groups[key.row_group].columns[key.leaf]
        if chunk.file_path or chunk.meta_data is None:
            return None
        return Chunk(self.file, key, chunk.meta_data, self._readers[key.leaf], self.footer_only)

    @cached_property
    def _readers(self) -> list[LeafReader]:
        return leaf_readers(self.file.footer)

    def known_offset_index(self, key: ChunkKey) -> bytes | None:
        """Return the bytes of a chunk's OffsetIndex, or None if it has no trusted one."""
        chunk = self.chunk(key)
        if chunk is None:
            return None
        location = trusted_page_index(chunk, self.states[key]).offset_index
        return None if location is None else chunk.bytes_of(location)

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
                self.weights[structure.name] += outcome.state.num_added_bytes(self.states[key])
            self.states[key] = outcome.state
            self.built[structure.name] += outcome.built is True
            self.kept[structure.name] += outcome.built is False
            if outcome.reason is not None:
                code, text = outcome.reason
                self.notes.append(Note(column, key.row_group, structure.name, text, code))
        return column
