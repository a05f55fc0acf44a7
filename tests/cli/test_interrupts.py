"""Ctrl-C in long runs: files are whole, the remaining work is reported, and another run continues."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from tests.cli.trips import trips, write

pytestmark = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="sees open files in /proc")

FILES = 36


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    root = tmp_path_factory.mktemp("made")
    write(trips(count=4000), root / "part-00.parquet")
    for place in range(1, FILES):
        shutil.copy(root / "part-00.parquet", root / f"part-{place:02}.parquet")
    return root


@pytest.fixture
def lake(made, tmp_path):
    return Path(shutil.copytree(made, tmp_path / "lake"))


def files_of(lake):
    return sorted(path for path in lake.rglob("*") if path.is_file())


def start(*arguments):
    return subprocess.Popen(
        [sys.executable, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def opens(process, path):
    """Whether a process has a file open."""
    folder = Path(f"/proc/{process.pid}/fd")
    for name in os.listdir(folder):
        try:
            if os.readlink(folder / name) == str(path):
                return True
        except OSError:
            continue
    return False


def interrupt(process, ready):
    """Send SIGINT once a condition is met, and return the exit code, stdout and stderr."""
    deadline = time.monotonic() + 60
    while not ready() and process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.001)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert "Traceback" not in err
    return process.returncode, out, err


def test_index_and_detach(lake, run):
    files = files_of(lake)
    before = [path.read_bytes() for path in files]
    arguments = ("index", lake, "--page-index", "--distinct", "city")
    process = start("-m", "intarsia", *arguments)
    code, out, err = interrupt(process, lambda: files[2].stat().st_size > len(before[2]))
    assert code == 130
    done = sum(path.stat().st_size > len(old) for path, old in zip(files, before, strict=True))
    assert 3 <= done < FILES
    counted = int(re.match(rf"indexed (\d+) of {FILES} files in ", out)[1])
    assert counted in (done - 1, done)  # the last may be replaced, but not counted yet
    assert f"of {FILES} files" in err
    assert files_of(lake) == files
    for path, old in zip(files, before, strict=True):
        assert path.read_bytes().startswith(old)

    counted = json.loads(run(*arguments, "--json").out)["files"]
    assert (counted["indexed"], counted["unchanged"]) == (FILES - done, done)

    process = start("-m", "intarsia", "detach", lake, "--json")
    code, out, err = interrupt(process, lambda: files[2].stat().st_size == len(before[2]))
    assert code == 130
    document = json.loads(out)
    assert document["interrupted"]
    assert 2 <= len(document["reports"]) < document["files"] == FILES
    assert files_of(lake) == files
    assert ia.detach(lake).files_total == FILES
    assert [path.read_bytes() for path in files] == before


def test_verify(lake):
    ia.attach(lake, [ia.PageIndex(), ia.Distinct("city"), ia.RowMap("id")])
    files = files_of(lake)
    process = start("-m", "intarsia", "verify", lake)
    code, out, err = interrupt(process, lambda: opens(process, files[1]))
    assert code == 130
    assert " checked" in out
    assert str(lake) in err  # the file to continue with


def test_query_to_a_file(tmp_path):
    path, target = tmp_path / "many.parquet", tmp_path / "rows.csv"
    rows = pa.table({"x": pa.repeat(7, 1_000_000)})
    with pq.ParquetWriter(path, rows.schema) as writer:
        for _ in range(150):  # seconds of CSV: under load, the signal may be late
            writer.write_table(rows)
    process = start("-m", "intarsia", "query", path, "--output", target)
    code, _, err = interrupt(process, lambda: len(os.listdir(tmp_path)) > 1)
    assert code == 130
    assert os.listdir(tmp_path) == [path.name]
    assert str(target) in err


ATTACH = """
import sys
import intarsia as ia
try:
    ia.attach(sys.argv[1], [ia.PageIndex(), ia.Distinct("city")])
except ia.RunInterrupted as stop:
    assert isinstance(stop, KeyboardInterrupt)
    assert stop.report.files_total == stop.files_total
    assert len(stop.report.per_file) == stop.files_done
    print(stop.files_done, stop.files_total, stop.report.files_indexed)
"""


def test_attach(lake):
    files = files_of(lake)
    size = files[2].stat().st_size
    process = start("-c", ATTACH, lake)
    code, out, _ = interrupt(process, lambda: files[2].stat().st_size > size)
    assert code == 0
    done, total, indexed = map(int, out.split())
    assert total == FILES
    assert 2 <= done == indexed < FILES  # the third may be replaced, but not counted yet
    assert files_of(lake) == files
    again = ia.attach(lake, [ia.PageIndex(), ia.Distinct("city")])
    assert again.files_unchanged >= done
    assert again.files_failed == 0
