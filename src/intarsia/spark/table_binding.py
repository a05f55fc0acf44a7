"""Bind a Spark predicate to all files of a table at once, for its lake index."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from intarsia.file import ParquetInput
from intarsia.file.schema import FileSchema
from intarsia.lake.data_file import DataFile
from intarsia.predicate import Bound, BoundConstant, Comparison, Path, Predicate, bind
from intarsia.predicate.nodes import innermost
from intarsia.read.file_query import FileQuery
from intarsia.read.pruner import PruneStep
from intarsia.rows.bounds import Bools
from intarsia.rows.selection import RowSelection
from intarsia.spark.binding import Leaf, Partition, SparkBinder

_Result = TypeVar("_Result")


class SparkTableBinder:
    """A Spark predicate bound to the files of a table; see `intarsia.lake.planner.TableQuery`.

    Args:
        binder: Binds the predicate to single files.
        files: The files of the table.
    """

    def __init__(self, binder: SparkBinder, files: Sequence[DataFile]) -> None:
        self._binder = binder
        self._partitions: list[Partition] = [file.partition for file in files]

    @property
    def predicate(self) -> Predicate:
        """The rows to select."""
        return self._binder.predicate

    def query(self, entry: DataFile, file: ParquetInput) -> FileQuery:
        """Bind the predicate and the columns to one open file."""
        return self._binder.query(entry, file)

    def exclude_unopened(self, relevant: Bools) -> Sequence[PruneStep]:
        """Return the files that partition values exclude, and the columns that prove it.

        Args:
            relevant: The files that matter.
        """
        columns = self._for_each(self._binder.excluding_columns, self._partitions)
        excluded = np.array([column is not None for column in columns], dtype=bool) & relevant
        if not excluded.any():
            return ()
        proven_by = ", ".join(dict.fromkeys(column for column in columns if column is not None))
        before, after = RowSelection.from_mask(relevant), RowSelection.from_mask(relevant & ~excluded)
        return [PruneStep("partition", proven_by, before, after)]

    def bind_family(
        self,
        schema: FileSchema,
        path: str,  # noqa: ARG002
        files: npt.NDArray[np.int64],
    ) -> tuple[Bound, dict[Path, pa.Array]]:
        """Bind the predicate to files with the same columns.

        Spark converts a partition value to the type of each condition. So each condition on a partition
        column becomes a boolean column, which has its value in each file.

        Args:
            schema: The schema of the files.
            path: The path of one of them.
            files: The ordinals of the files in the table.

        Returns:
            The predicate, and the columns with one value in each file: for each of them, a value per file.
        """
        partitions = [self._partitions[file] for file in files.tolist()]
        constants: dict[Path, pa.Array] = {}

        def on_partition(leaf: Leaf) -> Bound | None:
            if not any(self._binder.is_on_partition(leaf, partition) for partition in set(partitions)):
                return None
            answers = self._for_each(lambda partition: self._answer(leaf, partition), partitions)
            name = f"{'.'.join(innermost(leaf.column))} (condition {len(constants) + 1})"
            constants[name,] = pa.array(answers, pa.bool_())
            return bind(Comparison((name,), "=", True), pa.schema([(name, pa.bool_())]))

        return self._binder.bind_any(schema, on_partition), constants

    def _answer(self, leaf: Leaf, partition: Partition) -> bool:
        found = self._binder.partition_leaf(leaf, partition)
        return not isinstance(found, BoundConstant) or found.value

    @staticmethod
    def _for_each(answer: Callable[[Partition], _Result], partitions: Sequence[Partition]) -> list[_Result]:
        """Call a function on each partition, once for equal ones."""
        return list(map(cache(answer), partitions))
