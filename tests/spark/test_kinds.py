"""Every kind of index on lakes by Spark and by pandas: the job's report, and the files that `ias.read` keeps.

Each column of a lake has one index, and without it no file can be excluded.
"""

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from intarsia import spark as ias
from intarsia.embed.structures import STANDARD
from intarsia.indexes.registry import known_kinds
from tests.lake.index.lakes import age
from tests.spark.comparing import files_with_matches, local_path, rows, settings

pytestmark = pytest.mark.spark

FILES = 6

INDEXES = (
    ia.PageIndex(),
    ia.Statistics(),
    ia.Bloom("bloom", fpp=0.0001),
    ia.BloomGranule("granule", fpp=0.0001),
    ia.Distinct("listed"),
    ia.Histogram("price"),
    ia.Hll("listed"),
    ia.Ngram("text"),
    ia.RowMap("mapped"),
    ia.Sample(50),
    ia.ZoneMap("ts"),
)
EMBEDDED = {
    "bloom_granule(granule):page",
    "distinct(listed):page",
    "histogram(price):row_group",
    "hll(listed):file",
    "ngram(text):page",
    "row_map(mapped):file",
    "sample():file",
    "zone_map(ts):page",
}

#: Numbers that occur in one file each, spread over 61 bits.
SPREAD = "pmod(id * 1000000000000003, 2305843009213693951)"


def source(spark):
    """Rows of all files; ``k`` is the number of the file."""
    return spark.range(FILES * 1500).selectExpr(
        f"CAST(id % {FILES} AS INT) AS k",
        "id",
        f"{SPREAD} AS bloom",
        f"CAST({SPREAD} AS STRING) AS granule",
        f"{SPREAD} AS mapped",
        f"concat('v', lpad(CAST(id * 7919 % 997 * {FILES} + id % {FILES} AS STRING), 4, '0')) AS listed",
        f"concat('a line of ', hex(id % 97), ' with k', id % {FILES}, '-end') AS text",
        f"concat('c', lpad(CAST(id % 10 * {FILES} + id % {FILES} AS STRING), 2, '0')) AS word",
        # each file has the hours of one day, in UTC
        f"timestamp_seconds(1704067200 + id % {FILES} * 86400 + id * 7 % 86400) AS ts",
        f"date_add(DATE '2024-01-01', CAST(id % {FILES} AS INT)) AS day",
        "CAST(id AS DECIMAL(12, 3)) AS price",
        "concat(sha2(CAST(id AS STRING), 512), sha2(CAST(-id AS STRING), 512)) AS much",
    )


def write(spark, path):
    """Write a file for each k; only ``word`` has a dictionary, which would exclude as much as an index."""
    writer = source(spark).repartition("k").write.partitionBy("k")
    options = {"parquet.enable.dictionary": "false", "parquet.enable.dictionary#word": "true"}
    writer.options(**options).parquet(path)


@pytest.fixture(scope="module")
def lake(spark, tmp_path_factory):
    """A partitioned lake with INT96 times, a file for each k and every index; and the job's report."""
    path = str(tmp_path_factory.mktemp("kinds") / "lake")
    write(spark, path)
    before = files_of(path)
    assert len(before) == FILES
    schema = pq.ParquetFile(next(iter(before))).schema
    assert schema.column(schema.names.index("ts")).physical_type == "INT96"
    report = ias.index(spark, path, INDEXES, progress=False)
    age_files(path)
    return path, before, report


def age_files(path):
    """Spark's reader is not narrowed in files of the last two seconds."""
    for file in Path(path).rglob("*.parquet"):
        age(file)


def files_of(path):
    return {str(file): file.read_bytes() for file in sorted(Path(path).rglob("*.parquet"))}


def kinds():
    return {index.kind for index in INDEXES if not isinstance(index, STANDARD)}


def left(frame):
    """Return the k of the files that a frame reads."""
    return {int(path.split("/k=")[1].split("/")[0]) for path in frame.inputFiles()}


def excluded_by(spark, path, where):
    return {entry["index"] for entry in ias.explain(spark, path, where).to_dict()["pruned_by"]}


def test_every_kind_is_tested():
    assert kinds() == set(known_kinds())
    assert {type(index) for index in INDEXES if isinstance(index, STANDARD)} == set(STANDARD)


