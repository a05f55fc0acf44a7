"""approx_distinct is accurate, sample is uniform, and both read only files without embedded indexes."""

import functools
import warnings

import datasketches
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from intarsia.format.structs import OffsetIndex
from intarsia.read.approximate import FileSize, affordable_rows
from tests.counting import python_calls
from tests.lake.index.lakes import age
from tests.reading.surgery import Patient, shift_first_rows


def rows(start, stop):
    """`day` is ascending, so that statistics cover whole row groups; `user` is not sorted."""
    ids = np.arange(start, stop)
    return pa.table(
        {
            "id": ids,
            "day": ids // 1000,
            "user": [None if i % 10 == 0 else f"user {i * 7919 % 5000}" for i in ids.tolist()],
        }
    )


def lake(folder, *indexes, files=4, rows_per_file=4000, unindexed=()):
    for place in range(files):
        path = folder / f"{place}.parquet"
        table = rows(place * rows_per_file, (place + 1) * rows_per_file)
        pq.write_table(table, path, row_group_size=1000, data_page_size=1000, write_batch_size=100)
        if indexes:
            ia.attach(
                path,
                [index for index in indexes if place not in unindexed or isinstance(index, ia.PageIndex)],
            )
    return ia.open(folder)


@pytest.fixture(scope="module")
def shared_lake(tmp_path_factory):
    """Returns a lake that no test changes, written once for all tests with the same arguments."""

    @functools.cache
    def written(*indexes, **options):
        folder = tmp_path_factory.mktemp("lake")
        lake(folder, *indexes, **options)
        return folder

    return lambda *indexes, **options: ia.open(written(*indexes, **options))


def truth(table, column, where=None):
    values = table.scan(where).to_arrow()[column]
    return len(values.drop_null().unique())


def assert_same(found, expected):
    assert found.schema == expected.schema
    assert found.to_pylist() == expected.to_pylist()


def data_pages(report):
    return sum(counts.read for counts in report.pages.values())


def assert_near(count, exact):
    assert count.lower <= count.estimate <= count.upper
    assert count.estimate == pytest.approx(exact, rel=0.08)


def test_small_files_without_sketches_are_read_together(tmp_path):
    """Each of them was read by itself, in more than 600 calls."""
    numbers = []
    for files in (20, 60):
        folder = tmp_path / str(files)
        folder.mkdir()
        for place in range(files):
            path = folder / f"{place:02}.parquet"
            pq.write_table(rows(place * 10, place * 10 + 10).append_column("p", [[place % 3] * 10]), path)
            age(path)
        ia.attach(folder / "03.parquet", [ia.Hll("user")])
        age(folder / "03.parquet")
        table = ia.open(folder)
        found, number = python_calls(lambda table=table: table.approx_distinct("user"))
        assert int(found) == truth(table, "user") == 9 * files
        paths = [f"{place:02}.parquet" for place in range(files) if place != 3]
        assert [path.rsplit("/")[-1] for path in found.unindexed] == paths
        assert (found.report.files_read, found.report.rows_candidate) == (files - 1, 10 * files - 10)
        where = "p = 1 OR id < 5"
        assert int(table.approx_distinct("user", where)) == truth(table, "user", where)
        numbers.append(number)
    assert numbers[1] - numbers[0] < 40 * 300


def test_sketches_of_files_are_merged_without_reading_data(shared_lake):
    table = shared_lake(ia.Hll("user"))
    count = table.approx_distinct("user")
    assert_near(count, truth(table, "user"))
    assert int(count) == round(count.estimate)
    assert (data_pages(count.report), count.report.row_groups_read, count.unindexed) == (0, 0, ())
    answered = count.report.answered_by["hll(user):file", "user"]
    assert (answered.files, answered.row_groups, answered.rows) == (4, 16, 16_000)


def test_sketches_of_different_sizes_are_merged(tmp_path):
    for place, lg_config_k in enumerate((14, 10, 14)):
        path = tmp_path / f"{place}.parquet"
        pq.write_table(pa.table({"x": np.arange(8_000) + place * 8_000}), path, row_group_size=2_000)
        ia.attach(path, ia.Hll("x", "row_group", lg_config_k=lg_config_k))
    table = ia.open(tmp_path)
    assert_near(table.approx_distinct("x"), 24_000)
    for sketch in table.sketches("x", lg_config_k=12)["sketch"].to_pylist():
        estimate = datasketches.hll_sketch.deserialize(sketch).get_estimate()
        assert estimate == pytest.approx(8_000, rel=0.1)


