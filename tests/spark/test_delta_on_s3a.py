"""Delta tables on s3a://: the page for those who have one, and enabled sessions."""

import contextlib
import json
import os
import re
from collections import Counter
from pathlib import Path
from urllib.parse import unquote

import pytest

from tests.effort import examples
from tests.object_stores.s3_server import SECRET, S3Server, s3a_settings
from tests.object_stores.store_server import Fault
from tests.spark.delta import EXTENSION, SESSION
from tests.spark.delta_on_s3a import FILES, ROWS
from tests.spark.hosts import SparkHost
from tests.spark.jars import jars_of, only_everything, spark_of

pytestmark = [only_everything, pytest.mark.spark, pytest.mark.xdist_group("spark")]

PAGE = Path(__file__).resolve().parents[2] / "docs" / "delta-on-s3.md"

PROGRAM = "from tests.spark import delta_on_s3a as checks; checks."


@pytest.fixture(scope="module")
def server():
    for profile in ("delta-4.2", "s3a-3.5"):
        jars_of(profile)
    spark_of("4.2")
    server = S3Server()
    server.reset()
    yield server
    server.close()


@contextlib.contextmanager
def started(server, folder, environment=(), **own):
    """A session with the settings of S3A, in a process that has no other credentials."""
    more = {
        "spark.jars": ",".join(map(str, jars_of("delta-4.2").glob("*.jar"))),
        "spark.driver.extraClassPath": f"{jars_of('s3a-3.5')}/*",
        "spark.hadoop.parquet.block.row.count.limit": "250",
        "spark.hadoop.parquet.page.row.count.limit": "25",
        "spark.sql.extensions": EXTENSION,
        **{f"spark.hadoop.{key}": value for key, value in s3a_settings(server).items()},
    }
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("AWS_")}
    session = SparkHost(folder, {**own, **more}, {**inherited, **dict(environment)}, str(spark_of("4.2")))
    try:
        yield session
    finally:
        session.stop()


@pytest.fixture(scope="module")
def session(server, tmp_path_factory):
    """A classic session."""
    with started(server, tmp_path_factory.mktemp("delta-on-s3a"), **SESSION) as session:
        yield session


def test_the_page(session):
    session.run(f"{PROGRAM}write(spark, 'flights')")
    text = PAGE.read_text(encoding="utf-8")
    found = re.findall(r"^```(py|text)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    (start, lines, shown, again), languages = [block for _, block in found], [name for name, _ in found]
    assert languages == ["py", "py", "text", "py"]
    assert sum(bool(line.strip()) for line in lines.splitlines()) <= 10
    printed = session.run(start + lines)
    assert "indexed 6 of 6 files" in printed
    assert shown.strip() in printed
    assert SECRET not in printed
    assert "0 of 6 files" in session.run(start + lines.partition("print")[0] + again)


def test_rows(session):
    session.run("from intarsia import spark as ias; ias.enable(spark)")
    session.run(f"{PROGRAM}check_rows(spark, {examples(20, deep=1_000)})")


@pytest.mark.parametrize("lake_index", ["beside", None])
def test_requests(server, session, lake_index):
    """With a lake index, data is neither listed nor opened; without one, the end of each object is read."""
    folder = f"counted-{lake_index}"
    session.run("from intarsia import spark as ias; ias.enable(spark)")
    session.run(
        f"from tests.spark import delta_on_s3a as checks\nchecks.write(spark, {folder!r}, ['part'])\n"
        f"checks.index(spark, {folder!r}, {lake_index!r})"
    )
    query = f"print(spark.sql('SELECT * FROM delta.`s3a://bucket/{folder}` WHERE u = {{}}').collect())"
    if lake_index:
        session.run(query.format(2322))  # downloads the lake index
    with server.recording() as found:
        assert "u=2321" in session.run(query.format(2321))
    listed = [one.query for one in found.requests if one.is_listing and "_delta_log" not in one.query]
    data = Counter(one.key for one in found.requests if "/part=" in one.key)
    *excluded, read = sorted(data.values())
    assert read <= 8
    if lake_index:
        assert not excluded
        assert [query for query in listed if "_intarsia" not in query] == []
        heads = [one for one in found.requests if one.method == "HEAD" and one.key in data]
        assert len(heads) == 1  # of Spark's reader
    else:
        assert excluded == [1] * (FILES - 1)
    assert len(listed) == (1 if lake_index else 2)  # the lake index, and the objects of all partitions


def test_lengths_in_the_log(server, session):
    session.run("from intarsia import spark as ias; ias.enable(spark)")
    session.run(f"{PROGRAM}check_registered(spark, 'registered')")
    commit = server.content("registered/_delta_log/00000000000000000002.json").decode().splitlines()
    adds = [action["add"] for action in map(json.loads, commit) if "add" in action]
    assert len(adds) == FILES
    for add in adds:
        assert add["size"] == len(server.content(f"registered/{unquote(add['path'])}"))
        assert (add["dataChange"], bool(add["stats"])) == (False, True)
        assert "deletionVector" in add
    assert [key for key in server.list_keys() if "_intarsia_lengths" in key] == [
        "registered/_intarsia_lengths/0",
        "registered/_intarsia_lengths/1",
    ]


def test_an_object_that_changes_before_its_length_is_committed(server, session):
    session.run(f"{PROGRAM}write(spark, 'meanwhile')")
    key = next(key for key in server.list_keys() if re.fullmatch(r"meanwhile/part-.*\.parquet", key))
    original = server.content(key)
    server.faults = [
        Fault("call", "PUT", "meanwhile/_intarsia_lengths/*", action=lambda: server.put(key, original))
    ]
    index = "ias.index(spark, 's3a://bucket/meanwhile', checks.INDEXES[:2], register=True, progress=False)"
    program = f"from intarsia import spark as ias\n{PROGRAM.replace('; checks.', '')}\n"
    assert session.run(f"{program}print({index}.files_registered)").split() == [str(FILES - 1)]
    assert server.content(key) == original
    count = "print(spark.sql('SELECT count(*) FROM delta.`s3a://bucket/meanwhile`').first()[0])"
    assert session.run(count).split() == [str(FILES * ROWS)]
    assert session.run(f"{program}print({index}.files_registered)").split() == ["1"]


def test_a_folder_over_spark_connect(server, tmp_path):
    """Its files have rows that the table has deleted, so only jobs on files take it."""
    settings = {key: value for key, value in SESSION.items() if key != "spark.master"}
    # PySpark then takes a free port for the server of Spark Connect
    environment = {"SPARK_TESTING": "1"}
    with started(server, tmp_path, environment, **settings, **{"spark.remote": "local[2]"}) as session:
        session.run(f"{PROGRAM}check_connect(spark)")


def test_changed_objects(session):
    session.run("from intarsia import spark as ias; ias.enable(spark)")
    session.run(f"{PROGRAM}check_changes(spark)")
