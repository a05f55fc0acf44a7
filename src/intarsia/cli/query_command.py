"""``intarsia query``: the rows that match."""

from __future__ import annotations

import contextlib
import json
import os
import stat
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated

import typer

from intarsia.cli.arguments import ColumnNames, DistinctIndex, Paths, WhereText, split_names
from intarsia.cli.failures import UsageError
from intarsia.cli.formats import Format, writer
from intarsia.cli.terminal import dim

if TYPE_CHECKING:
    import pyarrow as pa

    from intarsia.scan import Scan
    from intarsia.table import Table

EXAMPLES = """
intarsia query lake/ --where "dest = 'LEX'" --columns flight,tailnum,time_hour
intarsia query flights.parquet --where "time_hour >= '2013-07-04'" --limit 100 --format csv > july.csv
intarsia query lake/ --where "tailnum LIKE 'N10%'" --output found.parquet --report report.json
intarsia query lake/ --where "arr_delay IS NULL" --format jsonl | head -3
"""

#: Rows that a table shows if no limit is given; those beyond are only counted.
TABLE_ROWS = 40

Limit = Annotated[
    int | None,
    typer.Option("--limit", "-n", metavar="N", min=0, help="At most so many rows; reading stops early."),
]
Form = Annotated[
    Format | None,
    typer.Option(
        "--format",
        "-f",
        show_default=False,
        help="Form of the rows; by --output's suffix if not given, else table.",
    ),
]
Output = Annotated[str | None, typer.Option("--output", "-o", metavar="FILE", help="Write the rows there.")]
Report = Annotated[
    str | None,
    typer.Option(
        "--report",
        metavar="FILE",
        help="What was read and skipped, as JSON; - for stdout if the rows go to a file, else for stderr.",
    ),
]


def query(
    path: Paths,
    where: WhereText = None,
    columns: ColumnNames = None,
    limit: Limit = None,
    form: Form = None,
    output: Output = None,
    report: Report = None,
    distinct_index: DistinctIndex = None,
) -> None:
    """Read the rows that match, touching only the pages that can hold them."""
    import intarsia

    form = form or _form_by_suffix(output)
    if form.is_binary and output is None and sys.stdout.isatty():
        raise UsageError(f"{form.value} is no text; name a file with --output, or send stdout to one")
    table = intarsia.open(path, distinct_index=distinct_index)
    if output is not None:
        _refuse_overwriting(table, output)
    shown = TABLE_ROWS if limit is None else None
    if form is Format.TABLE and where is None and limit is None:
        limit = TABLE_ROWS  # nothing was asked: this is a look at the first rows
    names = split_names(columns)
    scan = table.scan(where, names, limit)
    with _sink(output) as sink:
        rows = writer(form, sink, _schema(scan, names), is_file=output is not None, shown=shown)
        for batch in scan:
            rows.write(batch.rename_columns(_schema(scan, names).names))
        rows.close()
    _tell(scan, report, to_file=output is not None)


def _form_by_suffix(output: str | None) -> Format:
    if output is None:
        return Format.TABLE
    suffix = Path(output).suffix.removeprefix(".").lower()
    try:
        return Format(suffix)
    except ValueError:
        known = ", ".join(form.value for form in Format)
        raise UsageError(
            f"{output}: its suffix names no format; choose one with --format ({known})"
        ) from None


def _refuse_overwriting(table: Table, output: str) -> None:
    if any(
        file.store is None and os.path.exists(output) and os.path.samefile(file.path, output)
        for file in table.files
    ):
        raise UsageError(f"{output}: this file is being read; write the rows to another one")


def _schema(scan: Scan, names: list[str] | None) -> pa.Schema:
    """The scan's schema; fields of structs go by their whole path if their own names are not unique."""
    import pyarrow as pa

    own = scan.schema.names
    if names is None or len(set(own)) == len(own):
        return scan.schema
    return pa.schema([field.with_name(name) for field, name in zip(scan.schema, names, strict=True)])


@contextlib.contextmanager
def _sink(output: str | None) -> Iterator[IO[bytes]]:
    """Stdout, or a file that appears under its name once it is whole."""
    if output is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    try:
        plain = stat.S_ISREG(os.stat(output).st_mode)
    except FileNotFoundError:
        plain = True
    if not plain:  # a device or a pipe
        with open(output, "wb") as sink:
            yield sink
        return
    target = Path(os.path.realpath(output))
    try:
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent)
    except FileNotFoundError:
        raise FileNotFoundError(2, "no such folder", str(target.parent)) from None
    try:
        with os.fdopen(handle, "wb") as sink:
            yield sink
        os.chmod(name, _usual_mode())
        os.replace(name, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


def _usual_mode() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def _tell(scan: Scan, report: str | None, *, to_file: bool) -> None:
    """Write the report where it was asked for, and a line of it where someone looks on."""
    if report is not None:
        text = json.dumps(scan.report.to_dict(), indent=2, allow_nan=False, default=str) + "\n"
        if report == "-":
            (sys.stdout if to_file else sys.stderr).write(text)
        else:
            Path(report).write_text(text, encoding="utf-8")
    if sys.stderr.isatty():
        from intarsia.cli.report_view import summary

        print(dim(summary(scan.report), sys.stderr), file=sys.stderr)
