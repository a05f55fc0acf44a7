"""The demo's table: queries, what was read, and whether the results agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from examples.demo.queries import Query
from intarsia.amounts import count, size

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True)
class Answer:
    """The result of a query.

    Attributes:
        query: The query.
        rows: Number of rows without Intarsia.
        differs: The ways to run the query that returned other rows; empty if all agree.
        facts: What was read, with the keys of `intarsia.ScanReport.to_dict`.
        times: The times of plain Spark SQL before and after `ias.enable`, as text; empty without them.
    """

    query: Query
    rows: int
    differs: tuple[str, ...]
    facts: Mapping[str, Any]
    times: str = ""


def answers_table(sections: Mapping[str, Sequence[Answer]]) -> Table:
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
    for title, answers in sections.items():
        table.add_row(title, style="bold")
        for ordinal, answer in enumerate(answers, start=1):
            table.add_row(f"{ordinal} {answer.query.title}", *_cells(answer))
            lines = [answer.times, *skipped(answer.facts)] if answer.times else skipped(answer.facts)
            table.add_row("\n".join(f"  {line}" for line in lines), style="dim")
        table.add_section()
    return table


def _cells(answer: Answer) -> list[str]:
    files, groups, pages, num_bytes = (answer.facts[key] for key in ("files", "row_groups", "pages", "bytes"))
    # a plan of Spark's reader has only an estimate
    bytes_read = num_bytes["read"] if num_bytes["planned"] is None else num_bytes["planned"]
    return [
        f"{answer.rows:,}",
        f"NO: {', '.join(answer.differs)}" if answer.differs else "yes",
        f"{files['read']}/{files['total']}",
        f"{groups['read']}/{groups['total']}",
        f"{pages['read']}/{'?' if pages['total'] is None else pages['total']}",
        f"{size(bytes_read)}/{size(num_bytes['total'])}",
    ]


def skipped(facts: Mapping[str, Any]) -> list[str]:
    """Return what each index excluded, in the largest units that it excluded as a whole."""
    lines = []
    for entry in facts["pruned_by"]:
        amounts = ((entry["files"], "file"), (entry["row_groups"], "row group"), (entry["pages"], "page"))
        amount, noun = next(((amount, noun) for amount, noun in amounts if amount), (entry["rows"], "row"))
        index, column = entry["index"], entry["column"]
        lines.append(
            f"{count(amount, noun)}: {index.removesuffix(':page') if '(' in index else f'{index}({column})'}"
        )
    return lines or ["nothing"]