def test_few_values_are_counted_exactly(shared_lake):
    table = shared_lake(ia.Hll("day"))
    assert int(table.approx_distinct("day")) == 16


def test_files_without_a_sketch_are_read_and_named(shared_lake):
    table = shared_lake(ia.Hll("user"), ia.PageIndex(), unindexed=(1, 3))
    count = table.approx_distinct("user")
    assert_near(count, truth(table, "user"))
    assert [path.rsplit("/")[-1] for path in count.unindexed] == ["1.parquet", "3.parquet"]
    assert (count.report.files_read, count.report.row_groups_read) == (2, 8)
    assert count.report.rows_candidate == 8000


@pytest.mark.parametrize("granularity", ["file", "row_group", "page", 250])
@pytest.mark.parametrize(
    "where",
    [
        "day < 6",
        "day >= 3 AND day <= 9",
        "id < 5555",
        "user = 'user 7'",
        "day < 2 OR user LIKE '%99'",
        "id < 0",
        "id >= 0",
        "user IS NOT NULL",
        "user IS NULL",
        "day = 3 AND id < 3500",
    ],
)
def test_conditions(shared_lake, granularity, where):
    table = shared_lake(ia.PageIndex(), ia.Hll("user", granularity), files=3)
    count = table.approx_distinct("user", where)
    assert_near(count, truth(table, "user", where))


def test_only_rows_without_a_sketch_are_read(shared_lake):
    table = shared_lake(ia.PageIndex(), ia.Hll("user", "row_group"), files=3)
    count = table.approx_distinct("user", "id < 5500")
    assert 500 <= count.report.rows_candidate < 1000  # pages of the row group that starts at 5000
    assert count.report.row_groups_read == 1
    assert count.unindexed == ()


def test_sketch_of_the_file_is_not_read_for_a_part_of_it(shared_lake):
    table = shared_lake(ia.PageIndex(), ia.Hll("user"), files=1)
    count = table.approx_distinct("user", "id < 2000")
    assert_near(count, truth(table, "user", "id < 2000"))
    assert not count.report.answered_by
    assert count.report.rows_candidate == 2000


