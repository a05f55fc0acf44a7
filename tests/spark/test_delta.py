"""Delta tables in enabled sessions, in processes with a Spark that Delta supports.

`make test` runs one test, which shows the main promises; `make test-spark-versions` runs all others. Those
that depend on classes of Delta and Spark run on both versions. Each of the rest runs on one, or on both if
the environment variable INTARSIA_TEST_PROGRAMS is ``all``.
"""

import json
import os
import shutil
import subprocess
import sys

import deltalake
import pyarrow as pa
import pytest

from intarsia import spark as ias
from tests.effort import examples
from tests.spark.delta import EXTENSION, SESSION
from tests.spark.hosts import SparkHost
from tests.spark.jars import ALL_VERSIONS, jars_of, only_briefly, only_everything, spark_of

pytestmark = pytest.mark.spark

#: Tests that may run beside the others, in a process of their own.
beside = pytest.mark.xdist_group("beside")

_PROGRAM = "from tests.spark import delta; delta.{}(spark, {})"


def cases(group, chosen):
    """Return parameters, first a version of Spark; the tests of a group with a version run in one worker."""
    if ALL_VERSIONS:
        others = dict.fromkeys(one[1:] for one in chosen)
        chosen = [(version, *other) for version in ("4.2", "4.1") for other in others]
    return [pytest.param(*one, marks=pytest.mark.xdist_group(f"{group} {one[0]}")) for one in chosen]


def on(*chosen, names=()):
    """Run a test with versions of Spark: one, or both if it depends on Delta's or Spark's classes.

    Args:
        *chosen: The versions, each in a tuple with its values of other parameters if there are any.
        names: The names of the other parameters.
    """
    chosen = [(one,) if isinstance(one, str) else one for one in chosen]
    chooses = pytest.mark.parametrize(("delta", *names), cases("delta", chosen), indirect=["delta"])
    return lambda test: only_everything(chooses(test))


def host(folder, version, extensions, more_jars=(), **more):
    found = map(str, jars_of(f"delta-{version}").glob("*.jar"))
    own = {"spark.jars": ",".join([*found, *more_jars]), "spark.sql.extensions": extensions}
    return SparkHost(folder, {**SESSION, **own, **more}, site=str(spark_of(version)))


@pytest.fixture(scope="module")
def delta(request, tmp_path_factory):
    session = host(tmp_path_factory.mktemp("delta"), request.param, EXTENSION)
    try:
        session.run("from intarsia import spark as ias; ias.enable(spark)")
        yield session
    finally:
        session.stop()


def check(session, name, *arguments):
    print(session.run(_PROGRAM.format(name, ", ".join(map(str, arguments)))), end="")


@only_briefly
@pytest.mark.parametrize("delta", ["4.2"], indirect=True)
def test_promises(delta):
    check(delta, "check_promises", examples(165, deep=2_000))


@on("4.2", "4.1")
def test_files_row_groups_pages_and_rows(delta):
    check(delta, "check_plain", examples(300, deep=4_000), examples(30, deep=400))


@on("4.2", "4.1")
def test_deleted_rows(delta):
    check(delta, "check_deleted", examples(300, deep=4_000), examples(30, deep=400))


@beside
@on(("4.2", "name"), ("4.1", "id"), names=["mode"])
def test_columns_with_other_names_in_files(delta, mode):
    check(delta, "check_mapped", repr(mode), examples(100, deep=2_000), examples(10, deep=200))


@beside
@on("4.2", "4.1")
def test_commands(delta):
    check(delta, "check_changes")


@beside
@on("4.1")
def test_streams(delta):
    check(delta, "check_streams")


@on("4.2")
def test_older_versions_clones_and_changed_files(delta):
    check(delta, "check_history")


@beside
@on("4.2")
def test_jobs(delta):
    check(delta, "check_jobs")


@on("4.1")
def test_a_table_of_one_file(delta):
    check(delta, "check_one_file")


@on("4.1")
def test_procedures(delta):
    check(delta, "check_procedures")


@on("4.2")
def test_deleting(delta):
    check(delta, "check_deleting")


@on("4.1")
def test_random_deletions(delta):
    check(delta, "check_random_deletions", examples(1, deep=100))


@on("4.2")
def test_killed_while_lengths_are_registered(delta):
    kills = examples(1, deep=6)  # of several registrations each
    for _ in range(kills + 1):
        check(delta, "check_killed", kills)


@on("4.1")
def test_faults(delta):
    check(delta, "check_faults")


@on("4.1")
def test_few_files_that_the_log_has_left(delta):
    check(delta, "check_left_by_the_log")


@on("4.2")
def test_changed_files(delta):
    check(delta, "check_changed_files")


@beside
@on(
    ("4.2", "registered"),
    ("4.1", "versions_of_registered"),
    ("4.2", "refused"),
    ("4.1", "writers"),
    names=["name"],
)
def test_lengths_in_the_log(delta, name):
    check(delta, f"check_{name}")


@only_everything
@pytest.mark.parametrize(
    ("version", "order"), cases("delta sessions", [("4.2", "intarsia first"), ("4.1", "delta first")])
)
def test_configured_sessions(tmp_path, version, order):
    conf = ias.spark_conf()
    conf["spark.intarsia.timeoutMillis"] = "60000"  # the start of the planner is part of the first plan
    extensions = [conf.pop("spark.sql.extensions"), EXTENSION]
    if order == "delta first":
        extensions.reverse()
    session = host(tmp_path, version, ",".join(extensions), [conf.pop("spark.jars")], **conf)
    try:
        check(session, "check_configured")
    finally:
        session.stop()


@only_everything
@pytest.mark.xdist_group("delta sessions 4.2")
def test_the_command_registers_lengths(tmp_path):
    """In the session of `spark-defaults.conf`."""
    rows = pa.table({"id": range(1_000)})
    deltalake.write_deltalake(tmp_path / "table", rows)
    jars = ",".join(map(str, jars_of("delta-4.2").glob("*.jar")))
    conf = {**SESSION, "spark.jars": jars, "spark.sql.extensions": EXTENSION}
    folder = shutil.copytree(os.environ["SPARK_CONF_DIR"], tmp_path / "conf")
    (folder / "spark-defaults.conf").write_text("".join(f"{key} {value}\n" for key, value in conf.items()))
    arguments = ["--bloom", "id", "--page-index", "--spark", "local[1]", "--register", "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "intarsia", "index", str(tmp_path / "table"), *arguments],
        cwd=tmp_path,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(spark_of("4.2")), *sys.path]),
            "SPARK_CONF_DIR": str(folder),
        },
        capture_output=True,
        check=False,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout)["files"]["registered"] == 1
    table = deltalake.DeltaTable(tmp_path / "table")
    (add,) = pa.table(table.get_add_actions()).to_pylist()
    assert add["size_bytes"] == os.path.getsize(tmp_path / "table" / add["path"])
    assert table.version() == 1
    assert table.to_pyarrow_table().equals(rows)
