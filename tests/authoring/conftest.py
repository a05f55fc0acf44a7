"""The example package, installed in a separate folder as its users would install it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests import child

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "intarsia-hosts"


COMMAND = """
import sys
from intarsia.cli import main
sys.exit(main(sys.argv[1:]))
"""


class Python(child.Python):
    """This Python with additional folders on its search path."""

    def __init__(self, *folders: Path) -> None:
        super().__init__(*folders)
        self.path = os.pathsep.join(map(str, [*folders, ROOT / "src"]))

    def run_alone(self, *arguments, **options):
        """Run Python in a process that is not forked, and capture its output as text."""
        return run_python(self.path, *arguments, **options)

    def intarsia(self, *arguments, code=0):
        """Run the command and check its exit code."""
        done = self.run(COMMAND, *arguments)
        assert done.returncode == code, done.stderr
        return done


def run_python(path, *arguments, **options):
    """Run Python with a search path, and capture its output as text."""
    variables = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    variables.pop("INTARSIA_DEBUG", None)
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, check=False, env=variables, capture_output=True, text=True, **options)


@pytest.fixture(scope="session")
def with_hosts(tmp_path_factory):
    """A Python with the example package, built and installed without network access."""
    source = tmp_path_factory.mktemp("source") / EXAMPLE.name
    target = tmp_path_factory.mktemp("site")
    source.mkdir()
    for file in filter(Path.is_file, EXAMPLE.iterdir()):
        (source / file.name).write_bytes(file.read_bytes())
    offline = ["--no-index", "--no-deps", "--no-build-isolation", "--no-compile", "--quiet"]
    installed = run_python(str(ROOT / "src"), "-m", "pip", "install", *offline, "--target", target, source)
    assert installed.returncode == 0, installed.stderr
    python = Python(target)
    yield python
    python.stop()


@pytest.fixture(scope="session")
def without_hosts():
    """A Python without the example package."""
    python = Python()
    yield python
    python.stop()


def pages():
    """Return a table of URLs of 40 sites, each in a few adjacent pages."""
    urls = [f"https://site{row // 50}.example/page/{row}" for row in range(2000)]
    return pa.table({"id": range(2000), "url": urls, "text": ["word " * (row % 7) for row in range(2000)]})


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "pages.parquet"
    options = {
        "use_dictionary": False,
        "write_statistics": False,
        "data_page_size": 1,
        "write_batch_size": 100,
    }
    pq.write_table(pages(), path, row_group_size=1000, **options)
    return path
