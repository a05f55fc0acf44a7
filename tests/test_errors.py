"""The errors that are raised on purpose: all drawn where they are defined, and public."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import intarsia
from intarsia import errors
from intarsia.lake.data_file import FileFailure
from intarsia.read.report import FailedFile
from tests.child import ENVIRONMENT, SOURCES

CLASS = re.compile(r"^ *class (\w+)\(([^)]*)\)", re.MULTILINE)

#: Errors of one part, which that part names.
ELSEWHERE = {"JavaNotFoundError", "UsageError"}


def drawn():
    """Each error's name and its parent's, from the drawing."""
    parents, found = [], {}
    for line in errors.__doc__.splitlines():
        name = line.lstrip(" │├└─").partition(" ")[0]
        if not name.endswith("Error"):
            continue
        depth = (len(line) - len(line.lstrip(" │├└─"))) // 4 - 1
        parents[depth:] = [name]
        found[name] = parents[depth - 1] if depth else None
    return found


def test_every_error_is_drawn_under_its_parent():
    defined = [value for value in vars(errors).values() if isinstance(value, type)]
    known = {cls.__name__: cls.__bases__[0].__name__ for cls in defined if cls.__name__.endswith("Error")}
    known["IntarsiaError"] = None
    assert drawn() == {**known, **dict.fromkeys(ELSEWHERE, "IntarsiaError")}


def test_no_other_error_is_raised_on_purpose():
    known = {*drawn(), "IntarsiaError"}
    found = set()
    for path in Path(intarsia.__file__).parent.rglob("*.py"):
        for name, bases in CLASS.findall(path.read_text("utf-8")):
            if known & set(re.split(r"[^\w.]+", bases)):
                found.add(name)
    assert found == known - {"IntarsiaError"}


def test_users_can_catch_them():
    assert set(drawn()) - ELSEWHERE <= set(intarsia.__all__)


@pytest.mark.parametrize(
    ("context", "text"),
    [
        ({}, "it is wrong"),
        ({"path": "a b, c"}, "a b, c: it is wrong"),
        ({"struct": "ColumnIndex"}, "ColumnIndex: it is wrong"),
        ({"path": "a", "offset": 0}, "a: offset 0: it is wrong"),
        ({"path": "a", "struct": "ColumnIndex", "offset": 7}, "a: ColumnIndex, offset 7: it is wrong"),
    ],
)
def test_one_form_for_the_place_of_an_error(context, text):
    """Reports of many files have the path in a column of its own, and are printed in the same form."""
    error = errors.CorruptFileError("it is wrong", **context)
    assert str(error) == text
    path = context.get("path", "other")
    for failed in (FileFailure(path, error), FailedFile.of(path, error)):
        assert f"{path}: {failed.reason}" == (text if "path" in context else f"other: {text}")


def test_errors_can_be_named_before_anything_is_used():
    program = "import intarsia; intarsia.errors.FormatError"
    environment = {**ENVIRONMENT, "PYTHONPATH": str(SOURCES)}
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60, env=environment)
