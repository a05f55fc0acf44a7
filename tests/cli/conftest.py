"""The command, run in this process, and its input files."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from intarsia.cli import main
from tests.cli.trips import trips, write


@dataclass(frozen=True)
class Outcome:
    """The outcome of a run of the command."""

    code: int
    raw: bytes
    err: str

    @property
    def out(self):
        return self.raw.decode()


@pytest.fixture
def run(capsysbinary, monkeypatch):
    """Return a function that runs the command and returns its outcome."""
    monkeypatch.delenv("INTARSIA_DEBUG", raising=False)
    monkeypatch.delenv("COLUMNS", raising=False)  # pytest-xdist may set it in its workers

    def run(*arguments):
        code = main([str(argument) for argument in arguments])
        captured = capsysbinary.readouterr()
        return Outcome(code, captured.out, captured.err.decode())

    return run


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "trips.parquet"
    write(trips(), path)
    return path


@pytest.fixture
def lake(tmp_path):
    """Three files in folders named ``year=...``."""
    root = tmp_path / "lake"
    for place, year in enumerate((2021, 2022, 2023)):
        folder = root / f"year={year}"
        folder.mkdir(parents=True)
        write(trips(place * 2000), folder / "part.parquet")
    return root


@pytest.fixture
def broken(tmp_path):
    """A truncated file."""
    path = tmp_path / "broken.parquet"
    write(trips(), path)
    path.write_bytes(path.read_bytes()[:-100])
    return path
