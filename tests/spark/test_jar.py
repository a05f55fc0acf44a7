"""The jar with the Java classes is that of the sources, and can be built again."""

import zipfile

import pytest

from tools import build_jar


def test_the_jar_is_that_of_the_sources():
    found = build_jar.attributes_of(build_jar.JAR)
    assert found["Sources-SHA256"] == build_jar.checksum_of_sources(), "run: make jar"


def test_every_source_has_its_class():
    with zipfile.ZipFile(build_jar.JAR) as archive:
        names = archive.namelist()
        assert archive.testzip() is None
    sources = [path.relative_to(build_jar.SOURCES).with_suffix(".class") for path in build_jar.java_sources()]
    own = {path.as_posix() for path in sources if path.parts[0] == build_jar.PACKAGE}
    assert own
    assert own <= set(names)
    assert all(name.startswith((f"{build_jar.PACKAGE}/", "META-INF/")) for name in names)


def test_building_again_gives_the_same_bytes():
    found, now = build_jar.attributes_of(build_jar.JAR), build_jar.attributes_now()
    if found != now:
        pytest.skip(f"built with {found['Javac-Version']} and pyspark {found['PySpark-Version']}")
    assert build_jar.build() == build_jar.JAR.read_bytes()


def test_the_class_files_are_of_the_oldest_java_that_spark_runs_on():
    with zipfile.ZipFile(build_jar.JAR) as archive:
        classes = [archive.read(name) for name in archive.namelist() if name.endswith(".class")]
    majors = {int.from_bytes(content[6:8], "big") for content in classes}
    assert majors == {44 + build_jar.RELEASE}
