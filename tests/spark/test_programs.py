"""Programs of Spark without a Python driver skip when they start with `ias.spark_conf()`.

They are spark-sql, spark-shell with Scala code, and the Thrift server with beeline as its client. They start
slowly, so `make test-spark-versions` runs them, and `make test` does not.
"""

import contextlib
import os
import socket
import subprocess
import time
from pathlib import Path

import pytest

import intarsia.spark as ias
from intarsia.spark.sessions import find_java
from tests.spark.jars import only_everything
from tests.spark.skipping import make_lake, user_of

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.xdist_group("spark"),
    only_everything,
]

_SECONDS = 400


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    return make_lake(tmp_path_factory.mktemp("programs") / "lake")


@pytest.fixture(scope="module")
def query(lake):
    """One row, which one of eight files has."""
    return f"SELECT id, user FROM parquet.`{lake}` WHERE user = {user_of(3, 77)}"


def command(program, folder, **settings):
    """Return the command line and the environment of a program that starts a session."""
    import pyspark

    home = Path(pyspark.__file__).parent
    settings = {
        **ias.spark_conf(procedures=True),
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"-Dderby.system.home={folder}",
        "spark.log.level": "ERROR",
        "spark.sql.warehouse.dir": f"{folder}/warehouse",
        "spark.ui.enabled": "false",
        "spark.intarsia.timeoutMillis": "60000",  # the start of the planner is part of the first plan
        **settings,
    }
    options = [text for key, value in settings.items() for text in ("--conf", f"{key}={value}")]
    environment = {
        **os.environ,
        "JAVA_HOME": find_java(),
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    return [str(home / "bin" / program), "--master", "local[2]", *options], environment


def run(arguments, environment, folder, text=""):
    done = subprocess.run(
        arguments,
        cwd=folder,
        env=environment,
        input=text,
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def expected(lake):
    return f"{3 * 200 + 77}", f"{user_of(3, 77)}"


def test_spark_sql(lake, query, tmp_path):
    arguments, environment = command("spark-sql", tmp_path)
    switch = "SET spark.intarsia.enabled=false"
    text = "; ".join([query, f"EXPLAIN {query}", switch, query, f"EXPLAIN {query}"])
    printed = run([*arguments, "-e", text], environment, tmp_path)
    enabled, plain = printed.split("spark.intarsia.enabled")
    row = "\t".join(expected(lake))
    assert row in enabled
    assert row in plain
    assert "Intarsia: 1/8 files" in enabled
    assert "Intarsia" not in plain


def test_procedures_in_spark_sql(tmp_path):
    folder = make_lake(tmp_path / "lake")
    arguments, environment = command("spark-sql", tmp_path)
    text = "; ".join(
        [
            f"CREATE TABLE flights USING parquet LOCATION '{folder}'",
            "CALL intarsia.index(table => 'flights', bloom => array('user'))",
            "CALL intarsia.show_indexes('flights')",
        ]
    )
    printed = run([*arguments, "-e", text], environment, tmp_path)
    assert any(line.startswith("user\tbloom\t8\t0\t") for line in printed.splitlines()), printed


def test_scala_code_in_spark_shell(lake, query, tmp_path):
    arguments, environment = command("spark-shell", tmp_path)
    code = f"""
        val query = "{query}"
        def plan() = spark.sql(query).queryExecution.executedPlan.toString.replace("\\n", " ")
        println("ENABLED " + spark.sql(query).collect().mkString + plan())
        val other = spark.newSession()
        println("OTHER " + other.sql(query).collect().mkString)
        spark.conf.set("spark.intarsia.enabled", "false")
        println("PLAIN " + spark.sql(query).collect().mkString + plan())
    """
    printed = run(arguments, environment, tmp_path, "\n".join(map(str.strip, code.splitlines())) + "\n")
    lines = [line.partition("> ")[2] if line.startswith("scala>") else line for line in printed.splitlines()]
    enabled, other, plain = (
        next(line for line in lines if line.startswith(name)) for name in ("ENABLED", "OTHER", "PLAIN")
    )
    row = f"[{','.join(expected(lake))}]"
    assert all(row in line for line in (enabled, other, plain))
    assert "Intarsia: 1/8 files" in enabled
    assert "Intarsia" not in plain


def test_clients_of_the_thrift_server(lake, query, tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    arguments, environment = command("spark-submit", tmp_path)
    server = "org.apache.spark.sql.hive.thriftserver.HiveThriftServer2"
    hive = {
        "hive.server2.thrift.port": port,
        "hive.server2.thrift.bind.host": "127.0.0.1",
        # beeline's user has no rights to act for another one
        "hive.server2.enable.doAs": "false",
    }
    options = [text for key, value in hive.items() for text in ("--hiveconf", f"{key}={value}")]
    with open(tmp_path / "server.txt", "w") as log:
        process = subprocess.Popen(
            [*arguments, "--class", server, "spark-internal", *options],
            cwd=tmp_path,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
        try:
            wait_for(port, process, tmp_path / "server.txt")
            beeline = [str(Path(environment["SPARK_HOME"]) / "bin" / "beeline")]
            beeline += ["-u", f"jdbc:hive2://127.0.0.1:{port}", "-n", "test", "--outputformat=tsv2"]
            texts = [query, f"EXPLAIN {query}", "SET spark.intarsia.enabled=false", query, f"EXPLAIN {query}"]
            texts.append(f"CALL intarsia.show_indexes('{lake}')")
            texts = [part for text in texts for part in ("-e", text)]
            printed = run([*beeline, *texts], environment, tmp_path)
        finally:
            process.terminate()
            process.wait(60)
    enabled, plain = printed.split("spark.intarsia.enabled")
    row = "\t".join(expected(lake))
    assert row in enabled
    assert row in plain
    assert "Intarsia: 1/8 files" in enabled
    assert "Intarsia" not in plain
    assert any(line.startswith("user\tbloom\t8\t0\t") for line in plain.splitlines()), plain


def wait_for(port, process, log):
    """Wait until the server accepts connections."""
    deadline = time.monotonic() + _SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.5)
    raise AssertionError(log.read_text()[-3000:])