def test_a_lake_by_spark_gets_every_index_once(spark, lake):
    path, before, report = lake
    after = files_of(path)
    assert report.to_dict()["files"] == {
        "total": FILES,
        "indexed": FILES,
        "unchanged": 0,
        "failed": 0,
        "skipped": 0,
        "other": 0,
    }
    assert report.bytes_before == sum(map(len, before.values()))
    assert report.bytes_after == sum(map(len, after.values()))
    assert 0 < report.bytes_added == report.bytes_after - report.bytes_before
    assert all(data.startswith(before[file]) for file, data in after.items())
    for file in report.per_file:
        assert set(file.built) >= {*EMBEDDED, "bloom(bloom)"}
        assert set(file.built) | set(file.kept) == {*EMBEDDED, "bloom(bloom)", "page_index", "statistics"}
        entries = ia.inspect(file.path).directory.entries
        assert {entry.name for entry in entries} == EMBEDDED
    assert {(note["column"], note["index"], note["code"]) for note in report.notes} == {
        ("ts", index, "no-order") for index in ("page_index", "statistics")
    }
    assert len(report.notes) == 2 * FILES

    again = ias.index(spark, path, INDEXES, progress=False)
    assert (again.files_unchanged, again.files_failed, again.bytes_added) == (FILES, 0, 0)
    for file in again.per_file:
        assert file.built == ()
        assert set(file.kept) == {*EMBEDDED, "bloom(bloom)", "page_index", "statistics"}
    assert again.notes == report.notes
    assert files_of(path) == after


def spread(number):
    return number * 1000000000000003 % 2305843009213693951


#: A condition, and the only index that excludes files by it.
WHERES = {
    f"bloom = {spread(3001)}": "bloom_filter",
    f"bloom IN ({spread(10)}, {spread(16)}, {spread(5)})": "bloom_filter",
    f"bloom = {1 << 60}": "bloom_filter",
    f"mapped = {spread(3001)}": "row_map(mapped):file",
    f"mapped IN ({spread(4)}, {spread(5)}, NULL)": "row_map(mapped):file",
    f"granule = '{spread(3002)}'": "bloom_granule(granule):page",
    f"granule IN ('{spread(3)}', '{spread(8)}')": "bloom_granule(granule):page",
    "text LIKE '%k3-end%'": "ngram(text):page",
    "text LIKE '%k4-end'": "ngram(text):page",
    "text LIKE 'a line%k1-e_d'": "ngram(text):page",
    "text RLIKE 'k2-end' AND text NOT LIKE '%nothing%'": "ngram(text):page",
    "text LIKE '%k0-end%' OR text LIKE '%k5-end'": "ngram(text):page",
    "listed = 'v0301'": "distinct(listed):page",
    "listed LIKE 'v03_2' AND listed <> 'v0302'": "distinct(listed):page",
    "word = 'c13'": "dictionary",
    "word IN ('c20', 'c26')": "dictionary",
    "word LIKE '%09'": "dictionary",
    "ts = TIMESTAMP '2024-01-03 00:00:14Z'": "zone_map(ts):page",
    "ts >= TIMESTAMP '2024-01-05 00:00:00'": "zone_map(ts):page",
    "ts BETWEEN '2024-01-02' AND '2024-01-02 12:00:00'": "zone_map(ts):page",
    "ts IN (TIMESTAMP '2024-01-03 00:00:14Z', TIMESTAMP '2024-01-06 00:01:17Z')": "zone_map(ts):page",
    "ts < DATE '2024-01-02' OR ts > DATE '2024-01-06'": "zone_map(ts):page",
    "ts < TIMESTAMP_NTZ '2024-01-02 00:00:00'": "zone_map(ts):page",
    "ts < TIMESTAMP '2024-01-02 00:00:00+05:30'": "zone_map(ts):page",
    "day = DATE '2024-01-04'": "statistics",
}


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_each_index_keeps_only_the_files_with_matches(spark, lake, zone):
    """Spark evaluates the conditions as columns of one query, so that it skips nothing itself."""
    path, _, _ = lake
    wheres = {where: index for where, index in WHERES.items() if zone == "UTC" or where.startswith("ts ")}
    with settings(spark, {"spark.sql.session.timeZone": zone}):
        whole = spark.read.parquet(path)
        for (where, index), expected in zip(
            wheres.items(), files_with_matches(whole, list(wheres)), strict=True
        ):
            assert expected is not None, where
            found = set(map(local_path, ias.read(spark, path, where).inputFiles()))
            report = ias.last_read(spark).report
            if expected:
                assert found == expected, where
            else:  # an empty frame still lists the files
                assert report["files"]["read"] == 0, where
            assert {entry["index"] for entry in report["pruned_by"]} == {index}, where
            assert len(expected) < FILES


