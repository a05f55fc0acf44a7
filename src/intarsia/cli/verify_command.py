"""``intarsia verify``: check the metadata of files against their data."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from intarsia.cli.jobs import (
    find,
    finish,
    for_each,
    one_or_all,
    others_ignored,
    reasons,
    run_job,
    until_interrupted,
)
from intarsia.cli.options import Count, parse_storage_options
from intarsia.cli.terminal import ShowDone, dim, printable, red
from intarsia.read.amounts import count, part

if TYPE_CHECKING:
    from intarsia.check.verification import VerifyReport

#: The plural nouns of counts whose names differ from them.
_NOUNS = {
    "bloom_filters": "Bloom filters",
    "embedded_rebuilt": "rebuilt embedded indexes",
    "embedded_rows": "values checked against embedded indexes",
}

#: The ending of a plural.
_PLURAL = re.compile(r"(?<=index)es$|(?<!statistic)s$")


def _print_rules(requested: bool) -> None:
    if requested:
        from intarsia.check.verification import RULES

        width = max(map(len, RULES))
        for rule, (severity, consequence) in RULES.items():
            print(f"{severity:7}  {rule:{width}}  {consequence}")
        raise typer.Exit


def verify(
    path: list[str],
    strict: bool = False,
    list_rules: Annotated[bool, {"callback": _print_rules, "is_eager": True}] = False,  # noqa: ARG001
    quick: bool = False,
    sample: Annotated[int | None, {"min": 1}] = None,
    seed: Count = None,
    spark: str | None = None,
    storage_option: list[str] | None = None,
    json: bool = False,
) -> None:
    """Check statistics, page indexes, Bloom filters and embedded indexes against the data.

    Each page and index is read once, one row group at a time. The exit code is 1 if a file has errors or
    cannot be read.

    Options:
        --strict: Also exit with 1 for warnings.
        --list-rules: List the rules with their severity, and the consequences for readers.
        --quick: Check only metadata, directory and checksums of indexes; read no data pages.
        --sample N: Read N column chunks of each file, drawn at random.
        --seed N: Seed for --sample (default 0); the same seed draws the same chunks.

    Examples:
        intarsia verify flights.parquet
        intarsia verify lake/ --quick
        intarsia verify lake/ --sample 10 --seed 7
        intarsia verify lake/ --quick --spark
        intarsia verify lake/ --json | jq '.reports[].findings[]'
        intarsia verify --list-rules
    """
    options = parse_storage_options(storage_option)
    scope = {"quick": quick, "sample": sample, "seed": seed or 0}
    stop = None
    if spark is not None:
        report = run_job(spark, "verify", one_or_all(path), **scope)
        done, failed, others = report.per_file, report.failed, report.files_other
    else:
        listed = find(path, options)

        def verify_one(path: str, show: ShowDone) -> VerifyReport:
            from intarsia.check.verification import verify as verify_file

            return verify_file(
                path,
                quick=quick,
                sample=sample,
                seed=seed or 0,
                progress=lambda done, total, _: show(done / max(1, total)),
                storage_options=options,
            )

        outcome, stop = until_interrupted(lambda: for_each("verifying", listed.paths, verify_one))
        done, failed, others = outcome.done, outcome.failed, len(listed.others)
        if stop is not None:
            stop = _interruption(listed.paths, len(done) + len(failed))
    ok = not failed and all(report.ok for report in done)
    warned = any(finding.severity == "warning" for report in done for finding in report.findings)
    document = {
        "files": len(done) + len(failed),
        "other_files": others,
        "ok": ok,
        "failed": [failure.to_dict() for failure in failed],
        "reports": [report.to_dict() for report in done],
    }
    text = "\n".join([*_findings(done), _summary(done, len(failed), others)])
    code = 0 if ok and not (strict and warned) else 1
    finish(document, text, reasons(failed), as_json=json, stop=stop, code=code)


def _interruption(paths: Sequence[str], files_done: int) -> KeyboardInterrupt:
    rest = f"; continue with {printable(paths[files_done])}" if files_done < len(paths) else ""
    return KeyboardInterrupt(f"interrupted after {part(files_done, len(paths), 'file')}{rest}")


def _findings(reports: Sequence[VerifyReport]) -> Iterator[str]:
    for report in reports:
        for finding in report.findings:
            style = red if finding.severity == "error" else dim
            yield style(printable(str(finding)), sys.stdout)


def _summary(reports: Sequence[VerifyReport], num_failed: int, others: int) -> str:
    bad = sum(not report.ok for report in reports)
    checked = sum((Counter(report.checked) for report in reports), Counter[str]())
    things = ", ".join(_counted(number, name) for name, number in sorted(checked.items()))
    return (
        f"{count(len(reports), 'file')} checked, {f'{bad:,} with errors' if bad else 'no errors'}"
        + (f" ({things})" if things else "")
        + _scope(reports)
        + (f"; {num_failed:,} failed" if num_failed else "")
        + others_ignored(others)
    )


def _scope(reports: Sequence[VerifyReport]) -> str:
    """Return the end of the summary, if not all data was read."""
    if not reports or reports[0].scope == "full":
        return ""
    if reports[0].scope == "quick":
        return "; no data page was read"
    read = sum(report.chunks_read for report in reports)
    total = sum(report.chunks_total for report in reports)
    return f"; a sample of {read:,} of {count(total, 'column chunk')}, seed {reports[0].seed}"


def _counted(number: int, name: str) -> str:
    """Format a number with its noun; ``name`` is the plural, with underscores."""
    noun = _NOUNS.get(name) or name.replace("_", " ")
    singular = _PLURAL.sub("", re.sub("ies$", "y", noun))
    return f"{number:,} {singular if number == 1 else noun}"
