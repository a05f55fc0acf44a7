"""``intarsia verify``: what files say against what they hold."""

from __future__ import annotations

import sys
from collections import Counter
from typing import TYPE_CHECKING

import typer

from intarsia.cli.arguments import AsJson, Paths
from intarsia.cli.each_file import Outcome, find_paths, for_each
from intarsia.cli.terminal import ShowDone, count, dim, print_json, printable, red

if TYPE_CHECKING:
    from intarsia.verification import VerifyReport

EXAMPLES = """
intarsia verify flights.parquet
intarsia verify lake/ --json | jq '.reports[].findings[]'
"""


def verify(path: Paths, json: AsJson = False) -> None:
    """Check statistics, page indexes, Bloom filters and embedded indexes against the data.

    Everything is read once. The exit code is 1 if a file contradicts itself, or cannot be read.
    """
    outcome = for_each("verifying", find_paths(path), _verify)
    ok = not outcome.failed and all(report.ok for report in outcome.done)
    if json:
        print_json(
            {
                "files": outcome.files,
                "ok": ok,
                "failed": outcome.failures(),
                "reports": [report.to_dict() for report in outcome.done],
            }
        )
    else:
        _tell(outcome)
    raise typer.Exit(0 if ok else 1)


def _verify(path: str, show: ShowDone) -> VerifyReport:
    from intarsia.verification import verify as verify_file

    return verify_file(path, progress=lambda done, total, _: show(done / max(1, total)))


def _tell(outcome: Outcome[VerifyReport]) -> None:
    outcome.tell_failures()
    for report in outcome.done:
        for finding in report.findings:
            style = red if finding.severity == "error" else dim
            print(style(printable(str(finding)), sys.stdout))
    bad = sum(not report.ok for report in outcome.done)
    checked = sum((Counter(report.checked) for report in outcome.done), Counter[str]())
    things = ", ".join(f"{number:,} {name.replace('_', ' ')}" for name, number in sorted(checked.items()))
    print(
        f"{count(len(outcome.done), 'file')} checked, {f'{bad:,} with errors' if bad else 'no error'}"
        + (f"; {len(outcome.failed):,} failed" if outcome.failed else "")
        + (f" ({things})" if things else "")
    )
