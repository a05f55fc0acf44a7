"""The JavaScript reader and Intarsia on public files, over HTTP: ``python -m tests.clients.compare FILE…``.

Both open each file anew for every condition. Rows have to be the same; bytes and requests are printed side by
side.
"""

from __future__ import annotations

import math
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import intarsia as ia
from tests.clients.reader import answers, literal, served
from tests.conformance.questions import sql_of

#: Columns of a file that are compared.
MAX_COLUMNS = 3

#: In files with more rows, only single values are looked up.
MANY_ROWS = 100_000


@dataclass(frozen=True)
class Compared:
    """A condition on a file, and the rows, bytes and requests of each reader.

    Attributes:
        error: Why the JavaScript reader does not answer, or None.
    """

    name: str
    file_bytes: int
    where: str
    rows: int
    is_same: bool
    here: tuple[int, int]
    there: tuple[int, int]
    error: str | None = None


def index(path: Path) -> None:
    """Attach what both readers use, to each column that can have it."""
    indexes = [ia.PageIndex(), ia.Statistics()]
    for name, type_ in compared_columns(path).items():
        indexes += [ia.Distinct(name), ia.ZoneMap(name)]
        if not pa.types.is_boolean(type_):
            indexes += [ia.BloomGranule(name), ia.RowMap(name), ia.Bloom(name)]
        if pa.types.is_string(type_):
            indexes.append(ia.Ngram(name))
    ia.attach(path, indexes)


def compared_columns(path: Path) -> dict[str, pa.DataType]:
    """Return the first columns of a type that both readers compare with JSON."""
    found = {}
    for field, column in zip(
        pq.read_schema(path), pq.ParquetFile(path).schema.to_arrow_schema(), strict=True
    ):
        type_ = column.type if not pa.types.is_large_string(column.type) else pa.string()
        is_simple = pa.types.is_primitive(type_) or pa.types.is_decimal(type_) or pa.types.is_string(type_)
        if is_simple and not (pa.types.is_time(type_) or pa.types.is_duration(type_)):
            found[field.name] = type_
    int96 = [column.name for column in pq.ParquetFile(path).schema if column.physical_type == "INT96"]
    return {name: found[name] for name in [name for name in found if name not in int96][:MAX_COLUMNS]}


def questions(path: Path) -> Iterator[list]:
    """Yield conditions: a value in the middle of the file, and for types with an order also a range."""
    rows = pq.read_table(path)
    for name, type_ in compared_columns(path).items():
        values = rows[name].drop_null()
        if not len(values):
            yield [[name, "is null", None]]
            continue
        value = literal(values[len(values) // 2].as_py(), type_)
        if pa.types.is_floating(type_) and math.isnan(value):
            continue
        yield [[name, "=", value]]
        if not pa.types.is_boolean(type_) and len(values) < MANY_ROWS:
            yield [[name, "<", value]]


def compare(paths: list[Path], folder: Path) -> Iterator[Compared]:
    """Index copies of the files, and ask both readers."""
    asked = []
    for ordinal, path in enumerate(paths):
        copy = folder / f"{ordinal}.parquet"
        copy.write_bytes(path.read_bytes())
        index(copy)
        asked += [(path.name, copy, where) for where in questions(copy)]
    with served(folder) as url:
        there = answers(
            {"url": f"{url}/{copy.name}", "where": where, "columns": list(pq.read_schema(copy).names)}
            for _, copy, where in asked
        )
        for (name, copy, where), answer in zip(asked, there, strict=True):
            scan = ia.open(f"{url}/{copy.name}").scan(sql_of([["`" + where[0][0] + "`", *where[0][1:]]]))
            found = scan.to_arrow()
            here = (scan.report.bytes_read, scan.report.requests)
            shown = f"{where[0][0]} {where[0][1]} {where[0][2]}"
            about = (name, copy.stat().st_size, shown, found.num_rows)
            if "error" in answer:
                yield Compared(*about, False, here, (0, 0), answer["error"])
                continue
            ordinals = [row for start, stop in answer["rows"] for row in range(start, stop)]
            expected = pq.read_table(copy).take(pa.array(ordinals, pa.int64()))
            is_same = str(found.to_pylist()) == str(expected.to_pylist())
            yield Compared(*about, is_same, here, (answer["bytes"], answer["requests"]))


def main(names: list[str]) -> None:
    print("| file | bytes | condition | rows | Python: bytes, requests | JavaScript: bytes, requests |")
    print("|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for one in compare(list(map(Path, names)), Path(folder)):
            there = f"{one.there[0]:,}, {one.there[1]}" if one.error is None else one.error
            rows = f"{one.rows:,}" if one.is_same or one.error else "**different**"
            here = f"{one.here[0]:,}, {one.here[1]}"
            print(f"| {one.name} | {one.file_bytes:,} | `{one.where}` | {rows} | {here} | {there} |")


if __name__ == "__main__":
    main(sys.argv[1:])
