"""A program of a user, which `make lint` type-checks; the error at its end is there on purpose."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import intarsia as ia

if TYPE_CHECKING:
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

    wrong: str = table.count()  # type: ignore[assignment]
