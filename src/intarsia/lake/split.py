"""Parts of a scan that any process can read: the rows of one file that might match."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import field

import pyarrow as pa
import xxhash

from intarsia.arrow.owned_rows import no_rows
from intarsia.errors import ReplacedWhileReadError
from intarsia.file import FileMetadata, ParquetInput
from intarsia.indexes.proof import split_batches
from intarsia.lake.data_file import DataFile
from intarsia.lake.snapshot import TableCache
from intarsia.predicate import Path, Predicate, bind
from intarsia.predicate.bound import renamed
from intarsia.read.file_plan import FilePlan
from intarsia.read.file_query import FileQuery
from intarsia.read.file_rows import read_rows
from intarsia.read.output_columns import FileNames, OutputColumn, concat_rows
from intarsia.read.report import warn_of_ignored
from intarsia.records import dataclass
from intarsia.rows.selection import Rows, RowSelection
from intarsia.tuning import RUNS_AT_ONCE

#: The footers of the files whose splits this process has read: a task often reads several splits of a file.
_FOOTERS = TableCache(64 << 20)


@dataclass(frozen=True)
class SplitQuery:
    """The data that all splits of one file share.

    Attributes:
        file: The file, as it was listed.
        identity: The file's identity when it was planned; see `Split`.
        predicate: The rows to select; None for all.
        view: The schema to bind the predicate to: its columns with the table's names and this file's types.
        constants: Columns with one value for all rows of the file; see `FileQuery`.
        names: The names of the columns in the file; None if they are those of the table.
        deleted: Rows of the file that the table does not have.
    """

    file: DataFile
    identity: str
    predicate: Predicate | None
    view: pa.Schema
    columns: tuple[OutputColumn, ...]
    schema: pa.Schema
    constants: Mapping[Path, pa.Array]
    names: FileNames | None
    deleted: RowSelection


@dataclass(frozen=True)
class Split:
    """Rows of one file that might match; any process can read it, and it can be pickled.

    Every row group of a file is in at most one split, so the splits together contain the rows of the scan.

    Attributes:
        path: The file.
        row_groups: Ordinals of the row groups to read.
        row_ranges: Half-open ranges of the rows that might match, as row numbers of the file.
        num_bytes: Approximate number of bytes to read.

    Example:
        >>> import intarsia as ia, pickle, pyarrow as pa, pyarrow.parquet as pq, tempfile, os
        >>> path = os.path.join(tempfile.mkdtemp(), "t.parquet")
        >>> pq.write_table(pa.table({"x": range(1000)}), path, row_group_size=100)
        >>> (split,) = ia.open(path).plan("x BETWEEN 250 AND 252")
        >>> split.row_groups, split.row_ranges
        ((2,), ((200, 300),))
        >>> pickle.loads(pickle.dumps(split)).to_arrow()["x"].to_pylist()
        [250, 251, 252]
    """

    path: str
    row_groups: tuple[int, ...]
    row_ranges: tuple[tuple[int, int], ...]
    num_bytes: int
    _shared: SplitQuery = field(repr=False)

    @property
    def identity(self) -> str:
        """The file's identity when it was planned: its length and a hash of its footer."""
        return self._shared.identity

    @property
    def num_rows(self) -> int:
        """Number of rows that might match."""
        return sum(stop - start for start, stop in self.row_ranges)

    def to_arrow(self) -> pa.Table:
        """Read the rows that match; only page locations are read again, no other index.

        A wrong page index is ignored with a warning.

        Raises:
            ReplacedWhileReadError: If the file was replaced after it was planned.
            CorruptFileError: If a part of the file that has to be read is damaged.
        """
        shared = self._shared
        tables = [no_rows(shared.schema)]
        with self._open() as file:
            self._check(file)
            predicate = None if shared.predicate is None else bind(shared.predicate, shared.view)
            if predicate is not None and shared.names is not None:
                predicate = renamed(predicate, shared.names.path)
            query = FileQuery.of(
                file,
                predicate,
                shared.columns,
                shared.constants,
                names=shared.names,
                deleted=shared.deleted,
            )
            rows = RowSelection.from_ranges(self.row_ranges)
            stages = () if query.predicate is None else (query.predicate,)
            plan = FilePlan(rows, RowSelection.none(), stages=stages)
            tables.extend(
                query.result(piece.rows, piece.numbers, shared.columns, shared.schema)
                for piece in read_rows(query, plan, runs_at_once=RUNS_AT_ONCE)
            )
            warn_of_ignored(file.ignored)
            _FOOTERS.put_metadata(self.path, file.source.identity, file.metadata)
        return concat_rows(tables)

    def _open(self) -> ParquetInput:
        """Open the file, with the footer that another split has read if the file has not changed since."""
        file = self._shared.file
        source = file.open(fresh=_FOOTERS.latest_metadata(self.path) is not None)
        known = _FOOTERS.metadata(self.path, source.identity)
        is_planned = known is not None and file_identity(known) == self.identity
        return file.input_of(source, known if is_planned else None)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Implement the Arrow PyCapsule protocol."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def check(self) -> None:
        """Open the file, and check that it is the one that was planned; reads only its footer.

        Raises:
            ReplacedWhileReadError: If the file was replaced after it was planned.
        """
        with self._shared.file.input_of(self._shared.file.open()) as file:
            self._check(file)

    def _check(self, file: ParquetInput) -> None:
        if file_identity(file) != self._shared.identity:
            raise ReplacedWhileReadError(
                "the file was replaced after it was planned; plan again",
                reason="file-replaced",
                path=self.path,
            )


def file_identity(file: ParquetInput | FileMetadata) -> str:
    """Return an identity of a file that is the same on every machine: its length and a hash of its footer."""
    footer, metadata = file.footer, file.metadata if isinstance(file, ParquetInput) else file
    return metadata.derived(
        "file_identity", lambda: f"{footer.file_length}-{xxhash.xxh3_128_hexdigest(footer.raw)}"
    )


def make_splits(
    shared: SplitQuery, edges: Rows, sizes: Sequence[int], rows: RowSelection, split_bytes: int | None
) -> list[Split]:
    """Divide the rows to read of a file into splits, at row group boundaries.

    Args:
        shared: The data that the splits share.
        edges: The first row of each row group, and the end of the last one.
        sizes: The number of bytes to read of each row group.
        rows: The rows that might match.
        split_bytes: Approximate number of bytes to read per split; None for one split per file.

    Returns:
        The splits; none of them is empty.
    """
    splits = []
    wanted: list[int] = rows.overlaps(edges[:-1], edges[1:]).nonzero()[0].tolist()
    most_bytes = math.inf if split_bytes is None else split_bytes
    for groups in split_batches(wanted, sizes.__getitem__, most_bytes):
        within = rows.clip(int(edges[groups[0]]), int(edges[groups[-1] + 1]))
        num_bytes = sum(map(sizes.__getitem__, groups))
        splits.append(Split(shared.file.path, tuple(groups), tuple(within), num_bytes, shared))
    return splits
