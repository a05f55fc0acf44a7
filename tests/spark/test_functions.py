"""Conditions on functions of columns that keep the order of its values skip as conditions on the columns."""

import random

import pyarrow as pa
import pytest

from intarsia import spark as ias
from tests.effort import examples
from tests.lake.index.lakes import write
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
        "date_format(t, 'yyyy-MM') = '2024-04'",
        "date_format(t, 'yyyyMMdd') BETWEEN '20111230' AND '20231104'",
        "date_format(d, 'yyyy') IN ('2006', '2024')",
        "t LIKE '2024-04-0%'",
        "CAST(d AS STRING) >= '2024'",
        "left(w, 10) = '2023-11-05'",
        "from_unixtime(sec, 'yyyy-MM-dd') = '2011-03-13'",
        "from_unixtime(sec) < '2011'",
        "date_format(timestamp_millis(ms), \"yyyy-MM-dd'T'HH\") >= '2024-04-07T06'",
        "year(t) = 2024 AND month(t) = 4 AND day(t) > 6",
        "year(d) IN (2011, 2019) AND quarter(d) = 4",
        "extract(YEAR FROM w) = 2011 AND (month(w) = 3 OR dayofyear(w) > 364)",
        "year(t) = 2023 AND month(t) = 11 OR year(t) = 2024 AND month(t) = 4",
        "coalesce(sec, 0) < 1161993600",
        "nvl(half, TIMESTAMP'2024-01-01') < TIMESTAMP'2011-01-01'",
        "coalesce(date_format(half, 'yyyy'), '2011') = '2006'",
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
        "date_format(t, 'MM-yyyy') = '04-2024'",
        "date_format(t, 'yyyy-M') = '2024-4'",
        "year(t) > 2000 AND month(t) = 4",
        "date_format(t, 'yyyy') COLLATE UTF8_LCASE = '2024'",
        "year(t) < 2040 AND coalesce(sec, ms) > 0",
    ],
)
def test_other_conditions_exclude_nothing(enabled, lake, condition):
    assert compare(enabled, lambda: enabled.read.parquet(lake).where(condition)).files in (0, times.FILES)


@pytest.mark.parametrize(
    "condition",
    [
        "date_format(d, 'yyyy') < '2020'",
        "NOT date_format(d, 'yyyy-MM') >= '2020'",
        "CAST(d AS STRING) LIKE '+1%'",
        "CAST(t AS STRING) NOT LIKE '20%'",
        "CAST(t AS STRING) > '2020'",
        "from_unixtime(sec, 'yyyy') IN ('0044', '2024', '1500')",
        "from_unixtime(sec) < '19'",
        "coalesce(CAST(d AS STRING), '') <= '0'",
        "year(d) IN (1500, 2024, 12345) AND month(d) = 7",
    ],
)
@pytest.mark.parametrize("policy", ["CORRECTED", "LEGACY"])
def test_years_without_four_digits(enabled, tmp_path, condition, policy):
    """Their texts are before or after those of other years: '+12345', and 0045 for the year -44."""
    for year in (-5000, -44, 0, 44, 1500, 1899, 1905, 2024, 9989, 9995, 12345):
        day = (year - 1970) * 146097 // 400
        days = pa.array([day, day + 200, None], pa.int32())
        seconds = [day * 86400, (day + 200) * 86400, None]
        columns = {
            "d": days.cast(pa.date32()),
            "t": pa.array([one and one * 1_000_000 for one in seconds]).cast(pa.timestamp("us", "UTC")),
            "sec": pa.array(seconds, pa.int64()),
        }
        write(tmp_path / f"{year}.parquet", pa.table(columns), ())
    with settings(enabled, {"spark.sql.legacy.timeParserPolicy": policy, "spark.sql.ansi.enabled": "false"}):
        compare(
            enabled,
            lambda: (
                enabled.read.parquet(str(tmp_path))
                .where(condition)
                .selectExpr("CAST(d AS STRING)", "unix_micros(t)", "sec")
            ),
        )


def test_bounds_where_the_clock_is_set_back(enabled, lake):
    """Clocks of Newfoundland were set back from 00:01 to 23:01, so a moment before midnight is after it."""
    with settings(enabled, {"spark.sql.session.timeZone": "America/St_Johns"}):
        condition = "date_add(t, 0) = DATE'2006-10-28'"
        found = compare(enabled, lambda: enabled.read.parquet(lake).where(condition))
    assert found.files == times.FILES
    assert len(found.rows) == 99  # in 25 hours
