"""Lakes of objects, and what an enabled session has to do with them in each store."""

import random

import pyarrow as pa

import intarsia as ia
from tests.lake.index.lakes import write
from tests.spark import lakes
from tests.spark.random_queries import check_plans, check_predicates
from tests.spark.skipping import (
    FILES,
    ROWS,
    code_of,
    compare,
    make_lake,
    rows_of_file,
    saved_files,
    user_of,
)
from tests.spark.test_lake_index import attach


def lake_files(folder):
    """Return the bytes of the files of a lake."""
    return [path.read_bytes() for path in sorted(make_lake(folder).glob("*.parquet"))]


def put_lake(store, names, files):
    for name, data in zip(names, files, strict=True):
        store.put(f"lake/{name}.parquet", data)


def replacement(files, ordinal, tmp_path):
    """Return a file of the same length as another one, with the rows of a third."""
    path = tmp_path / "new.parquet"
    rows = rows_of_file(ordinal).set_column(1, "user", pa.array([user_of(3, 77)] * ROWS, pa.int32()))
    write(path, rows, (), row_group_size=ROWS, compression="none")
    data, length = path.read_bytes(), len(files[ordinal])
    assert len(data) <= length
    # a footer may be preceded by any bytes
    footer = int.from_bytes(data[-8:-4], "little") + 8
    return data[:-footer] + b"\0" * (length - len(data)) + data[-footer:]


def check_needle(enabled, lake, ordinal):
    """One row is read of one file."""
    found = compare(enabled, lambda: enabled.read.parquet(lake).where(f"code = '{code_of(ordinal, 5)}'"))
    assert len(found.rows) == 1
    assert found.plain_files == FILES
    assert (found.files, found.scanned) == (1, 1)


def check_random(enabled, store, bucket, folder, predicates, plans):
    """Compare random predicates and random plans with plain Spark."""
    local = lakes.write_with_pyarrow(folder / "lake", rows=60, row_group_size=30, max_rows_per_page=6)
    attach(local)
    ia.attach(local, [ia.PageIndex()])
    for path in sorted(folder.rglob("*.parquet")):
        store.put(str(path.relative_to(folder)), path.read_bytes())
    whole = enabled.read.parquet(f"{bucket}/lake")
    check_predicates(whole, random.Random(f"predicates {bucket}"), predicates)
    if plans:
        check_plans(whole, random.Random(f"plans {bucket}"), plans, lambda query: saved_files(enabled, query))


def check_partition_columns(enabled, store, bucket, files):
    """One row is read of one partition."""
    for ordinal, data in enumerate(files):
        store.put(f"lake/day={ordinal % 4}/part of {ordinal}.parquet", data)
    frame = enabled.read.parquet(f"{bucket}/lake")
    found = compare(enabled, lambda: frame.where(f"day = 1 AND code = '{code_of(5, 5)}'"))
    assert (len(found.rows), found.files, found.scanned) == (1, 1, 1)


def check_replaced_object(enabled, store, lake, key, new, moment, *, is_excluded):
    """The rows are those of the new object, which replaces a file that is excluded, or read."""
    narrow = enabled.read.parquet(lake).where(f"user = {user_of(3, 77)}")
    if moment == "planned":
        narrow._jdf.queryExecution().executedPlan()
    elif moment == "run":
        assert len(narrow.collect()) == 1
    store.put(key, new)
    assert len(narrow.collect()) == ROWS + is_excluded
