"""A lake for enabled sessions, and queries compared with plain Spark."""

import contextlib
import shutil
from collections import Counter
from dataclasses import dataclass

import pyarrow as pa

import intarsia as ia
import intarsia.spark as ias
from tests.lake.index.lakes import age, write
from tests.spark.comparing import settings

#: On or off, in an enabled session.
SWITCH = "spark.intarsia.enabled"

FILES = 8
ROWS = 200

INDEXES = (
    ia.PageIndex(),
    ia.Bloom("user"),
    ia.Distinct("country"),
    ia.ZoneMap("amount"),
    ia.Ngram("url"),
    ia.RowMap("code"),
)


def user_of(ordinal, row):
    """A number that is not sorted, so that bounds exclude nothing, and that occurs once."""
    return (ordinal * ROWS + row) * 7919 % 100_003


def code_of(ordinal, row):
    return f"c{(ordinal * ROWS + row) * 31 % 1_601:04}"


def rows_of_file(ordinal):
    rows = range(ROWS)
    return pa.table(
        {
            "id": pa.array([ordinal * ROWS + row for row in rows], pa.int64()),
            "user": pa.array([user_of(ordinal, row) for row in rows], pa.int32()),
            "country": [None if row == 7 else f"country {(ordinal * 3 + row % 3) % 20}" for row in rows],
            "url": [f"https://example.org/{ordinal}/{row:03}" for row in rows],
            "amount": [None if row % 50 == 0 else ordinal * 10 + row / 100 for row in rows],
            "code": [code_of(ordinal, row) for row in rows],
            "st": [{"x": ordinal * 100 + row // 10, "y": f"y{row}"} for row in rows],
        }
    )


def write_file(path, ordinal, indexes=INDEXES):
    # two row groups, five pages each
    write(path, rows_of_file(ordinal), indexes, row_group_size=ROWS // 2, max_rows_per_page=ROWS // 10)


def make_lake(folder):
    for ordinal in range(FILES):
        write_file(folder / f"part-{ordinal}.parquet", ordinal)
    return folder


def make_partitioned(folder, lake):
    """Copy the files of a lake into folders ``day=0`` to ``day=3``."""
    for ordinal, path in enumerate(sorted(lake.glob("*.parquet"))):
        day = folder / f"day={ordinal % 4}"
        day.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, day)
        age(day / path.name)
    return folder


@dataclass
class Compared:
    """A query without and with skipping.

    Attributes:
        rows: The rows, in both cases.
        plain, enabled: The number of files, and the rows that come out, of each scan.
    """

    rows: list
    plain: list
    enabled: list

    @property
    def plain_files(self):
        return sum(files for files, _ in self.plain)

    @property
    def files(self):
        return sum(files for files, _ in self.enabled)

    @property
    def scanned(self):
        return sum(rows for _, rows in self.enabled)


def compare(spark, make, *, may_fail=False):
    """Run a query in an enabled session, without and with skipping, and compare the rows."""
    with settings(spark, {SWITCH: "false"}):
        frame = make()
        expected = sorted(map(str, frame.collect()))
        plain = scans(frame)
    frame = frame.select("*")  # planned again, without another look at the files
    found = sorted(map(str, frame.collect()))
    assert found == expected
    if not may_fail:
        reasons = [skip.reason or "" for skip in ias.last_skips(spark)]
        assert not [reason for reason in reasons if reason.startswith("failed")]
    return Compared(found, plain, scans(frame))


def run(spark, query):
    """Return the rows of a query, in SQL or a function, as text, without order, and its frame."""
    frame = spark.sql(query) if isinstance(query, str) else query()
    return sorted(map(str, frame.collect())), frame


def compare_runs(spark, query):
    """Compare the rows of a query with those of plain Spark; return its skips, and both frames."""
    with settings(spark, {SWITCH: "false"}):
        expected, plain = run(spark, query)
    before = ias.last_skips(spark)
    found, frame = run(spark, query)
    assert found == expected, (query, Counter(found) - Counter(expected), Counter(expected) - Counter(found))
    after = ias.last_skips(spark)
    skips = [] if after == before else list(after)
    assert not [skip for skip in skips if (skip.reason or "").startswith("failed")], skips
    return skips, plain, frame


def saved_files(spark, query):
    """Compare the rows of a query in SQL, and return the number of files that skipping leaves out."""
    found = compare(spark, lambda: spark.sql(query))
    return found.plain_files - found.files


def scans(frame):
    """Return the number of files, and the number of rows that came out, of each scan of a frame that ran."""
    return metrics_of(frame, ("FileSourceScanExec", "SkippingScan"), "numFiles", "numOutputRows")


def metrics_of(frame, names, *metrics):
    """Return metrics of each part of the plan of a frame that ran whose class has one of these names."""
    found = []

    def walk(plan):
        name = plan.getClass().getSimpleName()
        if name == "AdaptiveSparkPlanExec":
            return walk(plan.executedPlan())
        if name in names:
            found.append(tuple(plan.metrics().apply(metric).value() for metric in metrics))
        if name.endswith("QueryStageExec"):
            walk(plan.plan())
        if name == "InMemoryTableScanExec":
            walk(plan.relation().cachedPlan())
        for children in (plan.children(), plan.subqueries()):
            for place in range(children.size()):
                walk(children.apply(place))
        return None

    walk(frame._jdf.queryExecution().executedPlan())
    return found


def metrics_of_scans(spark):
    """Return the files skipped, rows skipped and files read of each scan of the last query in Spark's UI.

    Spark reports metrics of the driver, such as the last two, only for the first run of a frame.
    """
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    store = spark._jsparkSession.sharedState().statusStore()
    query = max(one.executionId() for one in _items(store.executionsList()))
    values = store.executionMetrics(query)
    skipped = ("number of files skipped by indexes", "number of rows skipped by indexes")
    found = []
    for node in _items(store.planGraph(query).allNodes()):
        if node.name().startswith("Scan parquet"):
            shown = {one.name(): values.get(one.accumulatorId()) for one in _items(node.metrics())}
            assert ("time of planning with indexes" in shown) == (skipped[0] in shown)
            names = (*skipped, "number of files read")
            found.append(tuple(_number(shown[name]) if name in shown else None for name in names))
    return found


def _items(sequence):
    return [sequence.apply(place) for place in range(sequence.size())]


def _number(value):
    return int(value.get().replace(",", "")) if value.isDefined() else None


@contextlib.contextmanager
def dropped(spark, *tables):
    """Drop tables before and after."""
    for table in tables:
        spark.sql(f"DROP TABLE IF EXISTS {table}")
    try:
        yield
    finally:
        for table in tables:
            spark.sql(f"DROP TABLE IF EXISTS {table}")
