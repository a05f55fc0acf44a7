"""`ias.read` with a lake index: the rows of plain Spark, and files that are not opened."""

import contextlib
import os
import random
import warnings
from pathlib import Path
from shutil import copy2

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from intarsia import spark as ias
from intarsia.lake.data_file import FileFailure
from intarsia.lake.discovery import find_files
from intarsia.lake.index.build import reader_of
from intarsia.spark.lake_jobs import MIN_FILES, build_lake_index, facts_reader
from tests.effort import examples
from tests.lake.index.lakes import age
from tests.spark import lakes
from tests.spark.comparing import check, rows_of_each, rows_with_matches, settings


def attach(lake):
    """Attach indexes of every kind that takes part in a lake index, to the columns that support them."""
    chosen = [ia.Bloom("s"), ia.Bloom("l"), ia.Distinct("cat"), ia.Distinct("i"), ia.Ngram("s")]
    chosen += [ia.ZoneMap(name) for name in ("d", "f", "wide")]
    chosen += [ia.Distinct("dt"), ia.RowMap("u"), ia.Bloom("st.x")]
    times = [ia.ZoneMap("ts"), ia.ZoneMap("ntz"), ia.Distinct("ts")]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ia.IntarsiaWarning)
        ia.attach(lake, chosen)
        for index in times:
            with contextlib.suppress(ia.FilesFailedError):  # INT96 supports some kinds only
                ia.attach(lake, [index])


@pytest.fixture(scope="module")
def lake_paths(spark, tmp_path_factory):
    folder = tmp_path_factory.mktemp("lakes")
    paths = {"pyarrow": lakes.write_with_pyarrow(folder / "pyarrow")}
    paths["spark"] = lakes.write_with_spark(spark, folder / "spark", paths["pyarrow"])
    paths["indexed"] = lakes.write_with_pyarrow(folder / "indexed", row_group_size=10)
    for name in ("spark", "indexed"):
        attach(paths[name])
    for path in paths.values():
        assert ia.open(path).build_lake_index().files_added == lakes.FILES
    return paths


@pytest.mark.parametrize(
    ("lake", "ansi", "zone"),
    [
        ("pyarrow", "false", "America/New_York"),
        ("spark", "true", "America/New_York"),
        ("indexed", "true", "UTC"),
    ],
)
def test_no_file_with_a_match_is_excluded(spark, lake_paths, lake, ansi, zone):
    rng = random.Random(f"lake index {lake}")
    predicates = [lakes.predicate(rng) for _ in range(examples(80))]
    simple = [
        f"{column} {operator} {literal}"
        for column, literals in lakes.LITERALS.items()
        for literal in literals
        for operator in ("=", "<>", "<", ">=")
    ]
    predicates += rng.sample(simple, min(len(simple), examples(80)))
    with settings(spark, {"spark.sql.ansi.enabled": ansi, "spark.sql.session.timeZone": zone}):
        excluded, excludable = check(spark, lake_paths[lake], predicates)
    assert excluded > excludable / 4  # otherwise this test proves nothing


@pytest.mark.parametrize("lake", ["spark", "indexed"])
def test_the_same_rows_as_plain_spark(spark, lake_paths, lake):
    rng = random.Random(f"rows {lake}")
    whole = spark.read.parquet(lake_paths[lake])
    predicates = [lakes.predicate(rng) for _ in range(examples(24))]
    with settings(spark, {"spark.sql.parquet.filterPushdown": "false"}):
        matching = zip(predicates, rows_with_matches(whole, predicates), strict=True)
        expected = {text: found for text, found in matching if found is not None}
        frames = [ias.read(spark, lake_paths[lake], where=text) for text in expected]
        found = dict(zip(expected, rows_of_each(frames), strict=True))
    for text in expected:
        assert found[text] == expected[text], text


def test_excluded_files_are_not_opened(spark, lake_paths):
    for where in ("i = 20000", "I = 20000", "cat = 'c3'", "s LIKE '%k21%'", "l = 9007199254740990L"):
        report = ias.explain(spark, lake_paths["indexed"], where)
        assert report.files_opened <= 1, where
        assert not report.ignored


def write(path, values):
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"x": values, "Name": [f"n{value}" for value in values]}), path)
    ia.attach(path, [ia.Bloom("x")])
    os.utime(path, (1_600_000_000, 1_600_000_000))


@pytest.fixture
def partitioned(tmp_path):
    lake = tmp_path / "lake"
    for part in range(8):
        values = np.arange(part * 100, (part + 1) * 100)
        write(lake / f"p={part % 2}" / f"Q={part % 4}" / f"part-{part}.parquet", values)
    ia.open(lake).build_lake_index()
    return lake


