"""Random tables of every shape: a file by any writer, or a lake of many files, with and without indexes."""

from __future__ import annotations

import contextlib
import functools
import os
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import event, reject
from hypothesis import strategies as st

import intarsia as ia
from intarsia.rows.selection import RowSelection
from tests.lake.index.lakes import age
from tests.predicate import strategies as flat
from tests.reading import tables, writers

#: A file with a modification time in the future may change without a trace, so it is planned separately.
FUTURE_SECONDS = 4_000_000_000

#: Writers cannot write a part of a table with views.
TYPES = tuple(
    kind for kind in flat.TYPES if not (pa.types.is_string_view(kind) or pa.types.is_binary_view(kind))
)


@dataclass(frozen=True)
class Source:
    """A table that was written.

    Attributes:
        open: Opens it as another user would, with nothing in memory.
        files: Its files, in their order.
        comparable: The columns and fields that conditions can use.
        partitions: The value of the partition column ``p`` for each file; empty without one.
        deleted: The numbers of the deleted rows of each file.
        alone: Opens a copy whose files are each planned by themselves; None if there is no copy.
    """

    open: Callable[[], ia.Table]
    files: tuple[Path, ...]
    comparable: tuple[str, ...]
    partitions: tuple[int, ...] = ()
    deleted: tuple[frozenset[int], ...] = ()
    alone: Callable[[], ia.Table] | None = None


# --- one file -----------------------------------------------------------------------------------------------


def file_by_pyarrow(data, folder, **forced):
    """A file of any types, with many small pages, and optionally with indexes."""
    made = data.draw(tables.tables(), label="table")
    options = data.draw(tables.pyarrow_options(made), label="options") | forced
    path = folder / "f.parquet"
    try:
        pq.write_table(made.table, path, **options)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        event(str(error)[:50])
        reject()
    attach(path, data.draw(indexes(made.comparable), label="indexes"))
    age(path)  # the footer of a file of the last seconds is read twice, so reports would depend on the time
    return Source(functools.partial(ia.open, path), (path,), made.comparable)


def file_of_dictionaries(data, folder):
    """Chunks with a dictionary page, with which all their pages may be encoded, or some."""
    limit = data.draw(st.sampled_from([None, 8, 40]), label="limit")
    return file_by_pyarrow(data, folder, use_dictionary=True, dictionary_pagesize_limit=limit)


def file_by(name, data, folder):
    """A file by another writer."""
    writer = writers.WRITERS[name]
    made = data.draw(tables.tables(writer.types, writer.nested, writer.max_rows), label="table")
    path = folder / "f.parquet"
    writer.write(data.draw, made.table, path)
    age(path)
    return Source(functools.partial(ia.open, path), (path,), made.comparable)


@st.composite
def indexes(draw, columns):
    """Up to four indexes of several granularities."""
    granularities = st.sampled_from(["file", "row_group", "page", 1, 3, 7])
    kinds = {
        ia.ZoneMap: lambda name: ia.ZoneMap(name, draw(granularities)),
        ia.Distinct: lambda name: ia.Distinct(name, draw(granularities)),
        ia.Bloom: ia.Bloom,
        ia.Ngram: ia.Ngram,
        ia.RowMap: ia.RowMap,
    }
    found = [ia.PageIndex()] if draw(st.booleans()) else []
    chosen = st.lists(
        st.tuples(st.sampled_from(list(kinds)), st.sampled_from(columns)), max_size=3, unique=True
    )
    return [*found, *(kinds[kind](name) for kind, name in draw(chosen))]


def attach(path, chosen):
    """Attach indexes, without those that do not support their column or the file."""
    for index in chosen:
        try:
            ia.attach(path, [index])
        except ia.IntarsiaError as error:
            event(str(error.reason))


# --- many files ---------------------------------------------------------------------------------------------


