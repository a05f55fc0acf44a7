"""Random predicates and random plans in an enabled session: the rows are those of plain Spark.

The predicates of a batch are the branches of one UNION ALL, so that Spark starts few queries. `make test`
tries 300 predicates and 8 plans, `make nightly-spark` 12,000 and 960.
"""

import functools
import random

import pytest

import intarsia as ia
from tests.effort import examples
from tests.lake.index.lakes import age
from tests.spark import lakes
from tests.spark.comparing import settings
from tests.spark.skipping import compare, scans
from tests.spark.test_lake_index import attach

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

AT_ONCE = 33

#: Spark's own skipping by bounds without NaN misses rows, so only its results without it are right.
NO_PUSHDOWN = {"spark.sql.parquet.filterPushdown": "false"}


@pytest.fixture(scope="module")
def lake_paths(spark, tmp_path_factory):
    folder = tmp_path_factory.mktemp("random")
    paths = {"pyarrow": lakes.write_with_pyarrow(folder / "pyarrow", rows=60)}
    paths["spark"] = lakes.write_with_spark(spark, folder / "spark", paths["pyarrow"])
    paths["indexed"] = lakes.write_with_pyarrow(
        folder / "indexed", rows=60, row_group_size=30, max_rows_per_page=6
    )
    for name in ("spark", "indexed"):
        attach(paths[name])
    ia.attach(paths["indexed"], [ia.PageIndex()])
    for path in folder.rglob("*.parquet"):
        for checksum in path.parent.glob(f".{path.name}.crc"):
            checksum.unlink()
        age(path)
    ia.open(paths["spark"]).build_lake_index()
    return paths


PLACE = ("_metadata.file_name AS f", "_metadata.row_index AS r", "xxhash64(*) AS h")


def matches_as_columns(whole, predicates):
    """Return the matching rows of each predicate, evaluated as a column, which skips nothing."""
    found = whole.selectExpr(*PLACE, *predicates).collect()
    return [{tuple(row[:3]) for row in found if row[3 + place]} for place in range(len(predicates))]


def matches_as_filters(whole, predicates):
    """Return the matching rows of each predicate, evaluated as a filter, and the number of files read."""
    branches = [
        whole.where(text).selectExpr(f"{place} AS p", *PLACE) for place, text in enumerate(predicates)
    ]
    frame = functools.reduce(lambda first, second: first.unionAll(second), branches)
    found = [set() for _ in predicates]
    for place, *row in frame.collect():
        found[place].add(tuple(row))
    return found, sum(files for files, _ in scans(frame))


def compare_batch(whole, predicates):
    """Compare a batch; return the number of predicates that Spark accepts, and of files that were read."""
    from pyspark.errors import PySparkException

    try:
        expected = matches_as_columns(whole, predicates)
        found, files = matches_as_filters(whole, predicates)
    except PySparkException:
        if len(predicates) == 1:
            return 0, 0
        half = len(predicates) // 2
        parts = [compare_batch(whole, part) for part in (predicates[:half], predicates[half:])]
        return tuple(map(sum, zip(*parts, strict=True)))
    for text, these, those in zip(predicates, found, expected, strict=True):
        assert these == those, text
    return len(predicates), files


@pytest.mark.parametrize(
    ("lake", "ansi", "zone"),
    [
        ("indexed", "true", "UTC"),
        ("indexed", "false", "America/New_York"),
        ("spark", "false", "Asia/Kolkata"),
    ],
)
def test_predicates(enabled, lake_paths, lake, ansi, zone):
    rng = random.Random(f"predicates {lake} {ansi} {zone}")
    predicates = [lakes.predicate(rng) for _ in range(examples(500, deep=4_000))]
    compared = files = 0
    values = {"spark.sql.ansi.enabled": ansi, "spark.sql.session.timeZone": zone, **NO_PUSHDOWN}
    with settings(enabled, values):
        whole = enabled.read.parquet(lake_paths[lake])
        for first in range(0, len(predicates), AT_ONCE):
            done, read = compare_batch(whole, predicates[first : first + AT_ONCE])
            compared, files = compared + done, files + read
    assert compared > len(predicates) / 2
    assert files < compared * lakes.FILES * 0.9  # otherwise this test proves nothing


