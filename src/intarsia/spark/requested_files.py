"""The files of a request of the JVM, in columns.

The JVM sends a list of files once, and then its number: a table can have a million files, and a query needs a
few of them. Local files are compared with the list for each plan. Those of a snapshot of Delta or Iceberg are
compared again when the lake index changes, because they never get other rows. Objects of a snapshot are not
listed if a lake index has them.
"""

from __future__ import annotations

import json
import time
from collections.abc import Hashable, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from intarsia.lake.data_file import DataFile, FileList, as_bytes, as_text
from intarsia.lake.discovery import list_objects
from intarsia.lake.index.facts import MISSING, Stamps
from intarsia.lake.index.folder import segments_beside, state_of_folders
from intarsia.lake.index.of_table import locate
from intarsia.once import cached_property
from intarsia.records import dataclass
from intarsia.spark.listing import python_path
from intarsia.spark.spark_stores import SparkObjects
from intarsia.storage import CLOCK_TICK_SECONDS, ObjectIdentity, ObjectStoreFile
from intarsia.tuning import REMOTE_TAIL_BYTES

#: Indexes of up to this many bytes are read with the footer: it takes no longer than another request.
_MAX_TAIL_BYTES: Final = ObjectStoreFile.coalesce_bytes

NS_PER_MS: Final = 1_000_000
_MOST_CHARACTERS: Final = 1 << 30


@dataclass(frozen=True)
class PlannableFiles:
    """The files of a request that are as Spark listed them.

    Attributes:
        total: The number of files of the request.
        ordinals: For each file that can be planned, its ordinal in the request.
        files: The files that can be planned.
        key: Equal for the same files, unchanged, that are read with the same credentials.
        unplannable: Why the objects of a store cannot be planned; None if there are none.
        is_sealed: Whether they belong to a snapshot of a table format: they never get other rows.
        is_logged: Whether some are objects that were not listed; see `intarsia.lake.data_file.FileList`.
        root: The folder that contains them in an object store; None if unknown.
        segments: The segments of the lake index in this folder; None if they were not listed.
    """

    total: int
    ordinals: npt.NDArray[np.int64]
    files: FileList
    key: Hashable
    unplannable: str | None
    is_sealed: bool
    is_logged: bool
    root: str | None
    segments: Mapping[str, ObjectIdentity] | None


class LakeIndexes(NamedTuple):
    """The lake indexes of files; another value if they have changed.

    Attributes:
        folders: Those on this machine; see `state_of_folders`.
        segments: The segments in an object store, with their names; None if they were not listed.
    """

    folders: Hashable
    segments: tuple[tuple[str, ObjectIdentity], ...] | None


