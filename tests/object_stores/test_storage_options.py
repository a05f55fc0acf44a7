"""All functions and commands that take URLs take the options of their stores, without the environment."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

import intarsia as ia
from intarsia.cli import main
from tests.object_stores.store_server import BUCKET

FOLDER = f"s3://{BUCKET}/lake/"
URL = f"{FOLDER}x.parquet"
ROWS = pa.table({"a": range(1000)})


@pytest.fixture
def options(s3, monkeypatch, tmp_path):
    """The settings of the server, which the environment does not have."""
    for name in s3.environment:
        monkeypatch.delenv(name)
    monkeypatch.setenv("INTARSIA_CACHE_DIR", str(tmp_path))
    return {name.lower(): value for name, value in s3.environment.items()}


def test_functions(options, s3):
    options |= {"max_retries": 1}
    report = ia.write_table(ROWS, URL, indexes=ia.Distinct("a"), storage_options=options)
    assert s3.list_keys() == ["lake/x.parquet"]
    assert report.path == URL
    with ia.Writer(f"{FOLDER}y.parquet", ROWS.schema, storage_options=options) as writer:
        writer.write_table(ROWS)
    found = ia.inspect(URL, storage_options=options)
    assert (found.path, found.num_rows) == (URL, 1000)
    assert ia.verify(URL, storage_options=options).ok
    assert ia.verify(URL, quick=True, storage_options=options).ok
    assert ia.advise(FOLDER, "a = 7", storage_options=options).sample.files == 2
    assert ia.open(FOLDER, storage_options=options).count("a = 7") == 2


@pytest.mark.parametrize(
    "act",
    [
        lambda **options: ia.write_table(ROWS, URL, **options),
        lambda **options: ia.Writer(URL, ROWS.schema, **options),
        lambda **options: ia.inspect(URL, **options),
        lambda **options: ia.verify(URL, **options),
        lambda **options: ia.advise(URL, **options),
    ],
    ids=["write_table", "Writer", "inspect", "verify", "advise"],
)
def test_wrong_options_are_refused(options, act):
    for wrong, reason in (({"nonsense": 1}, "unknown-option"), ({"max_retries": -1}, "invalid-option")):
        with pytest.raises(ia.ObjectStoreError) as caught:
            act(storage_options=options | wrong)
        assert (caught.value.reason, caught.value.path) == (reason, URL)


def test_commands(options, capsys):
    ia.write_table(ROWS, URL, storage_options=options)
    options |= {"max_retries": 1, "deadline_seconds": 20.5}
    given = [text for name, value in options.items() for text in ("--storage-option", f"{name}={value}")]

    def run(*arguments):
        assert main([*arguments, "--json" if "query" not in arguments else "--format=json", *given]) == 0
        return json.loads(capsys.readouterr().out)

    assert run("index", FOLDER, "--distinct", "a", "--lake-index", "beside")["files"]["indexed"] == 1
    assert run("inspect", URL)["num_rows"] == 1000
    assert run("inspect", FOLDER)[0]["num_rows"] == 1000
    assert run("verify", FOLDER)["ok"]
    assert run("query", FOLDER, "--where", "a = 7") == [{"a": 7}]
    assert run("explain", FOLDER, "--where", "a = 7")["rows"]["total"] == 1000
    assert run("advise", FOLDER, "--where", "a = 7")["sample"]["files"] == 1
    assert run("lake-index", FOLDER, "--remove")["removed"]
    assert run("lake-index", FOLDER)["files"]["total"] == 1
    assert run("detach", FOLDER)["files"] == 1


@pytest.mark.parametrize(
    "given",
    [
        ["inspect", URL, "--storage-option", "max_retries"],
        ["inspect", URL, "--storage-option", "=3"],
        ["inspect", URL, "--storage-option", "max_retries=many"],
        ["inspect", URL, "--storage-option", "aws_region=a", "--storage-option", "AWS_REGION=b"],
        ["verify", URL, "--spark", "local[1]", "--storage-option", "max_retries=3"],
    ],
)
def test_wrong_usage(given, capsys):
    assert main(given) == 2
    assert "--storage-option" in capsys.readouterr().err