#: Conditions that exclude most of the files, for each side of a plan.
NARROW = [
    "i BETWEEN 20000 AND 23000",
    "s LIKE 'k1%'",
    "cat = 'c3'",
    "bo AND dt < DATE '2020-03-20'",
    "`by` IN (41, 3)",
]

PLANS = [
    "SELECT a.i, b.s FROM lake a JOIN lake b ON a.i = b.i WHERE a.{p} AND {q}",
    "SELECT a.i, b.s FROM lake a LEFT JOIN (SELECT * FROM lake WHERE {p}) b ON a.l = b.l WHERE {qa}",
    "SELECT /*+ BROADCAST(b) */ a.i, b.cat FROM lake a JOIN (SELECT * FROM lake WHERE {p}) b ON a.s = b.s",
    "SELECT /*+ MERGE(b) */ a.i FROM lake a JOIN (SELECT * FROM lake WHERE {p}) b ON a.dt = b.dt WHERE {qa}",
    "SELECT i, s FROM lake WHERE l IN (SELECT l FROM lake WHERE {p}) OR {q}",
    "SELECT i, s FROM lake WHERE l IN (SELECT l FROM lake WHERE {p}) AND {q}",
    "SELECT i, s FROM lake a WHERE EXISTS (SELECT 1 FROM lake b WHERE a.dec = b.dec AND {p})",
    "SELECT i, s FROM lake a WHERE NOT EXISTS (SELECT 1 FROM lake b WHERE a.i = b.i AND {p}) AND {q}",
    "SELECT i, s FROM lake WHERE i >= (SELECT max(i) FROM lake WHERE {p})",
    "SELECT i, s FROM lake WHERE i NOT IN (SELECT i FROM lake WHERE {p} AND i IS NOT NULL)",
    "SELECT cat, count(*), sum(i), min(s) FROM lake WHERE {p} GROUP BY cat HAVING count(*) > 1",
    "SELECT i, row_number() OVER (PARTITION BY cat ORDER BY i, s, l, ntz, f) FROM lake WHERE {p} OR {q}",
    "SELECT i FROM lake WHERE {p} UNION SELECT i FROM lake WHERE {q}",
    "SELECT i FROM lake WHERE {p} INTERSECT SELECT i FROM lake WHERE {q}",
    "SELECT i FROM lake WHERE {p} EXCEPT SELECT i FROM lake WHERE {q}",
    "WITH c AS (SELECT * FROM lake WHERE {p}) SELECT x.i, y.s FROM c x JOIN c y ON x.i = y.i",
    "SELECT count(DISTINCT s) FROM (SELECT s FROM lake WHERE {p} UNION ALL SELECT s FROM lake WHERE {q})",
    "SELECT i FROM (SELECT i, s FROM lake WHERE {p} ORDER BY i, s LIMIT 7) WHERE s IS NOT NULL",
    "SELECT a.i FROM lake a FULL JOIN (SELECT * FROM lake WHERE {p}) b ON a.i = b.i AND b.i > 30000",
    "SELECT a.cat, a.i FROM lake a LEFT ANTI JOIN (SELECT * FROM lake WHERE {p}) b ON a.i = b.i",
]


def test_plans(enabled, lake_paths):
    from pyspark.errors import PySparkException

    rng = random.Random("plans")
    enabled.read.parquet(lake_paths["indexed"]).createOrReplaceTempView("lake")
    count, saved, done = examples(40, deep=960), 0, 0
    with settings(enabled, NO_PUSHDOWN):
        for ordinal in range(count):
            plan = PLANS[ordinal % len(PLANS)]
            p, q = (rng.choice([rng.choice(NARROW), lakes.predicate(rng, depth=1)]) for _ in range(2))
            text = plan.replace("a.{p}", "({pa})").format(
                p=f"({p})", q=f"({q})", pa=f"({p})", qa="a.i < 40000"
            )
            try:
                found = compare(enabled, lambda text=text: enabled.sql(text))
            except PySparkException:
                continue
            done += 1
            saved += found.plain_files - found.files
    enabled.catalog.dropTempView("lake")
    assert done > count / 2
    assert saved > done
