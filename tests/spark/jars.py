"""Jars of other projects, and older versions of PySpark, that some tests need."""

import os
import sys
from pathlib import Path

import pytest

_REQUIRED = "INTARSIA_REQUIRE_JARS"

_TESTED = os.environ.get("INTARSIA_TEST_PROGRAMS")

#: Whether the slow tests of older versions and of other programs run, as in `make test-spark-versions`.
EVERYTHING = bool(_TESTED)

#: Whether each of them runs with all versions, as in `make nightly-spark`.
ALL_VERSIONS = _TESTED == "all"

only_everything = pytest.mark.skipif(not EVERYTHING, reason="run by make test-spark-versions")
only_briefly = pytest.mark.skipif(EVERYTHING, reason="the other tests check more of the same")


def folder_of_jars(profile):
    """Return the folder in which the jars of a profile are, if they are there."""
    return Path(sys.prefix) / "jars" / profile


def jars_of(profile):
    """Return the folder of the jars of a profile of ``tools/jars/pom.xml``.

    Without them, the test is skipped, or fails if the environment says that they have to be there.
    """
    folder = folder_of_jars(profile)
    if not (folder / ".done").exists():
        why = folder.with_name(f"{profile}.missing")
        _missing(f"no jars of {profile}: " + (why.read_text().strip() if why.exists() else "run make jars"))
    return folder


def spark_of(version):
    """Return the folder with an older PySpark, which comes before others on the path of a process."""
    folder = Path(sys.prefix) / f"spark-{version}"
    if not (folder / "pyspark").is_dir():
        _missing(f"no Spark {version}: run make test-spark-versions")
    return folder


def _missing(message):
    if os.environ.get(_REQUIRED):
        pytest.fail(message)
    pytest.skip(message)
