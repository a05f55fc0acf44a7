"""Aggregates of files that other processes read; tests/answers compares them with `Table.aggregate`."""

import math
import pickle

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from intarsia.lake.shared_aggregate import SharedAggregate
from tests.lake.index.lakes import write


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    """Partitions, other widths, a column that most files lack, NaN, nulls and a file without rows."""
    folder = tmp_path_factory.mktemp("shared") / "lake"
    for ordinal in range(6):
        rows = range(0 if ordinal == 4 else 60)
        columns = {
            "x": pa.array([ordinal * 60 + row for row in rows], pa.int32() if ordinal % 2 else pa.int64()),
            "f": pa.array([math.nan if ordinal == 2 and row == 7 else row / 4 for row in rows], pa.float64()),
            "s": pa.array([None if row % 3 else f"{ordinal} {row}" for row in rows], pa.string()),
            "st": pa.array([{"n": row} for row in rows], pa.struct([("n", pa.int64())])),
        }
        if ordinal == 5:
            columns["late"] = pa.array(list(rows), pa.int16())
        indexes = [ia.PageIndex(), ia.ZoneMap("x")] if ordinal % 2 else []
        path = folder / f"day={10 - ordinal // 2}" / f"{ordinal}.parquet"
        write(path, pa.table(columns), indexes, row_group_size=30, max_rows_per_page=10)
    return folder


def shared(path, functions, where, on_error="raise"):
    """Run the work of each file after a copy to another process, and return the result."""
    aggregate = SharedAggregate(ia.open(path), functions, where, on_error)
    files = pickle.loads(pickle.dumps(aggregate.files))
    for name in files.ordinals:
        aggregate.add(pickle.loads(pickle.dumps(files.run(name))))
    return aggregate.result()


def test_a_lake_index_leaves_no_files(lake):
    table = ia.open(lake)
    table.build_lake_index("beside")
    try:
        aggregate = SharedAggregate(ia.open(lake), {"*": "count", "x": "max"})
        assert not aggregate.files.ordinals
        assert aggregate.result() == {"*": {"count": 300}, "x": {"max": 359}}
    finally:
        table.remove_lake_index()


def test_damaged_files_are_left_out(tmp_path):
    for name in ("a", "b"):
        pq.write_table(pa.table({"x": list(range(1000))}), tmp_path / f"{name}.parquet", compression=None)
    data = bytearray((tmp_path / "b.parquet").read_bytes())
    data[4:900] = bytes(896)
    (tmp_path / "b.parquet").write_bytes(data)
    with pytest.raises(ia.CorruptFileError):
        shared(tmp_path, {"x": "sum"}, "x > 5")
    with pytest.warns(ia.IntarsiaWarning):
        found = shared(tmp_path, {"x": "sum"}, "x > 5", on_error="skip")
    assert found == {"x": {"sum": sum(range(6, 1000))}}
    assert [failed.file for failed in found.report.files_failed] == [str(tmp_path / "b.parquet")]


def test_unknown_functions_and_columns(lake):
    with pytest.raises(ValueError, match="median"):
        SharedAggregate(ia.open(lake), {"x": "median"})
    with pytest.raises(ia.ColumnNotFoundError):
        SharedAggregate(ia.open(lake), {"nowhere": "sum"})
    with pytest.raises(ia.PredicateError):
        SharedAggregate(ia.open(lake), {"x": "sum"}, "x = ")


def test_a_part_of_a_table_has_the_columns_of_all(lake):
    table = ia.open(lake)
    last = [file.path for file in table.files].index(str(lake / "day=8" / "5.parquet"))
    part = pickle.loads(pickle.dumps(table.part([last])))
    assert part.schema == table.schema
    assert (
        part.scan("day = 8", ["x", "late", "day"]).to_arrow()
        == table.scan("x >= 300", ["x", "late", "day"]).to_arrow()
    )
    assert table.part([0]).scan("late IS NULL").count() == 60
