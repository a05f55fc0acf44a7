"""The lake of small files behind an S3 server on this machine that delays each response."""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import intarsia as ia
from benchmarks.data import File
from benchmarks.lake import ROWS_PER_FILE, lookup_queries, make_lakes
from benchmarks.measure import Case
from benchmarks.queries import fewer

#: The delay of each response.
LATENCY_SECONDS = 0.02

#: The folders of the bucket: the same objects with and without a lake index.
INDEXED, UNINDEXED = "lake", "lake-without-index"

NEEDS = "needs moto: pip install 'moto[s3]' flask flask-cors"


class StoredLake(File):
    """A lake in the bucket of the server."""

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for file in ia.open(self.path).files)


def object_store_cases(folder: Path, rows: int, repetitions: int) -> list[Case]:
    """Look up rows of the lake in the bucket, with and without a lake index."""
    files = max(1, rows // ROWS_PER_FILE)
    os.environ.update(start_server(Path(make_lakes(folder, files)[-1].path), INDEXED, UNINDEXED))
    with_index, without_index = (f"s3://bucket/{name}/" for name in (INDEXED, UNINDEXED))
    ia.open(with_index).build_lake_index()
    about = f"{files:,} objects {{}} a lake index, 20 ms for each response"
    lakes = [
        StoredLake("S3", with_index, about.format("with")),
        StoredLake("S3, no lake index", without_index, about.format("without")),
    ]
    queries = lookup_queries(files, fewer(repetitions, 3))
    return [Case(name, found, asked) for found in lakes for name, asked in queries.items()]


def start_server(lake: Path, *folders: str) -> dict[str, str]:
    """Start a server in a process that ends with this one.

    Args:
        lake: The files that it serves.
        folders: The folders of the bucket, each of which has all of the files.

    Returns:
        The environment variables for its clients.
    """
    server = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.object_store", str(lake), *folders],
        stdout=subprocess.PIPE,
        text=True,
    )
    atexit.register(server.terminate)
    assert server.stdout is not None
    line = server.stdout.readline().split()
    if not line:
        raise RuntimeError(f"the server did not start; it {NEEDS}")
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        os.environ.pop(name, None)
    return dict(pair.split("=", 1) for pair in line)


def serve(lake: Path, folders: Sequence[str]) -> None:
    """Serve files in the folders of the bucket, and print the environment variables for its clients."""
    from tests.object_stores.s3_server import S3Server

    server = S3Server()
    server.reset()
    for path in sorted(lake.glob("*.parquet")):
        for folder in folders:
            server.put(f"{folder}/{path.name}", path.read_bytes())
    server.latency_seconds = LATENCY_SECONDS
    print(*(f"{name}={value}" for name, value in server.environment.items()), flush=True)


if __name__ == "__main__":
    serve(Path(sys.argv[1]), sys.argv[2:])
