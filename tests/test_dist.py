"""The distributions are complete, and the wheel works in an environment without this checkout."""

from __future__ import annotations

import re
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

import intarsia
from tools import dist

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    return dist.build(tmp_path_factory.mktemp("dist"))


def test_the_wheel_has_the_package_only(built):
    with zipfile.ZipFile(built[1]) as archive:
        names = set(archive.namelist())
    package = Path(intarsia.__file__).parent
    sources = {f"intarsia/{path.relative_to(package).as_posix()}" for path in package.rglob("*.py")}
    others = {name for name in names if not name.startswith("intarsia-")} - sources
    assert sources <= names
    folder = package / "picture" / "page"
    drawing = {f"intarsia/picture/page/{path.name}" for path in folder.iterdir()}
    assert others == {"intarsia/py.typed", "intarsia/spark/jars/intarsia-spark.jar", *drawing}


def test_the_source_distribution_has_what_the_tests_need(built):
    with tarfile.open(built[0]) as archive:
        folders = {name.split("/")[1] for name in archive.getnames()}
    assert {
        "src",
        "java",
        "tests",
        "tools",
        "docs",
        "examples",
        "benchmarks",
        "Makefile",
        "LICENSE",
    } <= folders


def test_the_wheel_works_where_nothing_else_is(built, tmp_path):
    dependencies = Path(sysconfig.get_path("purelib"))
    version = dist.try_wheel(built[1], tmp_path / "environment", site_packages=dependencies)
    shown, _, _ = version.partition(", with intarsia-native")  # that of the environment of the tests
    assert shown == f"intarsia {re.search(r'-([0-9.]+)-py3', built[1].name)[1]}"


def test_the_changelog_has_the_version(built):
    version = re.search(r"-([0-9.]+)-py3", built[1].name)[1]
    assert re.search(rf"^## {re.escape(version)}, ", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)


def test_workflows_run_what_the_makefile_has():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for workflow in (ROOT / ".github" / "workflows").glob("*.yml"):
        used = set(re.findall(r"run: make ([a-z-]+)", workflow.read_text()))
        assert used <= targets, workflow
