"""Runs a scan of one file: prune, read the predicate's columns, filter, read the rest of what matches.

The predicate's columns are read at once, unless an index estimates that one condition keeps few rows: then
its columns come first, and those of the other conditions only where its rows are.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from intarsia.arrow.comparison import comparison_array, comparison_type
from intarsia.arrow.struct_fields import field_values
from intarsia.errors import CorruptFileError, FormatError, UnsupportedFeatureError
from intarsia.file import ChunkKey, ParquetInput
from intarsia.file.chunk_plan import ChunkPlan, DictionaryUse, data_page_count, plan_chunk
from intarsia.file.decode import PageDecoder, PageIndexMismatchError
from intarsia.file.fetch import PageCache
from intarsia.file.pages import walk_pages
from intarsia.file.synthetic import decode_errors
from intarsia.format.footer import Leaf, chunk_range
from intarsia.indexes.embedded import EmbeddedIndexes
from intarsia.predicate import Bound, BoundConstant, Path, evaluate
from intarsia.predicate.bound import conditions
from intarsia.read.estimate import Estimates, order_conditions
from intarsia.read.output_columns import OutputColumn, rows_without_columns
from intarsia.read.prune import Pruned, prune
from intarsia.read.report import FileTally, PageCounts
from intarsia.rows.selection import RowSelection
from intarsia.storage import SourceFile

#: A chunk that claims more values than so many, and so many for each of its bytes, has its pages counted.
_BELIEVED_ROWS = 1 << 22
_BELIEVED_PER_BYTE = 1 << 10

#: What tells estimates is read if it has at most one such part of the bytes of the candidates.
_ESTIMATE_PART = 8


class FileScan:
    """A scan of one file.

    Args:
        file: The file.
        predicate: Which rows; None for all.
        columns: What of them.
        constants: Values of columns that are not in the file; see `intarsia.read.prune.prune`.

    Attributes:
        tally: What was read so far.
        pruned: What the indexes excluded; None before `plan`, or without a predicate.
        embedded: The file's embedded indexes.
    """

    def __init__(
        self,
        file: ParquetInput,
        predicate: Bound | None,
        columns: Sequence[OutputColumn],
        constants: Mapping[Path, pa.Scalar] | None = None,
    ) -> None:
        self.file = file
        self.constants = dict(constants or {})
        self.predicate = None if isinstance(predicate, BoundConstant) and predicate.value else predicate
        self.columns = [column for column in columns if column.path not in self.constants]
        self.tally = FileTally()
        self.pruned: Pruned | None = None
        self.embedded = EmbeddedIndexes(file)
        self._decoder = PageDecoder(file)
        self._output_leaves = leaves_under(file, [column.path for column in self.columns])
        asked = [
            path for path in (self.predicate.paths() if self.predicate else ()) if path not in self.constants
        ]
        self._predicate_paths = asked
        self._predicate_types = {leaf.path: leaf.type for leaf in conditions(predicate)} if predicate else {}
        self._predicate_leaves = leaves_under(file, asked)
        self._stages: list[Bound] = [self.predicate] if self.predicate is not None and asked else []
        by_ordinal = {leaf.ordinal: leaf for leaf in [*self._predicate_leaves, *self._output_leaves]}
        self.leaves = [by_ordinal[ordinal] for ordinal in sorted(by_ordinal)]
        for leaf in self.leaves:
            counts = [
                data_page_count(file.footer.chunk_metadata(g, leaf)) for g in range(self._num_row_groups)
            ]
            self.tally.pages[leaf.name] = PageCounts(
                None if any(count is None for count in counts) else sum(count or 0 for count in counts)
            )

    @property
    def _num_row_groups(self) -> int:
        return len(self.file.footer.metadata.row_groups)

    # --- planning ----------------------------------------------------------------------------------

    def plan(self) -> RowSelection:
        """The rows that might match, by the indexes alone; no data page is read."""
        everything = RowSelection.all(self.file.footer.num_rows)
        if self.predicate is None:
            return everything
        if self.pruned is None:
            self.pruned = prune(
                self.file,
                self.predicate,
                constants=self.constants,
                data_bytes=self.estimated_bytes,
                embedded=self.embedded,
            )
            self.tally.index_bytes += self.pruned.index_bytes
            self.tally.steps = self.pruned.steps
            if len(self._predicate_paths) > 1:
                self._order_conditions(self.predicate, self.pruned.candidates)
        return self.pruned.candidates

    def _order_conditions(self, predicate: Bound, candidates: RowSelection) -> None:
        """Have the columns of the condition that keeps fewest rows read first."""
        with self._counting_index_bytes():
            estimates = Estimates(
                self.file, self.embedded, self.estimated_bytes(candidates) // _ESTIMATE_PART
            )
            num_rows, possible = self.file.footer.num_rows, max(1, candidates.num_rows)

            def share_of_candidates(condition: Bound) -> float | None:
                share = estimates.share(condition)
                return None if share is None else min(1.0, share * num_rows / possible)

            self._stages = order_conditions(predicate, share_of_candidates, self._column_bytes)

    def _column_bytes(self, path: Path) -> int:
        """Bytes of a column in the whole file; 0 for one that has a constant value."""
        return sum(
            self.file.footer.chunk_metadata(group, leaf).total_compressed_size
            for leaf in leaves_under(self.file, [path])
            for group in range(self._num_row_groups)
        )

    def estimate_rows(self) -> float | None:
        """About how many rows match, by what indexes estimate; None if they cannot tell."""
        if self.predicate is None or self.pruned is None:
            return float(self.file.footer.num_rows) if self.predicate is None else None
        with self._counting_index_bytes():
            share = Estimates(self.file, self.embedded, self.file.source.size()).share(self.predicate)
        if share is None:
            return None
        rows = share * self.file.footer.num_rows
        return float(min(max(rows, self.pruned.certain.num_rows), self.pruned.candidates.num_rows))

    @contextlib.contextmanager
    def _counting_index_bytes(self) -> Iterator[None]:
        before = self.file.source.counts.bytes
        yield
        self.tally.index_bytes += self.file.source.counts.bytes - before

    def estimated_bytes(self, rows: RowSelection) -> int:
        """About what reading some rows costs: each chunk's share of its bytes."""
        total = 0.0
        for group, share in self._row_groups(rows):
            size = sum(
                self.file.footer.chunk_metadata(group, leaf).total_compressed_size for leaf in self.leaves
            )
            total += size * share.num_rows / max(1, self.file.footer.metadata.row_groups[group].num_rows)
        return int(total)

    def _row_groups(self, rows: RowSelection) -> Iterator[tuple[int, RowSelection]]:
        """Row groups that hold some of the rows, and those rows relative to the row group."""
        edges = self.file.footer.row_group_starts
        for group in np.flatnonzero(rows.overlaps(edges[:-1], edges[1:])).tolist():
            start, stop = int(edges[group]), int(edges[group + 1])
            yield group, rows.clip(start, stop).shift(-start)

    def plan_pages(self, rows: RowSelection) -> None:
        """Count into `tally` what reading some rows would read, without reading data pages."""
        for group, wanted in self._row_groups(rows):
            self.tally.row_groups_read += 1
            self._load_offset_indexes(group, self.leaves)
            for leaf in self.leaves:
                plan = self._plan_chunk(group, leaf, wanted)
                self._count_pages(plan)
                self.tally.planned_bytes += plan.num_bytes
                if plan.dictionary is not None and plan.dictionary_use is not DictionaryUse.NEVER:
                    self.tally.planned_bytes += plan.dictionary.length

    # --- running -----------------------------------------------------------------------------------

    def batches(self, limit: int | None = None, rows: RowSelection | None = None) -> Iterator[pa.Table]:
        """The matching rows, one table for each row group that has any.

        Args:
            limit: Stop after so many rows.
            rows: Only such rows are wanted; the others are known already.

        Yields:
            Tables with the scan's columns (constants not among them), in the order of the file.

        Raises:
            PageIndexMismatchError: If ``rows`` are given, and a page index proved wrong, which is no longer
                believed: then the others may not be what was known, either.
        """
        left = limit
        if limit == 0:
            return
        candidates = self.plan()
        if self.predicate is None and limit is not None:
            candidates = candidates.head(limit)
        if rows is not None:
            candidates = candidates & rows
        self.tally.rows_candidate += candidates.num_rows
        for group, wanted in self._row_groups(candidates):
            self.tally.row_groups_read += 1
            table = self._read_row_group(group, wanted, is_partial=rows is not None)
            if left is not None:
                table = table.slice(0, min(left, table.num_rows))
                left -= table.num_rows
            self.tally.rows_matched += table.num_rows
            if table.num_rows:
                yield table
            if left == 0:
                return

    def read_all(self) -> pa.Table:
        """All rows at once, by pyarrow's own reader with its threads; for scans without a predicate."""
        self.tally.row_groups_read = self._num_row_groups
        self.tally.rows_candidate = self.tally.rows_matched = self.file.footer.num_rows
        if not self._output_leaves:
            return rows_without_columns(self.file.footer.num_rows)
        groups = range(self._num_row_groups)
        for group in groups:
            self._count_whole(group)
        if len(groups) < 2:
            return pa.concat_tables([self._read_whole(group) for group in groups] or [self._select({}, 0)])
        # pyarrow decodes the columns of one row group in parallel; several groups at once leave no core idle
        with ThreadPoolExecutor(min(len(groups), pa.cpu_count())) as pool:
            return pa.concat_tables(pool.map(self._read_whole, groups))

    def _read_whole(self, group: int) -> pa.Table:
        """A row group whole: pyarrow reads by itself, through the counted source."""
        num_rows = self.file.footer.metadata.row_groups[group].num_rows
        if not self._output_leaves:
            return rows_without_columns(num_rows)
        with self.file.named_errors():
            for leaf in self._output_leaves:
                self._check_claims(group, leaf)
            try:
                with decode_errors(f"row group {group}", "RowGroup"):
                    reader = pq.ParquetFile(
                        pa.PythonFile(SourceFile(self.file.source), mode="r"),
                        metadata=self.file.arrow_metadata,
                        pre_buffer=True,
                    ).reader
                    table = reader.read_row_group(
                        group, column_indices=[leaf.ordinal for leaf in self._output_leaves], use_threads=True
                    )
            except FormatError:
                self._decode_whole(group, num_rows)  # names the column that is damaged
                raise
            if table.num_rows != num_rows:
                raise CorruptFileError(f"row group {group} holds {table.num_rows} rows, not {num_rows}")
        roots = sorted({leaf.root_ordinal for leaf in self._output_leaves})
        return self._select(dict(zip(roots, table.columns, strict=True)), num_rows)

    def _decode_whole(self, group: int, num_rows: int) -> None:
        """Decode every column of a row group, its pages unknown, for the error that this raises."""
        everything = RowSelection.all(num_rows)
        for leaf in self._output_leaves:
            meta = self.file.footer.chunk_metadata(group, leaf)
            plan = plan_chunk(leaf, meta, None, num_rows, everything)
            self._decoder.decode(PageCache(self.file).fetch([plan]), everything)

    def _check_claims(self, group: int, leaf: Leaf) -> None:
        """Refuse a chunk that claims far more values than its pages hold, before room is made for them.

        Only claims that are hard to believe are checked: a chunk of few bytes may hold many equal values.
        """
        meta = self.file.footer.chunk_metadata(group, leaf)
        num_rows = self.file.footer.metadata.row_groups[group].num_rows
        if max(num_rows, meta.num_values) <= _BELIEVED_ROWS + _BELIEVED_PER_BYTE * meta.total_compressed_size:
            return
        start, stop = chunk_range(meta)
        walk_pages(self.file.source.read(start, stop), meta.num_values)
        if num_rows > meta.num_values:
            raise CorruptFileError(
                f"row group {group} claims {num_rows} rows, column {leaf.name!r} {meta.num_values} values",
                struct="RowGroup",
            )

    def _count_whole(self, group: int) -> None:
        for leaf in self._output_leaves:
            pages = data_page_count(self.file.footer.chunk_metadata(group, leaf))
            self.tally.pages[leaf.name].read += pages or 0

    def _read_row_group(self, group: int, wanted: RowSelection, *, is_partial: bool) -> pa.Table:
        num_rows = self.file.footer.metadata.row_groups[group].num_rows
        if self.predicate is None and wanted.num_rows == num_rows:
            self._count_whole(group)
            return self._read_whole(group)
        try:
            return self._read_selected(group, wanted)
        except PageIndexMismatchError as error:
            self.file.distrust_page_index(group, str(error))
            if is_partial:
                raise
            # the column index pruned by rows that are not what they seem: judge the whole row group
            return self._read_selected(group, RowSelection.all(num_rows))

    def _read_selected(self, group: int, wanted: RowSelection) -> pa.Table:
        """Two phases: the predicate's columns of the candidates, then the rest of the rows that match."""
        pages = PageCache(self.file)
        rows = wanted
        values: dict[Path, pa.ChunkedArray] = {}
        for condition in self._stages:
            asked = condition.paths()
            values |= self._predicate_columns(group, asked - values.keys(), rows, pages)
            compared = {path: self._as_compared(path, values[path]) for path in asked & values.keys()}
            mask = evaluate(condition, {**self._constant_columns(rows.num_rows), **compared}, rows.num_rows)
            kept = _keep(rows, mask.to_numpy(zero_copy_only=False))
            if kept.is_empty:
                return self._select({}, 0)
            if kept.num_rows < rows.num_rows:
                values = {path: _filter(column, mask) for path, column in values.items()}
            rows = kept
        reused = {column.path: values[column.path] for column in self.columns if column.path in values}
        missing = leaves_under(
            self.file, [column.path for column in self.columns if column.path not in reused]
        )
        decoded: dict[int, pa.ChunkedArray] = {}
        if missing:
            self._load_offset_indexes(group, missing)
            decoded = self._decode(group, missing, rows, pages)
        return self._select(decoded, rows.num_rows, reused)

    def _predicate_columns(
        self, group: int, paths: Set[Path], rows: RowSelection, pages: PageCache
    ) -> dict[Path, pa.ChunkedArray]:
        """Some of the predicate's columns, where they are columns of this file."""
        asked = [path for path in self._predicate_paths if path in paths]
        leaves = leaves_under(self.file, asked)
        self._load_offset_indexes(group, leaves)
        found = self._decode(group, leaves, rows, pages)
        return {path: self._field(found, path) for path in asked}

    def _as_compared(self, path: Path, column: pa.ChunkedArray) -> pa.ChunkedArray:
        """A column as the predicate means it: of the table's type, where this file has another."""
        kind = self._predicate_types[path]
        plain = comparison_type(column.type)
        if plain == kind:
            return column
        return self._cast(comparison_array(column, plain), ".".join(path), kind)

    def _cast(self, column: pa.ChunkedArray, name: str, kind: pa.DataType) -> pa.ChunkedArray:
        try:
            return column.cast(kind)
        except pa.ArrowException as error:
            raise UnsupportedFeatureError(
                f"column {name!r} is {column.type} here and {kind} in the table's first file, and its values "
                f"do not fit: {error}; list a file of the wider type first, or open each type by itself",
                path=self.file.path,
            ) from error

    def _constant_columns(self, num_rows: int) -> dict[Path, pa.Array]:
        if self.predicate is None:
            return {}
        return {
            path: pa.repeat(self.constants[path], num_rows)
            for path in self.predicate.paths()
            if path in self.constants
        }

    def _load_offset_indexes(self, group: int, leaves: Sequence[Leaf]) -> None:
        with self._counting_index_bytes():
            self.file.load_page_index([ChunkKey(group, leaf.ordinal) for leaf in leaves])

    def _plan_chunk(self, group: int, leaf: Leaf, rows: RowSelection) -> ChunkPlan:
        meta = self.file.footer.chunk_metadata(group, leaf)
        locations = self.file.locations(ChunkKey(group, leaf.ordinal))
        return plan_chunk(leaf, meta, locations, self.file.footer.metadata.row_groups[group].num_rows, rows)

    def _decode(
        self, group: int, leaves: Sequence[Leaf], rows: RowSelection, pages: PageCache
    ) -> dict[int, pa.ChunkedArray]:
        plans = [self._plan_chunk(group, leaf, rows) for leaf in leaves]
        for plan in plans:
            if pages.is_new(plan):
                self._count_pages(plan)
        with self.file.named_errors():
            for plan in plans:
                if plan.whole:
                    self._check_claims(group, plan.leaf)
        chunks = pages.fetch(plans)
        self.tally.dictionary_pages_read += pages.take_dictionary_count()
        with self.file.named_errors():
            return self._decoder.decode(chunks, rows)

    def _count_pages(self, plan: ChunkPlan) -> None:
        counts = self.tally.pages[plan.leaf.name]
        if plan.whole:
            counts.read += plan.total_pages or 0
        else:
            counts.read += len(plan.page_starts)

    # --- shaping -----------------------------------------------------------------------------------

    def shape(self, rows: pa.Table) -> pa.Table:
        """Whole rows of the file, of all its columns, as `batches` would give them."""
        return self._select(dict(enumerate(rows.columns)), rows.num_rows)

    def _field(self, fields: Mapping[int, pa.ChunkedArray], path: Path) -> pa.ChunkedArray:
        """A field, or a field of structs in it, null where a struct above it is null."""
        return field_values(fields[self.file.arrow_schema.get_field_index(path[0])], path[1:])

    def _select(
        self,
        fields: Mapping[int, pa.ChunkedArray],
        num_rows: int,
        reused: Mapping[Path, pa.ChunkedArray] | None = None,
    ) -> pa.Table:
        arrays = []
        for column in self.columns:
            if reused and column.path in reused:
                array = reused[column.path]
            elif num_rows == 0:
                array = pa.chunked_array([], type=column.type)
            else:
                array = self._field(fields, column.path)
            arrays.append(array if array.type == column.type else self._cast(array, column.name, column.type))
        if not arrays:
            return rows_without_columns(num_rows)
        return pa.Table.from_arrays(arrays, schema=pa.schema([(c.name, c.type) for c in self.columns]))


def leaves_under(file: ParquetInput, paths: Sequence[Path]) -> list[Leaf]:
    """The leaves of fields given by path, in the order of the schema."""
    wanted = set(paths)
    depths = {len(path) for path in wanted}
    return [leaf for leaf in file.footer.leaves if any(leaf.path[:depth] in wanted for depth in depths)]


def _keep(rows: RowSelection, flags: np.ndarray) -> RowSelection:
    """The rows whose flag is set; there is one flag for each row, in order."""
    if flags.all():
        return rows
    if len(rows) == 1:
        return RowSelection.from_mask(flags, int(rows.starts[0]))
    return RowSelection.from_rows(rows.rows()[flags])


def _filter(column: pa.ChunkedArray, mask: pa.BooleanArray) -> pa.ChunkedArray:
    """The values whose flag is set, for views too, which pyarrow cannot filter."""
    if pa.types.is_string_view(column.type) or pa.types.is_binary_view(column.type):
        plain = pa.large_string() if pa.types.is_string_view(column.type) else pa.large_binary()
        return column.cast(plain).filter(mask).cast(column.type)
    return column.filter(mask)
