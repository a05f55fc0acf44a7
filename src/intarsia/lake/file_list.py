"""The files of a table in columns, because a Python object for each of a million files takes a gigabyte."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TypeAlias, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from intarsia.lake.data_file import DataFile

#: The names and values of the partition columns of a file; see `DataFile.partition`.
Partition: TypeAlias = tuple[tuple[str, "str | None"], ...]


@dataclass(frozen=True, eq=False)
class FileList(Sequence[DataFile]):
    """Files in columns. A `DataFile` is created when it is asked for.

    Attributes:
        paths: Their paths, ``large_binary``; see `as_bytes`.
        size_bytes: Their lengths when they were listed.
        partitions: The distinct partition values.
        partition_of: For each file, the ordinal of its partition values.
        times_ns: Modification and change times of local files, two for each; None if unknown.
        e_tags: The ETags of objects, ``string``; None if there are no objects, null for local files.
        complete: Completes a file, given its ordinal, with what is not in these columns; None if nothing is.

    Example:
        >>> sizes, zeros = np.array([100, 200]), np.zeros(2, dtype=np.int64)
        >>> files = FileList(pa.array([b"/a.parquet", b"/b.parquet"], pa.large_binary()), sizes, [()], zeros)
        >>> len(files), files[1].path, files[1].size_bytes
        (2, '/b.parquet', 200)
    """

    paths: pa.Array
    size_bytes: npt.NDArray[np.int64]
    partitions: Sequence[Partition]
    partition_of: npt.NDArray[np.int64]
    times_ns: npt.NDArray[np.int64] | None = None
    e_tags: pa.Array | None = None
    complete: Callable[[int, DataFile], DataFile] | None = field(default=None, repr=False)
    _made: dict[str, int] = field(default_factory=dict, init=False, repr=False)

    def __len__(self) -> int:
        return len(self.size_bytes)

    @overload
    def __getitem__(self, ordinal: int) -> DataFile: ...

    @overload
    def __getitem__(self, ordinal: slice) -> list[DataFile]: ...

    def __getitem__(self, ordinal: int | slice) -> DataFile | list[DataFile]:
        if isinstance(ordinal, slice):
            return [self[one] for one in range(*ordinal.indices(len(self)))]
        place = range(len(self))[ordinal]
        path = as_text(self.paths[place].as_py())
        self._made[path] = place
        times = None if self.times_ns is None else self.times_ns[place].tolist()
        file = DataFile(
            path,
            int(self.size_bytes[place]),
            self.partitions[self.partition_of[place]],
            e_tag=None if self.e_tags is None else self.e_tags[place].as_py(),
            times_ns=None if times is None else (times[0], times[1]),
        )
        return file if self.complete is None else self.complete(place, file)

    def ordinal_of(self, path: str) -> int:
        """Return the ordinal of one of the files, by the path of its `DataFile`."""
        return self._made[path]


def as_text(path: bytes) -> str:
    """Return a path, given its bytes."""
    return path.decode("utf-8", "surrogateescape")


def as_bytes(path: str) -> bytes:
    """Return a path as UTF-8; bytes of a name that are not UTF-8 stay as they are."""
    return path.encode("utf-8", "surrogateescape")


def paths_of(files: Sequence[DataFile]) -> pa.Array:
    """Return the paths of files, ``large_binary``; see `as_bytes`."""
    if isinstance(files, FileList):
        return files.paths
    return pa.array([as_bytes(file.path) for file in files], pa.large_binary())


def sizes_of(files: Sequence[DataFile]) -> npt.NDArray[np.int64]:
    """Return the sizes of files in bytes when they were listed."""
    if isinstance(files, FileList):
        return files.size_bytes
    return np.fromiter(map(attrgetter("size_bytes"), files), np.int64, len(files))


def partitions_of(files: Sequence[DataFile]) -> tuple[Sequence[Partition], npt.NDArray[np.int64]]:
    """Return the distinct partition values of files, and for each file the ordinal of its values."""
    if isinstance(files, FileList):
        return files.partitions, files.partition_of
    found = [*map(attrgetter("partition"), files)]
    ordinals = {partition: ordinal for ordinal, partition in enumerate(dict.fromkeys(found))}
    return [*ordinals], np.array([*map(ordinals.__getitem__, found)], dtype=np.int64)


def has_objects(files: Sequence[DataFile]) -> bool:
    """Return whether some of the files are in object stores."""
    if isinstance(files, FileList):
        return files.e_tags is not None
    return any(map(attrgetter("is_remote"), files))


def has_deletes(files: Sequence[DataFile]) -> npt.NDArray[np.bool_]:
    """Return whether rows of each file may be deleted."""
    if isinstance(files, FileList):
        return np.zeros(len(files), dtype=bool)
    return np.array([file.deletes is not None for file in files], dtype=bool)


def have_stamps(files: Sequence[DataFile]) -> bool:
    """Return whether the listing of the files has what shows that one was replaced: times or ETags."""
    if isinstance(files, FileList):
        return files.times_ns is not None or (files.e_tags is not None and not files.e_tags.null_count)
    return all(file.times_ns is not None or file.e_tag is not None for file in files)
