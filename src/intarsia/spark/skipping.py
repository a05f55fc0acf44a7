"""The planner of enabled sessions: answers the requests of the optimizer rule in the JVM.

A request contains a condition of Catalyst and the files that Spark listed, with their lengths and times. The
answer lists the rows to read of each file. The files are planned by the code that also plans `ias.read` and
tables, with the lake index and the indexes of each file.

A local file is planned only if it still has the length and the time with which Spark listed it, and an
object only if it has the same ETag. The JVM and the executors compare them again, so a plan never applies to
other bytes. Objects are read with the settings and the credentials of Spark, which come with each request.
The files of a snapshot of Delta or Iceberg are listed without times: they never get other rows. The answer
has the lengths and the times of Delta's files that are read in part, which are compared again. Only whole row
groups of Iceberg's files can be skipped.
"""

from __future__ import annotations

import json
import math
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np

from intarsia.amounts import size
from intarsia.lake.data_file import DataFile
from intarsia.lake.snapshot import Snapshot
from intarsia.lake.table_files import TableFiles
from intarsia.read.report import ScanReport
from intarsia.spark.binding import binder_of
from intarsia.spark.conditions import is_trivial, kind_of
from intarsia.spark.planning import FilePlanner, RemainingFile
from intarsia.spark.requested_files import NS_PER_MS, PlannableFiles, RequestedFiles
from intarsia.spark.spark_stores import SparkObjects, SparkStores, keep

#: Number of lists of files that are kept.
_LISTS: Final = 8

#: Number of listings whose footers and lake index are cached; the footers of each have a memory limit.
_TABLES: Final = 4

#: Number of plans that are cached, if they and their conditions are small.
_PLANS: Final = 256
_MAX_KEPT_CHARACTERS: Final = 1 << 16
_MAX_KEPT_NUMBERS: Final = 1 << 14

#: Maximum number of notes about ignored indexes in a report.
_MAX_NOTES: Final = 20

#: Maximum number of row ranges of a file; the smallest gaps between them are closed.
_MAX_RANGES: Final = 4096

#: The pages of up to this many files are counted for `explain()`.
_COUNTED_FILES: Final = 16

#: Objects that were not listed are listed, by the thousand, if more of them have to be opened.
_MOST_UNLISTED: Final = 32

#: The share of the bytes that a plan has to exclude to have excluded anything.
_MIN_SHARE: Final = 0.01

#: After this time, a lake without a lake index is searched for one again.
_LAKE_INDEX_SECONDS: Final = 60.0

#: From this number of files on, a lake index is advised.
_MANY_FILES: Final = 1000


class _Table(NamedTuple):
    """The files of a listing.

    Attributes:
        files: The files.
        snapshot: What is known about them; their listing has their stamps, so it is valid for all plans. None
            if they were not listed: each plan compares those that it opens.
        opened: When a lake index was searched for; None if one was found.
        lock: The lock of the thread that plans them.
    """

    files: TableFiles
    snapshot: Snapshot | None
    opened: float | None
    lock: threading.Lock


