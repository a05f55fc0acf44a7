"""A table as a ``pyarrow.dataset.Dataset``, to which engines push columns and filters."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Any, NoReturn, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from intarsia.arrow.nested import conform, storage_of, text_of_json, with_leaves
from intarsia.arrow.owned_rows import filter_rows, no_rows, take_rows, to_batches
from intarsia.errors import ColumnNotFoundError, PredicateError, UnsupportedFeatureError
from intarsia.lake.binding import TableBinder
from intarsia.lake.scan import Scan
from intarsia.lake.snapshot import Snapshot
from intarsia.lake.table_files import TableFiles
from intarsia.once import cached_property
from intarsia.predicate import And, Predicate
from intarsia.predicate.expressions import parse_conjuncts
from intarsia.read.report import ScanReport

Columns: TypeAlias = "Sequence[str] | Mapping[str, pc.Expression] | None"
"""Names of columns, or expressions by the name of their column; None for all columns."""

#: Maximum number of rows of a batch, as in pyarrow.
BATCH_ROWS = 131_072


class _Scannable(ABC):
    """The reading methods of datasets and fragments, in terms of their scanners."""

    @abstractmethod
    def scanner(self, *arguments: Any, **options: Any) -> TableScanner:
        """Return a scanner of some rows and columns."""

    @property
    def partition_expression(self) -> pc.Expression:
        """The expression that is true for all rows."""
        return pc.scalar(True)

    def to_batches(self, *arguments: Any, **options: Any) -> Iterator[pa.RecordBatch]:
        """Read batches; options as for `scanner`."""
        return self.scanner(*arguments, **options).to_batches()

    def to_table(self, *arguments: Any, **options: Any) -> pa.Table:
        """Read a table; options as for `scanner`."""
        return self.scanner(*arguments, **options).to_table()

    def head(self, num_rows: int, **options: Any) -> pa.Table:
        """Read the first rows; options as for `scanner`."""
        return self.scanner(**options).head(num_rows)

    def take(self, indices: object, **options: Any) -> pa.Table:
        """Read all rows and select some by number; options as for `scanner`."""
        return self.scanner(**options).take(indices)

    def count_rows(self, **options: Any) -> int:
        """Count the rows, from indexes where they prove that rows match; options as for `scanner`."""
        return self.scanner(**options).count_rows()


class TableDataset(_Scannable, ds.Dataset):
    """A table as a ``pyarrow.dataset.Dataset``, made by `Table.dataset`.

    Engines that read datasets pass the columns and filters of a query to `scanner`. Each scan is one of the
    table: its filter prunes files, row groups and pages. The parts of a filter that Intarsia does not
    support are evaluated by pyarrow on the remaining rows.

    Partition columns have plain types, as in ``pyarrow.dataset.dataset``, and JSON is text.

    Args:
        table: The table.
        where: The filter of all scans; None for all rows.

    Attributes:
        table: The table.
    """

    def __init__(self, table: TableFiles, where: pc.Expression | None = None) -> None:
        # the base class has no state: every method that would use it is overridden
        self.table = table
        self._where = where
        self._last_scan: Scan | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.table, self._where)

    def __repr__(self) -> str:
        where = "" if self._where is None else f", {self._where}"
        return f"TableDataset({self.table!r}{where})"

    @cached_property
    def schema(self) -> pa.Schema:
        """The schema of the rows."""
        return plain_schema(self.table)

    @property
    def last_report(self) -> ScanReport | None:
        """The report of the scan that was started last; None before the first one.

        It is complete when the engine has taken all rows.
        """
        return None if self._last_scan is None else self._last_scan.report

    # --- reading -----------------------------------------------------------------------------------

    def scanner(
        self,
        columns: Columns = None,
        filter: pc.Expression | None = None,
        batch_size: int | None = None,
        implied: Sequence[Predicate] = (),
        **_: object,
    ) -> TableScanner:
        """Return a scanner of some rows and columns.

        Args:
            columns: Names of columns, or expressions by name; None for all columns.
            filter: The rows to read; None for all.
            batch_size: Maximum number of rows of a batch; None for 131,072.
            implied: Further conditions that the rows have to match. Those that the table cannot compare are
                ignored, so the caller evaluates them.
            **_: Other options of pyarrow, such as ``batch_readahead``. They are ignored.

        Raises:
            pyarrow.ArrowInvalid: If the dataset has no such column.
        """
        if self._where is not None:
            filter = self._where if filter is None else self._where & filter
        return TableScanner(self, columns, filter, batch_size, implied)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Implement the Arrow PyCapsule protocol, by which ``pyarrow.dataset.write_dataset`` reads."""
        return self.scanner().__arrow_c_stream__(requested_schema)

    # --- other datasets ----------------------------------------------------------------------------

    def filter(self, expression: pc.Expression) -> TableDataset:
        """Return the dataset of the rows that match."""
        return TableDataset(self.table, expression if self._where is None else self._where & expression)

    def get_fragments(self, filter: pc.Expression | None = None) -> Iterator[TableFragment]:
        """Yield one fragment that contains all rows, because one scan plans all files together."""
        del filter  # the filter only selects fragments; their scanners are passed it again
        yield TableFragment(self)

    def _get_fragments(self, filter: pc.Expression | None) -> Iterator[TableFragment]:
        return self.get_fragments(filter)

    def sort_by(self, sorting: object, **options: Any) -> ds.InMemoryDataset:
        """Read all rows and sort them."""
        return ds.dataset(self.to_table()).sort_by(sorting, **options)

    def join(self, right_dataset: ds.Dataset, *arguments: Any, **options: Any) -> ds.InMemoryDataset:
        """Read all rows and join them, as ``pyarrow.dataset.Dataset.join`` does."""
        return ds.dataset(self.to_table()).join(_in_memory(right_dataset), *arguments, **options)

    def join_asof(self, right_dataset: ds.Dataset, *arguments: Any, **options: Any) -> ds.InMemoryDataset:
        """Read all rows and join them, as ``pyarrow.dataset.Dataset.join_asof`` does."""
        return ds.dataset(self.to_table()).join_asof(_in_memory(right_dataset), *arguments, **options)

    def replace_schema(self, schema: pa.Schema) -> NoReturn:
        """Raise an error: the schema is that of the files.

        Raises:
            UnsupportedFeatureError: Always.
        """
        raise UnsupportedFeatureError(
            f"the dataset of a table cannot be read as {schema}; cast its rows after reading them",
            reason="replaced-schema",
        )

    def record(self, scan: Scan) -> Scan:
        """Keep a scan that is about to run, for `last_report`."""
        self._last_scan = scan
        return scan


