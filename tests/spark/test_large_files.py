"""`index` on a large file, which several tasks index by row groups."""

import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from intarsia import spark as ias

GROUP_BYTES, NUM_GROUPS, ROWS = 17 << 20, 5, 600
INDEXES = [ia.Bloom("id"), ia.Statistics(), ia.Distinct("id"), ia.ZoneMap("id", "file"), ia.RowMap("id")]


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """A file of 85 MiB in five row groups, most of it in a column that is not decoded."""
    path = tmp_path_factory.mktemp("large") / "large.parquet"
    random = np.random.default_rng(0)
    schema = pa.schema([("id", pa.int64()), ("blob", pa.list_(pa.binary()))])
    with pq.ParquetWriter(path, schema, compression="none", use_dictionary=False) as writer:
        for group in range(NUM_GROUPS):
            blobs = random.bytes(GROUP_BYTES)
            size = GROUP_BYTES // ROWS
            column = [[blobs[row * size : (row + 1) * size]] for row in range(ROWS)]
            ids = np.arange(group * ROWS, (group + 1) * ROWS)
            writer.write_table(pa.table({"id": ids, "blob": column}, schema=schema))
    return path


def test_the_bytes_are_those_of_one_process(spark, large, tmp_path):
    lake, expected = tmp_path / "lake", tmp_path / "expected"
    for folder in (lake, expected):
        folder.mkdir()
        shutil.copy2(large, folder / "a.parquet")
        pq.write_table(pa.table({"id": [1, 2]}), folder / "b.parquet")
    ia.attach(expected, INDEXES)
    shown = []
    report = ias.index(spark, lake, INDEXES, progress=lambda *done: shown.append(done))
    assert (report.files_indexed, report.files_failed) == (2, 0)
    for name in ("a.parquet", "b.parquet"):
        assert (lake / name).read_bytes() == (expected / name).read_bytes()
    indexing = [done for done, _, label in shown if label == "indexing"]
    assert indexing == sorted(indexing)
    assert indexing[-1] == 2
    assert sorted(path.name for path in lake.iterdir()) == ["a.parquet", "b.parquet"]
    again = ias.index(spark, lake, INDEXES)
    assert (again.files_indexed, again.files_failed) == (0, 0)


def test_a_large_file_that_cannot_be_indexed(spark, large, tmp_path):
    """The error is that of one process, and the file is unchanged."""
    shutil.copy2(large, tmp_path / "a.parquet")
    pq.write_table(pa.table({"blob": ["text"]}), tmp_path / "b.parquet")
    report = ias.index(spark, tmp_path, [ia.Distinct("blob"), ia.Statistics()])
    (failed,) = report.failed
    assert failed["path"] == str(tmp_path / "a.parquet")
    with pytest.raises(ia.IntarsiaError) as caught:
        ia.attach(tmp_path / "a.parquet", [ia.Distinct("blob"), ia.Statistics()])
    assert failed["code"] == caught.value.reason
    assert (tmp_path / "a.parquet").read_bytes() == large.read_bytes()
    assert report.files_indexed == 1
