"""The lake index of a table: the files that it contains, and the facts about them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from intarsia.errors import FormatError, ListingError
from intarsia.file import FileMetadata, Ignored
from intarsia.lake.data_file import DataFile
from intarsia.lake.index.facts import Stamps, opened_stamp
from intarsia.lake.index.folder import LakeIndexFolder, LakeLocation, ignored_segment
from intarsia.lake.index.segment import Family, Segment
from intarsia.rows.bounds import Bools
from intarsia.storage import CountedSource, MemorySource

#: The segment of a file that is not known.
UNKNOWN_SEGMENT = -1


@dataclass(frozen=True)
class OpenSegment:
    """A segment, and the folder that contains it.

    Attributes:
        folder: The folder.
        name: Its name in the folder.
        segment: The open segment.
    """

    folder: LakeIndexFolder
    name: str
    segment: Segment


class LakeIndex:
    """The segments that may contain files of a table.

    Args:
        segments: The segments.
        files: The files of the table.
        location: The root of the table, and the paths of the files relative to it.

    Attributes:
        segments: The segments.
    """

    def __init__(
        self, segments: Sequence[OpenSegment], files: Sequence[DataFile], location: LakeLocation
    ) -> None:
        self.segments = list(segments)
        self._files = files
        self._location = location
        self._positions = [self._positions_in(one) for one in segments]

    def _positions_in(self, one: OpenSegment) -> np.ndarray:
        """Return the position of each file of the table in a segment, or -1."""
        prefix = self._location.prefix_in(one.folder.root)
        paths = self._location.relative_paths
        names = [prefix + path for path in paths] if prefix else paths
        if names == one.segment.paths:
            return np.arange(len(names))
        position_of = one.segment.position_of
        return np.array([position_of.get(name, -1) for name in names], dtype=np.int64)

    def add(self, folder: LakeIndexFolder, data: bytes) -> None:
        """Add a new segment, which need not have been written.

        Args:
            folder: The folder.
            data: The bytes of the segment.
        """
        segment = Segment(CountedSource(MemorySource(data, folder.path)))
        self.segments.append(OpenSegment(folder, "", segment))
        self._positions.append(self._positions_in(self.segments[-1]))

    def known(self, *, as_listed: bool = False) -> KnownFiles:
        """Compare the stamps of all files with those in the segments.

        Args:
            as_listed: Use the stamps of the listing, which has just been made. Otherwise, the stamps of local
                files are read with stat, and objects are listed again.

        Raises:
            ObjectStoreError: If the store cannot be reached or refuses the request.
        """
        num_files = len(self._files)
        segment_of = np.full(num_files, UNKNOWN_SEGMENT, dtype=np.int64)
        position_in = np.full(num_files, -1, dtype=np.int64)
        now = Stamps.listed(self._files) if as_listed else Stamps.now(self._files, self._location.root)
        for ordinal, positions in enumerate(self._positions):
            listed = np.flatnonzero((positions >= 0) & (segment_of == UNKNOWN_SEGMENT))
            one = self.segments[ordinal]
            then = one.segment.stamps.take(positions[listed])
            is_current = now.take(listed).equal(then, same_machine=one.folder.is_on_this_machine)
            segment_of[listed[is_current]] = ordinal
            position_in[listed[is_current]] = positions[listed[is_current]]
        return KnownFiles(self, segment_of, position_in)

    def num_current(self, ordinal: int) -> int:
        """Return the number of files in a segment that exist unchanged, whether the table has them or not.

        Args:
            ordinal: The ordinal of the segment.

        Raises:
            ObjectStoreError: If the store cannot be reached or refuses the request.
        """
        segment, folder = self.segments[ordinal].segment, self.segments[ordinal].folder
        base, store = folder.root.rstrip("/"), self._files[0].store if self._files else None
        now = Stamps.now([DataFile(f"{base}/{path}", -1, store=store) for path in segment.paths], folder.root)
        return int(now.equal(segment.stamps, same_machine=folder.is_on_this_machine).sum())

    def close(self) -> None:
        """Close the segments."""
        for one in self.segments:
            one.segment.close()


@dataclass(frozen=True, eq=False)
class KnownFiles:
    """The files of a table that have not changed since they were indexed.

    Attributes:
        index: The lake index.
        segment_of: For each file, the ordinal of a segment that contains it, or `UNKNOWN_SEGMENT`.
        position_in: For each file, its position in that segment.
    """

    index: LakeIndex
    segment_of: np.ndarray
    position_in: np.ndarray

    @property
    def is_known(self) -> Bools:
        """Whether each file is known."""
        return np.asarray(self.segment_of != UNKNOWN_SEGMENT, dtype=bool)

    def families(self) -> Iterator[FamilyFiles]:
        """Yield the families that have files of the table, without those whose schema is damaged."""
        for ordinal, one in enumerate(self.index.segments):
            here = np.flatnonzero(self.segment_of == ordinal)
            if not len(here):
                continue
            positions = self.position_in[here]
            family_of = one.segment.family_of[positions]
            for number, family in enumerate(one.segment.families):
                mine = family_of == number
                if mine.any() and family.has_schema:
                    within = np.searchsorted(family.positions, positions[mine])
                    yield FamilyFiles(family, one.segment, here[mine], within)

    def metadata(self, file: int, path: str, identity: object) -> FileMetadata | None:
        """Return the footer of a file; None if it is not known, or has changed.

        All other facts about a file depend only on its rows. But other indexes can be attached
        to the same rows without a change of the file's length and modification time, and the footer has their
        locations. So the change time is compared, too, even beside the data: a copied lake index has the
        stamps of the copied files, but not their change times.

        Args:
            file: The ordinal of the file in the table.
            path: The name of the file in messages.
            identity: The identity of the open file.
        """
        ordinal = int(self.segment_of[file])
        if ordinal == UNKNOWN_SEGMENT:
            return None
        one, position = self.index.segments[ordinal], int(self.position_in[file])
        opened = opened_stamp(identity)
        if opened is None or opened != one.segment.stamp(position):
            return None
        try:
            metadata = one.segment.metadata(position, path)
            metadata.footer  # noqa: B018 - parses it, which its reader does otherwise
        except (FormatError, OSError):  # the file's own footer is read instead
            return None
        return metadata


@dataclass(frozen=True, eq=False)
class FamilyFiles:
    """The files of a table that are in one family.

    Attributes:
        family: The family.
        segment: Its segment.
        files: The ordinals of the files in the table.
        within: Their positions in the family.
    """

    family: Family
    segment: Segment
    files: np.ndarray
    within: np.ndarray


def open_lake_index(
    location: LakeLocation, files: Sequence[DataFile], folders: Sequence[LakeIndexFolder]
) -> tuple[LakeIndex | None, list[Ignored]]:
    """Open the segments for a table.

    Args:
        location: The root of the table, and the paths of the files relative to it.
        files: Its files.
        folders: The folders of the segments.

    Returns:
        The lake index, or None if there is none; and the segments that are ignored.
    """
    segments, ignored = [], []
    for folder in folders:
        try:
            names = folder.names()
        except (ListingError, PermissionError) as error:
            ignored.append(ignored_segment(folder.path, error))
            continue
        for name, found in zip(names, folder.open_segments(names), strict=True):
            if isinstance(found, Ignored):
                ignored.append(found)
            else:
                segments.append(OpenSegment(folder, name, found))
    return (LakeIndex(segments, files, location) if segments else None), ignored