def test_without_indexes_no_file_is_excluded(spark, lake, tmp_path):
    """Otherwise the test above would prove nothing; dictionary pages and statistics are by Spark."""
    path, before, _ = lake
    for file, data in before.items():
        copy = tmp_path / Path(file).relative_to(path)
        copy.parent.mkdir(exist_ok=True)
        copy.write_bytes(data)
    there = {"dictionary", "statistics", "column_index"}
    for where, index in WHERES.items():
        if index not in there:
            assert excluded_by(spark, str(tmp_path), where) == set(), where


def test_the_rows_equal_those_of_plain_spark(spark, lake):
    path, _, _ = lake
    plain = spark.read.parquet(path)
    for where, kept in {
        f"bloom = {spread(3001)} OR mapped = {spread(3002)} OR granule = '{spread(3003)}'": {1, 2, 3},
        "text LIKE '%k4-end' AND ts >= '2024-01-05' AND price > 8000": {4},
        "listed = 'v0301' OR k = 0 AND ts < TIMESTAMP '2024-01-01 00:10:00'": {0, 1},
    }.items():
        frame = ias.read(spark, path, where)
        assert left(frame) == kept
        assert rows(frame) == rows(plain.where(where))
        assert frame.schema == plain.schema


def test_a_lake_by_pandas_with_bad_files(spark, tmp_path):
    """Without page index, with a truncated file and one without a column; the others get every index."""
    folder = tmp_path / "lake"
    folder.mkdir()
    rng = np.random.default_rng(3)
    for part in range(4):
        count = 1500
        ids = rng.integers(0, 1 << 60, count)
        frame = pd.DataFrame(
            {
                "bloom": ids,
                "granule": [f"{number:x}" for number in ids],
                "mapped": ids,
                "listed": pd.Categorical([f"v{number % 50 * 4 + part}" for number in ids]),
                "text": [f"line {number % 97} of {part}-end" for number in ids],
                "ts": pd.date_range(f"2024-01-0{part + 1}", periods=count, freq="50s", tz="UTC", unit="us"),
                "price": ids / 8,
                "much": [os.urandom(150) for _ in ids],
            }
        )
        frame.to_parquet(folder / f"{part}.parquet", use_dictionary=["listed"])
    pq.write_table(pa.table({"listed": ["v0"]}), folder / "narrow.parquet")
    (folder / "bad.parquet").write_bytes((folder / "0.parquet").read_bytes()[:-9])
    before = files_of(folder)
    report = ias.index(spark, folder, INDEXES, progress=False)
    assert report.to_dict()["files"] == {
        "total": 6,
        "indexed": 4,
        "unchanged": 0,
        "failed": 2,
        "skipped": 0,
        "other": 0,
    }
    failed = {Path(entry["path"]).name: entry["code"] for entry in report.failed}
    assert failed == {"bad.parquet": "wrong-magic", "narrow.parquet": "no-such-column"}
    after = files_of(folder)
    assert report.bytes_added == sum(map(len, after.values())) - sum(map(len, before.values()))
    for file in report.per_file:
        if file.error is None:
            assert set(file.built) | set(file.kept) == {
                *EMBEDDED,
                "bloom(bloom)",
                "page_index",
                "statistics",
            }
            assert "page_index" in file.built
        else:
            assert after[file.path] == before[file.path]
            os.unlink(file.path)
    again = ias.index(spark, folder, INDEXES, progress=False)
    assert (again.files_unchanged, again.bytes_added) == (4, 0)
    age_files(folder)

    sought = int(pq.read_table(folder / "2.parquet")["bloom"][7].as_py())
    plain = spark.read.parquet(str(folder))
    for where, index in {
        f"bloom = {sought}": "bloom_filter",
        f"granule = '{sought:x}'": "bloom_granule(granule):page",
        f"mapped = {sought}": "row_map(mapped):file",
        "text LIKE '% of 2-end'": "ngram(text):page",
    }.items():
        frame = ias.read(spark, folder, where)
        assert [Path(file).name for file in frame.inputFiles()] == ["2.parquet"], where
        assert rows(frame) == rows(plain.where(where))
        assert excluded_by(spark, str(folder), where) == {index}