def check_rows(spark, lake, wheres):
    """Compare with the rows of one query that evaluates the conditions as columns, and skips nothing."""
    expected = rows_with_matches(spark.read.parquet(str(lake)), wheres)
    found = rows_of_each([ias.read(spark, str(lake), where) for where in wheres])
    assert dict(zip(wheres, found, strict=True)) == dict(zip(wheres, expected, strict=True))


def test_partition_values_count_in_every_condition(spark, partitioned):
    opened = {
        "x = 150 AND p = 1": 1,
        "x = 150 AND p = 0": 0,
        "x = 150 OR q = 2": 3,
        "(X = 150 AND P = '1') OR (NAME = 'n250' AND q IN (2, 3))": 2,
        "p = 1 OR x < 0": 4,
        "x IS NULL": 0,
    }
    for where, files in opened.items():
        assert ias.explain(spark, str(partitioned), where).files_opened == files, where
    check_rows(spark, partitioned, list(opened))


def test_names_that_differ_only_in_case(spark, tmp_path):
    lake = tmp_path / "lake"
    write(lake / "a.parquet", np.arange(100))
    path = lake / "b.parquet"
    pq.write_table(pa.table({"X": np.arange(100, 200), "name": ["n"] * 100}), path)
    os.utime(path, (1_600_000_000, 1_600_000_000))
    ia.open([lake / "a.parquet", path]).build_lake_index()
    check_rows(spark, lake, ["x = 50", "x = 150", "X < 120", "name = 'n'", "name IS NULL"])
    assert ias.explain(spark, str(lake), "x = 150").files_opened == 1
    with settings(spark, {"spark.sql.caseSensitive": "true"}):
        check_rows(spark, lake, ["x = 50", "x = 150", "x IS NULL"])


def test_files_that_are_replaced_added_or_removed(spark, partitioned):
    wheres = ["x = 150", "x = 10150", "x >= 700", "p = 0 AND x = 250"]
    check_rows(spark, partitioned, wheres)
    pq.write_table(
        pa.table({"x": np.arange(10_100, 10_200), "Name": ["new"] * 100}),
        partitioned / "p=1" / "Q=1" / "part-1.parquet",
    )
    check_rows(spark, partitioned, wheres)
    write(partitioned / "p=0" / "Q=2" / "part-2.parquet", np.arange(10_100, 10_200))
    write(partitioned / "p=0" / "Q=2" / "part-20.parquet", np.arange(100, 200))
    check_rows(spark, partitioned, wheres)
    (partitioned / "p=1" / "Q=3" / "part-7.parquet").unlink()
    check_rows(spark, partitioned, wheres)


def test_tasks_read_the_same_facts_as_the_driver(spark, tmp_path):
    lake = Path(lakes.write_with_pyarrow(tmp_path / "lake", row_group_size=10))
    attach(lake)
    (lake / "bad.parquet").write_bytes(b"PAR1, and nothing that follows")
    for path in lake.rglob("*.parquet"):
        age(path)  # no facts are kept of a file that may still change
    files = find_files(lake).files
    shown = []
    read = facts_reader(spark, min_files=1, first_files=2)
    found = list(read(files, shown.append))
    expected = list(reader_of(lambda file: file.input_of(file.open()), 1)(files, lambda _: None))
    failures = [one for one in found if isinstance(one, Exception)]
    assert len(failures) == 1
    for file, one, other in zip(files, found, expected, strict=True):
        if isinstance(one, Exception):
            assert FileFailure(file.path, one).to_dict() == FileFailure(file.path, other).to_dict()
        else:
            assert one == other
    assert shown == sorted(shown)
    assert shown[-1] == len(files)


def test_a_lake_index_that_tasks_build(spark, tmp_path):
    """Its segments have the bytes of those that one process builds, and it grows by new files."""
    lake = tmp_path / "lake"
    write(lake / "0.parquet", np.arange(10))
    for ordinal in range(1, MIN_FILES):
        copy2(lake / "0.parquet", lake / f"{ordinal}.parquet")
    assert build_lake_index(spark, str(lake), None) is None
    assert ia.open(lake).build_lake_index("beside").files_added == MIN_FILES
    segments = contents(lake / "_intarsia")
    ia.open(lake).remove_lake_index()
    assert build_lake_index(spark, str(lake), "beside").files_added == MIN_FILES
    assert contents(lake / "_intarsia") == segments
    write(lake / "new.parquet", np.arange(10))
    report = build_lake_index(spark, str(lake), None)
    assert (report.files_known, report.files_added) == (MIN_FILES, 1)


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}
