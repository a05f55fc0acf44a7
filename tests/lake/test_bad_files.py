"""Damaged, truncated and missing files: an error, or they are skipped with one warning."""

from __future__ import annotations

import json
import warnings

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from tests.lake.index.lakes import age

NUM_FILES, PER_FILE, PER_GROUP = 5, 20, 10


def values_of(place):
    return list(range(place * PER_FILE, (place + 1) * PER_FILE))


@pytest.fixture
def lake(tmp_path):
    folder = tmp_path / "lake"
    folder.mkdir()
    for place in range(NUM_FILES):
        table = pa.table({"x": values_of(place), "s": [f"text {x % 7}" for x in values_of(place)]})
        pq.write_table(table, folder / f"{place}.parquet", row_group_size=PER_GROUP, compression="zstd")
        age(folder / f"{place}.parquet")
    return folder


def cut(path):
    path.write_bytes(path.read_bytes()[:-20])


def damage_footer(path):
    data = bytearray(path.read_bytes())
    data[-60:-30] = b"\xff" * 30
    path.write_bytes(bytes(data))


def empty(path):
    path.write_bytes(b"")


def damage_pages_of_second_group(path):
    chunk = pq.read_metadata(path).row_group(1).column(0)
    start = chunk.dictionary_page_offset or chunk.data_page_offset
    data = bytearray(path.read_bytes())
    data[start : start + chunk.total_compressed_size] = b"\xff" * chunk.total_compressed_size
    path.write_bytes(bytes(data))


def damage_pages_of_an_old_file(path):
    """Files that were not just written are read together."""
    damage_pages_of_second_group(path)
    age(path)


FAULTS = {
    "cut": cut,
    "footer": damage_footer,
    "empty": empty,
    "missing": lambda path: path.unlink(),
    "pages": damage_pages_of_second_group,
    "old pages": damage_pages_of_an_old_file,
}


@pytest.fixture(params=FAULTS)
def fault(request):
    return FAULTS[request.param]


def remaining(bad):
    return [x for place in range(NUM_FILES) if place not in bad for x in values_of(place)]


def one_warning(caught, bad):
    (warning,) = [one for one in caught if issubclass(one.category, ia.IntarsiaWarning)]
    assert warning.filename == __file__
    assert f"{bad[0]}.parquet" in str(warning.message)


@pytest.mark.parametrize("bad", [[0], [2], [1, 4]])
@pytest.mark.parametrize("where", [None, "x >= 0 AND s <> 'text 3'"])
def test_the_rows_of_the_other_files(lake, fault, bad, where):
    table = ia.open(lake)
    for place in bad:
        fault(lake / f"{place}.parquet")
    scan = table.scan(where, ["x"], on_error="skip")
    expected = [x for x in remaining(bad) if where is None or x % 7 != 3]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        rows = scan.to_arrow()
    assert rows["x"].to_pylist() == expected
    one_warning(caught, bad)
    failed = scan.report.to_dict()["files_failed"]
    assert [entry["file"] for entry in failed] == [str(lake / f"{place}.parquet") for place in bad]
    assert all(entry["reason"] and entry["code"] for entry in failed)
    json.dumps(failed)
    assert scan.report.rows_matched == len(expected)
    with pytest.raises((ia.CorruptFileError, FileNotFoundError)):
        table.scan(where, ["x"]).to_arrow()


@pytest.mark.parametrize("bad", [[0], [2, 3]])
def test_aggregates_and_counts(lake, fault, bad):
    table = ia.open(lake)
    for place in bad:
        fault(lake / f"{place}.parquet")
    where = "s <> 'text 3'"  # pages have to be read
    kept = [x for x in remaining(bad) if x % 7 != 3]
    for ask in (
        lambda: table.aggregate({"x": ["sum", "count"]}, where, on_error="skip")["x"],
        lambda: {"sum": sum(kept), "count": table.scan(where, ["x"], on_error="skip").to_arrow().num_rows},
    ):
        with pytest.warns(ia.IntarsiaWarning):
            assert ask() == {"sum": sum(kept), "count": len(kept)}
    with pytest.warns(ia.IntarsiaWarning):
        distinct = table.scan(where, on_error="skip").approx_distinct("x")
    assert int(distinct) == pytest.approx(len(kept), rel=0.1)
    assert len(distinct.report.files_failed) == len(bad)
    with pytest.raises((ia.CorruptFileError, FileNotFoundError)):
        table.aggregate({"x": "sum"}, where)


