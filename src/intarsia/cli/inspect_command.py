"""``intarsia inspect``: the structure of files; ``intarsia verify``: their metadata against their data."""

from __future__ import annotations

import dataclasses
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import click

from intarsia.amounts import count, cut, others_ignored, part, size
from intarsia.cli.formats import text
from intarsia.cli.jobs import (
    find,
    finish,
    for_each,
    one_or_all,
    reasons,
    run_job,
    show_failures,
    until_interrupted,
)
from intarsia.cli.options import (
    ColumnNames,
    Count,
    parse_ordinals,
    parse_storage_options,
    printing,
    wants_json,
)
from intarsia.cli.terminal import (
    ShowDone,
    dim,
    json_text,
    line,
    plain_table,
    print_json_list,
    print_report,
    printable,
    red,
    show,
)

if TYPE_CHECKING:
    from rich.console import RenderableType

    from intarsia.check.report import ChunkInspection, FileInspection, RowGroupInspection
    from intarsia.check.verification import VerifyReport
    from intarsia.check.verification.findings import LakeVerifyReport

_Described = TypeVar("_Described")

#: Number of row groups shown without --pages.
MAX_ROW_GROUPS = 5

#: Maximum characters of a bound.
BOUND_WIDTH = 28

#: Short names for encodings of values; other encodings are those of levels.
_ENCODINGS = {
    "RLE_DICTIONARY": "dict",
    "PLAIN_DICTIONARY": "dict",
    "PLAIN": "plain",
    "DELTA_BINARY_PACKED": "delta",
    "DELTA_LENGTH_BYTE_ARRAY": "delta-length",
    "DELTA_BYTE_ARRAY": "delta-bytes",
    "BYTE_STREAM_SPLIT": "split",
}


def inspect(
    path: list[str],
    pages: bool = False,
    columns: ColumnNames = None,
    row_groups: list[str] | None = None,
    storage_option: list[str] | None = None,
    json: bool = False,
) -> None:
    """Show the structure of files: row groups, columns, pages, bounds, indexes and sizes.

    Reads only the footer and indexes, no data pages. --json prints an object if PATH is one file, else a
    list. Bad files are reported; the rest are still shown.

    Options:
        --pages: List all row groups and pages, and estimate the contents of Bloom filters.
        --columns COLUMNS: Describe only these columns, such as 'dest,origin'; a struct has all its leaves.
        --row-groups NUMBERS: Describe only these row groups, such as '0,5,10-20'.

    Examples:
        intarsia inspect flights.parquet
        intarsia inspect flights.parquet --columns dest --row-groups 0 --pages
        intarsia inspect flights.parquet --pages | less
        intarsia inspect flights.parquet --json | jq .sizes
        intarsia inspect lake/ --json | jq -r '.[] | [.path, .num_rows] | @tsv'
    """
    from intarsia.check.inspection import inspect as inspect_file
    from intarsia.lake.data_file import FileFailure, for_each_file
    from intarsia.storage import local_path

    options = parse_storage_options(storage_option)
    groups = parse_ordinals(row_groups, "--row-groups")
    listed = find(path, options)
    files = listed.paths

    def inspect_one(file: str) -> FileInspection:
        return inspect_file(file, pages=pages, columns=columns, row_groups=groups, storage_options=options)

    if len(path) == 1 and files[0] == (local_path(path[0]) or path[0]):  # not of a folder or glob
        one = inspect_one(path[0])
        print_report(one.to_dict(), _parts(one, pages=pages), as_json=json)
        return
    failed: list[FileFailure] = []

    def described(describe: Callable[[FileInspection], _Described]) -> Iterator[_Described]:
        """Yield one file at a time, so that the descriptions of a lake need not fit in memory."""
        for file in files:
            results = for_each_file([file], lambda file, _: describe(inspect_one(file)), lambda _: None)
            failed.extend(results.failed)
            yield from results.done  # an error of printing is not one of the file

    if json:
        print_json_list(chain(described(lambda one: one.to_dict()), map(FileFailure.to_dict, failed)))
    else:
        for parts in described(lambda one: [*_parts(one, pages=pages)]):
            show(parts)
            print()
        print(f"{count(len(files) - len(failed), 'file')}{others_ignored(len(listed.others))}")
        show_failures(reasons(failed))
    raise click.exceptions.Exit(1 if failed else 0)


