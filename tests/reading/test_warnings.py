"""Every public entry point warns at the line that called it."""

import subprocess
import sys
import warnings

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia


@pytest.fixture
def path(tmp_path):
    """A file with an index whose payload is damaged: it is ignored with a warning."""
    path = tmp_path / "a.parquet"
    rows = pa.table({"x": range(20_000), "s": [f"s{n % 3000}" for n in range(20_000)]})
    pq.write_table(rows, path, use_dictionary=False, write_statistics=False)
    ia.attach(path, [ia.Distinct("s", granularity=10), ia.Sample(500), ia.Hll("s")])
    data = bytearray(path.read_bytes())
    for entry in ia.inspect(path).directory.entries:
        data[entry.offset + entry.size_bytes - 10] ^= 0xFF
    path.write_bytes(data)
    return str(path)


WHERE = "s = 's7'"

ENTRY_POINTS = {
    "to_arrow": lambda path: ia.open(path).scan(WHERE).to_arrow(),
    "iteration": lambda path: list(ia.open(path).scan(WHERE)),
    "arrow_c_stream": lambda path: pa.table(ia.open(path).scan(WHERE)),
    "reader": lambda path: pa.RecordBatchReader.from_stream(ia.open(path).scan(WHERE)).read_all(),
    "to_pandas": lambda path: ia.open(path).scan(WHERE).to_pandas(),
    "scan.count": lambda path: ia.open(path).scan(WHERE).count(),
    "scan.aggregate": lambda path: ia.open(path).scan(WHERE).aggregate({"x": ["sum"]}),
    "count": lambda path: ia.open(path).count(WHERE),
    "aggregate": lambda path: ia.open(path).aggregate({"x": ["sum"]}, WHERE),
    "sample": lambda path: ia.open(path).sample(10),
    "approx_distinct": lambda path: ia.open(path).approx_distinct("s"),
    "sketches": lambda path: ia.open(path).sketches("s"),
    "plan": lambda path: ia.open(path).plan(WHERE),
    "split": lambda path: [split.to_arrow() for split in ia.open(path).plan(WHERE)],
}


@pytest.mark.parametrize("name", ENTRY_POINTS)
def test_an_ignored_index(path, name):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ENTRY_POINTS[name](path)
    found = [warning for warning in caught if issubclass(warning.category, ia.IntarsiaWarning)]
    assert found
    for warning in found:
        assert warning.filename == __file__
        assert warning.lineno == ENTRY_POINTS[name].__code__.co_firstlineno


def rename_lake(folder):
    """Most files lack a column of the first one, and have another: as after a rename."""
    pq.write_table(pa.table({"old": [1], "x": [1]}), folder / "a.parquet")
    for name in "bcd":
        pq.write_table(pa.table({"new": [1], "x": [1]}), folder / f"{name}.parquet")
    return str(folder)


SCHEMA_ENTRY_POINTS = {
    "schema": lambda path: ia.open(path).schema,
    "scan": lambda path: ia.open(path).scan("x = 1"),
    "count": lambda path: ia.open(path).count("x = 1"),
    "sample": lambda path: ia.open(path).sample(1),
    "approx_distinct": lambda path: ia.open(path).approx_distinct("x"),
}


@pytest.mark.parametrize("name", SCHEMA_ENTRY_POINTS)
def test_columns_that_most_files_lack(tmp_path, name):
    lake = rename_lake(tmp_path)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        SCHEMA_ENTRY_POINTS[name](lake)
    found = [warning for warning in caught if issubclass(warning.category, ia.IntarsiaWarning)]
    assert [(warning.filename, warning.lineno) for warning in found] == [
        (__file__, SCHEMA_ENTRY_POINTS[name].__code__.co_firstlineno)
    ]


def test_a_module_that_lies_beside_the_package(path, tmp_path):
    """The path of the caller may begin as the package's does."""
    program = tmp_path / "intarsia_user.py"
    program.write_text(f"import intarsia as ia\nia.open({path!r}).count({WHERE!r})\n")
    run = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, check=True)
    assert run.stderr.startswith(f"{program}:2: IntarsiaWarning: ")
