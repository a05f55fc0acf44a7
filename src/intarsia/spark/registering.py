"""The new lengths of indexed files in the log of a Delta table: ``index(…, register=True)``.

Delta's own transaction commits the actions that the log has for these files, with another length and time.
So all other parts stay, such as deletion vectors and row ids. The commit changes no data, and the transaction
fails if another one has removed one of the files.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from intarsia.errors import IntarsiaError, UnsupportedFeatureError, WriteError
from intarsia.spark.listing import Source, delta_frame, python_path, snapshot_format
from intarsia.spark.rules import java_class
from intarsia.spark.sessions import is_connect
from intarsia.storage.hadoop_files import record_lengths

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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


@dataclass(frozen=True)
class _Logged:
    """A file of a table: the action of the log, an object of Java, and what the file system says."""

    action: Any
    size: int
    modified_ms: int


class DeltaLog:
    """The log of a Delta table, in which files get other lengths.

    Args:
        spark: A classic session with Delta.
        table: The name of a Delta table, or its local folder.

    Raises:
        UnsupportedFeatureError: If it is not a Delta table, the session is one of Connect, or the table is in
            an object store or has a feature with which lengths cannot be changed.
    """

    def __init__(self, spark: SparkSession, table: Source) -> None:
        if is_connect(spark):
            raise UnsupportedFeatureError(
                "a session of Spark Connect cannot register lengths; use a classic session",
                reason="connect-session",
            )
        if not isinstance(table, str | os.PathLike) or snapshot_format(spark, table) != "delta":
            raise UnsupportedFeatureError(
                f"{table!r} is not a Delta table, so lengths cannot be registered; pass the name of one",
                reason="not-a-delta-table",
            )
        self._spark = spark
        self._name = os.fspath(table)
        plan: Any = delta_frame(spark, self._name)._jdf.queryExecution().analyzed()
        files = plan.collectLeaves().head().relation().location()
        self._log, self._catalog_table = files.deltaLog(), files.catalogTableOpt()
        self._jvm: Any = spark.sparkContext._jvm
        self._none = java_class(self._jvm, "scala.Option").empty()
        if "://" in python_path(self._log.dataPath().toString(), decode=False):
            raise UnsupportedFeatureError(
                f"{self._name}: lengths of objects cannot be registered; index the table without registering",
                reason="remote-delta-table",
                path=self._name,
            )
        self._refuse(self._log.update(False, self._none, self._catalog_table))

    def _refuse(self, snapshot: Any) -> None:
        protocol = snapshot.protocol()
        found = [name for name in _REFUSED if protocol.writerFeatureNames().contains(name)]
        if snapshot.metadata().configuration().contains(_UNIFORM):
            found.append(_UNIFORM)
        if found:
            raise UnsupportedFeatureError(
                f"{self._name}: lengths cannot be registered in a Delta table with {', '.join(found)}; index "
                "it without registering",
                reason="unsupported-delta-feature",
                path=self._name,
            )

    def register(self, paths: Collection[str]) -> int:
        """Commit the current lengths of files, and return the number of files whose length was another one.

        The files then cannot be detached or indexed otherwise, because readers rely on the length.

        Args:
            paths: The local paths of the files; those that are not in the current version are left out.

        Raises:
            WriteError: If other transactions committed during each attempt, or the commit had to be undone.
        """
        wanted = frozenset(paths)
        for _ in range(_ATTEMPTS):
            transaction = self._log.startTransaction(self._catalog_table, self._none)
            self._refuse(transaction.snapshot())
            logged = dict(self._changed(transaction.filterFiles(), wanted))
            if not logged:
                return 0
            # before the commit, because a file must not become shorter afterwards
            record_lengths({path: file.size for path, file in logged.items()})
            actions = [_with_length(file) for path, file in logged.items() if _size(path) == file.size]
            try:
                version = transaction.commit(self._sequence(actions), self._operation())
            except Exception:
                if self._version() == transaction.readVersion():
                    raise
                continue  # another transaction was first
            self.check(version, {action.path(): action.size() for action in actions})
            return len(actions)
        raise WriteError(
            f"{self._name}: other transactions committed during {_ATTEMPTS} attempts to register the lengths "
            "of indexed files, so the log has their old lengths; run the job again at a quiet time",
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
        before, after = self._files(version - 1), self._files(version)
        expected = {path: (sizes.get(path, size), rows) for path, (size, rows) in before.items()}
        if after == expected:
            return
        done = "nothing was undone, because there is a later version"
        if self._version() == version:
            name = f"delta.`{self._log.dataPath()}`"
            self._spark.sql(f"RESTORE TABLE {name} TO VERSION AS OF {version - 1}")
            done = f"version {version - 1} was restored"
        raise WriteError(
            f"{self._name}: version {version} changes more than the lengths of files; {done}",
            reason="registration-undone",
            path=self._name,
        )

    def _changed(self, actions: Any, wanted: Collection[str]) -> Iterator[tuple[str, _Logged]]:
        """Yield the files whose length is not that of the log."""
        for action in java_class(self._jvm, "scala.jdk.javaapi.CollectionConverters").asJava(actions):
            path = python_path(action.absolutePath(self._log).toString(), decode=False)
            if path in wanted:
                state = os.stat(path)
                if state.st_size != action.size():
                    yield path, _Logged(action, state.st_size, state.st_mtime_ns // 1_000_000)

    def _files(self, version: int) -> dict[str, tuple[int, str]]:
        """Return the length and the deleted rows of each file of a version, by its path in the log."""
        from pyspark.sql import DataFrame

        snapshot = self._log.getSnapshotAt(version, self._none, self._catalog_table, False)
        rows = DataFrame(snapshot.allFiles().toDF(), self._spark)
        return {
            row[0]: (row[1], row[2])
            for row in rows.selectExpr("path", "size", "to_json(deletionVector)").collect()
        }

    def _version(self) -> int:
        return int(self._log.update(False, self._none, self._catalog_table).version())

    def _sequence(self, items: Collection[Any]) -> Any:
        found = java_class(self._jvm, "java.util.ArrayList")()
        for item in items:
            found.add(item)
        return java_class(self._jvm, "org.apache.spark.api.python.PythonUtils").toSeq(found)

    def _operation(self) -> Any:
        """Return the kind of commit for which Delta does not add the files to the totals of the table."""
        name = "org.apache.spark.sql.delta.DeltaOperations$ManualUpdate$"
        found = java_class(self._jvm, "org.apache.spark.util.Utils").classForName(name, True, False)
        return found.getField("MODULE$").get(None)


def _size(path: str) -> int:
    return os.stat(path).st_size


def _with_length(file: _Logged) -> Any:
    """Return the action of the log with the length and time of the file, and without a change of data."""
    action = file.action
    new = {"size": file.size, "modificationTime": file.modified_ms, "dataChange": False}
    names = [action.productElementName(place) for place in range(action.productArity())]
    if not new.keys() <= set(names):
        raise IntarsiaError(
            f"this version of Delta has files with {names}", reason="unsupported-delta-version"
        )
    return action.copy(*(new.get(name, action.productElement(place)) for place, name in enumerate(names)))