def _parts(inspection: FileInspection, *, pages: bool) -> Iterator[RenderableType]:
    yield line(inspection.path, style="bold")
    groups, described = inspection.num_row_groups, len(inspection.row_groups)
    yield line(
        f"{count(inspection.num_rows, 'row')} in {count(groups, 'row group')}, "
        f"{size(inspection.size_bytes)}, "
        f"{f'written by {inspection.created_by}' if inspection.created_by else 'writer unknown'}"
    )
    yield line()
    yield _sizes(inspection)
    yield from _embedded(inspection)
    types = {leaf.name: leaf.logical_type or leaf.physical_type for leaf in inspection.schema}
    shown = inspection.row_groups if pages else inspection.row_groups[:MAX_ROW_GROUPS]
    for group in shown:
        yield line()
        order = f", sorted by {', '.join(group.sorted_by)}" if group.sorted_by else ""
        yield line(
            f"row group {group.ordinal}: {count(group.num_rows, 'row')}, {size(group.size_bytes)}{order}",
            style="bold",
        )
        yield _chunks(group, types)
        yield from _geometries(group)
        if pages:
            for chunk in group.columns:
                if chunk.sizes is not None and chunk.sizes.value_bytes is not None:
                    yield line(f"{chunk.column}: {size(chunk.sizes.value_bytes)} of values without encoding")
            yield from _pages(group)
    if len(shown) < described:
        yield line()
        yield line(
            f"and {count(described - len(shown), 'row group')} more; use --pages or --json for all",
            style="dim",
        )
    for note in inspection.ignored:
        yield line(f"ignored: {note.index}: {note.reason}", style="yellow")


def _sizes(inspection: FileInspection) -> RenderableType:
    table = plain_table("bytes", ">size", ">of the file")
    for field in dataclasses.fields(inspection.sizes):
        num_bytes = getattr(inspection.sizes, field.name)
        if num_bytes:
            part = field.name.replace("_", " ").replace("bloom", "Bloom")
            table.add_row(part, size(num_bytes), f"{num_bytes / inspection.size_bytes:.1%}")
    return table


def _embedded(inspection: FileInspection) -> Iterator[RenderableType]:
    if inspection.directory is not None:
        yield line()
        table = plain_table("embedded index", "columns", "granularity", ">size", "state")
        for entry in inspection.directory.entries:
            state = "used by scans" if entry.is_trusted else f"ignored: {entry.reason}"
            columns = ", ".join(entry.columns)
            table.add_row(entry.name, columns, str(entry.granularity), size(entry.size_bytes), state)
        if not inspection.directory.entries:
            state = "" if inspection.directory.is_trusted else f"ignored: {inspection.directory.reason}"
            table.add_row("(none)", "", "", "", state)
        yield table
    if inspection.datafusion_index is not None:
        index = inspection.datafusion_index
        state = "" if index.is_trusted else f", ignored: {index.reason}"
        yield line()
        yield line(
            f"distinct values in DataFusion's form at byte {index.offset}, {size(index.size_bytes)}{state}"
        )


def _chunks(group: RowGroupInspection, types: dict[str, str]) -> RenderableType:
    table = plain_table(
        "column", "type", "codec", "encodings", ">size", ">pages", ">nulls", "min", "max", "indexes"
    )
    for chunk in group.columns:
        table.add_row(
            chunk.column,
            types.get(chunk.column, ""),
            chunk.codec.lower(),
            _encodings(chunk),
            size(chunk.compressed_bytes),
            count(chunk.num_pages),
            count(chunk.null_count),
            _bound(chunk.min, exact=chunk.is_min_exact),
            _bound(chunk.max, exact=chunk.is_max_exact),
            _indexes(chunk),
        )
    return table


def _geometries(group: RowGroupInspection) -> Iterator[RenderableType]:
    """Yield the extent and the types of geometries."""
    for chunk in group.columns:
        found = chunk.geospatial
        if found is None:
            continue
        box = found.bounding_box or {}
        axes = [axis for axis in "xyzm" if f"{axis}min" in box and f"{axis}max" in box]
        limits = [f"{axis} {box[f'{axis}min']:g} to {box[f'{axis}max']:g}" for axis in axes]
        extent = ", ".join(limits) or "no bounding box"
        yield line(f"{chunk.column}: {extent}; {', '.join(found.types) or 'types not recorded'}")


def _encodings(chunk: ChunkInspection) -> str:
    names = dict.fromkeys(_ENCODINGS[name] for name in chunk.encodings if name in _ENCODINGS)
    return "+".join(names) or "+".join(chunk.encodings).lower()


def _bound(value: Any, *, exact: bool | None = None) -> str:
    if value is None:
        return "-"
    from intarsia.rows.values import json_value

    shown = cut(text(json_value(value)), BOUND_WIDTH)
    return f"~{shown}" if exact is False else shown


