"""Pruning with the indexes of files: which rows might match, and which index excluded the others.

The files may be one, or many with the same columns that are joined. Statistics are free and are used first;
then the cheapest index that can still save more bytes than it costs, until there is none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from intarsia.file import ParquetInput
from intarsia.file.joined import JoinedInput
from intarsia.format.footer import Leaf
from intarsia.indexes.bloom import BloomFilters
from intarsia.indexes.column_index import ColumnIndexes
from intarsia.indexes.dictionary import Dictionaries
from intarsia.indexes.embedded import EmbeddedIndexes
from intarsia.indexes.entry_proofs import EntryProofs
from intarsia.indexes.proof import Proof
from intarsia.indexes.statistics import RowGroupStatistics
from intarsia.predicate import Bound
from intarsia.read.pruner import Constants, Int64s, Pruner, PruneStep, compares
from intarsia.records import dataclass
from intarsia.rows.selection import RowSelection
from intarsia.storage import ObjectStoreFile
from intarsia.tuning import REMOTE_INDEX_BYTES

#: The indexes of fewer objects are not read together. This would take an additional round trip, because the
#: remaining objects are read separately afterwards, and save fewer bytes than are transferred in that time.
_MIN_OBJECTS = ObjectStoreFile.coalesce_bytes // REMOTE_INDEX_BYTES


@dataclass(frozen=True)
class Pruned:
    """The result of pruning.

    Attributes:
        candidates: A superset of the rows that match.
        certain: Rows that are proven to match without reading them.
        proven: The certain rows whose proof does not depend on the page index.
        steps: The rows that each index excluded, in the order of use, without indexes that excluded nothing.
        index_bytes: Bytes that were read from indexes.
        dictionary_pages: Dictionary pages that were read, by offset; a scan of their row groups needs them
            again.
        has_all: Whether all indexes that pay were used. Of objects that are joined, only those are that take
            one small request; the others are read together with the pages of each object.
    """

    candidates: RowSelection
    certain: RowSelection
    proven: RowSelection
    steps: tuple[PruneStep, ...]
    index_bytes: int
    dictionary_pages: Mapping[int, bytes]
    has_all: bool


def prune(
    file: ParquetInput,
    predicate: Bound,
    *,
    constants: Constants | None = None,
    group_bytes: Callable[[RowSelection], Int64s] | None = None,
    embedded: EmbeddedIndexes | None = None,
    candidates: RowSelection | None = None,
    reads: bool = True,
) -> Pruned:
    """Find the rows that might match, with the indexes of a file, or of several that are joined.

    Args:
        constants: Columns that are not in the file and have one value in all of its rows.
        group_bytes: Estimates the bytes that a scan of some rows would read, for each row group.
            An index that is larger than the bytes it could save is not read.
        embedded: The embedded indexes of the file, if they are open already.
        candidates: The relevant rows; None for all.
        reads: Whether indexes outside the footers are read.

    Returns:
        The rows that might match, and the indexes that excluded the others.
    """
    bytes_before = file.source.counts.bytes
    edges = file.footer.row_group_starts
    pruner = Pruner(
        predicate,
        edges,
        bytes_of=group_bytes,
        candidates=candidates,
        request_bytes=file.source.coalesce_bytes,
        column_bytes=partial(_column_bytes, file),
    )
    pruner.use_constants(constants or Constants({}, edges[[0, -1]]), partial(compares, file.schema))
    pruner.use(RowGroupStatistics(file))
    pages: Mapping[int, bytes] = {}
    has_all = pruner.candidates.is_empty
    if reads and not has_all:
        entries = EntryProofs(file, embedded or EmbeddedIndexes(file), predicate.paths())
        dictionaries = Dictionaries(file, entries.lists_values)
        proofs: list[Proof] = [BloomFilters(file), dictionaries]
        has_all = not _is_remote(file)
        if has_all:
            proofs = [ColumnIndexes(file), *proofs]
            if isinstance(file, JoinedInput):
                # their directories are parsed one by one, so proofs that cost less are used first
                pruner.use_all(proofs, entries.least_price)
        if has_all or _num_files(file, pruner.candidates) >= _MIN_OBJECTS:
            of_entries = entries.proofs(pruner.candidates)
            pruner.use_all([*proofs, *of_entries] if has_all else proofs)
        pages = dictionaries.pages
    return Pruned(
        pruner.candidates,
        pruner.certain,
        pruner.proven,
        tuple(pruner.steps),
        file.source.counts.bytes - bytes_before,
        pages,
        has_all,
    )


def _is_remote(file: ParquetInput) -> bool:
    """Return whether objects are joined."""
    return isinstance(file, JoinedInput) and file.joined.is_remote


def _num_files(file: ParquetInput, rows: RowSelection) -> int:
    return int(file.joined.files_with(rows).sum()) if isinstance(file, JoinedInput) else 1


def _column_bytes(file: ParquetInput, leaf: Leaf) -> Int64s:
    """Return the size of the chunks of a leaf, for each row group."""
    (outlines,) = file.metadata.outlines([leaf])
    return np.where(outlines.is_sound, outlines.stops - outlines.starts, 0)
