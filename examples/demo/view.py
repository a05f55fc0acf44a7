"""The demo's table: queries, what was read, and whether the results agree."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from examples.demo.lakes import Lake
from examples.demo.questions import Question
from intarsia.cli.terminal import count, size

if TYPE_CHECKING:
    from rich.table import Table

    from intarsia.read.report import ScanReport


@dataclass(frozen=True)
class Answer:
    """The result of a query.

    Attributes:
        question: The query.
        rows: Number of rows without Intarsia.
        differs: The ways to run the query that returned other rows; empty if all agree.
        report: What Intarsia read.
    """

    question: Question
    rows: int
    differs: tuple[str, ...]
    report: ScanReport


def answers_table(answers: dict[Lake, list[Answer]]) -> Table:
    """Return the table; it fits into 80 columns."""
    from rich import box
    from rich.table import Table

    # no padding, because the box has a space between columns
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=0, header_style="bold")
    table.add_column("query\n  skipped by index", overflow="fold")
    table.add_column("rows", justify="right")
    table.add_column("same")
    for name in ("files", "row\ngroups", "pages", "bytes"):
        table.add_column(name, justify="right", no_wrap=True)
    for lake, asked in answers.items():
        table.add_row(os.path.basename(lake.path), style="bold")
        for place, answer in enumerate(asked, start=1):
            table.add_row(f"{place} {answer.question.title}", *_cells(answer))
            table.add_row("\n".join(f"  {line}" for line in skipped(answer.report)), style="dim")
        table.add_section()
    return table


def _cells(answer: Answer) -> list[str]:
    report = answer.report
    pages = report.to_dict()["pages"]
    return [
        f"{answer.rows:,}",
        f"NO: {', '.join(answer.differs)}" if answer.differs else "yes",
        f"{report.files_read}/{report.files_total}",
        f"{report.row_groups_read}/{report.row_groups_total}",
        f"{pages['read']}/{'?' if pages['total'] is None else pages['total']}",
        f"{size(report.bytes_read)}/{size(report.bytes_total)}",
    ]


def skipped(report: ScanReport) -> list[str]:
    """Return what each index excluded, in the largest units that it excluded as a whole."""
    lines = []
    for entry in report.pruned_by.values():
        amounts = ((entry.files, "file"), (entry.row_groups, "row group"), (entry.pages, "page"))
        amount, noun = next(((amount, noun) for amount, noun in amounts if amount), (entry.rows, "row"))
        name = entry.index.removesuffix(":page") if "(" in entry.index else f"{entry.index}({entry.column})"
        lines.append(f"{count(amount, noun)}: {name}")
    return lines or ["nothing"]
