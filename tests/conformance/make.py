"""Writes files of the conformance suite: ``python -m tests.conformance.make payloads|changed FOLDER``.

Each folder was written once and is kept for ever, because readers have to read old files. A later version of
the format gets another folder.
"""

from __future__ import annotations

import json
import sys
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import intarsia as ia
from intarsia.file import ParquetInput
from intarsia.format.directory import layout_fingerprint
from intarsia.indexes.embedded import EmbeddedIndexes
from intarsia.predicate import bind, parse_sql
from tests.conformance import changed
from tests.conformance.questions import matching_rows, sql_of

#: Two row groups have no rows.
ROW_GROUPS = (500, 0, 500, 230, 0)

PAGE_ROWS = 50

WORDS = (
    "granite",
    "marble",
    "basalt",
    "slate",
    "Kalkstein",
    "pietra dura",
    "Łupek",
    "大理石",
    "opus sectile",
)

QUERIES = [
    [["dest", "=", "LEX"]],
    [["dest", "in", ["LEX", "A03", "none"]]],
    [["dest", "=", "none"]],
    [["dest", "is null", None]],
    [["dest", ">=", "A11"]],
    [["dest", "starts with", "A0"]],
    [["dest", "contains", "EX"]],
    [["id", "=", 8614277]],
    [["id", "in", [388031, 8614277, 1]]],
    [["id", "=", 5]],
    [["id", "<", 21000]],
    [["small", "=", 6]],
    [["small", ">", 235]],
    [["note", "contains", "marble 77"]],
    [["note", "contains", "石"]],
    [["note", "starts with", "opus"]],
    [["note", "=", "Łupek 6"]],
    [["note", "contains", "absent"]],
    [["price", "=", "-9922.23"]],
    [["price", "<=", "-9000.5"]],
    [["day", "=", "2013-02-03"]],
    [["day", "<", "2013-01-03"]],
    [["at", ">=", "2013-01-01T05:00:00Z"]],
    [["at", "=", "2013-01-01T10:10:00Z"]],
    [["heat", "=", 0.0]],
    [["heat", ">", 99.0]],
    [["heat", "<=", -20.5]],
    [["heat", "is null", None]],
    [["late", "=", True]],
    [["dest", "=", "LEX"], ["small", "<", 200]],
    [["day", ">=", "2013-01-20"], ["note", "contains", "slate"], ["id", "<", 9000000]],
]