def test_damaged_sketch_is_ignored(tmp_path):
    table = lake(tmp_path, ia.Hll("user"), files=2)
    path = tmp_path / "0.parquet"
    entry = ia.inspect(path).directory.entries[0]
    data = bytearray(path.read_bytes())
    data[entry.offset + entry.size_bytes // 2] ^= 0xFF
    path.write_bytes(data)
    with pytest.warns(ia.IntarsiaWarning, match="hll"):
        count = table.approx_distinct("user")
    assert_near(count, truth(table, "user"))
    assert [name.rsplit("/")[-1] for name in count.unindexed] == ["0.parquet"]
    assert [note.index for note in count.report.ignored] == ["hll(user):file"]


def test_files_whose_values_hash_differently_are_read(tmp_path):
    stamps = pa.array(range(0, 3_000_000, 1000), pa.timestamp("us"))
    for name, unit in (("a", "us"), ("b", "ms")):
        path = tmp_path / f"{name}.parquet"
        pq.write_table(pa.table({"t": stamps.cast(pa.timestamp(unit))}), path)
        ia.attach(path, [ia.Hll("t")])
    count = ia.open(tmp_path).approx_distinct("t")
    assert count.estimate == pytest.approx(3000, rel=0.08)
    assert len(count.unindexed) == 1


def test_integers_that_widen_are_merged(tmp_path):
    for name, kind in (("a", pa.int64()), ("b", pa.int16())):
        path = tmp_path / f"{name}.parquet"
        pq.write_table(pa.table({"x": pa.array(range(1000), kind)}), path)
        ia.attach(path, [ia.Hll("x")])
    count = ia.open(tmp_path).approx_distinct("x")
    assert count.estimate == pytest.approx(1000, rel=0.08)
    assert count.unindexed == ()


def test_partition_columns_are_exact(tmp_path):
    for month in (1, 2, "__HIVE_DEFAULT_PARTITION__"):
        (tmp_path / f"month={month}").mkdir()
        pq.write_table(rows(0, 100), tmp_path / f"month={month}" / "t.parquet")
    (tmp_path / "month=3").mkdir()
    pq.write_table(rows(0, 0), tmp_path / "month=3" / "t.parquet")
    table = ia.open(tmp_path)
    for where, exact in [
        (None, 2),
        ("month = 1", 1),
        ("id < 0", 0),
        ("user = 'user 7919'", 0),
        ("id = 7", 2),
    ]:
        count = table.approx_distinct("month", where)
        assert (count.estimate, count.lower, count.upper) == (exact, exact, exact)


def test_column_that_a_file_lacks_is_null(tmp_path):
    pq.write_table(pa.table({"x": [1, 2, 3], "y": [1, 1, 2]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"x": [4]}), tmp_path / "b.parquet")
    table = ia.open(tmp_path)
    assert int(table.approx_distinct("y")) == 2
    assert int(table.approx_distinct("x", "y IS NULL")) == 1


def test_nested_fields_no_matches_and_unsupported_types(tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"s": [{"a": 1}, {"a": None}, None, {"a": 2}], "l": [[1], [2], None, []]}), path)
    ia.attach(path, [ia.Hll("s.a")])
    count = ia.open(path).approx_distinct("s.a")
    assert (int(count), data_pages(count.report)) == (2, 0)
    assert int(ia.open(path).approx_distinct("s.a", "s.a > 5")) == 0
    with pytest.raises(ia.UnsupportedFeatureError) as caught:
        ia.open(path).approx_distinct("l")
    assert (caught.value.reason, caught.value.column) == ("not-countable", "l")
    with pytest.raises(ia.ColumnNotFoundError):
        ia.open(path).approx_distinct("absent")


# --- sample ----------------------------------------------------------------------------------------------


def test_sample_is_combined_without_reading_data(shared_lake):
    table = shared_lake(ia.Sample(300))
    found = table.sample(seed=1)
    assert found.schema == table.schema
    assert 500 < found.num_rows <= 1200
    ids = found["id"].to_pylist()
    assert len(set(ids)) == len(ids)
    everything = table.scan().to_arrow()
    assert_same(found, everything.take(pa.array(ids, pa.int64())))


@pytest.mark.parametrize("unindexed", [(), (0, 2), (0, 1, 2, 3)])
@pytest.mark.parametrize("n", [0, 1, 150, 3000, 16_000, 20_000])
def test_samples_of_any_size(shared_lake, unindexed, n):
    table = shared_lake(ia.PageIndex(), ia.Sample(40), unindexed=unindexed)
    found = table.sample(n, seed=5)
    ids = found["id"].to_pylist()
    assert len(ids) == len(set(ids)) == min(n, 16_000)
    assert_same(found, table.scan().to_arrow().take(pa.array(ids, pa.int64())))
    assert found.equals(table.sample(n, seed=5))


