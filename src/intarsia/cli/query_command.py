"""``intarsia query``: rows, aggregates or a sample; ``explain``: what it reads; ``map``: a picture of it."""

from __future__ import annotations

import json
import os
import shlex
import sys
import webbrowser
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast, get_args

import click

from intarsia.amounts import count, others_ignored, size
from intarsia.cli.formats import BINARY, Format, open_sink, writer
from intarsia.cli.options import ColumnNames, Count, Timeout, parse_storage_options, parse_where
from intarsia.cli.terminal import (
    INTERRUPTED,
    SKIPPED_FILES,
    UsageError,
    command_line,
    dim,
    duration,
    line,
    plain_table,
    print_report,
    say,
    show,
)

if TYPE_CHECKING:
    from rich.console import RenderableType

    from intarsia.lake.query_run import OnError
    from intarsia.lake.table import Table
    from intarsia.read.report import ScanReport

#: Columns with equal numbers of pages share a line, with this many names.
MAX_NAMES = 4

#: Maximum number of notes.
MAX_NOTES = 10


def explain(
    path: list[str],
    where: list[str] | None = None,
    columns: ColumnNames = None,
    analyze: bool = False,
    timeout: Timeout = None,
    storage_option: list[str] | None = None,
    json: bool = False,
) -> None:
    """Show what a query would read and what each index excludes, without reading data pages.

    Options:
        --analyze: Also run the query, and show what it read.

    Examples:
        intarsia explain lake/ --where "dest = 'LEX'"
        intarsia explain flights.parquet --where "dest = 'LEX' AND month >= 7" --columns tailnum
        intarsia explain lake/ --where "dest = 'LEX' AND month = 11" --analyze
        intarsia explain lake/ --where "dest = 'LEX'" --json | jq .pruned_by
    """
    import intarsia

    options = parse_storage_options(storage_option)
    table = intarsia.open(path, storage_options=options, query_timeout_seconds=timeout)
    condition = parse_where(where)
    report = table.explain(condition, columns, analyze=analyze)
    shown = list(tables(report, planned=not analyze))
    if report.advice is not None:
        command = ["intarsia", "lake-index", *path]
        if report.advice.code == "run-advise":
            from intarsia.advice.rewrites import joined_names

            command = ["intarsia", "advise", *path, "--where", str(condition or "")]
            command += ["--columns", joined_names(columns)] if columns else []
        shown += [line(), line(f"advice: {report.advice.text}", style="yellow")]
        shown.append(command_line(f"  {shlex.join(command)}"))
    print_report(report.to_dict(), shown, as_json=json)


def tables(report: ScanReport, *, planned: bool) -> Iterator[RenderableType]:
    """Yield tables of what was read, what each index excluded, and which indexes were ignored.

    Args:
        report: The report.
        planned: Whether it is the report of a plan instead of a scan.
    """
    yield _totals(report, planned=planned)
    if report.pruned_by:
        yield line()
        table = plain_table("excluded by", "column", ">files", ">row groups", ">pages", ">rows")
        for entry in report.pruned_by.values():
            numbers = (entry.files, entry.row_groups, entry.pages, entry.rows)
            table.add_row(
                entry.index, entry.column, *(count(number) if number else "-" for number in numbers)
            )
        yield table
    if report.ignored:
        yield line()
        yield line("ignored", style="yellow")
        for note in report.ignored[:MAX_NOTES]:
            yield line(f"  {note.file}: {note.index}: {note.reason}")
        if len(report.ignored) > MAX_NOTES:
            yield line(f"  and {len(report.ignored) - MAX_NOTES:,} more; use --json for all", style="dim")


