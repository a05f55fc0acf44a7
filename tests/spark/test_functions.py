"""Conditions on functions of columns that keep the order of its values skip as conditions on the columns."""

import random

import pytest

from intarsia import spark as ias
from tests.effort import examples
from tests.spark import times
from tests.spark.comparing import settings
from tests.spark.random_queries import check_predicates
from tests.spark.skipping import compare

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    return str(times.make_lake(tmp_path_factory.mktemp("times")))


@pytest.mark.parametrize("zone", times.ZONES)
def test_random_conditions(enabled, lake, zone):
    rng = random.Random(f"functions {zone}")
    with settings(enabled, {"spark.sql.session.timeZone": zone}):
        check_predicates(
            enabled.read.parquet(lake), rng, examples(66, deep=2_000), draw=times.condition, files=times.FILES
        )


@pytest.mark.parametrize(
    "condition",
    [
        "to_date(t) = DATE'2023-11-04'",
        "CAST(t AS DATE) IN (DATE'2023-11-04', DATE'2011-03-12', NULL)",
        "NOT to_date(t) < DATE'2024-04-07'",
        "year(t) = 2019",
        "2011 > year(d)",
        "extract(YEAR FROM st.t) BETWEEN 2011 AND 2012",
        "date_trunc('MONTH', t) = TIMESTAMP'2024-04-01'",
        "date_trunc('HOUR', w) >= TIMESTAMP'2024-04-07 12:00:00'",
        "trunc(d, 'YEAR') = DATE'2024-01-01'",
        "datediff(DATE'2024-04-10', d) <= 3",
        "date_add(t, 1) >= DATE'2024-04-08'",
        "to_date(timestamp_millis(ms)) = DATE'2024-04-07'",
        "timestamp_seconds(sec) >= TIMESTAMP'2024-04-07 18:00:00'",
        "unix_seconds(t) < 1161993600",
        "substring(k, 1, 10) = '2024-04-07'",
        "left(k, 4) IN ('2011', '2024')",
        f"left(k, 4) IN ({', '.join(repr(str(year)) for year in range(2011, 2023))}, NULL)",
        f"year(t) IN ({', '.join(map(str, range(1990, 2012)))})",
    ],
)
def test_only_files_with_rows_are_read(enabled, lake, condition):
    def with_rows():
        return enabled.read.parquet(lake).where(condition)

    files = with_rows().select("_metadata.file_name").distinct().count()
    assert 0 < files < times.FILES
    assert compare(enabled, with_rows).files == files
    assert len(ias.read(enabled, lake, where=condition).inputFiles()) == files
    assert ias.explain(enabled, lake, where=condition).files_read == files


@pytest.mark.parametrize(
    "condition",
    [
        "month(t) = 4",  # the months of a year are not in the order of moments
        "to_date(t) + INTERVAL '1' YEAR = DATE'2024-11-04'",
        "year(t) > year(d)",
        "to_date(t) <=> NULL",
        "NOT left(k, 4) = '20241'",
        "substring(k, 2, 3) = '024'",
        "datediff(d, d) = 0",
        "year(t) < 20000",  # no year of Spark excludes any
    ],
)
def test_other_conditions_exclude_nothing(enabled, lake, condition):
    assert compare(enabled, lambda: enabled.read.parquet(lake).where(condition)).files in (0, times.FILES)


def test_bounds_where_the_clock_is_set_back(enabled, lake):
    """Clocks of Newfoundland were set back from 00:01 to 23:01, so a moment before midnight is after it."""
    with settings(enabled, {"spark.sql.session.timeZone": "America/St_Johns"}):
        condition = "date_add(t, 0) = DATE'2006-10-28'"
        found = compare(enabled, lambda: enabled.read.parquet(lake).where(condition))
    assert found.files == times.FILES
    assert len(found.rows) == 99  # in 25 hours
