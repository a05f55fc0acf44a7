"""`intarsia.advise`: the command that it prints runs, and then the scan reads what was predicted."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from intarsia.advice.candidates import command_of
from intarsia.cli import main

ROWS = 60_000


@pytest.fixture(scope="module")
def rows():
    """Columns of several shapes; ``user`` and ``group`` are not sorted."""
    random = np.random.default_rng(7)
    ids = random.permutation(ROWS)
    return pa.table(
        {
            "ts": np.arange(ROWS),
            "clock": np.arange(ROWS) % 1_001,
            "user": ids * 3,
            "group": ids // 10,
            "country": np.repeat([f"country {place * 7 % 40}" for place in range(ROWS // 500)], 500),
            "flag": random.integers(0, 3, ROWS),
            "note": [f"{value:x}-{value * 7919:x}" for value in ids.tolist()],
            "nested": [{"a": value // 60, "items": [1, 2]} for value in range(ROWS)],
            "empty": pa.nulls(ROWS, pa.int32()),
        }
    )


#: A dictionary of all texts would be searched, without an index.
DICTIONARIES = ["ts", "clock", "user", "group", "country", "flag"]


def write(rows, path, **options):
    options = {"row_group_size": 20_000, "max_rows_per_page": 1_000, "use_dictionary": DICTIONARIES} | options
    pq.write_table(rows, path, **options)
    return path


@pytest.fixture(scope="module")
def shared(rows, tmp_path_factory):
    """A file that tests do not change."""
    return write(rows, tmp_path_factory.mktemp("advice") / "t.parquet")


@pytest.fixture
def file(shared, tmp_path):
    return Path(shutil.copy(shared, tmp_path))


@pytest.fixture
def no_change(shared):
    before = shared.read_bytes()
    yield
    assert shared.read_bytes() == before


def names(advice):
    return {index.name for index in advice.measured if index.is_advised}


def codes(query):
    return [obstacle.code for obstacle in query.obstacles]


def run(command):
    assert main(shlex.split(command)[1:]) == 0


def test_the_minimum_is_never_above_what_is_read(file):
    """Also where the page index would cost more than the pages that it excludes."""
    for query in ia.advise(file, ["user > 5", "user % 3 = 1", "user = 3021"]).queries:
        assert query.least.bytes <= min(query.now.bytes, query.advised.bytes, query.total.bytes)


def test_the_advised_indexes_can_be_attached(file):
    advice = ia.advise(file, "user = 3021")
    report = ia.attach(file, advice.indexes)
    assert len(report.built) == len(advice.indexes)
    # then there is nothing more to gain
    again = ia.advise(file, "user = 3021")
    assert (again.command, again.indexes) == (None, ())
    assert codes(again.queries[0]) == ["already-skipped"]
    assert again.queries[0].now.bytes == pytest.approx(advice.queries[0].advised.bytes, rel=0.05)


def test_bloom_filters_of_lists_and_maps_are_proposed(tmp_path):
    path = tmp_path / "t.parquet"
    texts = [f"t{row * 7919 % ROWS}" for row in range(ROWS)]
    maps = pa.array([[("k", text)] for text in texts], pa.map_(pa.string(), pa.string()))
    rows = pa.table({"id": range(ROWS), "items": [[text] for text in texts], "map": maps})
    pq.write_table(rows, path, row_group_size=6_000, use_dictionary=False)
    queries = ["array_contains(items, 't77')", "map['k'] = 't77'"]
    advice = ia.advise(path, queries)
    assert names(advice) == {"bloom(items.list.element)", "bloom(map.key_value.value)"}
    ia.attach(path, advice.indexes)
    for query, where in zip(advice.queries, queries, strict=True):
        scan = ia.open(path).scan(where, ["id"])
        assert scan.to_arrow().num_rows == 1
        assert scan.report.row_groups_read == 1
        assert query.advised.bytes < query.now.bytes / 3


def test_existing_indexes_are_measured_in_a_sample_of_row_groups(file):
    ia.attach(file, [ia.PageIndex(), ia.RowMap("user")])
    advice = ia.advise(file, "user = 3021", sample_bytes=1)
    assert (advice.sample.row_groups, advice.sample.is_whole) == (1, False)
    assert advice.command is None
    assert "row_map(user)" not in {index.name for index in advice.measured}


@pytest.mark.usefixtures("no_change")
@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("flag = 1", "values-on-every-page"),
        ("ts > 100", "most-rows-match"),
        ("note LIKE '%7%'", "not-prunable"),
        ("note LIKE '%-e1%'", "values-on-every-page"),
        ("empty IS NULL", "most-rows-match"),
        ("empty = 3", "already-skipped"),
        ("ts = -1", "already-skipped"),
    ],
)
def test_reasons_why_nothing_is_skipped(shared, where, expected):
    advice = ia.advise(shared, where)
    assert advice.command is None
    assert codes(advice.queries[0]) == [expected]


def test_a_row_map_that_exists_is_not_proposed(tmp_path):
    texts = [np.random.default_rng(row).bytes(70).hex() for row in range(20_000)]
    rows = pa.table({"x": [row % 1_000 for row in range(20_000)], "text": texts})
    path = write(rows, tmp_path / "t.parquet", max_rows_per_page=1_000)
    ia.attach(path, [ia.PageIndex(), ia.RowMap("x")])
    obstacles = ia.advise(path, "x = 7").queries[0].obstacles
    assert [(found.code, "RowMap" in found.text) for found in obstacles] == [("values-on-every-page", False)]


def test_one_page_per_row_group(rows, tmp_path):
    path = write(rows, tmp_path / "t.parquet", max_rows_per_page=1 << 20, data_page_size=1 << 30)
    query = ia.advise(path, "flag = 1", columns=["flag"]).queries[0]
    assert codes(query) in (["one-page-per-row-group"], ["small-file"])
    table = pa.concat_tables([rows.select(["flag", "user"])] * 4)
    wide = write(table, tmp_path / "u.parquet", max_rows_per_page=1 << 20, data_page_size=1 << 30)
    query = ia.advise(wide, "flag = 1 AND user > 5").queries[0]
    assert "one-page-per-row-group" in codes(query)


def test_a_query_without_condition(shared):
    query = ia.advise(shared, ["TRUE"]).queries[0]
    assert codes(query) in (["all-rows"], ["most-rows-match"], [])
    assert query.now.bytes == query.total.bytes


def test_a_sample_of_row_groups_is_extrapolated(shared):
    whole = ia.advise(shared, "user = 3021")
    part = ia.advise(shared, "user = 3021", sample_bytes=1)
    assert (part.sample.row_groups, part.sample.is_whole) == (1, False)
    assert part.queries[0].now.bytes == pytest.approx(whole.queries[0].now.bytes, rel=0.05)
    sizes = {index.name: index.bytes for index in whole.measured}
    for index in part.measured:
        assert index.bytes == pytest.approx(sizes[index.name], rel=0.3, abs=10_000)


def test_estimates_are_marked_and_above_the_minimum(shared):
    where = "user IN (3021, 30)"
    part = ia.advise(shared, where, sample_bytes=1)
    assert not part.sample.is_whole
    assert part.options
    assert all(option.is_estimate for option in part.options)
    exact = ia.advise(shared, where)
    assert not any(option.is_estimate for option in exact.options)
    assert part.queries[0].least.bytes <= min(option.read_bytes for option in exact.options)


class TestLakes:
    @pytest.fixture
    def lake(self, rows, tmp_path):
        for place in range(20):
            folder = tmp_path / "lake" / f"part={place % 2}"
            folder.mkdir(parents=True, exist_ok=True)
            part = rows.select(["ts", "user"]).slice(place * 3_000, 3_000)
            write(part, folder / f"{place}.parquet", row_group_size=1_500)
        return tmp_path / "lake"

    def test_files_are_sampled_and_a_lake_index_is_advised(self, lake):
        advice = ia.advise(lake, ["user = 3021", "user = 3021", "ts = 4"])
        assert [query.count for query in advice.queries] == [2, 1]
        assert advice.lake_index
        assert advice.command.endswith("--lake-index cache") or advice.command.startswith(
            "intarsia lake-index"
        )
        assert advice.sample.files == 20
        assert advice.sample.files_total == 20

    def test_partition_columns_need_no_index(self, lake):
        advice = ia.advise(lake, "part = 1")
        assert advice.indexes == ()
        assert "partition-column" in codes(advice.queries[0])
        assert advice.queries[0].now.files == pytest.approx(10, rel=0.01)

    def test_the_command_of_a_lake_runs(self, lake):
        advice = ia.advise(str(lake), "user = 3021 AND part >= 0")
        run(advice.command)
        assert ia.open(lake).explain("user = 3021").rows_candidate <= 3_000


class TestWithoutQueries:
    def test_columns_are_described(self, shared):
        advice = ia.advise(shared)
        assert {column.column: column.shape for column in advice.columns} == {
            "ts": "sorted",
            "clock": "scattered",
            "user": "unique",
            "group": "scattered",
            "country": "clustered",
            "flag": "few-values",
            "note": "unique",
            "nested.a": "sorted",
            "nested.items.list.element": "nested",
            "empty": "all-null",
        }
        assert set(names(advice)) == {"page_index", "distinct(country)"}
        assert advice.queries == ()

    def test_zero_rows(self, rows, tmp_path):
        path = write(rows.slice(0, 0), tmp_path / "t.parquet")
        assert ia.advise(path).command is None
        query = ia.advise(path, "user = 3").queries[0]
        assert codes(query) == ["no-rows"]

    def test_a_file_without_row_groups(self, rows, tmp_path):
        path = tmp_path / "t.parquet"
        with pq.ParquetWriter(path, rows.schema):
            pass
        assert codes(ia.advise(path, "user = 3").queries[0]) == ["no-rows"]

    def test_one_value(self, tmp_path):
        path = tmp_path / "t.parquet"
        nulls = [None, *["a"] * 9_999]
        pq.write_table(pa.table({"x": [7] * 10_000, "y": nulls}), path)
        assert [column.shape for column in ia.advise(path).columns] == ["constant", "constant"]

    def test_all_nulls(self, tmp_path):
        path = tmp_path / "t.parquet"
        pq.write_table(pa.table({"x": pa.nulls(10_000, pa.string())}), path)
        assert ia.advise(path).columns[0].shape == "all-null"
        assert codes(ia.advise(path, "x = 'a'").queries[0]) == ["already-skipped"]


def test_names_of_columns_in_commands(tmp_path):
    names = ["my column", "class", "a.b", "ünï", "a:b", "it's", '"', "true", "-x", "s.t u"]
    path = tmp_path / "my lake.parquet"
    columns = {name: [f"text {value}" for value in range(100)] for name in names[:-1]}
    pq.write_table(pa.table(columns | {"s": [{"t u": str(value)} for value in range(100)]}), path)
    indexes = [kind(name) for name in names for kind in (ia.Bloom, ia.Distinct, ia.RowMap)]
    indexes += [ia.Ngram(name, ignore_case=True) for name in names]
    run(command_of([str(path)], [ia.PageIndex(), *indexes], lake_index=False))
    again = ia.attach(path, [ia.PageIndex(), *indexes])
    assert (again.built, len(again.kept)) == ((), 41)


class TestErrors:
    def test_of_arguments(self, shared, tmp_path):
        with pytest.raises(ia.ColumnNotFoundError) as caught:
            ia.advise(shared, "usr = 3")
        assert caught.value.column == "usr"
        with pytest.raises(ia.PredicateError) as refused:
            ia.advise(shared, ["user = 3", "user ="])
        assert refused.value.reason == "syntax-error"
        with pytest.raises(ValueError, match="sample_bytes"):
            ia.advise(shared, sample_bytes=0)
        with pytest.raises(FileNotFoundError):
            ia.advise(tmp_path / "missing.parquet")
        (tmp_path / "empty").mkdir()
        with pytest.raises(FileNotFoundError):
            ia.advise(tmp_path / "empty")

    def test_of_other_files(self, tmp_path):
        path = tmp_path / "t.parquet"
        path.write_bytes(b"not Parquet, but long enough")
        with pytest.raises(ia.CorruptFileError):
            ia.advise(path, "x = 1")


class TestTheCommand:
    def test_json_has_stable_keys(self, shared, capsys):
        where = ["--where", "user = 3021", "--where", "flag = 1"]
        assert main(["advise", str(shared), *where, "--json"]) == 0
        document = json.loads(capsys.readouterr().out)
        assert set(document) == {
            "command",
            "lake_index",
            "indexes",
            "options",
            "queries",
            "columns",
            "not_built",
            "sample",
            "seconds",
        }
        assert set(document["queries"][0]) == {
            *("where", "columns", "origin", "count", "total", "now", "advised", "least"),
            *("rows_matched", "obstacles"),
        }
        assert set(document["queries"][0]["now"]) == {"bytes", "pages", "row_groups", "rows", "files"}
        assert set(document["indexes"][0]) == {
            *("name", "column", "purpose", "bytes", "share", "seconds", "saved_bytes", "is_advised"),
        }
        assert document["queries"][1]["obstacles"][0]["code"] == "values-on-every-page"
        assert set(document["sample"]) == {
            *("files", "files_total", "row_groups", "bytes", "bytes_total", "is_whole"),
        }

    def test_text(self, shared, capsys):
        assert main(["advise", str(shared), "--where", "user = 3021"]) == 0
        assert capsys.readouterr().out.splitlines()[-1].startswith(f"intarsia index {shared} ")
        assert main(["advise", str(shared)]) == 0
        assert "few distinct values" in capsys.readouterr().out

    def test_queries(self, shared, tmp_path, capsys):
        queries = tmp_path / "q.sql"
        queries.write_text("SELECT ts FROM t WHERE user = 3021; user = 3021")
        assert main(["advise", str(shared), "--queries", str(queries), "--json"]) == 0
        found = json.loads(capsys.readouterr().out)["queries"]
        assert [(query["where"], query["columns"]) for query in found] == [
            ("user = 3021", ["ts"]),
            ("user = 3021", None),
        ]
        queries.write_text("user = 3021\nusr = 3\n")
        assert main(["advise", str(shared), "--queries", str(queries)]) == 2
        assert "q.sql, line 2" in capsys.readouterr().err

    def test_a_wrong_size(self, shared, capsys):
        assert main(["advise", str(shared), "--sample", "much"]) == 2
        assert "--sample" in (error := capsys.readouterr().err)
        assert "much" in error


def test_files_beyond_the_size_of_the_sample_are_extrapolated(rows, tmp_path):
    for place in range(3):
        write(rows.slice(place * 20_000, 20_000), tmp_path / f"{place}.parquet")
    whole = ia.advise(tmp_path, "user = 3021")
    part = ia.advise(tmp_path, "user = 3021", sample_bytes=1)
    assert (whole.sample.files, part.sample.files) == (3, 1)
    assert part.queries[0].now.bytes == pytest.approx(whole.queries[0].now.bytes, rel=0.05)
    assert part.queries[0].total.bytes == pytest.approx(whole.queries[0].total.bytes, rel=0.05)
    assert part.indexes


def test_a_row_map_of_the_whole_file_omits_frequent_values(tmp_path):
    values = np.repeat(np.random.default_rng(2).permutation(400) % 20, 500)  # 10,000 rows have each value
    path = tmp_path / "t.parquet"
    other = np.random.default_rng(5).random(200_000)
    pq.write_table(pa.table({"x": values, "y": other}), path, row_group_size=20_000, max_rows_per_page=2_000)
    advice = ia.advise(path, "x = 7", sample_bytes=1)
    assert (advice.sample.is_whole, advice.sample.row_groups) == (False, 1)
    by_name = {index.name: index for index in advice.measured}
    assert by_name["row_map(x)"].saved_bytes == by_name["page_index"].saved_bytes
    assert not any("row_map" in option.name for option in advice.options if not option.rewrites)
    assert "row_map(x)" not in names(advice)
    ia.attach(path, advice.indexes)
    planned = ia.open(path).explain("x = 7")
    assert planned.rows_candidate == pytest.approx(advice.queries[0].advised.rows, rel=0.5)


def test_one_query_is_helped_beside_one_that_cannot_be(shared):
    advice = ia.advise(shared, ["user = 3021", "flag = 1", "flag = 2"])
    assert names(advice) & {"bloom(user)", "bloom_granule(user)", "row_map(user)"}
    assert [codes(query) for query in advice.queries] == [
        [],
        ["values-on-every-page"],
        ["values-on-every-page"],
    ]


def test_a_column_that_some_files_lack_is_not_a_partition_column(rows, tmp_path):
    write(rows.select(["ts", "user"]), tmp_path / "a.parquet")
    write(rows.select(["ts"]), tmp_path / "b.parquet")
    advice = ia.advise(tmp_path, "user = 3021")
    assert advice.sample.is_whole
    assert "partition-column" not in codes(advice.queries[0])
    assert advice.queries[0].advised.row_groups == 1