def test_every_row_of_a_table_is_equally_likely(tmp_path):
    sizes, draws = [5, 10, 15], 90
    counts = {6: np.zeros(sum(sizes)), 14: np.zeros(sum(sizes))}  # within the samples, and beyond them
    for place, size in enumerate(sizes):
        path = tmp_path / f"{place}.parquet"
        start = sum(sizes[:place])
        pq.write_table(pa.table({"id": range(start, start + size)}), path)
    for seed in range(draws):
        for place, size in enumerate(sizes[:2]):  # the third file has no sample
            ia.attach(tmp_path / f"{place}.parquet", [ia.Sample(size // 2, seed=seed)])
        table = ia.open(tmp_path)
        for n, drawn in counts.items():
            drawn[table.sample(n, seed=seed)["id"].to_numpy()] += 1
    for n, drawn in counts.items():
        expected = draws * n / sum(sizes)
        statistic = ((drawn - expected) ** 2).sum() / expected * 29 / (30 - n)
        assert statistic < 58.3  # 0.999 quantile of chi-square with 29 degrees of freedom


def test_report_counts_the_reads(shared_lake):
    table = shared_lake(ia.PageIndex(), ia.Sample(400), unindexed=(2,))
    scan = table.scan(columns=["user", "id"])
    found = scan.sample(12, seed=1)
    assert found.column_names == ["user", "id"]
    of_third = [row for row in found["id"].to_pylist() if 8000 <= row < 12_000]
    report = scan.report
    assert (report.rows_matched, report.rows_candidate, report.files_read) == (12, len(of_third), 1)
    assert 0 < data_pages(report) <= 2 * len(of_third)  # one page of each column per row
    with pytest.raises(ValueError, match="all rows"):
        table.scan("id = 1").sample(1)


def test_damaged_sample_is_ignored(tmp_path):
    table = lake(tmp_path, ia.Sample(100), files=1)
    path = tmp_path / "0.parquet"
    entry = ia.inspect(path).directory.entries[0]
    data = bytearray(path.read_bytes())
    data[entry.offset + entry.size_bytes // 2] ^= 0xFF
    path.write_bytes(data)
    with pytest.warns(ia.IntarsiaWarning, match="sample"):
        found = table.sample(seed=1)
    assert_same(found, table.scan().to_arrow().take(found["id"]))
    assert found.num_rows == 100


def test_partition_columns_are_in_the_sample(tmp_path):
    for month in (1, 2):
        (tmp_path / f"month={month}").mkdir()
        path = tmp_path / f"month={month}" / "t.parquet"
        pq.write_table(rows(0, 100), path)
        ia.attach(path, [ia.Sample(50)])
    table = ia.open(tmp_path)
    found = table.sample(30, seed=1)
    assert found.schema == table.schema
    assert set(found["month"].to_pylist()) == {1, 2}


def test_default_size_of_a_sample_leaves_a_margin(shared_lake):
    assert affordable_rows([]) == 0
    assert affordable_rows([FileSize(0, 0)]) == 0
    assert affordable_rows([FileSize(10, 10), FileSize(5, None)]) == 15
    assert affordable_rows([FileSize(10_000, None)] * 3) == 1000
    assert affordable_rows([FileSize(10**9, 20)] * 100) < 2000
    table = shared_lake(ia.Sample(200))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert {table.sample(seed=seed).num_rows for seed in range(5)} == {
            affordable_rows([FileSize(4000, 200)] * 4)
        }
    with pytest.raises(ValueError, match="0 or more"):
        table.sample(-1)


# --- a wrong page index ------------------------------------------------------------------------------------


def lying_file(path, column):
    """Shift the first row of every page except the first by one."""
    keys = np.arange(2000)
    table = pa.table({"key": keys, "amount": keys * 3})
    options = {"write_page_index": True, "max_rows_per_page": 100, "write_batch_size": 10}
    pq.write_table(table, path, row_group_size=1000, use_dictionary=False, **options)
    patient = Patient.read(path)
    patient.change_index(OffsetIndex, 0, table.column_names.index(column), shift_first_rows)
    patient.write(path)
    ia.attach(path, [ia.Hll("amount", 100)])  # keeps the existing page index


@pytest.mark.parametrize("column", ["key", "amount"])
def test_wrong_page_index_loses_no_value(tmp_path, column):
    path = tmp_path / "t.parquet"
    lying_file(path, column)
    with pytest.warns(ia.IntarsiaWarning):
        count = ia.open(path).approx_distinct("amount", "key >= 50 AND key < 1777")
    assert not [note for note in count.report.ignored if "directory" in note.index]
    assert count.report.answered_by
    assert count.estimate == pytest.approx(1727, rel=0.08)


@pytest.mark.parametrize("column", ["key", "amount"])
def test_wrong_page_index_changes_no_row_of_a_sample(tmp_path, column):
    path = tmp_path / "t.parquet"
    lying_file(path, column)
    with pytest.warns(ia.IntarsiaWarning):
        found = ia.open(path).sample(50, seed=1)
    assert found.num_rows == 50
    assert (found["amount"].to_numpy() == found["key"].to_numpy() * 3).all()
    assert len(found["key"].unique()) == 50