def lake(data, folder, *, least_edges=1, most_files=5, lake_index=False):
    """Files of one table, written in one or two ways."""
    folder = folder / "lake"
    made = data.draw(tables.tables(TYPES, nested=tables.LISTS + tables.MAPS, max_rows=80), label="table")
    num_rows = made.table.num_rows
    edges = data.draw(
        st.lists(st.integers(0, num_rows), min_size=least_edges, max_size=most_files), label="edges"
    )
    edges = [0, *sorted(edges), num_rows]
    ways = data.draw(
        st.lists(st.tuples(tables.pyarrow_options(made), indexes(made.comparable)), min_size=1, max_size=2),
        label="ways",
    )
    by_partition = data.draw(st.booleans(), label="partitions")
    chosen = random.Random(data.draw(st.integers(0, 2**16), label="seed"))
    files, places, late = [], [], []
    for ordinal in range(len(edges) - 1):
        place = ordinal % 3 if by_partition else None
        path = folder / ("" if place is None else f"p={place}") / f"{ordinal:02}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        rows = made.table.slice(edges[ordinal], edges[ordinal + 1] - edges[ordinal])
        options, some_indexes = chosen.choice(ways)
        try:
            pq.write_table(rows, path, **options)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            pq.write_table(rows, path)
        attach(path, some_indexes)
        if chosen.random() < 0.8:
            age(path)
        else:  # like a file of the last seconds, but it does not age: in no lake index and no cache
            os.utime(path, (FUTURE_SECONDS, FUTURE_SECONDS))
        if lake_index and chosen.random() < 0.2:
            late.append(path)
        files.append(path)
        places.append(place)
    order = sorted(range(len(files)), key=lambda ordinal: str(files[ordinal]))
    files = tuple(files[ordinal] for ordinal in order)
    if lake_index:
        build_lake_index(data, folder, late)
    source = files if lake_index and not by_partition and data.draw(st.booleans()) else folder
    return Source(
        functools.partial(ia.open, list(map(str, source)) if source is files else folder),
        files,
        made.comparable,
        tuple(places[ordinal] for ordinal in order) if by_partition else (),
        alone=None if lake_index else functools.partial(opened_alone, folder),
    )


def build_lake_index(data, folder, late):
    """Build a lake index before some of the files are there."""
    with contextlib.ExitStack() as elsewhere:
        for path in late:
            hidden = path.with_suffix(".hidden")
            path.rename(hidden)
            elsewhere.callback(hidden.rename, path)
        try:
            where = data.draw(st.sampled_from(["cache", "beside"]), label="location")
            report = ia.open(folder).build_lake_index(where, wait=False)
        except (ia.IntarsiaError, FileNotFoundError) as error:  # no file is left, or types differ
            event(type(error).__name__)
        else:
            assert report.failed == ()


def opened_alone(folder):
    """Open a copy of a lake in which each file is planned by itself."""
    copy = folder.with_name("alone")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(folder, copy)
    for path in copy.rglob("*.parquet"):
        os.utime(path, (FUTURE_SECONDS, FUTURE_SECONDS))
    return ia.open(copy)


@dataclass(frozen=True)
class Gone:
    """Deleted rows of a file."""

    numbers: frozenset[int]

    def rows(self):
        return RowSelection.from_rows(np.array(sorted(self.numbers), dtype=np.int64))


@dataclass(frozen=True)
class WithDeletedRows:
    """The files of a table, some of whose rows are deleted."""

    files: tuple[Path, ...]
    deleted: tuple[frozenset[int], ...] = field(repr=False)

    def list_files(self):
        return [
            ia.DataFile(str(path), path.stat().st_size, deletes=Gone(rows) if rows else None)
            for path, rows in zip(self.files, self.deleted, strict=True)
        ]


def deletions(data, folder):
    """Files of which a table format has deleted rows: some, whole pages and row groups, or all."""
    made = lake(data, folder, lake_index=data.draw(st.booleans(), label="lake index"))
    chosen = random.Random(data.draw(st.integers(0, 2**16), label="rows"))
    deleted = []
    for path in made.files:
        numbers = range(pq.read_metadata(path).num_rows)
        share = chosen.choice([0, 0.1, 0.7, 1])
        start = chosen.randrange(len(numbers) + 1)
        run = numbers[start : start + chosen.choice([0, 10, 50])]
        deleted.append(frozenset(run) | {number for number in numbers if chosen.random() < share})
    table = functools.partial(ia.open, WithDeletedRows(made.files, tuple(deleted)))
    return Source(table, made.files, made.comparable, deleted=tuple(deleted))


# --- many files of different types --------------------------------------------------------------------------

SMALL = st.integers(-100, 100)
#: Types that have a common type, which has all their values; and the values to draw for each.
FAMILIES = [
    *(
        [(kind, flat.values(kind)) for kind in kinds]
        for kinds in (
            [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32()],
            [pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()],
            [pa.int8(), pa.int32(), pa.uint16(), pa.float32(), pa.float64()],
            [pa.int8(), pa.uint32(), pa.decimal128(9, 2), pa.decimal128(18, 4), pa.decimal256(40, 1)],
            [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())],
            [pa.string(), pa.binary(), pa.large_binary(), pa.binary(3)],
            [pa.bool_()],
        )
    ),
    [(kind, SMALL) for kind in (pa.date32(), *flat.NAIVE)],
    [(kind, SMALL) for kind in flat.AWARE[:1] + flat.AWARE[2:3]],
    [(kind, st.integers(0, 80_000)) for kind in (pa.time32("s"), pa.time32("ms"), pa.time64("us"))],
    [(kind, SMALL) for kind in flat.DURATIONS],
]


