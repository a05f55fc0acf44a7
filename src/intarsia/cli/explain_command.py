"""``intarsia explain``: what a query would read, and why; reports of scans as text."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from intarsia.cli.jobs import others_ignored
from intarsia.cli.options import ColumnNames, Timeout, parse_storage_options, parse_where
from intarsia.cli.terminal import command_line, duration, line, plain_table, print_report
from intarsia.read.amounts import count, size

if TYPE_CHECKING:
    from rich.console import RenderableType

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
