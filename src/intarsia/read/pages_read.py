"""The data pages that a query of one file reads."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from intarsia.file import ChunkKey
from intarsia.rows.bounds import Bools


class PagesRead:
    """The data pages of a file whose values were read, each once however often it was; thread-safe.

    Leaves are given by ordinal.

    Example:
        >>> pages = PagesRead()
        >>> pages.add_chunks(3, [1])
        >>> pages.add_pages(ChunkKey(0, 3), 4, [2]), pages.add_pages(ChunkKey(0, 3), 4, [1, 2])
        (None, None)
        >>> pages.whole_chunks([3], 2), pages.parts()[ChunkKey(0, 3)]
        (array([[False,  True]]), array([False,  True,  True, False]))
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._whole: dict[int, set[int]] = {}
        self._parts: dict[ChunkKey, Bools] = {}

    def add_chunks(self, leaf: int, groups: Iterable[int]) -> None:
        """Add all pages of the chunks of a leaf in some row groups."""
        with self._lock:
            self._whole.setdefault(leaf, set()).update(groups)

    def add_pages(self, key: ChunkKey, num_pages: int, ordinals: npt.ArrayLike) -> None:
        """Add some pages of a chunk.

        Args:
            key: The chunk.
            num_pages: The number of its pages.
            ordinals: The ordinals of the pages that are read.
        """
        with self._lock:
            known = self._parts.get(key)
            if known is None or len(known) != num_pages:
                known = self._parts[key] = np.zeros(num_pages, dtype=bool)
            known[np.asarray(ordinals, dtype=np.int64)] = True

    def parts(self) -> Mapping[ChunkKey, Bools]:
        """Return for each chunk that was not read as a whole, but in part, whether each page was read."""
        with self._lock:
            return {
                key: pages
                for key, pages in self._parts.items()
                if key.row_group not in self._whole.get(key.leaf, ())
            }

    def whole_chunks(self, leaves: Sequence[int], num_groups: int) -> Bools:
        """Return for each of some leaves and each row group whether the chunk was read as a whole."""
        found = np.zeros((len(leaves), num_groups), dtype=bool)
        with self._lock:
            for position, leaf in enumerate(leaves):
                groups = self._whole.get(leaf)
                if groups:
                    found[position, list(groups)] = True
        return found
