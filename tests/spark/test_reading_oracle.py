"""Random predicates: no file with a row that Spark selects is excluded.

Spark evaluates many predicates at once, as columns, so that it skips nothing itself.
"""

import random

import pytest

import intarsia as ia
from intarsia import spark as ias
from intarsia.embed import PageIndex, attach
from tests.effort import examples
from tests.spark import lakes
from tests.spark.comparing import check, rows_of_each, rows_with_matches, settings


@pytest.fixture(scope="module")
def lake_paths(spark, tmp_path_factory):
    root = tmp_path_factory.mktemp("lakes")
    plain = lakes.write_with_pyarrow(root / "pyarrow")
    options = {f"parquet.bloom.filter.enabled#{name}": "true" for name in ("l", "s", "d", "by")}
    by_spark = lakes.write_with_spark(spark, root / "spark", plain, options=options)
    indexed = lakes.write_with_pyarrow(root / "indexed", rows=60, row_group_size=20, data_page_size=1)
    distinct = ["by", "l", "f", "d", "dec", "wide", "s", "cat", "b", "dt", "ts", "ntz", "st.x", "st.Y"]
    indexes = [PageIndex(), *(ia.Distinct(column, granularity="row_group") for column in distinct)]
    for file in ia.open(indexed).files:
        attach(file.path, indexes)
    return {"pyarrow": plain, "spark": by_spark, "indexed": indexed}


@pytest.mark.parametrize(
    ("lake", "ansi", "zone"),
    [
        ("pyarrow", "false", "UTC"),
        ("spark", "true", "America/New_York"),
        ("indexed", "true", "Asia/Kolkata"),
    ],
)
def test_no_file_with_a_match_is_excluded(spark, lake_paths, lake, ansi, zone):
    rng = random.Random(f"{lake} {ansi} {zone}")
    predicates = [lakes.predicate(rng) for _ in range(examples(200))]
    with settings(spark, {"spark.sql.ansi.enabled": ansi, "spark.sql.session.timeZone": zone}):
        excluded, excludable = check(spark, lake_paths[lake], predicates)
    assert excluded > excludable / 4  # otherwise this test proves nothing


@pytest.mark.parametrize(
    ("lake", "zone"), [("pyarrow", "UTC"), ("spark", "UTC"), ("indexed", "America/New_York")]
)
def test_every_literal_with_every_operator(spark, lake_paths, lake, zone):
    simple = [
        f"{prefix}{column} {operator} {literal}"
        for column, literals in lakes.LITERALS.items()
        for literal in literals
        for operator in ("=", "<>", "<", "<=", ">", ">=")
        for prefix in ("", "NOT ")
    ]
    simple = random.Random(lake).sample(simple, min(len(simple), examples(200, deep=4_800)))
    with settings(spark, {"spark.sql.session.timeZone": zone}):
        excluded, excludable = check(spark, lake_paths[lake], simple)
    assert excluded > excludable / 3


@pytest.mark.parametrize("lake", ["pyarrow", "spark", "indexed"])
def test_the_same_rows_as_plain_spark(spark, lake_paths, lake):
    rng = random.Random(lake)
    whole = spark.read.parquet(lake_paths[lake])
    predicates = [lakes.predicate(rng) for _ in range(examples(48))]
    # Spark skips by bounds without NaN and misses rows, so skipping is disabled here
    with settings(spark, {"spark.sql.parquet.filterPushdown": "false"}):
        matching = dict(zip(predicates, rows_with_matches(whole, predicates), strict=True))
        expected = {text: found for text, found in matching.items() if found is not None}
        frames = {text: ias.read(spark, lake_paths[lake], where=text) for text in expected}
        found = dict(zip(frames, rows_of_each(list(frames.values())), strict=True))
    for text, frame in frames.items():
        assert frame.schema == whole.schema, text
        assert found[text] == expected[text], text
    assert len(expected) > len(matching) * 2 / 3
