"""The examples run on real data, and their answers are those of a full read."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from benchmarks.lineitem import find_program
from examples import git_log, lineitem

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_git_log(tmp_path, capsys):
    def git(*arguments):
        subprocess.run(["git", "-C", tmp_path, *arguments], check=True, capture_output=True)

    git("init")
    who = ("-c", "user.name=Ann", "-c", "user.email=ann@example.org", "-c", "commit.gpgsign=false")
    for number in range(130):
        subject = "the needle" if number == 110 else 'ünïcode, "quotes"'
        git(
            *who, "commit", "--allow-empty", "-m", f"{number}: {subject}", "-m", "a body\n\nof two paragraphs"
        )
    assert git_log.read_log(tmp_path)["subject"].to_pylist()[1] == '1: ünïcode, "quotes"'
    assert git_log.main(str(tmp_path), "needle") == 1
    printed = capsys.readouterr().out
    assert "  110: the needle\n" in printed
    assert "with indexes: 1 of 2 files opened" in printed


@pytest.mark.skipif(
    shutil.which("git") is None or not (ROOT / ".git").exists(), reason="needs a git checkout"
)
def test_git_log_of_this_repository(capsys):
    subjects = git_log.read_log(ROOT)["subject"].to_pylist()
    assert git_log.main(str(ROOT), "index") == sum("index" in subject for subject in subjects)
    assert "with indexes: " in capsys.readouterr().out


@pytest.mark.skipif(find_program() is None, reason="needs tpchgen-cli")
def test_lineitem(capsys):
    lineitem.main(0.01)
    printed = capsys.readouterr().out.splitlines()
    for where in lineitem.QUERIES:
        assert sum(line.startswith(where.ljust(36)) for line in printed) == 1