def _indexes(chunk: ChunkInspection) -> str:
    """Return the structures of a chunk: bounds, page index with its order, Bloom filter."""
    found = []
    if chunk.min is not None or chunk.max is not None:
        found.append("bounds" if chunk.bounds_trusted else f"bounds (ignored: {chunk.bounds_reason})")
    if chunk.has_column_index:
        found.append(f"page index ({chunk.boundary_order})")
    elif chunk.has_offset_index:
        found.append("page offsets")
    if chunk.bloom_filter is not None:
        bloom = chunk.bloom_filter
        about = "" if bloom.distinct_values is None else f", about {count(bloom.distinct_values, 'value')}"
        found.append(f"Bloom filter ({size(bloom.size_bytes)}{about})")
    return ", ".join(found) or "none"


def _pages(group: RowGroupInspection) -> Iterator[RenderableType]:
    table = plain_table("column", ">page", ">first row", ">rows", ">offset", ">size", ">nulls", "min", "max")
    for chunk in group.columns:
        for page in chunk.pages or ():
            numbers = (page.ordinal, page.first_row, page.rows, page.offset)
            bounds = ("only nulls", "") if page.is_null_page else (_bound(page.min), _bound(page.max))
            table.add_row(
                chunk.column, *map(count, numbers), size(page.size_bytes), count(page.null_count), *bounds
            )
    if table.row_count:
        yield line()
        yield table
    unknown = [chunk.column for chunk in group.columns if not chunk.pages and chunk.num_values]
    if unknown:
        yield line()
        yield line(f"pages unknown, because there is no page index: {', '.join(unknown)}", style="dim")


#: The plural nouns of counts whose names differ from them.
_NOUNS = {
    "bloom_filters": "Bloom filters",
    "embedded_rebuilt": "rebuilt embedded indexes",
    "embedded_rows": "values checked against embedded indexes",
}

#: The ending of a plural.
_PLURAL = re.compile(r"(?<=index)es$|(?<!statistic)s$")


def _rules(ctx: click.Context, _requested: bool) -> str:
    from intarsia.check.verification import RULES

    width = max(map(len, RULES))
    rules = RULES.items()
    if wants_json(ctx):
        keys = ("severity", "rule", "consequence")
        return json_text([dict(zip(keys, (one, rule, effect), strict=True)) for rule, (one, effect) in rules])
    return "\n".join(f"{severity:7}  {rule:{width}}  {effect}" for rule, (severity, effect) in rules)


def verify(
    path: list[str],
    strict: bool = False,
    list_rules: Annotated[bool, printing(_rules)] = False,  # noqa: ARG001
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
    scope: dict[str, Any] = {"quick": quick, "sample": sample, "seed": seed or 0}
    stop = None
    if spark is not None:
        report = run_job(spark, "verify", one_or_all(path), **scope)
    else:
        from intarsia.check.verification.findings import LakeVerifyReport

        listed = find(path, options)

        def verify_one(path: str, show: ShowDone) -> VerifyReport:
            from intarsia.check.verification import verify as verify_file

            return verify_file(
                path,
                **scope,
                progress=lambda done, total, _: show(done / max(1, total)),
                storage_options=options,
            )

        outcome, stop = until_interrupted(lambda: for_each("verifying", listed.paths, verify_one))
        report = LakeVerifyReport(tuple(outcome.done), tuple(outcome.failed), 0.0, len(listed.others))
        if stop is not None:
            stop = _interruption(listed.paths, outcome.num_files)
    warned = any(finding.severity == "warning" for finding in report.findings)
    text = "\n".join([*_findings(report), _summary(report)])
    code = 0 if report.ok and not (strict and warned) else 1
    finish(report.to_dict(), text, reasons(report.failed), as_json=json, stop=stop, code=code)


def _interruption(paths: Sequence[str], files_done: int) -> KeyboardInterrupt:
    rest = f"; continue with {printable(paths[files_done])}" if files_done < len(paths) else ""
    return KeyboardInterrupt(f"interrupted after {part(files_done, len(paths), 'file')}{rest}")


def _findings(report: LakeVerifyReport) -> Iterator[str]:
    for finding in report.findings:
        style = red if finding.severity == "error" else dim
        yield style(printable(str(finding)), sys.stdout)


def _summary(report: LakeVerifyReport) -> str:
    bad = sum(not one.ok for one in report.per_file)
    things = ", ".join(_counted(number, name) for name, number in report.checked.items())
    return (
        f"{count(len(report.per_file), 'file')} checked, {f'{bad:,} with errors' if bad else 'no errors'}"
        + (f" ({things})" if things else "")
        + _scope(report.per_file)
        + (f"; {len(report.failed):,} failed" if report.failed else "")
        + others_ignored(report.files_other)
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
