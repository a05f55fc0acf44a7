"""What Spark says of a lake, so that what Intarsia leaves out of it can be judged."""

import contextlib
from pathlib import PurePath

from intarsia.spark.reading import _listing, _planner

AT_ONCE = 40


@contextlib.contextmanager
def settings(spark, values):
    before = {key: spark.conf.get(key) for key in values}
    for key, value in values.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, value in before.items():
            spark.conf.set(key, value)


def files_with_matches(spark, whole, predicates):
    """For each predicate the names of the files that have a matching row; None if Spark refuses it."""
    import pyspark.sql.functions as sf
    from pyspark.errors import PySparkException

    name = sf.element_at(sf.split(sf.col("_metadata.file_path"), "/"), -1)
    sets = [sf.collect_set(sf.when(sf.expr(text), name)).alias(f"p{i}") for i, text in enumerate(predicates)]
    try:
        return [set(value) for value in whole.agg(*sets).collect()[0]]
    except PySparkException:
        if len(predicates) == 1:
            return [None]
        half = len(predicates) // 2
        return [
            *files_with_matches(spark, whole, predicates[:half]),
            *files_with_matches(spark, whole, predicates[half:]),
        ]


def judged(spark, lake, predicates):
    """For each predicate Spark takes: it, the names of all files, of those with matches, of those kept."""
    whole = spark.read.parquet(lake)
    listing = _listing(spark, whole, [lake])
    assert listing is not None
    names = {PurePath(file.path).name for file in listing.files}
    for first in range(0, len(predicates), AT_ONCE):
        batch = predicates[first : first + AT_ONCE]
        for text, expected in zip(batch, files_with_matches(spark, whole, batch), strict=True):
            if expected is None:
                continue
            planner = _planner(spark, whole, text)
            kept = names
            if planner is not None:
                kept = {PurePath(file.path).name for file in planner.surviving(listing.files)}
                assert not planner.report.ignored
            yield text, names, expected, kept


def check(spark, lake, predicates):
    """Returns how many files were left out, of how many that could have been."""
    left_out = could_have_been = 0
    for text, names, expected, kept in judged(spark, lake, predicates):
        assert expected <= kept, f"{text}: {sorted(expected - kept)} left out"
        left_out += len(names - kept)
        could_have_been += len(names - expected)
    return left_out, could_have_been


def rows(frame):
    """The rows in some order that equal frames share."""
    return sorted(map(str, frame.collect()))
