"""The files with matching rows according to Spark, to compare with the files that Intarsia keeps."""

import contextlib
import functools
import os
from urllib.parse import unquote, urlsplit

from intarsia.lake.table_files import TableFiles
from intarsia.spark.conditions import weaken
from intarsia.spark.frames import analyzed_condition
from intarsia.spark.reading import file_planner, parsed_condition, plannable_listing

AT_ONCE = 40


@contextlib.contextmanager
def settings(spark, values):
    before = {key: spark.conf.get(key, None) for key in values}
    for key, value in values.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, value in before.items():
            if value is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, value)


def local_path(uri):
    """Return the path of a file in a URI of Spark."""
    return unquote(urlsplit(uri).path)


def files_with_matches(whole, predicates):
    """Return for each predicate the paths of the files with a matching row; None if Spark refuses it."""
    import pyspark.sql.functions as sf

    def answer(batch):
        # without an aggregate, Spark runs one stage
        matches = [sf.expr(text).alias(f"p{place}") for place, text in enumerate(batch)]
        uris, *found = whole.select("_metadata.file_path", *matches).toArrow().columns
        return [set(map(local_path, uris.filter(mask).unique().to_pylist())) for mask in found]

    return _in_batches(answer, predicates)


def rows_with_matches(whole, predicates, columns=None):
    """Return for each predicate the matching rows as `rows` does; None if Spark refuses it.

    The predicates are columns of one query, so that Spark skips nothing by them. The rows have the columns
    that are named, by default all.
    """
    import pyspark.sql.functions as sf
    from pyspark.sql import Row

    columns = whole.columns if columns is None else columns
    width = len(columns)

    def answer(batch):
        chosen = ["*"] if columns == whole.columns else columns
        found = whole.select(*chosen, *(sf.expr(text) for text in batch)).collect()
        texts = [str(Row(*columns)(*row[:width])) for row in found]
        return [
            sorted(text for text, row in zip(texts, found, strict=True) if row[width + place])
            for place in range(len(batch))
        ]

    return _in_batches(answer, predicates)


def _in_batches(answer, predicates):
    """Return the answers to many predicates at once; None for a predicate that fails on its own."""
    from pyspark.errors import PySparkException

    try:
        return answer(predicates)
    except PySparkException:
        if len(predicates) == 1:
            return [None]
        half = len(predicates) // 2
        return [*_in_batches(answer, predicates[:half]), *_in_batches(answer, predicates[half:])]


def compared(spark, lake, predicates):
    """Yield each predicate that Spark accepts, and the paths in the lake of all, matching and kept files.

    Each is planned as Spark's analyzer resolves it, and as its text is parsed where there is none, if these
    differ.
    """

    def paths_in_lake(paths):
        return {os.path.relpath(path, lake) for path in paths}

    whole = spark.read.parquet(lake)
    listing = plannable_listing(spark, whole, [lake])
    assert listing is not None
    table = TableFiles(listing.files)
    everything = paths_in_lake(file.path for file in table.files)
    assert len(everything) == len(table.files)
    for first in range(0, len(predicates), AT_ONCE):
        batch = predicates[first : first + AT_ONCE]
        for text, expected in zip(batch, files_with_matches(whole, batch), strict=True):
            if expected is None:
                continue
            conditions = [analyzed_condition(spark, whole.where(text)), parsed_condition(spark, whole, text)]
            if weaken(conditions[0]) == weaken(conditions[1]):
                del conditions[1]
            for condition in conditions:
                planner = file_planner(spark, condition)
                kept = everything
                if planner is not None:
                    kept = paths_in_lake(planned.file.path for planned in planner.planned(table))
                    assert not planner.report.ignored
                yield text, everything, paths_in_lake(expected), kept


def check(spark, lake, predicates):
    """Return the number of excluded files, and the number of files without matches."""
    excluded = excludable = 0
    for text, everything, expected, kept in compared(spark, lake, predicates):
        assert expected <= kept, f"{text}: {sorted(expected - kept)} excluded"
        excluded += len(everything - kept)
        excludable += len(everything - expected)
    return excluded, excludable


def rows(frame):
    """Return the rows in an order that depends only on their values."""
    return sorted(map(str, frame.collect()))


def rows_of_each(frames):
    """Return the rows of each frame, as `rows` does, from one query for all frames of `AT_ONCE`."""
    found = [[] for _ in frames]
    marked = [
        frame.selectExpr(f"{ordinal} AS ordinal", "struct(*) AS row") for ordinal, frame in enumerate(frames)
    ]
    for first in range(0, len(marked), AT_ONCE):
        batch = marked[first : first + AT_ONCE]
        for ordinal, row in functools.reduce(lambda one, other: one.unionAll(other), batch).collect():
            found[ordinal].append(str(row))
    return list(map(sorted, found))
