"""What `advise` predicts is what the query reads: before, with the advised indexes, and after each rewrite.

A prediction may be off by a tenth, or by `FLOOR` bytes per file: scans take some footers from a cache.
"""

import datetime as dt
import os
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from intarsia.cli import main

ROWS = 40_000
FLOOR = 6_000
FLIGHTS = Path(__file__).parents[3] / "shared" / "data" / "flights-3m.parquet"

random = np.random.default_rng(5)
scattered = random.permutation(ROWS)
words = [f"{value * 7919:x}-{value % 97}" for value in scattered.tolist()]
COLUMNS = {
    "sorted": np.arange(ROWS),
    "clustered": np.arange(ROWS) // 500 * 7 % 80,
    "scattered": scattered,
    "tens": scattered // 10,
    "few": random.integers(0, 5, ROWS),
    "word": words,
    "city": [f"city {value % 300}" for value in scattered.tolist()],
    "real": random.random(ROWS),
    "at": pa.array(scattered.astype("int64") * 1_000_000, pa.timestamp("us")),
    "gaps": pa.array([None if value % 3 else value for value in scattered.tolist()], pa.int32()),
    "rare": pa.array([value if value % 400 == 0 else None for value in range(ROWS)], pa.int64()),
    "price": pa.array(scattered.astype("int64"), pa.int64()).cast(pa.decimal128(20, 0)),
    "place": [{"x": value // 9, "name": f"n{value}"} for value in range(ROWS)],
    "day": pa.array([dt.date(2020, 1, 1) + dt.timedelta(int(v) // 200) for v in scattered]),
}

SMALL = {"max_rows_per_page": 500, "row_group_size": 10_000}
LARGE = {"data_page_size": 1 << 30, "max_rows_per_page": 1 << 20, "row_group_size": 10_000}
PLAIN = {"use_dictionary": False, "max_rows_per_page": 1_000}
INDEXED = {"write_page_index": True}

#: Columns besides the queried one, predicate, options of pyarrow's writer, number of files, columns to read.
TABLES = {
    "sorted": (["word"], "sorted BETWEEN 1000 AND 1300", SMALL, 1, None),
    "sorted-indexed": (["word"], "sorted < 700", SMALL | INDEXED, 1, None),
    "clustered": (["word"], "clustered = 21", SMALL, 1, None),
    "clustered-not": (["word"], "clustered <> 21 AND clustered > 70", PLAIN, 1, None),
    "lookup": (["word"], "scattered = 777", SMALL, 1, None),
    "lookup-plain": (["word", "real"], "scattered = 777", PLAIN, 1, None),
    "lookup-large-pages": (["word"], "scattered = 777", LARGE, 1, None),
    "lookup-several": (["real"], "scattered IN (5, 555, 5555, 33333)", SMALL | INDEXED, 1, ["real"]),
    "few": (["real"], "few = 3", PLAIN, 1, None),
    "text": (["real"], "word = '1eef-1' OR word LIKE '%ffe1-%'", PLAIN, 1, None),
    "substring": (["real"], "word LIKE '%1f3a-%'", PLAIN, 1, None),
    "text-prefix": (["real"], "word LIKE '3f%'", PLAIN | INDEXED, 1, ["real", "word"]),
    "city": (["real", "word"], "city = 'city 7'", {"row_group_size": 10_000}, 1, None),
    "real": (["word"], "real BETWEEN 0.5 AND 0.501", SMALL, 1, None),
    "timestamps": (["word"], "at = TIMESTAMP '1970-01-01 00:00:07'", SMALL, 1, None),
    "nulls": (["word"], "gaps = 9 OR gaps = 99", SMALL, 1, None),
    "not-null": (["word"], "rare IS NOT NULL AND rare < 4000", SMALL, 1, None),
    "decimals": (["word"], "price = 4321", PLAIN, 1, None),
    "nested": (["word"], "place.x = 77", SMALL, 1, ["word", "place.name"]),
    "dates": (["word"], "day = DATE '2020-03-01'", SMALL | INDEXED, 1, None),
    "two-conditions": (["real"], "scattered < 9000 AND word LIKE '%77-%'", SMALL, 1, None),
    "either-of-two": (["word"], "scattered = 3 OR tens = 77", SMALL, 1, ["word"]),
    "several-files": (["word"], "scattered = 4711", SMALL, 4, None),
    "all-rows": (["word"], "scattered >= 0", SMALL, 1, None),
}

#: Indexes, at least one of which is advised.
ADVISED = {
    "clustered-not": {"distinct(clustered)", "page_index"},
    "lookup": {"bloom(scattered)", "bloom_granule(scattered)", "row_map(scattered)"},
    "lookup-several": {"bloom(scattered)", "bloom_granule(scattered)", "row_map(scattered)"},
    "substring": {"distinct(word)", "ngram(word)"},
    "nested": {"page_index"},
    "either-of-two": {"bloom_granule(tens)", "row_map(tens)"},
}


def build(name, folder):
    """Write a table to a file or a folder of several; return its path, the predicate and the columns."""
    others, where, options, num_files, columns = TABLES[name]
    queried = [column for column in COLUMNS if column in where]
    rows = pa.table({column: COLUMNS[column] for column in dict.fromkeys([*queried, *others])})
    path = folder / ("lake" if num_files > 1 else "t.parquet")
    if num_files == 1:
        pq.write_table(rows, path, **options)
        return path, where, columns
    path.mkdir()
    for number in range(num_files):
        part = rows.slice(number * ROWS // num_files, ROWS // num_files)
        pq.write_table(part, path / f"{number}.parquet", **options)
    return path, where, columns


def read(path, where, columns):
    scan = ia.open(path).scan(where, columns)
    scan.to_arrow()
    return scan.report


def check(predicted, report, num_files=1):
    """Compare the bytes, and, of a single file, the pages, row groups and rows."""
    assert predicted.bytes == pytest.approx(report.bytes_read, rel=0.1, abs=FLOOR * num_files)
    if num_files == 1:
        pages = sum(counts.read for counts in report.pages.values())
        found = (pages, report.row_groups_read, report.rows_candidate)
        assert (predicted.pages, predicted.row_groups, predicted.rows) == found


def rewritten(option):
    """Run the Python of a command, and return the path of the new file."""
    program, flag, code = shlex.split(option.command)
    assert (program, flag) == ("python3", "-c")
    exec(code, {})
    return code.partition('.scan(), "')[2].partition('"')[0]


def check_advice(path, where, columns, num_files=1):
    """Compare the prediction with the reads before, after the advised command, and after each rewrite."""
    advice = ia.advise(path, where, columns=columns)
    query = advice.queries[0]
    assert advice.sample.is_whole
    before = read(path, where, columns)
    check(query.now, before, num_files)
    hint = ia.open(path).explain(where, columns).advice
    assert hint is None or hint.code == "run-advise"
    lowest = [before.bytes_read]
    for option in advice.options:
        assert not option.is_estimate
        assert option.saved_share >= 0.2
        if option.rewrites:
            new = rewritten(option)
            lowest.append(read(new, where, columns).bytes_read)
            assert option.read_bytes == pytest.approx(lowest[-1], rel=0.1, abs=FLOOR)
            assert ia.open(new).count(where) == query.rows_matched
            os.remove(new)
    if advice.command is None:
        assert not any(not option.rewrites for option in advice.options)
        assert advice.verdict.startswith("no index helps")
        assert query.obstacles
    else:
        size = ia.open(path).file_bytes.sum()
        assert main(shlex.split(advice.command)[1:]) == 0
        weight = sum(index.bytes for index in advice.measured if index.is_advised)
        # sizes are without the footer
        assert 0 <= ia.open(path).file_bytes.sum() - size - weight < 60_000
        after = read(path, where, columns)
        lowest.append(after.bytes_read)
        check(query.advised, after, num_files)
        assert query.now.bytes - query.advised.bytes >= query.now.bytes / 5
    assert query.least.bytes <= min(lowest)
    return advice


@pytest.mark.parametrize("name", TABLES)
def test_the_prediction_is_what_the_query_reads(name, tmp_path):
    path, where, columns = build(name, tmp_path)
    advice = check_advice(path, where, columns, TABLES[name][3])
    advised = {index.name for index in advice.measured if index.is_advised}
    assert name not in ADVISED or advised & ADVISED[name]


@pytest.mark.skipif(not FLIGHTS.exists(), reason="../shared is not there")
def test_flights(tmp_path):
    path = tmp_path / "flights.parquet"
    pq.write_table(pq.read_table(FLIGHTS).slice(0, 400_000), path, row_group_size=100_000)
    advice = check_advice(path, "distance > 4900", ["origin", "distance"])
    assert any("sorted by distance" in option.name for option in advice.options)


def test_commands_run_in_a_shell(tmp_path):
    path, where, _ = build("lookup", tmp_path)
    advice = ia.advise(path, where)
    assert {option.rewrites for option in advice.options} == {False, True}
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    for rewrites in (False, True):
        option = next(option for option in advice.options if option.rewrites == rewrites)
        subprocess.run(option.command, shell=True, check=True, env=environment, capture_output=True)
