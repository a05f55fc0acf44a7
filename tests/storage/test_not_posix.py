"""On systems that are not POSIX, files are read, and nothing is written.

The child process has neither the modules nor the functions that Windows lacks.
"""

from __future__ import annotations

import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq

import intarsia as ia
from tests.lake.index.lakes import age

WITHOUT_POSIX = """
import os, sys
for name in ("fcntl", "grp", "pwd", "resource", "termios"):
    sys.modules[name] = None
for name in ("O_CLOEXEC", "O_DIRECTORY", "O_NOCTTY", "O_NOFOLLOW", "O_NONBLOCK", "chown", "copy_file_range",
             "fchmod", "fchown", "fork", "getegid", "geteuid", "getgid", "getgroups", "getuid", "getxattr",
             "listxattr", "posix_fadvise", "pread", "preadv", "sendfile", "setxattr", "statvfs"):
    if hasattr(os, name):
        delattr(os, name)
import intarsia as ia
"""


def run(code, *arguments):
    command = [sys.executable, "-c", WITHOUT_POSIX + code, *map(str, arguments)]
    child = subprocess.run(command, capture_output=True, check=False, text=True)
    assert child.returncode == 0, child.stderr
    return child.stdout.splitlines()


def test_indexed_files_are_read(tmp_path):
    for day in range(3):
        path = tmp_path / f"{day}.parquet"
        pq.write_table(pa.table({"x": range(10_000 * day, 10_000 * day + 10_000)}), path)
        ia.attach(path, [ia.PageIndex(), ia.Distinct("x")])
    ia.open(tmp_path).build_lake_index("beside")
    code = """
table = ia.open(sys.argv[1])
scan = table.scan("x IN (5, 25000)")
print(scan.to_arrow()["x"].to_pylist(), scan.report.files_opened)
print(table.aggregate("sum(x)", "x < 20000")["x"]["sum"], len(ia.open(sys.argv[1] + "/0.parquet")))
"""
    # the lake index beside the files is not trusted, because owners and modes prove nothing
    assert run(code, tmp_path) == ["[5, 25000] 3", "199990000 10000"]


def test_nothing_is_written(tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"x": range(10_000)}), path)
    age(path)
    before = path.read_bytes()
    code = """
import pyarrow as pa
path, folder = sys.argv[1:]
for act in (
    lambda: ia.attach(path, ia.PageIndex()),
    lambda: ia.write_table(pa.table({"x": [1]}), folder + "/new.parquet"),
    lambda: ia.open(folder).build_lake_index("beside", wait=False),
    lambda: ia.open(folder).build_lake_index("cache", wait=False),
):
    try:
        act()
    except ia.UnsupportedFeatureError as error:
        print(error.reason)
"""
    assert run(code, path, tmp_path) == ["not-posix"] * 4
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["t.parquet"]