class TableFragment(_Scannable):
    """The part of a dataset that one task of an engine reads, which is all of it."""

    def __init__(self, dataset: TableDataset) -> None:
        self._dataset = dataset

    @property
    def physical_schema(self) -> pa.Schema:
        """The schema of the rows."""
        return self._dataset.schema

    def scanner(
        self,
        schema: pa.Schema | None = None,  # noqa: ARG002  # part of pyarrow's interface
        columns: Columns = None,
        filter: pc.Expression | None = None,
        batch_size: int | None = None,
        **_: object,
    ) -> TableScanner:
        """Return a scanner, as `TableDataset.scanner` does."""
        return self._dataset.scanner(columns, filter, batch_size)


class TableScanner:
    """One query of a dataset, in the interface of ``pyarrow.dataset.Scanner``; it can run several times.

    Args:
        dataset: The dataset.
        columns: Names of columns, or expressions by name; None for all columns.
        where: The rows to read; None for all.
        batch_size: Maximum number of rows of a batch; None for `BATCH_ROWS`.
        implied: Further conditions, which are ignored if the table cannot compare them.

    Attributes:
        dataset_schema: The schema of the dataset.
        projected_schema: The schema of the result.
    """

    def __init__(
        self,
        dataset: TableDataset,
        columns: Columns,
        where: pc.Expression | pa.Scalar | None,
        batch_size: int | None,
        implied: Sequence[Predicate] = (),
    ) -> None:
        self._dataset = dataset
        self._table = dataset.table
        self._batch_size = BATCH_ROWS if batch_size is None else batch_size
        self._snapshot: Snapshot | None = self._table.new_snapshot()
        self._table.read_schema(self._snapshot)
        self.dataset_schema = dataset.schema
        self._columns = columns if columns is None or isinstance(columns, Mapping) else list(columns)
        if isinstance(where, pa.Scalar):  # DataFusion passes one for a condition that no row satisfies
            where = pc.scalar(where)
        # pyarrow checks names and types
        checked = ds.dataset(no_rows(self.dataset_schema)).scanner(columns=self._columns)
        self.projected_schema: pa.Schema = checked.projected_schema
        self._filters_storage = where is not None and _needs_storage(where, self.dataset_schema)
        conjuncts = None if where is None else parse_conjuncts(where, self.dataset_schema)
        usable = [one for one in conjuncts.predicates if self._is_usable(one)] if conjuncts else []
        is_complete = conjuncts is None or (
            conjuncts.is_complete and len(usable) == len(conjuncts.predicates)
        )
        usable += filter(self._is_usable, implied)
        self._predicate = None if not usable else usable[0] if len(usable) == 1 else And(tuple(usable))
        self._rest = None if is_complete else where
        names = None if self._columns is None else self._needed(self._columns)
        if conjuncts is not None and not is_complete and names is not None:
            names = None if conjuncts.columns is None else [*names, *sorted(conjuncts.columns - {*names})]
        self._names = self.dataset_schema.names if names is None else names
        fields = [self.dataset_schema.field(name) for name in self._names]
        self._read_schema = pa.schema(fields, self.dataset_schema.metadata)
        self._is_plain = is_complete and self._names == self.projected_schema.names

    def _is_usable(self, predicate: Predicate) -> bool:
        """Return whether a condition can be compared with the columns of the table."""
        try:
            TableBinder(self._table, predicate, [])
        except (PredicateError, ColumnNotFoundError):
            return False
        return True

    def _needed(self, columns: Sequence[str] | Mapping[str, pc.Expression]) -> list[str] | None:
        """Return the top-level columns that the result is computed from; None if they are unknown."""
        if not isinstance(columns, Mapping):
            known = set(self.dataset_schema.names)
            return list(columns) if known.issuperset(columns) else None
        found: set[str] = set()
        for expression in columns.values():
            names = parse_conjuncts(expression, self.dataset_schema).columns
            if names is None:
                return None
            found |= names
        return sorted(found)

    def _scan(self, limit: int | None = None) -> Scan:
        snapshot, self._snapshot = self._snapshot, None
        return self._dataset.record(Scan(self._table, self._predicate, self._names, limit, snapshot=snapshot))

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Run the scan, and yield batches."""
        return self._batches(self._scan())

    def to_reader(self) -> pa.RecordBatchReader:
        """Run the scan as a stream of batches."""
        return pa.RecordBatchReader.from_batches(self.projected_schema, self.to_batches())

    def to_table(self) -> pa.Table:
        """Run the scan, and return all rows."""
        return self._to_table(self.to_batches())

    def head(self, num_rows: int) -> pa.Table:
        """Return the first rows."""
        scan = self._scan(num_rows if self._rest is None else None)
        taken: list[pa.RecordBatch] = []
        with contextlib.closing(self._batches(scan)) as batches:
            left = num_rows
            while left > 0 and (batch := next(batches, None)) is not None:
                taken.append(batch.slice(0, left))
                left -= taken[-1].num_rows
        return self._to_table(iter(taken))

    def take(self, indices: Any) -> pa.Table:
        """Read all rows, and select some by number."""
        return take_rows(self.to_table(), indices)

    def count_rows(self) -> int:
        """Count the rows, without reading those that indexes prove to match."""
        if self._rest is None:
            return self._scan().count()
        return sum(batch.num_rows for batch in self.to_batches())

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Implement the Arrow PyCapsule protocol."""
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def _to_table(self, batches: Iterator[pa.RecordBatch]) -> pa.Table:
        return pa.Table.from_batches(batches, schema=self.projected_schema)

    def _batches(self, scan: Scan) -> Generator[pa.RecordBatch, None, None]:
        with contextlib.closing(scan.read_ahead()) as found:
            for encoded in found:
                rows = _conformed(pa.Table.from_batches([encoded]), self._read_schema)
                yield from to_batches(rows if self._is_plain else self._computed(rows), self._batch_size)

    def _computed(self, table: pa.Table) -> pa.Table:
        """Evaluate the rest of the filter and the columns of the result with pyarrow."""
        if self._rest is not None:
            stored = _conformed(table, _storage(table.schema)) if self._filters_storage else table
            # pyarrow's datasets cannot filter views
            (is_kept,) = ds.dataset(stored).to_table(columns={"is_kept": self._rest}).columns
            table = filter_rows(table, pc.fill_null(is_kept, False))
        columns = self.dataset_schema.names if self._columns is None else self._columns
        return ds.dataset(table).to_table(columns=columns)