def _totals(report: ScanReport, *, planned: bool) -> RenderableType:
    what = "read at most" if planned else "read"
    table = plain_table("", ">total", f">{what}", "")
    shape = report.to_dict()
    unopened = report.files_total - report.files_opened
    notes = [f"{count(unopened, 'file')} not opened"] if unopened else []
    notes += [f"{count(report.files_other, 'other file')} ignored"] if report.files_other else []
    table.add_row("files", count(report.files_total), count(report.files_read), ", ".join(notes))
    table.add_row("row groups", count(report.row_groups_total), count(report.row_groups_read))
    table.add_row("rows", count(report.rows_total), count(report.rows_candidate), _matching(report))
    table.add_row(
        "pages", count(shape["pages"]["total"]), count(shape["pages"]["read"]), _pages_note(shape, unopened)
    )
    alike: dict[tuple[int | None, int], list[str]] = {}
    for name, counts in report.pages.items():
        alike.setdefault((counts.total, counts.read), []).append(name)
    for (total, read), names in alike.items():
        shown = names if len(names) <= MAX_NAMES else names[: MAX_NAMES - 1]
        more = f" and {len(names) - len(shown):,} more" if len(names) > len(shown) else ""
        table.add_row(
            f"  {', '.join(shown)}{more}", count(total), count(read), "each" if len(names) > 1 else ""
        )
    num_bytes = report.bytes_read + (report.bytes_planned or 0)
    share = f"{num_bytes / report.bytes_total:.2%}" if report.bytes_total else ""
    index = f", including {size(report.bytes_index)} of indexes" if report.bytes_index else ""
    table.add_row("bytes", size(report.bytes_total), size(num_bytes), share + index)
    if planned:
        table.add_row(
            "", "", "", f"planned in {duration(report.seconds)}, with {count(report.requests, 'request')}"
        )
    else:
        table.add_row("requests", "", count(report.requests), f"done in {duration(report.seconds)}")
    return table


def _matching(report: ScanReport) -> str:
    """Return the number of matching rows, or an estimate, as text."""
    parts = ["might match"]
    if report.rows_estimated is not None:
        parts.append(f"about {report.rows_estimated:,.0f} estimated to match")
    if report.rows_matched is not None:
        parts.append(f"{report.rows_matched:,} matched")
    return ", ".join(parts)


def _pages_note(shape: dict[str, Any], unopened: int) -> str:
    """Return notes on the number of pages: dictionary pages are separate, and only opened files count."""
    dictionaries = shape["pages"]["dictionary_read"]
    notes = [f"and {count(dictionaries, 'dictionary page')}"] if dictionaries else []
    notes += ["of opened files"] if unopened and shape["files"]["opened"] else []
    return ", ".join(notes)


def summary(report: ScanReport, most_rows: int | None = None) -> str:
    """Return a scan's report in one line.

    Args:
        report: The report.
        most_rows: The number of rows that are shown, if more were read; None if all are.
    """
    num_rows = report.rows_matched
    if num_rows is not None and most_rows is not None:
        num_rows = min(num_rows, most_rows)
    pages = report.to_dict()["pages"]
    parts = (
        f"{count(report.files_read)} of {count(report.files_total, 'file')}",
        f"{count(pages['read'])} of {count(pages['total'], 'page')}",
        f"{size(report.bytes_read)} of {size(report.bytes_total)}",
    )
    others = others_ignored(report.files_other)
    return f"{count(num_rows, 'row')}; read {', '.join(parts)} in {duration(report.seconds)}{others}"


#: Maximum number of rows in a table on a terminal without a limit.
TABLE_ROWS = 40


