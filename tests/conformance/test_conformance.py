"""The conformance suite of the format, whose README says how readers in other languages run it."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from intarsia.errors import IndexPayloadError
from intarsia.file import ParquetInput
from intarsia.format.directory import layout_fingerprint
from intarsia.indexes.embedded import EmbeddedIndexes
from intarsia.predicate import bind, parse_sql
from tests.conformance.questions import matching_rows, sql_of

SUITE = Path(__file__).parent
FOLDERS = sorted(path.parent for path in SUITE.glob("*/cases.json"))
CASES = [
    pytest.param(folder, case, id=f"{folder.name}/{case['file']}")
    for folder in FOLDERS
    for case in json.loads((folder / "cases.json").read_text())
]


def test_there_are_cases_and_every_file_has_one():
    assert [folder.name for folder in FOLDERS] == ["changed", "payloads-1", "payloads-2"]
    files = {path for folder in FOLDERS for path in folder.glob("*.parquet")}
    assert files == {case.values[0] / case.values[1]["file"] for case in CASES}


@pytest.mark.parametrize(("folder", "case"), CASES)
def test_the_answers_are_those_of_the_data(folder, case):
    rows = pq.read_table(folder / case["file"])
    for query in case["queries"]:
        assert matching_rows(rows, query["where"]) == query["rows"]


@pytest.mark.parametrize(("folder", "case"), CASES)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_scan_finds_the_rows(folder, case):
    rows = pq.read_table(folder / case["file"])
    for query in case["queries"]:
        found = ia.open(folder / case["file"]).scan(sql_of(query["where"])).to_arrow()
        assert str(found.to_pylist()) == str(
            rows.take(pa.array(query["rows"], pa.int64())).to_pylist()
        )  # NaN, too


@pytest.mark.parametrize(("folder", "case"), CASES)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_indexes_are_used_or_ignored(folder, case):
    """Each embedded index excludes the same rows, or is ignored for the given reason."""
    with ParquetInput.open(folder / case["file"]) as file:
        assert layout_fingerprint(file.footer.metadata) == case["fingerprint"]
        embedded = EmbeddedIndexes(file)
        ignored = {}
        for query in case["queries"]:
            if len(query["where"]) > 1:
                continue
            condition = bind(parse_sql(sql_of(query["where"])), file.arrow_schema)
            found = {}
            for entry in embedded.entries:
                index = embedded.open(entry)
                if index is None or not embedded.can_prune(entry, condition):
                    continue
                try:
                    rows = index.candidate_rows(condition)
                except IndexPayloadError as error:
                    ignored[entry.name] = error.reason
                    continue
                if rows is not None:
                    found[entry.name] = [list(run) for run in rows]
            assert found == query["candidates"]
        embedded.close()
        noted = {note.index.removeprefix("intarsia "): note.code for note in file.ignored}
        assert {**ignored, **noted} == case["ignored"]


def test_the_worked_example_of_the_page():
    """``docs/format.md`` shows the directory and a blob of a file of the suite."""
    page = " ".join(
        (SUITE.parents[1] / "docs" / "format.md").read_text().split("## A worked example")[1].split()
    )
    path = SUITE / "changed" / "unchanged.parquet"
    with ParquetInput.open(path) as file:
        text = json.dumps(json.loads(file.footer.key_values[b"intarsia"]), separators=(",", ":"))
        entry = file.directory.entries[0]
        assert f"{file.footer.file_length:,} bytes" in page
    assert text[: text.index("xxh3") + 26] in page.replace(" ", "")
    header = path.read_bytes()[entry.offset : entry.offset + 48]
    assert all(header[at : at + 8].hex(" ") in page for at in range(0, 48, 8))
    values = pa.ipc.open_stream(path.read_bytes()[entry.offset + 48 :]).read_next_batch().to_pylist()
    for row in values[:3]:
        assert f"| `{row['value']}` | {row['granules'][0]} |" in page
