"""Delta tables in enabled sessions, in processes with a Spark that Delta supports.

`make test` runs one test, which shows the main promises; `make test-spark-versions` runs all of them.
"""

import contextlib
import os
import random
import signal
from pathlib import Path

import pytest

from intarsia import spark as ias
from tests.effort import examples
from tests.spark.delta import EXTENSION, KILLED, SESSION
from tests.spark.hosts import SparkHost
from tests.spark.jars import EVERYTHING, jars_of, only_everything, spark_of
from tests.spark.test_faults import descendants

pytestmark = pytest.mark.spark

VERSIONS = [
    pytest.param(version, marks=pytest.mark.xdist_group(f"delta {version}"))
    for version in (("4.2", "4.1") if EVERYTHING else ("4.2",))
]

_PROGRAM = "from tests.spark import delta; delta.{}(spark, {})"


def host(folder, version, extensions, more_jars=(), **more):
    found = map(str, jars_of(f"delta-{version}").glob("*.jar"))
    own = {"spark.jars": ",".join([*found, *more_jars]), "spark.sql.extensions": extensions}
    return SparkHost(folder, {**SESSION, **own, **more}, site=str(spark_of(version)))


@pytest.fixture(scope="module", params=VERSIONS)
def delta(request, tmp_path_factory):
    session = host(tmp_path_factory.mktemp("delta"), request.param, EXTENSION)
    try:
        session.run("from intarsia import spark as ias; ias.enable(spark)")
        yield session
    finally:
        session.stop()


def check(session, name, *arguments):
    session.run(_PROGRAM.format(name, ", ".join(map(str, arguments))))


def test_promises(delta):
    check(delta, "check_promises", examples(200))


@only_everything
def test_files_row_groups_pages_and_rows(delta):
    check(delta, "check_plain", examples(300, deep=4_000), examples(30, deep=400))


@only_everything
def test_deleted_rows(delta):
    check(delta, "check_deleted", examples(300, deep=4_000), examples(30, deep=400))


@only_everything
@pytest.mark.parametrize("mode", ["name", "id"])
def test_columns_with_other_names_in_files(delta, mode):
    check(delta, "check_mapped", repr(mode), examples(100, deep=2_000), examples(10, deep=200))


@only_everything
def test_commands(delta):
    check(delta, "check_changes")


@only_everything
def test_older_versions_clones_and_changed_files(delta):
    check(delta, "check_history")


@only_everything
def test_jobs(delta):
    check(delta, "check_jobs")


@only_everything
def test_deleting(delta):
    check(delta, "check_deleting")


@only_everything
def test_random_deletions(delta):
    check(delta, "check_random_deletions", examples(12, deep=300))


@only_everything
def test_faults(delta):
    check(delta, "check_faults")


@only_everything
def test_few_files_that_the_log_has_left(delta):
    check(delta, "check_left_by_the_log")


@only_everything
def test_changed_files(delta):
    check(delta, "check_changed_files")


@only_everything
@pytest.mark.parametrize("name", ["registered", "versions_of_registered", "refused", "writers"])
def test_lengths_in_the_log(delta, name):
    check(delta, f"check_{name}")


@only_everything
def test_jobs_that_register_and_are_killed(delta, tmp_path):
    """Killed after any change of a file, a job leaves the rows, and the next one completes the rest."""
    changes = [*range(1, 20)]
    random.Random(1).shuffle(changes)
    for change in changes[: examples(10, deep=190) // 10 + 1]:
        table = Path(delta.run(_PROGRAM.format("make_killed", "")).strip())
        folder = tmp_path / str(change)
        folder.mkdir()
        other = host(folder, "4.2", EXTENSION)
        try:
            other.run("spark.range(9).count()")
            other.start(KILLED, table)
            seen = wait_for_changes(table, change, other)
            for pid in descendants("org.apache.spark.deploy.SparkSubmit"):
                if os.readlink(f"/proc/{pid}/cwd") == str(folder):
                    os.kill(pid, signal.SIGKILL)
        finally:
            other.kill()
        assert seen
        check(delta, "check_killed")


def wait_for_changes(folder, number, session):
    """Wait until files of a folder have changed so often, or a program has ended; return the number."""
    seen, before = -1, None
    while seen < number and not session.is_ready():
        now = set()
        for parent, _, names in os.walk(folder):
            for name in names:
                with contextlib.suppress(FileNotFoundError):
                    now.add((parent, name, os.stat(os.path.join(parent, name)).st_mtime_ns))
        seen += now != before
        before = now
    return seen


@only_everything
@pytest.mark.parametrize("order", ["intarsia first", "delta first"])
@pytest.mark.parametrize("version", VERSIONS)
def test_configured_sessions(tmp_path, version, order):
    conf = ias.spark_conf()
    extensions = [conf.pop("spark.sql.extensions"), EXTENSION]
    if order == "delta first":
        extensions.reverse()
    session = host(tmp_path, version, ",".join(extensions), [conf.pop("spark.jars")], **conf)
    try:
        check(session, "check_configured")
    finally:
        session.stop()
