"""`ias.read` and Spark's own cache, which contains a lake as it was when it was cached."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from intarsia import spark as ias

FILES = 4
ROWS = 100


def write(folder, ordinal, first):
    folder.mkdir(parents=True, exist_ok=True)
    table = pa.table({"id": list(range(first, first + ROWS))})
    pq.write_table(table, folder / f"file-{ordinal}.parquet")


@pytest.fixture
def lake(tmp_path):
    """Ids 0 to 399, a hundred per file."""
    for ordinal in range(FILES):
        write(tmp_path / "lake", ordinal, ordinal * ROWS)
    return tmp_path / "lake"


@pytest.fixture
def partitioned(tmp_path):
    """Ids 0 to 399, in two years."""
    for ordinal in range(FILES):
        write(tmp_path / "lake" / f"year={2019 + ordinal // 2}", ordinal, ordinal * ROWS)
    return tmp_path / "lake"


@pytest.fixture
def cached(spark):
    """Cache and materialize a frame until the end of the test."""
    frames = []

    def cache(frame, level=None):
        frames.append(frame.cache() if level is None else frame.persist(level))
        return frame.count()

    yield cache
    for frame in frames:
        frame.unpersist(blocking=True)


def ids(spark, path, where):
    return sorted(row.id for row in ias.read(spark, path, where=where).collect())


def check(spark, path, *, there=(5, 399), absent=400):
    """Check that each id is found in one file of four, and an absent one in none."""
    for number in there:
        frame = ias.read(spark, path, where=f"id = {number}", mode="files")
        assert [row.id for row in frame.collect()] == [number]
        assert len(frame.inputFiles()) == 1
    assert ids(spark, path, f"id = {absent}") == []


@pytest.mark.spark
class TestCached:
    def test_the_whole_frame(self, spark, lake, cached):
        frame = spark.read.parquet(str(lake))
        assert cached(frame) == FILES * ROWS
        check(spark, lake)
        assert len(ids(spark, lake, "id >= 0")) == ias.read(spark, lake).count() == FILES * ROWS
        assert ias.explain(spark, lake, "id = 5").files_read == 1
        # the cache is unchanged
        assert frame.storageLevel.useMemory
        assert "InMemoryTableScan" in frame._jdf.queryExecution().executedPlan().toString()

    def test_with_another_storage_level(self, spark, lake, cached):
        from pyspark import StorageLevel

        assert cached(spark.read.parquet(str(lake)), StorageLevel.DISK_ONLY) == FILES * ROWS
        check(spark, lake)

    def test_a_view(self, spark, lake):
        spark.read.parquet(str(lake)).createOrReplaceTempView("cached_lake")
        spark.sql("CACHE TABLE cached_lake")
        try:
            check(spark, lake)
        finally:
            spark.sql("UNCACHE TABLE cached_lake")
            spark.catalog.dropTempView("cached_lake")

    def test_the_same_query(self, spark, lake, cached):
        assert cached(spark.read.parquet(str(lake)).where("id = 5")) == 1
        write(lake, 0, 1000)
        check(spark, lake, there=(1005, 250), absent=5)

    def test_a_frame_of_read(self, spark, lake, cached):
        answer = ias.read(spark, lake, where="id = 5")
        assert cached(answer) == 1
        write(lake, 0, 1000)
        assert answer.count() == 1  # the user has cached it
        check(spark, lake, there=(1005, 250), absent=5)

    @pytest.mark.parametrize("by_spark", [True, False])
    def test_files_appended_later(self, spark, lake, cached, by_spark):
        cached(spark.read.parquet(str(lake)))
        if by_spark:
            more = spark.range(400, 500).coalesce(1)
            more.write.mode("append").parquet(str(lake))
        else:
            write(lake, FILES, 400)
        check(spark, lake, there=(5, 499), absent=500)
        assert ias.read(spark, lake, where="id >= 0").count() == 500

    @pytest.mark.parametrize("by_spark", [True, False])
    def test_files_overwritten_later(self, spark, lake, cached, by_spark):
        cached(spark.read.parquet(str(lake)))
        if by_spark:
            new = spark.range(1000, 1400, 1, FILES)
            new.write.mode("overwrite").parquet(str(lake))
        else:
            for ordinal in range(FILES):
                write(lake, ordinal, 1000 + ordinal * ROWS)
        check(spark, lake, there=(1005, 1399), absent=5)

    def test_a_file_removed_later(self, spark, lake, cached):
        cached(spark.read.parquet(str(lake)))
        (lake / "file-0.parquet").unlink()
        check(spark, lake, there=(250, 399), absent=5)

    def test_a_partitioned_lake(self, spark, partitioned, cached):
        assert cached(spark.read.parquet(str(partitioned))) == FILES * ROWS
        check(spark, partitioned)
        assert len(ids(spark, partitioned, "year = 2019")) == 2 * ROWS
        write(partitioned / "year=2021", 0, 400)
        check(spark, partitioned, there=(5, 499), absent=500)
        assert len(ids(spark, partitioned, "year = 2021")) == ROWS

    def test_a_folder_of_the_lake(self, spark, partitioned, cached):
        assert cached(spark.read.parquet(f"{partitioned}/year=2019")) == 2 * ROWS
        check(spark, partitioned)
        check(spark, f"{partitioned}/year=2019", there=(5, 199), absent=250)

    def test_a_file_of_the_lake(self, spark, lake, cached):
        assert cached(spark.read.parquet(f"{lake}/file-0.parquet")) == ROWS
        write(lake, 0, 1000)
        check(spark, lake, there=(1005, 250), absent=5)

    def test_a_list_of_all_files(self, spark, lake, cached):
        assert cached(spark.read.parquet(*map(str, lake.iterdir()))) == FILES * ROWS
        check(spark, lake)


@pytest.mark.spark
def test_without_a_list_of_files_spark_reads_all_of_them(spark, lake, monkeypatch):
    """A missing list must not be read as a lake without rows."""
    monkeypatch.setattr("pyspark.sql.classic.dataframe.DataFrame.inputFiles", lambda self: [])
    assert [row.id for row in ias.read(spark, lake, where="id = 5").collect()] == [5]


CONNECT = """
import json, sys
from pathlib import Path
from pyspark import StorageLevel
from intarsia import spark as ias
from tests.spark.test_reading_cached import write