def query(
    path: list[str],
    where: list[str] | None = None,
    columns: ColumnNames = None,
    limit: Count = None,
    order_by: str | None = None,
    aggregate: list[str] | None = None,
    value_counts: str | None = None,
    sample: Count = None,
    seed: Count = None,
    format: Annotated[Format | None, {"show_default": False}] = None,
    output: str | None = None,
    report: str | None = None,
    skip_bad_files: bool = False,
    no_page_checksums: bool = False,
    timeout: Timeout = None,
    storage_option: list[str] | None = None,
) -> None:
    """Print the rows that match, aggregates of them, or a sample, reading only pages that might match.

    Options:
        --value-counts COLUMN: Print the values of a column and how often each occurs, the most frequent
            first; with --limit, only the first ones.
        --sample N: Print this many rows, drawn at random from all rows.
        --seed N: Seed for --sample, random by default; the same seed draws the same rows.
        --format -f: Format of the rows; by default from the extension of --output, else table.
        --output -o FILE: Write the rows to a file; - is stdout.
        --report FILE: Write a JSON report of what was read and skipped; - writes it to stdout if the rows go
            to a file, else to stderr.
        --skip-bad-files: Skip damaged, truncated and missing files with one warning; the exit code is then 3.
        --no-page-checksums: Do not compare pages with the checksums in their headers; a mismatch is an error
            by default.

    Examples:
        intarsia query lake/ --where "dest = 'LEX'" --columns flight,tailnum,time_hour
        intarsia query flights.parquet --where "time_hour >= '2013-07-04'" --limit 100 --format csv > july.csv
        intarsia query lake/ --order-by "dep_delay DESC" --limit 10 --columns flight,dest,dep_delay
        intarsia query lake/ --where "tailnum LIKE 'N10%'" --output found.parquet --report report.json
        intarsia query lake/ --where "arr_delay IS NULL" --format jsonl | head -3
        intarsia query lake/ --where "month = 11" --aggregate "count(*), sum(distance) AS far, max(dep_delay)"
        intarsia query lake/ --aggregate "approx_distinct(tailnum)" --format json --report -
        intarsia query lake/ --value-counts carrier --where "lower(dest) = 'lex'" --limit 5
        intarsia query lake/ --where "dest = 'LEX'" --skip-bad-files
        intarsia query lake/ --sample 1000 --seed 1 --output sample.parquet
    """
    import intarsia
    from intarsia.cli import answers

    calls = answers.parse_calls(aggregate) if aggregate else []
    output = None if output == "-" else output
    form = format or _form_by_suffix(output)
    if form in BINARY and output is None and sys.stdout.isatty():
        raise UsageError(
            f"{form} is a binary format; name a file with --output, or redirect stdout",
            reason="binary-to-terminal",
        )
    table = intarsia.open(
        path,
        storage_options=parse_storage_options(storage_option),
        query_timeout_seconds=timeout,
        page_checksums=not no_page_checksums,
    )
    for target in filter(None, (output, report)):
        _refuse_overwriting(table, target)
    if output and report and os.path.realpath(output) == os.path.realpath(report):
        raise UsageError(
            "--output and --report name the same file; write the report to another file",
            reason="overwrites-output",
            path=output,
        )
    predicate = parse_where(where)
    on_error: OnError = "skip" if skip_bad_files else "raise"
    is_short = output is None and sys.stdout.isatty() and limit is None and sample is None
    shown = TABLE_ROWS if is_short and form == "table" else None
    if calls:
        answer = answers.aggregated(table, predicate, calls, on_error)
    elif value_counts is not None:
        scan = table.scan(predicate, [], on_error=on_error)
        counts = scan.value_counts(value_counts, limit)
        answer = answers.PrintedRows(counts.schema, counts.to_batches(), lambda: [scan.report])
    elif sample is not None:
        scan = table.scan(columns=columns)
        answer = answers.renamed(scan, columns, scan.sample(sample, seed).to_batches())
    else:
        # without a predicate, rows beyond the first are not read to count them
        max_rows = TABLE_ROWS + 1 if shown is not None and predicate is None else limit
        scan = table.scan(predicate, columns, max_rows, order_by, on_error=on_error)
        answer = answers.renamed(scan, columns, scan.read_ahead())
    num_rows = 0
    is_counted = predicate is not None or value_counts is not None
    try:
        with open_sink(output) as sink:
            rows = writer(
                form, sink, answer.schema, is_file=output is not None, shown=shown, is_counted=is_counted
            )
            for batch in answer.batches:
                rows.write(batch)
                num_rows += batch.num_rows
            rows.close()
    except KeyboardInterrupt:
        state = "the rows on stdout are incomplete" if output is None else f"{output} was not written"
        say(f"interrupted after {count(num_rows, 'row')}; {state}; run the command again")
        raise click.exceptions.Exit(INTERRUPTED) from None
    reports = answer.reports()
    _write_reports(reports, report, to_file=output is not None, most_rows=None if is_counted else shown)
    if any(found.files_failed for found in reports):
        raise click.exceptions.Exit(SKIPPED_FILES)