def test_counts_read_only_footers(lake):
    damage_pages_of_second_group(lake / "1.parquet")
    cut(lake / "3.parquet")
    with pytest.warns(ia.IntarsiaWarning, match=r"3\.parquet"):
        assert ia.open(lake).count(on_error="skip") == (NUM_FILES - 1) * PER_FILE


def test_batches_that_precede_the_damage_stay(lake):
    damage_pages_of_second_group(lake / "2.parquet")
    scan = ia.open(lake).scan(columns=["x"], on_error="skip")
    with pytest.warns(ia.IntarsiaWarning):
        found = [x for batch in scan for x in batch["x"].to_pylist()]
    assert found == [*remaining([2, 3, 4]), *values_of(2)[:PER_GROUP], *remaining([0, 1, 2])]
    assert [failed.file for failed in scan.report.files_failed] == [str(lake / "2.parquet")]


def test_a_limit_is_filled_from_the_other_files(lake):
    damage_pages_of_second_group(lake / "0.parquet")
    scan = ia.open(lake).scan("s <> 'text 3'", ["x"], limit=25, on_error="skip")
    with pytest.warns(ia.IntarsiaWarning):
        rows = scan.to_arrow()["x"].to_pylist()
    assert rows == [x for x in remaining([0]) if x % 7 != 3][:25]


def test_files_that_are_not_opened_are_not_checked(lake):
    cut(lake / "4.parquet")
    scan = ia.open(lake).scan("x < 5", limit=5, on_error="skip")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert scan.to_arrow().num_rows == 5
    assert scan.report.files_failed == []


def test_plans_and_explanations_skip_too(lake):
    cut(lake / "0.parquet")
    scan = ia.open(lake).scan("x >= 0", on_error="skip")
    with pytest.warns(ia.IntarsiaWarning):
        splits = scan.plan()
    assert {split.path for split in splits} == {str(lake / f"{place}.parquet") for place in range(1, 5)}
    with pytest.warns(ia.IntarsiaWarning):
        plan = scan.explain()
    assert [failed.code for failed in plan.files_failed] == ["wrong-magic"]
    assert "0.parquet" in str(plan)


def test_if_no_file_can_be_read_there_is_no_schema(lake):
    for path in lake.iterdir():
        cut(path)
    with pytest.raises(ia.CorruptFileError):
        ia.open(lake).scan(on_error="skip")


def test_with_a_lake_index(lake, fault):
    table = ia.open(lake)
    table.build_lake_index("beside")
    fault(lake / "2.parquet")
    with pytest.warns(ia.IntarsiaWarning):
        rows = table.scan("s <> 'text 3'", ["x"], on_error="skip").to_arrow()
    assert rows["x"].to_pylist() == [x for x in remaining([2]) if x % 7 != 3]


def test_errors_that_are_not_of_the_bytes_are_raised(tmp_path):
    pq.write_table(pa.table({"a": [1]}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"a": ["x"]}), tmp_path / "2.parquet")
    with pytest.raises(ia.UnsupportedFeatureError):
        ia.open(tmp_path, schema="first").scan(on_error="skip").to_arrow()


def test_wrong_arguments(lake):
    with pytest.raises(ValueError, match="on_error"):
        ia.open(lake).scan(on_error="ignore")
    with pytest.raises(ValueError, match="order_by"):
        ia.open(lake).scan(limit=3, order_by="x", on_error="skip")
    with pytest.raises(ValueError, match="sample"):
        ia.open(lake).scan(on_error="skip").sample(3)