def column_of(data, kinds, num_rows, chosen):
    kind, values = data.draw(st.sampled_from(kinds), label="type")
    base = kind.value_type if pa.types.is_dictionary(kind) else kind
    pool = data.draw(st.lists(st.none() | values, min_size=1, max_size=6), label="values")
    array = flat.make_array(base, [chosen.choice(pool) for _ in range(num_rows)])
    return array.dictionary_encode().cast(kind) if pa.types.is_dictionary(kind) else array


def mixed_lake(data, folder):
    """Files that lack columns and fields here and there, and whose types differ."""
    families = {name: data.draw(st.sampled_from(FAMILIES)) for name in ("a", "b", "c")}
    inside = {name: data.draw(st.sampled_from(FAMILIES)) for name in ("x", "y")}
    chosen = random.Random(data.draw(st.integers(0, 2**16), label="seed"))
    folder, files, seen = folder / "lake", [], {}
    folder.mkdir()
    for place in range(data.draw(st.integers(2, 5), label="files")):
        num_rows = data.draw(st.integers(0, 12), label="rows")
        columns = {}
        for name in data.draw(st.lists(st.sampled_from([*families, "s"]), min_size=1, unique=True)):
            if name == "s":
                fields = data.draw(st.lists(st.sampled_from(list(inside)), min_size=1, unique=True))
                children = [column_of(data, inside[child], num_rows, chosen) for child in fields]
                nulls = pa.array([chosen.random() < 0.2 for _ in range(num_rows)], pa.bool_())
                columns[name] = pa.StructArray.from_arrays(children, fields, mask=nulls)
                seen |= dict.fromkeys(f"s.{child}" for child in fields)
            else:
                columns[name] = column_of(data, families[name], num_rows, chosen)
                seen[name] = None
        path = folder / f"{place}.parquet"
        size = data.draw(st.integers(1, 12), label="row group")
        pq.write_table(pa.table(columns), path, row_group_size=size, write_page_index=chosen.random() < 0.5)
        age(path)
        files.append(path)
    if data.draw(st.booleans(), label="lake index"):
        build_lake_index(data, folder, [])
    return Source(functools.partial(ia.open, folder), tuple(files), tuple(seen))


SHAPES = {
    "file": file_by_pyarrow,
    "file of dictionaries": file_of_dictionaries,
    **{f"file by {name}": functools.partial(file_by, name) for name in writers.WRITERS},
    "lake": lake,
    "many files": functools.partial(lake, least_edges=10, most_files=20),
    "lake index": functools.partial(lake, most_files=8, lake_index=True),
    "deleted rows": deletions,
    "mixed types": mixed_lake,
}


# --- the oracle ---------------------------------------------------------------------------------------------


def full_read(source, schema):
    """All rows of a table, file by file by pyarrow, in the types of the table, and the place of each."""
    parts, places = [], []
    for ordinal, path in enumerate(source.files):
        rows = pq.read_table(path, partitioning=None)
        gone = source.deleted[ordinal] if source.deleted else ()
        kept = [number for number in range(rows.num_rows) if number not in gone]
        columns = []
        for one in schema:
            if one.name == "p" and source.partitions:
                column = pa.array([source.partitions[ordinal]] * rows.num_rows, pa.int32())
                if pa.types.is_dictionary(one.type):
                    column = column.dictionary_encode()
                columns.append(pa.chunked_array([column.cast(one.type)]))
            elif one.name in rows.column_names:
                columns.append(as_type(rows[one.name], one.type))
            else:
                columns.append(pa.chunked_array([pa.nulls(rows.num_rows, one.type)]))
        whole = pa.table(columns, schema=schema)
        if len(kept) < rows.num_rows:
            runs = [whole.slice(number, 1) for number in kept]
            whole = pa.concat_tables([whole.slice(0, 0), *runs])
        parts.append(whole)
        places += [(str(path), number) for number in kept]
    return pa.concat_tables(parts), places


def as_type(column, kind):
    """Cast a column; structs field by field, by name."""
    if column.type == kind:
        return column
    if not pa.types.is_struct(kind):
        return column.cast(kind)
    column = column.combine_chunks()
    children = []
    for one in kind:
        place = column.type.get_field_index(one.name)
        # the values, which are null where the struct is
        children.append(
            pa.nulls(len(column), one.type) if place < 0 else as_type(column.flatten()[place], one.type)
        )
    return pa.chunked_array([pa.StructArray.from_arrays(children, fields=list(kind), mask=column.is_null())])
