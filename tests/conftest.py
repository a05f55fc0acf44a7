"""What every test may use: the shared corpora, Hypothesis' profiles, one worker for Spark."""

import os
from pathlib import Path

import pytest

from tests import effort  # noqa: F401  # loads the profile of Hypothesis

CORPUS = Path(__file__).parent / "corpus"
SHARED = Path(__file__).resolve().parents[2] / "shared"


# A JVM that lives for a minute spends most of its time in its optimizing compiler. Spark's launcher passes
# these options on.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items):
    """Run tests that share the Spark session on one worker, and tests that start a JVM on one worker."""
    for item in items:
        shares_session = "spark" in getattr(item, "fixturenames", ())
        if shares_session:
            item.add_marker("spark")
        if item.get_closest_marker("spark"):
            item.add_marker(pytest.mark.xdist_group("spark" if shares_session else "jvm"))


def _shared_folder(name):
    folder = SHARED / name
    if not folder.is_dir():
        pytest.skip(f"needs ../shared/{name} beside the repository")
    return folder


@pytest.fixture(scope="session")
def corpus():
    """The folder of small Parquet files by many writers, valid and damaged."""
    return CORPUS


@pytest.fixture(scope="session")
def large_corpus():
    """The folder that has the larger files of the same writers as well."""
    return _shared_folder("corpus")


@pytest.fixture(scope="session")
def fixtures_dir():
    """Golden cases taken from other implementations."""
    return _shared_folder("fixtures")


@pytest.fixture(scope="session")
def data_dir():
    """Real data of some size."""
    return _shared_folder("data")


@pytest.fixture
def announce(tmp_path_factory, monkeypatch):
    """Install a package that announces index classes by their entry points, for the duration of a test."""

    def announce(entry_points):
        folder = tmp_path_factory.mktemp("site")
        info = folder / "announced-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: announced\nVersion: 1.0\n")
        lines = [f"{kind} = {value}" for kind, value in entry_points.items()]
        (info / "entry_points.txt").write_text("\n".join(["[intarsia.indexes]", *lines]) + "\n")
        monkeypatch.syspath_prepend(folder)

    return announce