class RequestedFiles:
    """A list of files.

    Args:
        request: The request, with ``paths``, ``sizes``, ``times_ms`` (null for those of a table format),
            ``partition_columns``, ``partitions``, ``partition_of``. If there are objects: ``root``, the
            folder that contains all; ``etags``, or ``object_ms`` for the times of their versions in stores
            that Hadoop lists without ETags, or ``logged_ms`` for their times in a log if they have not been
            listed; and ``logged_sizes``, their lengths in a log.

    Attributes:
        total: The number of files.
        is_logged: Whether they are objects that were not listed, or some of them.
        root: The folder that contains all objects; None if there are none, or several folders.
        digest: Equal for the same list.
    """

    def __init__(self, request: Mapping[str, Any]) -> None:
        uris: list[str] = request["paths"]
        self.total = len(uris)
        self.is_sealed = None in request["times_ms"]
        self._paths, self._uris = _python_paths(uris)

        def numbers(key: str) -> npt.NDArray[np.int64] | None:
            found = request.get(key)
            return None if found is None else np.array(found, dtype=np.int64)

        names = request["partition_columns"]
        self._partitions = [tuple(zip(names, values, strict=True)) for values in request["partitions"]]
        self._partition_of = np.array(request["partition_of"], dtype=np.int64)
        self._sizes = np.array(request["sizes"], dtype=np.int64)
        times = np.zeros(self.total) if self.is_sealed else request["times_ms"]
        self._times_ms = np.array(times, dtype=np.int64)
        tags = request.get("etags")
        self._e_tags = None if tags is None else pa.array(tags, pa.string())
        self._exact_ms, self._logged_ms = numbers("object_ms"), numbers("logged_ms")
        before = numbers("logged_sizes")
        self._added_bytes = None if before is None else self._sizes - before
        self.is_logged = self._logged_ms is not None
        root = request.get("root")
        self.root = None if root is None else python_path(root, decode=False)
        self.digest = self._digest()
        self._found: tuple[Hashable, PlannableFiles] | None = None

    def _digest(self) -> str:
        hashed = xxhash.xxh3_128(json.dumps([self._partitions, self.is_sealed]).encode())
        for column in (self._paths, self._e_tags):
            for buffer in () if column is None else column.buffers():
                hashed.update(b"" if buffer is None else buffer)
        for numbers in (self._partition_of, self._sizes, self._times_ms, self._logged_ms, self._exact_ms):
            hashed.update(b"" if numbers is None else numbers.tobytes())
        return hashed.hexdigest()

    def plannable(self, objects: SparkObjects, lake_indexes: LakeIndexes) -> PlannableFiles:
        """Return the files that are as Spark listed them; the others cannot be planned.

        Args:
            objects: The stores of the request.
            lake_indexes: What `lake_indexes` has returned for them.
        """
        state = (objects.digests, lake_indexes)
        if self.is_sealed and self._found is not None and self._found[0] == state:
            return self._found[1]
        if self._exact_ms is not None and self._e_tags is None:
            self._e_tags = self._listed_tags(objects, self._exact_ms)
        store_of = self._stores(objects)
        now = Stamps.now(self._all, "/") if (store_of < 0).any() else None
        is_current = store_of >= 0
        if now is not None:
            latest = time.time_ns() - int(CLOCK_TICK_SECONDS * 1e9)  # a younger file may change unnoticed
            is_local = (now.size_bytes >= 0) & (now.modified_ns <= latest)
            if not self.is_sealed:
                is_local &= now.size_bytes == self._sizes
                is_local &= now.modified_ns // NS_PER_MS == self._times_ms
            is_current |= is_local
        ordinals = np.flatnonzero(is_current)
        files = self._some(ordinals, store_of, now, objects)
        stamps = xxhash.xxh3_128(ordinals.tobytes())
        if now is not None:
            for numbers in (files.size_bytes, files.times_ns):
                stamps.update(b"" if numbers is None else numbers.tobytes())
        segments = lake_indexes.segments
        found = PlannableFiles(
            self.total,
            ordinals,
            files,
            (self.digest, stamps.hexdigest(), objects.digests, segments),
            objects.unplannable,
            self.is_sealed,
            files.logged is not None,
            None if files.e_tags is None else self.root,
            None if segments is None else dict(segments),
        )
        if len(ordinals) == self.total:  # else, files may be too young
            self._found = state, found
        return found

    def _listed_tags(self, objects: SparkObjects, times_ms: npt.NDArray[np.int64]) -> pa.Array:
        """Return the ETags of the versions of objects that Hadoop has listed by their times.

        It costs a request for a thousand objects.

        Raises:
            ObjectStoreError: If the store cannot be reached or refuses the request.
        """
        root = self.root or self._common
        store = None if root is None else objects.store_of(root)
        listed = {} if root is None or store is None else list_objects(root, store).files
        tags: list[str | None] = []
        versions = zip(self._paths.to_pylist(), self._sizes.tolist(), times_ms.tolist(), strict=True)
        for path, size, time_ms in versions:
            found = listed.get(as_text(path), MISSING)
            is_same = found.size_bytes == size and round((found.modified or 0) * 1000) == time_ms
            tags.append(found.e_tag if is_same else None)
        return pa.array(tags, pa.string())

    def _stores(self, objects: SparkObjects) -> npt.NDArray[np.int64]:
        """Return the ordinal of the store of each object that has an ETag or is in a log; -1 for others."""
        store_of = np.full(self.total, -1, dtype=np.int64)
        if self._e_tags is not None:
            has_tag = np.asarray(self._e_tags.is_valid().to_numpy(zero_copy_only=False))
        elif self._logged_ms is not None:
            has_tag = np.ones(self.total, dtype=bool)
        else:
            return store_of
        for ordinal, url in enumerate(objects.stores):
            mine = pc.starts_with(self._paths, url).to_numpy(zero_copy_only=False)
            store_of[mine & has_tag] = ordinal
        return store_of

    @property
    def _all(self) -> FileList:
        """All files as Spark listed them."""
        return FileList(self._paths, self._sizes, self._partitions, self._partition_of)

    def _some(
        self,
        ordinals: npt.NDArray[np.int64],
        store_of: npt.NDArray[np.int64],
        now: Stamps | None,
        objects: SparkObjects,
    ) -> FileList:
        """Return some of the files as they are now."""
        stores = [(url, store) for url, (store, _) in objects.stores.items()]

        def complete(place: int, file: DataFile) -> DataFile:
            ordinal = int(ordinals[place])
            uri = f"file:{file.path}" if self._uris is None else self._uris[ordinal].as_py()
            if store_of[ordinal] < 0:
                return replace(file, uri=uri)
            url, store = stores[store_of[ordinal]]
            times_ms = self._exact_ms if self.is_sealed else self._times_ms
            modified = None if times_ms is None else int(times_ms[ordinal]) / 1000
            key = file.path[len(url) :]
            file = replace(file, uri=uri, store=store, key=key, modified=modified, times_ns=None)
            added = 0 if self._added_bytes is None else int(self._added_bytes[ordinal])
            # indexes that were attached since the log recorded the file, with its footer
            return replace(file, tail_bytes=added) if REMOTE_TAIL_BYTES < added <= _MAX_TAIL_BYTES else file

        is_object = store_of >= 0
        is_logged = self._logged_ms is not None and bool(is_object.any())
        sizes, modified_ns = self._sizes, np.zeros(self.total, dtype=np.int64)
        changed_ns = modified_ns
        if now is not None:
            sizes = np.where(is_object, sizes, now.size_bytes)
            modified_ns, changed_ns = now.modified_ns, now.changed_ns
        if self._logged_ms is not None:
            modified_ns = np.where(is_object, self._logged_ms * NS_PER_MS, modified_ns)
        has_times = is_logged or now is not None
        tags = self._e_tags if self._logged_ms is None else pa.nulls(self.total, pa.string())
        taken = pa.array(ordinals)
        return FileList(
            self._paths.take(taken),
            sizes[ordinals],
            self._partitions,
            self._partition_of[ordinals],
            np.stack([modified_ns, changed_ns], axis=1)[ordinals] if has_times else None,
            tags.take(taken) if tags is not None and is_object.any() else None,
            complete,
            is_object[ordinals] if is_logged else None,
        )

    def lake_indexes(self, objects: SparkObjects) -> LakeIndexes:
        """Return a value that changes with the lake indexes of the files.

        It costs a request if there are objects that were not listed, two if they have no lake index.

        Raises:
            ObjectStoreError: If the store cannot be reached or refuses the request.
        """
        folders = () if self._common is None else state_of_folders(self._common)
        store = None if self.root is None or self._logged_ms is None else objects.store_of(self.root)
        if store is None or self.root is None:
            return LakeIndexes(folders, None)
        segments = segments_beside(self.root, store)
        if not segments and self._common is not None and self._common.startswith(f"{self.root}/"):
            # jobs write it to the folder that all files have in common: that of the only partition
            segments = segments_beside(self._common, store)
            self.root = self._common if segments else self.root
        return LakeIndexes(folders, tuple(sorted(segments.items())))

    @cached_property
    def _common(self) -> str | None:
        found = locate(self._all, None) if self.total else None
        return None if found is None else found.root


def _python_paths(uris: list[str]) -> tuple[pa.Array, pa.Array | None]:
    """Return the paths of files, given Spark's names; and these, unless they follow from the paths."""
    names = pa.array(uris, pa.large_string())
    is_local = pc.and_(pc.starts_with(names, "file:/"), pc.invert(pc.starts_with(names, "file://")))
    if pc.all(is_local).as_py():  # as `python_path` does
        return pc.utf8_slice_codeunits(names, len("file:"), _MOST_CHARACTERS).cast(pa.large_binary()), None
    paths = [as_bytes(python_path(uri, decode=False)) for uri in uris]
    return pa.array(paths, pa.large_binary()), names
