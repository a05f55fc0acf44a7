"""Random predicates and random plans over a lake of `tests.spark.lakes`, compared with plain Spark.

The predicates of a batch are the branches of one UNION ALL, so that Spark starts few queries.
"""

import functools
from collections import Counter

import intarsia.spark as ias
from tests.spark import lakes
from tests.spark.comparing import settings
from tests.spark.skipping import SWITCH, scans

AT_ONCE = 33

#: Spark's own skipping by bounds without NaN misses rows, so only its results without it are right.
NO_PUSHDOWN = {"spark.sql.parquet.filterPushdown": "false"}

#: What identifies a row of a lake: its place, and a hash of its values.
ROW = ("_metadata.file_name AS f", "_metadata.row_index AS r", "xxhash64(*) AS h")


def files_of_scans(frame):
    """Return the number of files that the scans of a frame have read."""
    return sum(files for files, _ in scans(frame))


def check_predicates(
    whole,
    rng,
    count,
    *,
    row=ROW,
    files_read=files_of_scans,
    most=0.9,
    draw=lakes.predicate,
    files=lakes.FILES,
):
    """Compare the rows of random predicates in an enabled session with those of plain Spark.

    Args:
        whole: The table.
        rng: Draws the predicates.
        count: The number of predicates.
        row: The columns that identify a row.
        files_read: Returns the number of files that were read for a frame that ran.
        most: The largest share of the files that may be read; otherwise the check would prove nothing.
        draw: Returns a random predicate.
        files: The number of files of the table.
    """
    predicates = [draw(rng) for _ in range(count)]
    compared = read = 0
    with settings(whole.sparkSession, NO_PUSHDOWN):
        for first in range(0, count, AT_ONCE):
            done, of_batch = _compare(whole, predicates[first : first + AT_ONCE], row, files_read)
            compared, read = compared + done, read + of_batch
    assert compared > count / 2
    assert read < compared * files * most, (read, compared)


def _compare(whole, predicates, row, files_read):
    """Compare a batch; return the number of predicates that Spark accepts, and of files that were read."""
    from pyspark.errors import PySparkException

    try:
        expected = _matches_as_columns(whole, predicates, row)
        found, files = _matches_as_filters(whole, predicates, row, files_read)
    except PySparkException:
        if len(predicates) == 1:
            return 0, 0
        half = len(predicates) // 2
        parts = [_compare(whole, part, row, files_read) for part in (predicates[:half], predicates[half:])]
        return tuple(map(sum, zip(*parts, strict=True)))
    for text, these, those in zip(predicates, found, expected, strict=True):
        assert these == those, (text, these - those, those - these)
    failed = [skip for skip in ias.last_skips(whole.sparkSession) if (skip.reason or "").startswith("failed")]
    assert not failed, failed
    return len(predicates), files


def _matches_as_columns(whole, predicates, row):
    """Return the matching rows of each predicate, evaluated as a column, which skips nothing."""
    with settings(whole.sparkSession, {SWITCH: "false"}):
        found = whole.selectExpr(*row, *predicates).collect()
    width = len(row)
    return [
        Counter(tuple(one[:width]) for one in found if one[width + place]) for place in range(len(predicates))
    ]


def _matches_as_filters(whole, predicates, row, files_read):
    """Return the matching rows of each predicate, evaluated as a filter, and the number of files read."""
    branches = [whole.where(text).selectExpr(f"{place} AS p", *row) for place, text in enumerate(predicates)]
    frame = functools.reduce(lambda first, second: first.unionAll(second), branches)
    found = [Counter() for _ in predicates]
    for place, *one in frame.collect():
        found[place][tuple(one)] += 1
    return found, files_read(frame)


#: Conditions that exclude most of the files, for each side of a plan.
NARROW = [
    "i BETWEEN 20000 AND 23000",
    "s LIKE 'k1%'",
    "cat = 'c3'",
    "bo AND dt < DATE '2020-03-20'",
    "`by` IN (41, 3)",
]

PLANS = [
    "SELECT a.i, b.s FROM (SELECT * FROM lake WHERE {p}) a JOIN lake b ON a.i = b.i AND b.i < 40000",
    "SELECT a.i, b.s FROM lake a LEFT JOIN (SELECT * FROM lake WHERE {p}) b ON a.l = b.l WHERE a.i < 40000",
    "SELECT /*+ BROADCAST(b) */ a.i, b.cat FROM lake a JOIN (SELECT * FROM lake WHERE {p}) b ON a.s = b.s",
    "SELECT /*+ MERGE(b) */ a.i FROM lake a JOIN (SELECT * FROM lake WHERE {p}) b ON a.dt = b.dt AND a.bo",
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


def check_plans(whole, rng, count, saved_files, least=1):
    """Compare random plans.

    Args:
        whole: The table.
        rng: Draws the conditions.
        count: The number of plans.
        saved_files: Compares the rows of a query with those of plain Spark, and returns the number of files
            that were not read.
        least: The number of files that a plan has to save, on average.
    """
    from pyspark.errors import PySparkException

    spark = whole.sparkSession
    whole.createOrReplaceTempView("lake")
    saved = done = 0
    with settings(spark, NO_PUSHDOWN):
        for ordinal in range(count):
            p, q = (rng.choice([rng.choice(NARROW), lakes.predicate(rng, depth=1)]) for _ in range(2))
            try:
                saved += saved_files(PLANS[ordinal % len(PLANS)].format(p=f"({p})", q=f"({q})"))
            except PySparkException:
                continue
            done += 1
    spark.catalog.dropTempView("lake")
    assert done > count / 2
    assert saved > done * least, (saved, done)
