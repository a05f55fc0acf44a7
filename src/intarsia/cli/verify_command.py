"""``intarsia verify``: check the metadata of files against their data."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from intarsia.cli.arguments import AsJson, Paths, StorageOptionTexts, parse_storage_options
from intarsia.cli.each_file import find, for_each, others_ignored, show_failures, until_interrupted
from intarsia.cli.failures import INTERRUPTED, UsageError, say
from intarsia.cli.spark_jobs import Master, refuse_storage_options, run_job
from intarsia.cli.terminal import ShowDone, dim, print_json, printable, red
from intarsia.read.amounts import count, part

if TYPE_CHECKING:
    from intarsia.check.verification import VerifyReport
    from intarsia.lake.each_file import FileResults
    from intarsia.spark.verifying import LakeVerifyReport

EXAMPLES = """
intarsia verify flights.parquet
intarsia verify lake/ --quick
intarsia verify lake/ --sample 10 --seed 7
intarsia verify lake/ --quick --spark
intarsia verify lake/ --json | jq '.reports[].findings[]'
intarsia verify --list-rules
"""

#: The plural nouns of counts whose names differ from them.
_NOUNS = {
    "bloom_filters": "Bloom filters",
    "embedded_rebuilt": "rebuilt embedded indexes",
    "embedded_rows": "values checked against embedded indexes",
}

#: Endings of plurals and their singulars; the first match is used.
_SINGULARS = (("statistics", "statistics"), ("ies", "y"), ("indexes", "index"), ("s", ""))


def _print_rules(requested: bool) -> None:
    if requested:
        from intarsia.check.verification import RULES

        width = max(map(len, RULES))
        for rule, (severity, consequence) in RULES.items():
            print(f"{severity:7}  {rule:{width}}  {consequence}")
        raise typer.Exit


def verify(
    path: Paths,
    strict: Annotated[bool, typer.Option("--strict", help="Also exit with 1 for warnings.")] = False,
    rules: Annotated[  # noqa: ARG001
        bool,
        typer.Option(
            "--list-rules",
            callback=_print_rules,
            is_eager=True,
            help="List the rules with their severity, and the consequences for readers.",
        ),
    ] = False,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick", help="Check only metadata, directory and checksums of indexes; read no data pages."
        ),
    ] = False,
    sample: Annotated[
        int | None,
        typer.Option(
            "--sample", metavar="N", min=1, help="Read N column chunks of each file, drawn at random."
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            "--seed",
            metavar="N",
            min=0,
            help="Seed for --sample (default 0); the same seed draws the same chunks.",
        ),
    ] = None,
    spark: Master = None,
    storage_option: StorageOptionTexts = None,
    json: AsJson = False,
) -> None:
    """Check statistics, page indexes, Bloom filters and embedded indexes against the data.

    Each page and index is read once, one row group at a time. The exit code is 1 if a file has errors or
    cannot be read.
    """
    if quick and sample is not None:
        raise UsageError(
            "--quick and --sample cannot be combined, because --quick reads no data pages; use one of them",
            reason="conflicting-options",
        )
    if seed is not None and sample is None:
        raise UsageError(
            "--seed needs --sample; add the number of column chunks, such as --sample 10",
            reason="missing-option",
        )
    options = parse_storage_options(storage_option)
    refuse_storage_options(options, spark)
    paths: Sequence[str] = ()
    stop = None
    if spark is not None:
        outcome, others = _verify_with_spark(spark, path, quick=quick, sample=sample, seed=seed or 0)
    else:
        listed = find(path, options)
        others, paths = len(listed.others), listed.paths

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

        outcome, stop = until_interrupted(lambda: for_each("verifying", paths, verify_one))
    ok = not outcome.failed and all(report.ok for report in outcome.done)
    warned = any(finding.severity == "warning" for report in outcome.done for finding in report.findings)
    if json:
        print_json(
            ({"interrupted": True} if stop else {})
            | {
                "files": outcome.num_files,
                "other_files": others,
                "ok": ok,
                "failed": [failure.to_dict() for failure in outcome.failed],
                "reports": [report.to_dict() for report in outcome.done],
            }
        )
    else:
        _print_findings(outcome, others)
    if stop:
        is_rest = stop.files_done < stop.files_total
        rest = f"; continue with {printable(paths[stop.files_done])}" if is_rest else ""
        say(f"interrupted after {part(stop.files_done, stop.files_total, 'file')}{rest}", red)
        raise typer.Exit(INTERRUPTED)
    raise typer.Exit(0 if ok and not (strict and warned) else 1)


def _verify_with_spark(
    master: str, path: list[str], *, quick: bool, sample: int | None, seed: int
) -> tuple[FileResults[VerifyReport], int]:
    """Return the reports of the files, and the number of other files in the folders."""
    from intarsia.lake.each_file import FileResults

    def job(session: Any) -> LakeVerifyReport:
        from intarsia.spark.verifying import verify as verify_with_spark

        source = path[0] if len(path) == 1 else path
        return verify_with_spark(session, source, quick=quick, sample=sample, seed=seed)

    report = run_job(master, job)
    return FileResults(list(report.per_file), list(report.failed)), report.files_other


def _print_findings(outcome: FileResults[VerifyReport], others: int) -> None:
    show_failures(outcome.failed)
    for report in outcome.done:
        for finding in report.findings:
            style = red if finding.severity == "error" else dim
            print(style(printable(str(finding)), sys.stdout))
    bad = sum(not report.ok for report in outcome.done)
    checked = sum((Counter(report.checked) for report in outcome.done), Counter[str]())
    things = ", ".join(_counted(number, name) for name, number in sorted(checked.items()))
    print(
        f"{count(len(outcome.done), 'file')} checked, {f'{bad:,} with errors' if bad else 'no errors'}"
        + (f" ({things})" if things else "")
        + _scope(outcome.done)
        + (f"; {len(outcome.failed):,} failed" if outcome.failed else "")
        + others_ignored(others)
    )


def _scope(reports: Sequence[VerifyReport]) -> str:
    """Return the end of the summary, if not all data was read."""
    if not reports or reports[0].scope == "full":
        return ""
    if reports[0].scope == "quick":
        return "; no data page was read"
    read, total = (
        sum(report.chunks_read for report in reports),
        sum(report.chunks_total for report in reports),
    )
    return f"; a sample of {read:,} of {count(total, 'column chunk')}, seed {reports[0].seed}"


def _counted(number: int, name: str) -> str:
    """Format a number with its noun; ``name`` is the plural, with underscores."""
    noun = _NOUNS.get(name) or name.replace("_", " ")
    if number == 1:
        for plural, singular in _SINGULARS:
            if noun.endswith(plural):
                noun = noun.removesuffix(plural) + singular
                break
    return f"{number:,} {noun}"