class SkippingPlanner:
    """Plans scans for the JVM; its methods may be called by several threads.

    Args:
        clock: Returns the time in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._memory = PlanMemory(clock)
        self._stores = SparkStores()
        self._lock = threading.Lock()
        self._lists: OrderedDict[Hashable, RequestedFiles] = OrderedDict()
        self._tables: OrderedDict[Hashable, _Table] = OrderedDict()
        self._plans: OrderedDict[Hashable, dict[str, Any]] = OrderedDict()
        self._without: OrderedDict[Hashable, float] = OrderedDict()  # folders that had no lake index

    def answer(self, text: str) -> str:
        """Answer a request.

        Args:
            text: The request of ``ScanPlanner.java``, in JSON.

        Returns:
            The answer for ``FilePlans.java``, in JSON: the files to read with their row ranges, a summary and
            the report; or the ``reason`` why all files have to be read. For ``IcebergPlanner.java``, the
            files have the offsets of their row groups instead. ``unknown`` is ``list`` if the request has
            only the number of a list of files that is not known, and ``versions`` if a lake index does not
            exclude most of the objects that were not listed.
        """
        return json.dumps(self._answer(json.loads(text)))

    def _answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        started, began = time.perf_counter(), self._clock()
        settings = request["settings"]
        if settings["field_ids"]:
            return {"reason": "columns are resolved by field id"}
        binder = binder_of(request)
        if is_trivial(binder.predicate):
            return {"reason": "no index can evaluate the condition"}
        requested = self._requested(request)
        if requested is None:
            return {"unknown": "list"}
        objects = SparkObjects(request, self._stores)
        place = (requested.root, objects.digests)
        if requested.is_logged and (requested.total < 2 or self._is_without(place)):
            return {"unknown": "versions"}
        lake_indexes = requested.lake_indexes(objects)
        kind = (requested.digest, objects.digests, lake_indexes, kind_of(binder.predicate))
        waiting = self._memory.waiting(kind)
        if waiting is not None:
            return {
                "reason": "the last plans of such conditions on these files excluded nothing",
                "advice": waiting.advice,
            }
        listing = requested.plannable(objects, lake_indexes)
        if self._is_without(place):  # it is not searched again
            listing = replace(listing, segments={})
        if not len(listing.files):
            why = "the files are remote, changed, or newer than two seconds"
            return {"reason": f"no file could be planned: {listing.unplannable or why}"}
        condition, table = json.dumps(request["condition"]), request.get("iceberg")
        key = (condition, json.dumps(table or request.get("delta")), tuple(settings.items()), listing.key)
        with self._lock:
            known = None if listing.is_logged else self._plans.get(key)
        if known is not None:
            return known
        seconds = settings["timeout_ms"] / 1000 / 4 if settings["timeout_ms"] else None
        known_files = self._table(listing)
        if not known_files.lock.acquire(timeout=-1 if seconds is None else seconds):
            return {"reason": "other queries of the same files are being planned"}
        try:
            planner = FilePlanner(
                binder,
                count_pages=len(listing.files) <= _COUNTED_FILES,
                seconds=seconds,
                whole_row_groups=table is not None,
                plans_replaced=listing.is_sealed,  # the status of such a file is in the answer
                clock=self._clock,
            )
            files = known_files.files
            most = _MOST_UNLISTED if listing.is_logged else len(files.files)
            planned = None
            if not listing.is_logged or files.lake_index.exists:
                # the key of the table has the stamps of its files, which have just been read
                planned = planner.planned_at_most(most, files, known_files.snapshot)
            has_lake_index = files.lake_index.exists
        finally:
            known_files.lock.release()
        if planned is None:
            if not has_lake_index:
                with self._lock:
                    keep(self._without, place, self._clock(), _TABLES)
            return {"unknown": "versions"}
        if planner.failure is not None:
            raise planner.failure
        planner.report.add_time(started)
        answer = _answer_of(listing, planned, planner.report, whole_row_groups=table is not None)
        total = int(listing.files.size_bytes.sum())
        kept = sum(one.num_bytes for one in planned)
        has_excluded = "reason" not in answer and total - kept >= _MIN_SHARE * total
        if has_lake_index:
            with self._lock:
                self._tables[listing.key] = known_files._replace(opened=None)
        advice = None if has_lake_index else _advice(listing.total, planner.is_out_of_time)
        answer["advice"] = advice
        self._memory.add(kind, self._clock() - began, has_excluded=has_excluded, advice=advice)
        numbers = sum(map(len, answer.get("kept", ())))
        if len(condition) <= _MAX_KEPT_CHARACTERS and numbers <= _MAX_KEPT_NUMBERS:
            with self._lock:
                keep(self._plans, key, answer, _PLANS)
        return answer

    def _requested(self, request: Mapping[str, Any]) -> RequestedFiles | None:
        """Return the list of a request; None if the request has only the number of an unknown one."""
        number = request.get("list")
        with self._lock:
            known = self._lists.get(number)
        found = RequestedFiles(request) if "paths" in request else known
        if found is not None and number is not None:
            with self._lock:
                keep(self._lists, number, found, _LISTS)
        return found

    def _is_without(self, place: Hashable) -> bool:
        """Return whether a folder in an object store had no lake index a short time ago."""
        with self._lock:
            return self._clock() - self._without.get(place, -math.inf) < _LAKE_INDEX_SECONDS

    def _table(self, listing: PlannableFiles) -> _Table:
        with self._lock:
            table, now = self._tables.get(listing.key), self._clock()
            if table is None or (table.opened is not None and now - table.opened >= _LAKE_INDEX_SECONDS):
                files = TableFiles(
                    listing.files,
                    root=listing.root,
                    segments=listing.segments,
                    cache=None if table is None else table.files.cache,
                    has_all=False,
                )
                snapshot = None if listing.is_logged else files.new_snapshot()
                table = _Table(files, snapshot, now, threading.Lock() if table is None else table.lock)
            keep(self._tables, listing.key, table, _TABLES)
        return table


def _advice(num_files: int, is_out_of_time: bool) -> str | None:
    """Return what would make plans of this table faster; None for small tables."""
    if is_out_of_time:
        return f"planning {num_files:,} files took too long; build a lake index"
    many = f"{num_files:,} files were planned without one; build a lake index"
    return many if num_files >= _MANY_FILES else None


def _answer_of(
    listing: PlannableFiles, planned: Sequence[RemainingFile], report: ScanReport, *, whole_row_groups: bool
) -> dict[str, Any]:
    """Return the answer for the JVM: ranges of rows, or the offsets of row groups."""
    facts = report.to_dict()
    facts["ignored"] = facts["ignored"][:_MAX_NOTES]
    answer: dict[str, Any] = {"files": listing.total, "report": facts}
    if len(planned) == len(listing.files) and all(one.rows is None for one in planned):
        return {**answer, "reason": "indexes exclude nothing"}
    kept: list[list[int]] = []
    for one in planned:
        entry = [int(listing.ordinals[one.ordinal]), one.num_bytes]
        if one.rows is not None:
            entry += one.row_groups if whole_row_groups else one.rows.flat(_MAX_RANGES)
        kept.append(entry)
    if listing.is_sealed:
        answer["is_sealed"] = True
        answer["statuses"] = [_status(one.file) if one.rows is not None else None for one in planned]
    is_unplanned = np.ones(listing.total, dtype=bool)
    is_unplanned[listing.ordinals] = False
    return {
        **answer,
        "kept": kept,
        # files that were not planned are read as a whole
        "unplanned": np.flatnonzero(is_unplanned).tolist(),
        "summary": _summary(listing, planned, facts),
        "indexes": _names_of_indexes(facts),
    }


def _status(file: DataFile) -> list[Any] | None:
    """Return the length, the time in milliseconds and the ETag of a file, which tasks compare."""
    if file.path.startswith("gs://"):  # of which Hadoop has exact times, and no ETags
        return [file.size_bytes, round((file.modified or 0) * 1000), None]
    if file.is_remote:  # without its time, because objects are compared by their ETags
        return [file.size_bytes, 0, file.e_tag]
    try:
        status = os.stat(file.path)
    except OSError:  # reading it raises the error
        return None
    return [status.st_size, status.st_mtime_ns // NS_PER_MS]


def _summary(listing: PlannableFiles, planned: Sequence[RemainingFile], facts: Mapping[str, Any]) -> str:
    """Return a summary of the rows to read; Spark truncates it to 100 characters."""
    num_files = len(planned) + listing.total - len(listing.files)
    parts = [f"{num_files}/{listing.total} files"]
    groups, pages, num_bytes = facts["row_groups"], facts["pages"], facts["bytes"]
    if groups["total"] and num_files:
        parts.append(f"{groups['read']}/{groups['total']} row groups")
    if pages["total"] and pages["read"]:
        parts.append(f"{pages['read']}/{pages['total']} pages")
    if num_bytes["total"]:
        read = sum(one.num_bytes for one in planned)
        parts.append(f"{size(read)}/{size(num_bytes['total'])}".replace(" ", ""))
    return ", ".join(parts)


def _names_of_indexes(facts: Mapping[str, Any]) -> list[str]:
    """Return the names of the indexes that excluded anything."""
    pairs = [(entry["index"], entry["column"]) for entry in facts["pruned_by"]]
    # "distinct(country):page" is the name of an embedded index
    return list(dict.fromkeys(name if "(" in name else f"{name}({column})" for name, column in pairs))


#: Number of kinds of conditions that are remembered.
_MOST_KINDS: Final = 1024

#: Plans of a kind that exclude nothing, one after the other, before plans of this kind wait.
_MOST_IN_VAIN: Final = 3

#: Plans of a kind that exclude nothing, one after the other, before one in `_ONE_IN` of this kind is made.
_MOST_QUICK_IN_VAIN: Final = 8
_ONE_IN: Final = 16

#: A plan that takes less time does not make others wait.
_MIN_SECONDS: Final = 0.1

#: How long plans of a kind wait, as a multiple of the time that the last one took, and at most in seconds.
_WAIT: Final = 20
_MAX_WAIT_SECONDS: Final = 60.0


class PlansInVain(NamedTuple):
    """Plans that excluded nothing.

    Attributes:
        in_vain: Their number, one after the other.
        left_out: The number of plans that were not made since.
        until: The time until which the next one waits.
        advice: What would make it faster; None if nothing is known.
    """

    in_vain: int
    left_out: int
    until: float
    advice: str | None


class PlanMemory:
    """The outcomes of the last plans, by lake and kind of condition; thread-safe.

    It only decides whether a plan is made, never what is read. A changed lake has another key. If plans have
    excluded nothing, slow ones take at most a twentieth of the time, and one in 16 of the others is made.
    Conditions of another kind are planned in any case: other columns have other indexes.

    Args:
        clock: Returns the time in seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._outcomes: OrderedDict[Hashable, PlansInVain] = OrderedDict()

    def waiting(self, key: Hashable) -> PlansInVain | None:
        """Return the last plans with this key if they excluded nothing, so that this one is not made."""
        now = self._clock()
        with self._lock:
            found = self._outcomes.get(key)
            if found is None or found.in_vain < _MOST_IN_VAIN:
                return None
            is_one = found.in_vain < _MOST_QUICK_IN_VAIN or found.left_out + 1 >= _ONE_IN
            if is_one and now >= found.until:
                return None
            self._outcomes[key] = found._replace(left_out=found.left_out + 1)
        return found

    def add(self, key: Hashable, seconds: float, *, has_excluded: bool, advice: str | None) -> None:
        """Remember a plan.

        Args:
            key: The lake and the kind of the condition.
            seconds: The time that the plan took.
            has_excluded: Whether it excluded anything.
            advice: What would make it faster; None if nothing is known.
        """
        with self._lock:
            before = self._outcomes.pop(key, None)
            if has_excluded:
                return
            in_vain = 1 if before is None else before.in_vain + 1
            wait = min(_WAIT * seconds, _MAX_WAIT_SECONDS) if seconds >= _MIN_SECONDS else 0
            keep(self._outcomes, key, PlansInVain(in_vain, 0, self._clock() + wait, advice), _MOST_KINDS)
