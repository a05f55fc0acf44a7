"""Programs of users type-check: `mypy --strict` finds only the error that is in the program on purpose."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import intarsia

PROGRAM = """
from collections.abc import Mapping
from pathlib import Path

import intarsia as ia

report = ia.attach("t.parquet", [ia.PageIndex(), ia.RowMap("user")])
weights: Mapping[str, int] = report.weights
codes: list[str] = [note.code for note in report.notes]
one: ia.AttachReport = ia.attach(Path("t.parquet"), ia.PageIndex())
many: int = ia.attach(["a.parquet", "b.parquet"], ia.PageIndex()).files_indexed
if isinstance(one, ia.AttachReport):
    print(one.bytes_original, codes, weights)

message: str = ia.detach("t.parquet").message
restored: int = ia.detach([Path("a.parquet")]).files_detached

table = ia.open("t.parquet")
scan = table.scan("user = 42", columns=["user"], limit=10)
rows: int = scan.to_arrow().num_rows + table.count("user = 42")
excluded: int = sum(found.rows for found in scan.report.pruned_by.values())
hint = table.explain("user = 42").advice
code: str | None = None if hint is None else hint.code

advice = ia.advise("t.parquet", ["user = 42"], columns=["user"])
commands: list[str | None] = [advice.command, *(query.where for query in advice.queries)]
if advice.indexes:
    ia.attach("t.parquet", advice.indexes)

with ia.Writer("u.parquet", {"user": [1]}, indexes=ia.RowMap("user")) as writer:
    writer.write_batch({"user": [1]})
written: int = ia.write_table({"user": [1]}, "v.parquet", sort_by="user").num_rows
findings: list[str] = [finding.rule for finding in ia.verify("t.parquet").findings]
groups: int = ia.inspect("t.parquet").num_rows

wrong: str = table.count()
"""


@pytest.mark.slow
def test_a_program_of_a_user(tmp_path, pytestconfig):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    found = subprocess.run(
        [
            *(sys.executable, "-m", "mypy", "--strict", "--config-file", os.devnull),
            *(
                "--follow-imports",
                "silent",
                "--ignore-missing-imports",
                "--cache-dir",
                str(pytestconfig.cache.mkdir("mypy")),  # only what has changed is checked again
            ),
            str(program),
        ],
        env={**os.environ, "MYPYPATH": str(Path(intarsia.__file__).parent.parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    errors = [line for line in found.stdout.splitlines() if ": error: " in line]
    last = len(PROGRAM.splitlines())
    assert [line.partition(": error: ")[0] for line in errors] == [f"{program}:{last}"], found.stdout
