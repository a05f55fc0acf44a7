"""Page maps of enabled queries on folders."""

from __future__ import annotations

import pytest

import intarsia as ia
import intarsia.spark as ias
from intarsia.errors import IntarsiaError
from intarsia.picture.facts import EXCLUDED, READ
from tests.lake.index.lakes import age
from tests.spark.comparing import settings
from tests.spark.mapping import assert_files, assert_pages, check_map, matching_rows
from tests.spark.skipping import FILES, ROWS, SWITCH, code_of, make_lake, scans, user_of

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    return str(make_lake(tmp_path_factory.mktemp("mapping") / "lake"))


@pytest.mark.parametrize(
    "where",
    [
        f"user = {user_of(3, 77)}",
        "id BETWEEN 650 AND 655",
        "country = 'country 11' AND amount > 31",
        f"code IN ('{code_of(2, 101)}', '{code_of(6, 3)}')",
    ],
)
def test_maps(enabled, lake, where):
    found = check_map(enabled, f"SELECT id, country FROM parquet.`{lake}` WHERE {where}")
    truth = matching_rows(enabled, enabled.read.parquet(lake).where(where))
    assert truth
    assert_files(found, truth)
    assert_pages(found, truth)
    assert {lane.name for lane in found.files[0].lanes if lane.role == "result"} <= {"id", "country"}
    assert found.files[0].path.startswith("part-")


def test_files_are_those_of_the_scan(enabled, lake):
    frame = enabled.read.parquet(lake).where("id < 300").select("url")
    frame.collect()
    ((num_files, _),) = scans(frame)
    found = ias.map(frame).facts
    assert sum(state < EXCLUDED for state in found.lake.state) == num_files == 2
    file = next(file for file in found.files if file.path == "part-0.parquet")
    assert file.num_read == sum(b - a for a, b in zip(file.reads[::2], file.reads[1::2], strict=True))
    by_name = {lane.name: lane for lane in file.lanes}
    assert by_name["url"].by_state[READ] == by_name["url"].num_pages == ROWS // 20
    seen = ia.inspect(f"{lake}/part-0.parquet", pages=True)
    pages = {
        page.offset
        for group in seen.row_groups
        for chunk in group.columns
        if chunk.column == "url"
        for page in chunk.pages
    }
    assert pages == set(by_name["url"].cells.offset)


def test_a_session_that_is_not_enabled(spark, lake):
    with settings(spark, {SWITCH: "false"}):
        frame = spark.read.parquet(lake).where(f"user = {user_of(3, 77)}")
        found = ias.map(frame)
        assert spark.conf.get(SWITCH) == "false"
    assert found.facts.lake.state.count(EXCLUDED) >= FILES - 2  # a Bloom filter may be wrong
    assert "to read from lake" in found.summary
    assert "in 0 requests" not in found.html()


def test_several_scans(enabled, lake):
    whole = enabled.read.parquet(lake)
    joined = whole.where("id < 300").alias("a").join(whole.where("amount > 71").alias("b"), "user")
    assert "id" in ias.map(joined, 0).facts.where
    assert "amount" in ias.map(joined, 1).facts.where
    for scan in (2, -1):
        with pytest.raises(IndexError, match="2 planned scans"):
            ias.map(joined, scan)


def test_what_cannot_be_drawn(enabled, lake):
    whole = enabled.read.parquet(lake)
    for frame in (enabled.range(3), whole, whole.where("rand() < 2")):
        for run in (False, True):
            with pytest.raises(IntarsiaError) as caught:
                ias.map(frame, run=run)
            assert caught.value.reason == "nothing-planned"


def test_new_files_are_read_as_a_whole(enabled, lake, tmp_path):
    folder = make_lake(tmp_path / "lake")
    (folder / "part-0.parquet").touch()
    frame = enabled.read.parquet(str(folder)).where("id = 1500")
    found = ias.map(frame).facts
    assert "1 file that changed or are new" in found.result
    assert len(found.lake.state) == FILES - 1
    age(folder / "part-0.parquet")


def test_keys_of_a_join_and_values_of_a_subquery(enabled, lake):
    """The plan of a run has what Spark learns, and excludes no row of the result."""
    whole = enabled.read.parquet(lake)
    few = enabled.createDataFrame([(user_of(3, 77),), (user_of(5, 12),)], "key int")
    joined = whole.join(few.hint("broadcast"), whole.user == few.key).where("id >= 0")
    enabled.read.parquet(lake).createOrReplaceTempView("mapped")
    limit = "SELECT min(id) + 20 FROM mapped WHERE amount < 5"
    query = enabled.sql(f"SELECT id FROM mapped WHERE id < ({limit})")
    for frame, truth in (
        (joined, whole.where(f"user IN ({user_of(3, 77)}, {user_of(5, 12)})")),
        (query, whole.where(f"id < {enabled.sql(limit).first()[0]}")),
    ):
        frame.collect()
        before = ias.last_skips(enabled)
        planned, found = ias.map(frame).facts, ias.map(frame, run=True).facts
        assert before == ias.last_skips(enabled)
        rows = matching_rows(enabled, truth)
        assert rows
        assert_files(found, rows)
        assert_pages(found, rows)
        assert found.num_read < planned.num_read
        assert found.title == planned.title == "lake"
    enabled.catalog.dropTempView("mapped")
