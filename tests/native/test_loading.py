"""Whether the extension is used does not depend on whether it is installed where tests run."""

import os
import re
import subprocess
import sys
from pathlib import Path

import intarsia
from intarsia import native

ROOT = Path(__file__).parents[2]
SOURCES = Path(intarsia.__file__).parents[1]


def test_versions_are_equal():
    versions = {
        re.search(r'^version = "(.+?)"', (ROOT / name).read_text(), re.MULTILINE)[1]
        for name in ("pyproject.toml", "native/Cargo.toml")
    }
    assert versions == {native.VERSION}


def test_another_version_is_not_used_and_warns_once(tmp_path):
    write_extension(tmp_path, "__version__ = '0.0.1'")
    load = "from intarsia.native import load; print(load(), load())"
    found = run(tmp_path, load)
    assert found.stdout.split() == ["None", "None"]
    assert found.stderr.count("intarsia-native 0.0.1 is not used") == 1
    assert f"install intarsia-native=={native.VERSION}" in found.stderr

    required = run(tmp_path, load, "require")
    assert required.returncode == 1
    assert "ImportError: intarsia-native 0.0.1 is not used" in required.stderr


def test_a_library_that_cannot_be_loaded_is_absent_unless_required(tmp_path):
    write_extension(tmp_path, "raise ImportError('version GLIBC_2.99 not found')")
    load = "from intarsia.native import load; print(load())"
    assert run(tmp_path, load).stdout == "None\n"
    assert "GLIBC_2.99" in run(tmp_path, load, "require").stderr


def test_it_can_be_switched_off(tmp_path):
    write_extension(tmp_path, f"__version__ = {native.VERSION!r}")
    load = "from intarsia.native import load; print(load() is None)"
    assert run(tmp_path, load).stdout == "False\n"
    assert run(tmp_path, load, "off").stdout == "True\n"
    assert (
        "INTARSIA_NATIVE is 'on'; set it to one of ('auto', 'off', 'require')"
        in run(tmp_path, load, "on").stderr
    )


def test_refusals_are_counted_and_other_errors_are_not_caught(tmp_path):
    write_extension(
        tmp_path,
        f"__version__ = {native.VERSION!r}",
        "class Refused(Exception): pass",
        "def footers(): raise Refused('too deep')",
    )
    calls = (
        "from intarsia.native import attempt, refusals\n"
        "print(attempt(lambda extension: extension.footers()), dict(refusals))\n"
        "attempt(lambda extension: 1 / 0)"
    )
    found = run(tmp_path, calls)
    assert found.stdout == "None {'too deep': 1}\n"
    assert "ZeroDivisionError" in found.stderr


def test_import_of_the_package_does_not_load_it(tmp_path):
    write_extension(tmp_path, "raise SystemExit('loaded')")
    assert run(tmp_path, "import intarsia, intarsia.lake.table").stderr == ""


def write_extension(folder, *lines):
    (folder / "intarsia_native.py").write_text("\n".join(lines))


def run(folder, program, switch="auto"):
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(folder), str(SOURCES)]),
        "INTARSIA_NATIVE": switch,
    }
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, env=environment
    )