lake = Path(sys.argv[1])

def found(number):
    return [row.id for row in ias.read(spark, str(lake), where=f"id = {number}").collect()]

def files(number):
    return len(ias.read(spark, str(lake), where=f"id = {number}").inputFiles())

answer = {"connect": type(spark).__module__.startswith("pyspark.sql.connect")}
frame = spark.read.parquet(str(lake)).persist(StorageLevel.MEMORY_ONLY)
answer["rows"] = frame.count()
answer["listed by the cached frame"] = len(spark.read.parquet(str(lake)).inputFiles())
answer["cached"] = [found(5), found(250), found(-1), files(5)]
write(lake, 4, 400)
answer["appended"] = [found(5), found(499), ias.read(spark, str(lake), where="id >= 0").count(), files(499)]
write(lake, 0, 1000)
answer["overwritten"] = [found(5), found(1005), files(1005)]
frame.unpersist()
spark.read.parquet(str(lake)).createOrReplaceTempView("v")
spark.catalog.cacheTable("v")
spark.table("v").count()
answer["view"] = [found(1005), found(250), files(250)]
print(json.dumps(answer))
"""


@pytest.mark.spark
@pytest.mark.slow
def test_over_spark_connect(lake, connect_host):
    printed = connect_host.run(CONNECT, lake)
    assert json.loads(printed) == {
        "connect": True,
        "rows": 400,
        "listed by the cached frame": 0,
        "cached": [[5], [250], [], 1],
        "appended": [[5], [499], 500, 1],
        "overwritten": [[], [1005], 1],
        "view": [[1005], [250], 1],
    }