def table() -> pa.Table:
    """The rows. Nothing in them is random, so that they are the same in every version."""
    rows = range(sum(ROW_GROUPS))
    start = datetime(2013, 1, 1, tzinfo=timezone.utc)
    columns = {
        "id": pa.array([row * 7919 * 7 % 8614291 for row in rows], pa.int64()),
        "dest": [_dest(row) for row in rows],
        "small": pa.array([row % 256 if 300 <= row < 390 else row // 7 % 40 * 6 for row in rows], pa.uint8()),
        "note": [_note(row) for row in rows],
        "price": [Decimal((row * 7907 + 7777) % 2000003 - 1000000) / 100 for row in rows],
        "day": [date(2013, 1, 1) + timedelta(row // 25) for row in rows],
        "at": [start + timedelta(minutes=row + row * row % 50) for row in rows],
        "heat": [_heat(row) for row in rows],
        "late": [row % 300 == 11 for row in rows],
    }
    columns["price"] = pa.array(columns["price"], pa.decimal128(9, 2))
    columns["at"] = pa.array(columns["at"], pa.timestamp("us", "UTC"))
    return pa.table(columns)


def _dest(row: int) -> str | None:
    return "LEX" if row == 777 else None if row % 97 == 13 else f"A{row // 60:02}"


def _note(row: int) -> str | None:
    times = 12 if row % 211 == 5 else 1
    return f"{WORDS[row * row // 7 % 9]} {row % 101}" * times if row % 89 else None


def _heat(row: int) -> float | None:
    is_special = row % 40 < 3 or 640 <= row < 690
    return [None, float("nan"), 0.0, -0.0][row // 40 % 4] if is_special else (row * 37 % 1301) / 10 - 30


def indexes() -> list[object]:
    """Every kind, and every granularity. Some granules of `Distinct` and `Ngram` are unlisted."""
    return [
        ia.PageIndex(),
        ia.Statistics(),
        ia.Bloom("id"),
        ia.Bloom("note"),
        ia.Bloom("heat"),
        *(ia.Distinct("dest", granularity=size) for size in ("page", "row_group", "file", 120)),
        ia.Distinct("small", granularity="page", max_values=20),
        ia.Distinct("day", granularity=100),
        ia.Distinct("price", granularity="file"),
        ia.Distinct("heat", granularity="row_group"),
        *(ia.ZoneMap("id", granularity=size) for size in ("page", 25)),
        ia.ZoneMap("dest", granularity="row_group"),
        ia.ZoneMap("note", granularity="page"),
        ia.ZoneMap("price", granularity="page"),
        ia.ZoneMap("day", granularity="page"),
        ia.ZoneMap("at", granularity=100),
        ia.ZoneMap("heat", granularity="page"),
        ia.ZoneMap("late", granularity="page"),
        ia.BloomGranule("id", granularity="page"),
        ia.BloomGranule("note", granularity=100, fpp=0.001),
        ia.BloomGranule("price", granularity="row_group"),
        ia.Ngram("note", granularity="page"),
        ia.Ngram("note", n=2, granularity="row_group", max_grams=350),
        ia.Ngram("dest", n=4, granularity=100, ignore_case=True),
        ia.RowMap("id"),
        ia.RowMap("note"),
        ia.Hll("dest", granularity="page"),
        ia.Histogram("id", granularity="page"),
        ia.Sample(20, seed=2**60 + 1),
    ]


def write_original(path: Path, rows: pa.Table) -> None:
    """Write the rows as another program would: without indexes."""
    with pq.ParquetWriter(
        path, rows.schema, compression="zstd", write_batch_size=PAGE_ROWS, max_rows_per_page=PAGE_ROWS,
        use_dictionary=["dest", "note"],
    ) as writer:  # fmt: skip
        first = 0
        for num_rows in ROW_GROUPS:
            writer.write_table(rows.slice(first, num_rows), row_group_size=PAGE_ROWS * 20)
            first += num_rows


def write_payloads(folder: Path) -> None:
    """Write a file with all indexes, and the answers."""
    path = folder / "indexed.parquet"
    rows = table()
    write_original(path, rows)
    ia.attach(path, indexes())
    queries = [answer(path, rows, where) for where in QUERIES]
    write_cases(folder, [{**described(path), "about": "every kind and granularity", "queries": queries}])


def write_changed(folder: Path) -> None:
    """Write one file for each change."""
    cases = []
    rows = changed.table()
    for case in changed.CASES:
        path = changed.write_case(case, folder)
        cases.append({**described(path), "about": case.about, "ignored": case.ignored})
    about = "another writer copied the keys to a file of "
    for name, layout, fault, group_rows in (
        ("rewritten", "the same layout", "stale", changed.GROUP_ROWS),
        ("rewritten-otherwise", "another layout", "foreign", changed.ROWS),
    ):
        path = changed.write_rewritten(folder, name, group_rows)
        ignored = {"directory": f"{fault}-directory"}
        cases.append({**described(path), "about": about + layout, "ignored": ignored})
    unchanged = [answer(folder / "unchanged.parquet", rows, where) for where in changed.QUERIES]
    for case in cases:
        case["queries"] = [
            {
                **query,
                "candidates": {
                    name: runs
                    for name, runs in query["candidates"].items()
                    if not {"directory", name} & set(case["ignored"])
                },
            }
            for query in unchanged
        ]
    write_cases(folder, cases)


def described(path: Path) -> dict:
    """Return the name of a file, and the fingerprint that a reader computes from its footer."""
    with ParquetInput.open(path) as file:
        return {"file": path.name, "fingerprint": layout_fingerprint(file.footer.metadata), "ignored": {}}


def answer(path: Path, rows: pa.Table, where: list) -> dict:
    """Return a query with the rows that match, and those that each embedded index does not exclude."""
    found = candidates(path, where) if len(where) == 1 else {}
    return {"where": where, "rows": matching_rows(rows, where), "candidates": found}


def candidates(path: Path, where: list) -> dict[str, list[list[int]]]:
    with ParquetInput.open(path) as file:
        condition = bind(parse_sql(sql_of(where)), file.arrow_schema)
        embedded = EmbeddedIndexes(file)
        found = {}
        for entry in embedded.entries:
            if embedded.can_prune(entry, condition):
                rows = embedded.open(entry).candidate_rows(condition)
                if rows is not None:
                    found[entry.name] = [list(run) for run in rows]
        embedded.close()
    return found


def write_cases(folder: Path, cases: list[dict]) -> None:
    lines = ",\n".join(json.dumps(case, ensure_ascii=False) for case in cases)
    (folder / "cases.json").write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    folder = Path(sys.argv[2])
    folder.mkdir(parents=True)
    {"payloads": write_payloads, "changed": write_changed}[sys.argv[1]](folder)
