"""Build the jar with the Java classes for Spark: ``make jar``, or ``python -m tools.build_jar``.

The wheel contains the jar, so users need no compiler. Developers who change a file in ``java/`` need a JDK
17 or newer. The compilers in pyspark's own jars cannot replace it: scalac reads Java sources but does not
compile them, and Janino does not support the language of Java 17.

The same sources, javac and pyspark give the same bytes: entries are sorted, have one fixed time, and are not
compressed, because zlib differs between machines. The manifest contains a checksum of the sources and the
versions of the compiler and of pyspark. So a test can compare the jar with the sources without a compiler.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCES = ROOT / "java"
JAR = ROOT / "src" / "intarsia" / "spark" / "jars" / "intarsia-spark.jar"

#: The folder of the classes in the jar. Sources elsewhere are compiled against, but are not in the jar.
PACKAGE = "intarsia"

#: The oldest Java that Spark 4 runs on.
RELEASE = 17

#: The time of all entries: the earliest that a zip file can contain.
_TIME = (1980, 1, 1, 0, 0, 0)
_MANIFEST = "META-INF/MANIFEST.MF"


def java_sources() -> list[Path]:
    """Return the source files, in the order of their paths."""
    return sorted(SOURCES.rglob("*.java"))


def checksum_of_sources() -> str:
    """Return the SHA-256 of the names and contents of all sources."""
    found = hashlib.sha256()
    for path in java_sources():
        content = path.read_bytes().replace(b"\r\n", b"\n")
        found.update(f"{path.relative_to(SOURCES).as_posix()} {len(content)}\n".encode() + content)
    return found.hexdigest()


def javac_version() -> str | None:
    """Return the version of javac on PATH; None if there is none that is new enough."""
    javac = shutil.which("javac")
    if javac is None:
        return None
    run = subprocess.run([javac, "-version"], capture_output=True, check=False, text=True)
    found = re.search(r"javac (\d+)(\S*)", run.stdout + run.stderr)
    return found[1] + found[2] if found and int(found[1]) >= RELEASE else None


def attributes_now() -> dict[str, str]:
    """Return the attributes that the manifest of a jar built now has."""
    return {
        "Manifest-Version": "1.0",
        "Implementation-Title": "intarsia-spark",
        "Sources-SHA256": checksum_of_sources(),
        "Javac-Version": javac_version() or "none",
        "PySpark-Version": version("pyspark"),
    }


def attributes_of(jar: Path) -> dict[str, str]:
    """Return the attributes in the manifest of a jar."""
    with zipfile.ZipFile(jar) as archive:
        text = archive.read(_MANIFEST).decode().replace("\r\n ", "")
    return dict(line.split(": ", 1) for line in text.splitlines() if line)


def build() -> bytes:
    """Compile the sources and return the jar.

    Raises:
        FileNotFoundError: If there is no javac.
        subprocess.CalledProcessError: If the sources do not compile.
    """
    if javac_version() is None:
        raise FileNotFoundError(f"no javac {RELEASE} or newer on PATH; install a JDK")
    spark = find_spec("pyspark")
    assert spark is not None
    assert spark.submodule_search_locations
    jars = Path(spark.submodule_search_locations[0]) / "jars" / "*"
    with tempfile.TemporaryDirectory() as folder:
        # A JVM of a few seconds needs neither the optimizing compiler nor a parallel garbage collector.
        options = ["-J-XX:TieredStopAtLevel=1", "-J-XX:+UseSerialGC"]
        options += ["--release", str(RELEASE), "-encoding", "UTF-8", "-g:source,lines", "-proc:none"]
        options += ["-Xlint:unchecked,rawtypes,cast", "-Werror", "-cp", str(jars), "-d", folder]
        subprocess.run(["javac", *options, *map(str, java_sources())], check=True)
        own = Path(folder) / PACKAGE  # the others are signatures of Spark's classes
        classes = {path.relative_to(folder).as_posix(): path.read_bytes() for path in own.rglob("*.class")}
    return _jar_of(classes, attributes_now())


def _jar_of(classes: Mapping[str, bytes], attributes: Mapping[str, str]) -> bytes:
    lines = [f"{name}: {value}" for name, value in attributes.items()]
    manifest = "".join(_wrapped(line) for line in lines) + "\r\n"
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for name, content in [(_MANIFEST, manifest.encode()), *sorted(classes.items())]:
            entry = zipfile.ZipInfo(name, _TIME)
            entry.create_system, entry.external_attr = 3, 0o644 << 16
            archive.writestr(entry, content)
    return out.getvalue()


def _wrapped(line: str) -> str:
    """Return a line of a manifest; those of more than 72 bytes continue after a space."""
    first, rest = line[:70], line[70:]
    return "\r\n ".join([first, *(rest[at : at + 69] for at in range(0, len(rest), 69))]) + "\r\n"


def main() -> int:
    """Build the jar, or compare it with the sources."""
    parser = argparse.ArgumentParser(description="Build the jar with the Java classes for Spark.")
    parser.add_argument("--check", action="store_true", help="only check that the jar matches the sources")
    if parser.parse_args().check:
        is_current = attributes_of(JAR)["Sources-SHA256"] == checksum_of_sources()
        print("the jar is current" if is_current else "the jar is older than java/; run: make jar")
        return 0 if is_current else 1
    try:
        jar = build()
    except (FileNotFoundError, subprocess.CalledProcessError) as error:
        print(f"cannot build the jar: {error}", file=sys.stderr)
        return 1
    JAR.parent.mkdir(parents=True, exist_ok=True)
    JAR.write_bytes(jar)
    print(f"{JAR.relative_to(ROOT)}: {len(jar):,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