def _conformed(table: pa.Table, schema: pa.Schema) -> pa.Table:
    if table.schema.types == schema.types:
        return table
    columns = [conform(column, field.type) for column, field in zip(table.columns, schema, strict=True)]
    return pa.Table.from_arrays(columns, schema=schema)


def _needs_storage(where: pc.Expression, schema: pa.Schema) -> bool:
    """Return whether pyarrow evaluates a filter only on the storage of extension types.

    Raises:
        pyarrow.ArrowException: If pyarrow does not evaluate it at all.
    """
    try:
        ds.dataset(no_rows(schema)).scanner(filter=where)
    except pa.ArrowNotImplementedError:
        ds.dataset(no_rows(_storage(schema))).scanner(filter=where)
        return True
    return False


def _storage(schema: pa.Schema) -> pa.Schema:
    return pa.schema([field.with_type(with_leaves(field.type, storage_of)) for field in schema])


def plain_schema(table: TableFiles) -> pa.Schema:
    """Return the schema of a table in types that engines compare.

    Partition columns have plain types, not dictionaries, and JSON is text.
    """
    schema = table.schema
    for ordinal, field in enumerate(schema):
        data_type = table.partition_types.get(field.name) or with_leaves(field.type, text_of_json)
        if data_type != field.type:
            schema = schema.set(ordinal, field.with_type(data_type))
    return schema


def _in_memory(dataset: ds.Dataset) -> ds.Dataset:
    return ds.dataset(dataset.to_table()) if isinstance(dataset, TableDataset) else dataset
