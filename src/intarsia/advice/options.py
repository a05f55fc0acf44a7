"""The options of an advice, and their order."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from intarsia.advice.candidates import command_of
from intarsia.advice.choosing import RUNS_TO_PAY
from intarsia.advice.measurement import Measurement
from intarsia.advice.report import Option
from intarsia.advice.rewrites import Rewrite
from intarsia.lake.discovery import is_table_url
from intarsia.lake.table import Table


def can_rewrite(source: object, table: Table) -> bool:
    """Return whether the rows can be written to one file: the files are plain ones, without partitions."""
    is_paths = isinstance(source, (str, os.PathLike, list, tuple)) and not is_table_url(source)
    return is_paths and not table.partition_types


def option_of_indexes(work: Measurement, names: Sequence[str], paths: Sequence[str]) -> Option:
    """Return the option to add indexes."""
    command = command_of(paths, [work.indexes[name] for name in names], lake_index=False)
    assert command is not None
    added = work.added_bytes(names)
    return _option(
        work,
        " + ".join(names),
        command,
        work.query_bytes(names),
        added,
        rewrites=False,
        is_estimate=not work.size.is_whole,
    )


def option_of_rewrite(work: Measurement, rewrite: Rewrite, paths: Sequence[str]) -> Option:
    """Return the option to write the rows in another arrangement."""
    return _option(
        work,
        rewrite.name,
        rewrite.command(paths),
        rewrite.query_bytes,
        rewrite.num_bytes - work.size.bytes_total,
        rewrites=True,
        is_estimate=rewrite.is_estimate or not work.size.is_whole,
    )


def _option(
    work: Measurement,
    name: str,
    command: str,
    query_bytes: Sequence[float],
    added: float,
    *,
    rewrites: bool,
    is_estimate: bool,
) -> Option:
    now, read = work.mean_bytes(work.query_bytes(())), work.mean_bytes(query_bytes)
    return Option(
        name,
        command,
        round(read),
        round(now - read),
        (now - read) / max(1.0, now),
        round(added),
        rewrites,
        is_estimate,
    )


def ranked(options: Iterable[Option], total_bytes: int) -> list[Option]:
    """Return options, first those that save most in some runs, less the bytes that have to be written."""

    def price(option: Option) -> int:
        written = option.added_bytes + (total_bytes if option.rewrites else 0)
        return written - RUNS_TO_PAY * option.saved_bytes

    return sorted(options, key=lambda option: (price(option), option.name))