def _form_by_suffix(output: str | None) -> Format:
    if output is None:
        return "table"
    suffix = Path(output).suffix.removeprefix(".").lower()
    if suffix in get_args(Format):
        return cast("Format", suffix)
    raise UsageError(
        f"the extension is not a known format; choose one with --format ({', '.join(get_args(Format))})",
        reason="unknown-format",
        path=output,
    )


def _refuse_overwriting(table: Table, output: str) -> None:
    if any(
        file.store is None and os.path.exists(output) and os.path.samefile(file.path, output)
        for file in table.files
    ):
        raise UsageError(
            "this file is an input; write to another file",
            reason="overwrites-input",
            path=output,
        )


def _write_reports(
    reports: Sequence[ScanReport], target: str | None, *, to_file: bool, most_rows: int | None
) -> None:
    """Write the reports to a path or ``-``, and a summary to stderr if that is a terminal."""
    if target is not None:
        documents = [report.to_dict() for report in reports]
        document = documents[0] if len(documents) == 1 else documents
        text = json.dumps(document, indent=2, allow_nan=False, default=str) + "\n"
        if target == "-":
            (sys.stdout if to_file else sys.stderr).write(text)
        else:
            with open_sink(target) as sink:
                sink.write(text.encode())
    if sys.stderr.isatty():
        for report in reports:
            print(dim(summary(report, most_rows), sys.stderr), file=sys.stderr)


def draw_map(
    path: list[str],
    where: list[str] | None = None,
    columns: ColumnNames = None,
    limit: Count = None,
    order_by: str | None = None,
    aggregate: list[str] | None = None,
    output: str = "map.html",
    open: bool = False,
    timeout: Timeout = None,
    storage_option: list[str] | None = None,
) -> None:
    """Run a query, and draw which pages it read and which index skipped the others.

    Options:
        --output -o FILE: The page to write; it needs no network. A name that ends in .svg is a picture.
        --open: Show the page in the browser.

    Examples:
        intarsia map flights.parquet --where "dest = 'LEX'" -o map.html
        intarsia map lake/ --where "dest = 'LEX'" --columns flight,tailnum --output map.svg
        intarsia map flights.parquet --where "distance > 2000" --aggregate "count(*), max(arr_delay)"
    """
    import intarsia
    from intarsia.cli import answers

    suffix = os.path.splitext(output)[1].lower()
    if suffix not in (".html", ".svg"):
        raise UsageError(
            "a map is a page or a picture; write it to a name that ends in .html or .svg",
            reason="unknown-format",
            path=output,
        )
    calls = answers.parse_calls(aggregate) if aggregate else []
    table = intarsia.open(
        path, storage_options=parse_storage_options(storage_option), query_timeout_seconds=timeout
    )
    scan = table.scan(parse_where(where), [] if calls else columns, limit, order_by)
    _refuse_overwriting(table, output)
    found = scan.map(aggregate if calls else None)
    text = found.svg() if suffix == ".svg" else found.html()
    with open_sink(output) as sink:
        sink.write(text.encode(errors="backslashreplace"))  # names of files may have no UTF-8 form
    show([line(f"{output}: {found.summary}")])
    if open:
        webbrowser.open(Path(output).resolve().as_uri())
