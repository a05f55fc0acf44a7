"""The new lengths of indexed files in the log of a Delta table: ``index(…, register=True)``.

Delta's own transaction commits the actions that the log has for these files, with another length and time.
So all other parts stay, such as deletion vectors and row ids. The commit changes no data, and the transaction
fails if another one has removed one of the files.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Container, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import unquote

from intarsia.errors import UnsupportedFeatureError, WriteError
from intarsia.lake.discovery import list_objects
from intarsia.spark.listing import Source, delta_frame, python_path, snapshot_format
from intarsia.spark.rules import class_for_name, java_class
from intarsia.spark.sessions import is_connect
from intarsia.storage import find_store, split_url
from intarsia.storage.hadoop_files import record_lengths, record_lengths_of_objects
from intarsia.storage.objects import fetch_identity

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Features of writers that keep a second list of files, or another log, in which a length may not change.
_REFUSED: Final = (
    "catalogManaged",
    "catalogOwned-preview",
    "icebergCompatV1",
    "icebergCompatV2",
    "icebergCompatV3",
)

#: The property of tables whose files Delta also lists for Iceberg and Hudi.
_UNIFORM: Final = "delta.universalFormat.enabledFormats"

#: How often a transaction starts again after others have committed.
_ATTEMPTS: Final = 3

#: What a commit must not change. Texts of statistics may differ between a checkpoint and a commit.
_KEPT: Final = (
    "path",
    "size",
    "to_json(partitionValues) AS partition",
    "to_json(deletionVector) AS deleted",
    "to_json(tags) AS tags",
    "baseRowId",
    "defaultRowCommitVersion",
    "clusteringProvider",
    "stats IS NULL AS lacks_statistics",
)


class _State(NamedTuple):
    """A file as it is; its ETag is None if it is a local one."""

    path: str
    size: int
    modified_ms: int
    e_tag: str | None = None


def _states(folder: str, paths: Collection[str]) -> dict[str, _State]:
    """Return the states of files by their path, those of objects in the folder by a listing."""
    if "://" not in folder:
        found = ((path, os.stat(path)) for path in paths)
        return {path: _State(path, one.st_size, one.st_mtime_ns // 1_000_000) for path, one in found}
    listed = list_objects(folder).files if paths else {}
    states = {}
    for path in paths:
        one = listed.get(path)
        identity = fetch_identity(*find_store(path), path) if one is None else one  # that of a clone
        states[path] = _State(path, identity.size_bytes, int((identity.modified or 0) * 1000), identity.e_tag)
    return states


def _record(folder: str, states: Iterable[_State]) -> None:
    """Let jobs refuse to shorten files."""
    sizes = {state.path: state.size for state in states}
    if "://" not in folder:
        record_lengths(sizes)
        return
    by_store: dict[str, dict[str, int]] = {}
    for path, size in sizes.items():
        url, key = split_url(path)
        by_store.setdefault(url, {})[key] = size
    for url, lengths in by_store.items():
        record_lengths_of_objects(find_store(url)[0], lengths, folder)


class DeltaLog:
    """The log of a Delta table, in which files get other lengths.

    Args:
        spark: A classic session with Delta.
        table: The name of a Delta table, or its folder.

    Raises:
        UnsupportedFeatureError: If it is not a Delta table, the session is one of Connect, or the table has a
            feature with which lengths cannot be changed.
    """

    def __init__(self, spark: SparkSession, table: Source) -> None:
        if is_connect(spark):
            raise UnsupportedFeatureError(
                "a session of Spark Connect cannot register lengths; use a classic session",
                reason="connect-session",
            )
        if not isinstance(table, str | os.PathLike) or snapshot_format(spark, table) != "delta":
            raise UnsupportedFeatureError(
                f"{table!r} is not a Delta table in this session, so lengths cannot be registered; pass the "
                "name of one, in a session with the extension of Delta",
                reason="not-a-delta-table",
            )
        self._spark = spark
        self._name = os.fspath(table)
        plan: Any = delta_frame(spark, self._name)._jdf.queryExecution().analyzed()
        files = plan.collectLeaves().head().relation().location()
        self._log, self._catalog_table = files.deltaLog(), files.catalogTableOpt()
        self._java: Any = spark.sparkContext._jvm
        self._none = java_class(self._java, "scala.Option").empty()
        self._folder = python_path(self._log.dataPath().toString(), decode=False)
        self._refuse(self._log.update(False, self._none, self._catalog_table))

    def _refuse(self, snapshot: Any) -> None:
        protocol = snapshot.protocol()
        found = [name for name in _REFUSED if protocol.writerFeatureNames().contains(name)]
        if snapshot.metadata().configuration().contains(_UNIFORM):
            found.append(_UNIFORM)
        if found:
            raise UnsupportedFeatureError(
                f"lengths cannot be registered in a Delta table with {', '.join(found)}; index it without "
                "registering",
                reason="unsupported-delta-feature",
                path=self._name,
            )

    def register(self, paths: Container[str]) -> int:
        """Commit the current lengths of files, and return the number of files whose length was another one.

        The files then cannot be detached or indexed otherwise, because readers rely on the length.

        Args:
            paths: The paths or URLs of the files; those that are not in the current version are left out.

        Raises:
            WriteError: If Delta refused the commit, other transactions committed during each attempt, or the
                commit had to be undone.
        """
        for _ in range(_ATTEMPTS):
            transaction = self._log.startTransaction(self._catalog_table, self._none)
            snapshot = transaction.snapshot()
            self._refuse(snapshot)
            lengths = self._changed(snapshot, paths)
            # before the commit, because a file must not become shorter afterwards
            _record(self._folder, lengths.values())
            now = _states(self._folder, [file.path for file in lengths.values()])
            lengths = {name: file for name, file in lengths.items() if now[file.path] == file}
            if not lengths:
                return 0
            actions = self._with_lengths(snapshot, lengths)
            # the kind of commit for which Delta does not add the files to the totals of the table
            kind = class_for_name(self._java, "org.apache.spark.sql.delta.DeltaOperations$ManualUpdate$")
            operation = kind.getField("MODULE$").get(None)
            transaction.trackFilesRead(actions)
            try:
                version = transaction.commit(actions, operation)
            except Exception as error:
                if self._version() > snapshot.version():
                    continue  # another transaction was first
                why = str(getattr(error, "java_exception", error)).splitlines()[0]
                raise WriteError(
                    f"Delta refused to commit the new lengths ({why}), so the log has the old ones; the "
                    "files are indexed",
                    reason="refused-by-delta",
                    path=self._name,
                ) from error
            self.check(version, {name: file.size for name, file in lengths.items()})
            return len(lengths)
        raise WriteError(
            f"other transactions committed during {_ATTEMPTS} attempts to register the lengths of indexed "
            "files, so the log has their old lengths; run the job again at a quiet time",
            reason="concurrent-transactions",
            path=self._name,
        )

    def check(self, version: int, sizes: Mapping[str, int]) -> None:
        """Compare the files of a version with those of the version before, and undo it if they differ.

        Args:
            version: The version.
            sizes: The new length in bytes of each file with another one, by its path in the log.

        Raises:
            WriteError: If other things than these lengths have changed.
        """
        from pyspark.sql import functions

        before, after = (
            self._files(self._log.getSnapshotAt(one, self._none, self._catalog_table, False))
            for one in (version - 1, version)
        )
        new = self._spark.createDataFrame([*sizes.items()], "path string, new long")
        expected = before.join(new, "path", "left")
        expected = expected.withColumn("size", functions.coalesce("new", "size"))
        sides = expected.selectExpr(*_KEPT, "1 AS n").unionAll(after.selectExpr(*_KEPT, "-1 AS n"))
        *kept, number = sides.columns
        if sides.groupBy(*kept).agg(functions.sum(number).alias(number)).where(f"{number} <> 0").isEmpty():
            return
        done = "nothing was undone, because there is a later version"
        if self._version() == version:
            name = f"delta.`{self._log.dataPath()}`"
            self._spark.sql(f"RESTORE TABLE {name} TO VERSION AS OF {version - 1}")
            done = f"version {version - 1} was restored"
        raise WriteError(
            f"version {version} changes more than the lengths of files; {done}",
            reason="registration-undone",
            path=self._name,
        )

    def _changed(self, snapshot: Any, paths: Container[str]) -> dict[str, _State]:
        """Return the files whose length is not that of the log, by their path in the log."""
        logged = {}
        for name, size in self._files(snapshot).select("path", "size").collect():
            path = python_path(unquote(name), decode=False)
            if "://" not in path:  # else, it is that of a clone
                path = os.path.join(self._folder, path)
            if path in paths:
                logged[name] = path, size
        now = _states(self._folder, [path for path, _ in logged.values()])
        return {name: now[path] for name, (path, size) in logged.items() if now[path].size != size}

    def _with_lengths(self, snapshot: Any, lengths: Mapping[str, _State]) -> Any:
        """Return the actions of the log with other lengths and times, without a change of data."""
        from pyspark.sql import functions

        rows = [(name, file.size, file.modified_ms) for name, file in lengths.items()]
        new = self._spark.createDataFrame(rows, "path string, size long, modificationTime long")
        files = self._files(snapshot).drop("size", "modificationTime").join(new, "path")
        files = files.withColumn("dataChange", functions.lit(False))
        typed = getattr(files._jdf, "as")(snapshot.allFiles().encoder())
        to_seq = java_class(self._java, "org.apache.spark.api.python.PythonUtils").toSeq
        return to_seq(typed.collectAsList())

    def _files(self, snapshot: Any) -> DataFrame:
        """Return the actions of a version, with statistics, which Delta's own search leaves out."""
        from pyspark.sql.classic.dataframe import DataFrame

        return DataFrame(snapshot.allFiles().toDF(), self._spark)

    def _version(self) -> int:
        return int(self._log.update(False, self._none, self._catalog_table).version())
