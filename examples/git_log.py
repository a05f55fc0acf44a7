"""Search the commits of a git repository: a lake by year, with n-grams of the subjects and a lake index.

    python -m examples.git_log [REPOSITORY] [TEXT]

Text search is what column bounds cannot do: every page has subjects from A to Z.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from datetime import datetime, timezone
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import intarsia as ia

COMMITS_PER_FILE = 100
_FORMAT = "%H%x1f%at%x1f%an%x1f%s%x1f%b%x1e"


def read_log(repository: Path) -> pa.Table:
    """Return the commits of a repository, the oldest first."""
    log = subprocess.run(
        ["git", "-C", str(repository), "log", "--reverse", f"--format={_FORMAT}"],
        capture_output=True,
        check=True,
        encoding="utf-8",
        errors="replace",
    ).stdout
    commits = [entry.lstrip("\n").split("\x1f") for entry in log.split("\x1e") if entry.strip()]
    return pa.table(
        {
            "sha": [sha for sha, *_ in commits],
            "time": [datetime.fromtimestamp(int(seconds), timezone.utc) for _, seconds, *_ in commits],
            "author": [author for _, _, author, *_ in commits],
            "subject": [subject for *_, subject, _ in commits],
            "body": [body for *_, body in commits],
        }
    )


def write_lake(commits: pa.Table, folder: Path) -> None:
    """Write the commits as one file per hundred, in folders by year."""
    years = pc.year(commits["time"])
    for year in pc.unique(years).to_pylist():
        rows = commits.filter(pc.equal(years, year))
        below = folder / f"year={year}"
        below.mkdir()
        for start in range(0, rows.num_rows, COMMITS_PER_FILE):
            pq.write_table(rows.slice(start, COMMITS_PER_FILE), below / f"{start:06}.parquet")


def main(repository: str = ".", text: str = "Iceberg") -> int:
    """Index the log, search it with and without the indexes, and return the number of commits found."""
    folder = Path(tempfile.mkdtemp(prefix="git-log-"))
    try:
        write_lake(read_log(Path(repository)), folder)
        where = ia.contains("subject", text)
        before = ia.open(folder).scan(where)
        rows = before.to_arrow()
        ia.attach(folder, [ia.PageIndex(), ia.Ngram("subject", granularity="page"), ia.Distinct("author")])
        print(ia.open(folder).build_lake_index("beside"))
        after = ia.open(folder).scan(where)
        assert after.to_arrow() == rows
        for subject in rows["subject"].to_pylist()[:10]:
            print(f"  {subject}")
        for name, report in {"without": before.report, "with": after.report}.items():
            opened, read = f"{report.files_opened} of {report.files_total} files opened", report.bytes_read
            print(f"{name} indexes: {opened}, {read:,} bytes read in {report.requests} requests")
        return rows.num_rows
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    print(f"{main(*sys.argv[1:])} commits")
