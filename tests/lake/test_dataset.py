"""Tables as pyarrow datasets: engines push columns and filters, and get the rows of a full read."""

from __future__ import annotations

import pickle

import datafusion
import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import intarsia as ia
from tests.effort import examples
from tests.lake.index.lakes import write

NAN = float("nan")
NUM_ROWS = 200


def rows_of(day):
    first = day * NUM_ROWS
    numbers = range(first, first + NUM_ROWS)
    return pa.table(
        {
            "user": pa.array(numbers, pa.int64()),
            "amount": [None if n % 7 == 0 else NAN if n % 11 == 0 else n / 4 for n in numbers],
            "name": [None if n % 13 == 0 else f"User {n % 50}" for n in numbers],
            "flag": [None if n % 17 == 0 else n % 3 == 0 for n in numbers],
            "place": [{"x": n % 5, "note": f"n{n}"} for n in numbers],
        }
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lake")
    for day in range(4):
        path = folder / f"day={day}" / "rows.parquet"
        write(path, rows_of(day), [ia.PageIndex()], row_group_size=100, max_rows_per_page=20)
    return folder


@pytest.fixture
def dataset(folder):
    return ia.open(folder).dataset()


@pytest.fixture(scope="module")
def plain(folder):
    """pyarrow's own dataset of the same files."""
    return ds.dataset(folder, partitioning="hive")


def by_duckdb(dataset, columns, where):
    with duckdb.connect() as connection:
        connection.register("lake", dataset)
        return connection.sql(f"SELECT {', '.join(columns)} FROM lake WHERE {where}").to_arrow_table()


def by_datafusion(dataset, columns, where):
    context = datafusion.SessionContext()
    context.register_dataset("lake", dataset)
    try:
        return context.sql(f"SELECT {', '.join(columns)} FROM lake WHERE {where}").to_arrow_table()
    except Exception as error:
        # it passes a scalar for a condition that is never true, which pyarrow's own datasets refuse
        if isinstance(dataset, ds.FileSystemDataset) and "BooleanScalar" in str(error):
            return dataset.schema.empty_table()
        raise


def test_a_condition_of_datafusion_that_is_never_true(folder):
    where = '"user" = 42 AND NOT ("user" <> 7)'
    assert by_datafusion(ia.open(folder).dataset(), ['"user"'], where).num_rows == 0


def by_polars(dataset, columns, where):
    lake = pl.scan_pyarrow_dataset(dataset)
    return lake.filter(pl.sql_expr(where)).select(columns).collect().to_arrow()


ENGINES = [by_duckdb, by_datafusion, by_polars]


def canonical(table):
    """The rows of a table, in any order, with NaN as text."""
    return sorted(map(repr, table.to_pylist()))


# --- the same rows as other datasets -----------------------------------------------------------------------

CONDITIONS = [
    '"user" = 42',
    '"user" IN (3, 250, 251, 999)',
    '"user" NOT IN (3, 250)',
    '"user" BETWEEN 190 AND 210',
    '"user" <> 7',
    '"user" + 1 = 500',
    "amount < 10.5",
    "amount >= 190",
    "amount IS NULL",
    "amount IS NOT NULL",
    "name = 'User 7'",
    "name LIKE 'User 4%'",
    "name > 'User 9'",
    "name IN ('User 1', 'User 2')",
    "lower(name) = 'user 3'",
    "flag",
    "day = 2",
    "day IN (1, 3)",
    "day > 1",
]


def predicates():
    return st.recursive(
        st.sampled_from(CONDITIONS),
        lambda inner: st.one_of(
            st.tuples(inner, st.sampled_from([" AND ", " OR "]), inner).map(lambda t: f"({''.join(t)})"),
            inner.map(lambda text: f"(NOT ({text}))"),
        ),
        max_leaves=6,
    )


@pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: engine.__name__)
@settings(max_examples=examples(80))
@given(where=predicates(), columns=st.sampled_from([["user"], ["name", "amount"], ["day", "flag", "user"]]))
def test_engines_get_the_same_rows_as_from_the_dataset_of_pyarrow(engine, folder, plain, where, columns):
    columns = [f'"{name}"' if name == "user" and engine is not by_polars else name for name in columns]
    found = engine(ia.open(folder).dataset(), columns, where)
    assert canonical(found) == canonical(engine(plain, columns, where))


def expressions():
    user, amount, name = pc.field("user"), pc.field("amount"), pc.field("name")
    leaves = [
        user == 42,
        user.isin([3, 250, 999]),
        user + 1 == 500,
        amount < 10.5,
        amount.is_null(),
        amount.is_nan(),
        amount.cast(pa.int64(), safe=False) == 30,
        pc.starts_with(name, "User 4"),
        pc.utf8_lower(name) == "user 3",
        name.is_valid(),
        pc.field("flag"),
        pc.field("day") == 2,
        pc.field("place", "x") == 3,
        pc.if_else(user.is_valid(), user.isin([1, 2]), pa.scalar(None, pa.bool_())),
        pc.if_else(name.is_valid(), name.isin(["User 1", None]), pa.scalar(None, pa.bool_())),
        pc.if_else(amount > 5, user < 9, name == "User 7"),
    ]
    return st.recursive(
        st.sampled_from(leaves),
        lambda inner: st.one_of(
            st.tuples(inner, inner).map(lambda t: t[0] & t[1]),
            st.tuples(inner, inner).map(lambda t: t[0] | t[1]),
            inner.map(lambda one: ~one),
        ),
        max_leaves=6,
    )


@settings(max_examples=examples(150))
@given(
    where=expressions(),
    columns=st.sampled_from(
        [
            None,
            [],
            ["name"],
            ["day", "place"],
            ["place.x"],
            {"next": pc.field("user") + 1, "d": pc.field("day")},
        ]
    ),
    batch_size=st.sampled_from([None, 1, 7]),
)
def test_reads_by_pyarrow_equal_those_of_its_own_dataset(folder, plain, where, columns, batch_size):
    found = ia.open(folder).dataset()
    expected = plain.to_table(columns=columns, filter=where)
    options = {"columns": columns, "filter": where, "batch_size": batch_size}
    read = found.to_table(**options)
    assert read.schema.equals(expected.schema)
    assert repr(read.to_pylist()) == repr(expected.to_pylist())
    assert read.num_rows == expected.num_rows == found.count_rows(filter=where)
    assert all(0 < batch.num_rows <= (batch_size or NUM_ROWS) for batch in found.to_batches(**options))
    assert repr(found.head(5, **options).to_pylist()) == repr(expected.to_pylist()[:5])
    narrowed = found.filter(where)
    assert repr(narrowed.to_table(columns=columns).to_pylist()) == repr(expected.to_pylist())
    assert pickle.loads(pickle.dumps(narrowed)).count_rows() == expected.num_rows


# --- what is read ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: engine.__name__)
def test_a_filter_that_is_pushed_down_reads_one_page_of_each_column(engine, dataset):
    found = engine(dataset, ["name"], '"user" = 442 AND day = 2')
    assert found.to_pylist() == [{"name": None if 442 % 13 == 0 else "User 42"}]
    report = dataset.last_report
    assert (report.files_opened, report.row_groups_read) == (1, 1)
    assert {name: counts.read for name, counts in report.pages.items()} == {"user": 1, "name": 1}
    assert report.rows_matched == 1


def test_an_in_list_of_duckdb_is_pushed_down(dataset):
    assert by_duckdb(dataset, ["name"], '"user" IN (3, 4)').num_rows == 2
    assert (dataset.last_report.rows_candidate, dataset.last_report.files_read) == (20, 1)


@pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: engine.__name__)
def test_a_condition_that_is_not_pushed_down_is_left_to_the_engine(engine, dataset):
    found = engine(dataset, ["name"], "\"user\" < 100 AND lower(name) = 'user 3'")
    assert found.to_pylist() == [{"name": "User 3"}] * 2
    assert dataset.last_report.rows_matched == 100
    assert dataset.last_report.row_groups_read == 1


def test_a_condition_that_is_not_supported_is_evaluated_on_the_rows_of_the_others(dataset):
    where = (pc.field("user") < 100) & (pc.utf8_title(pc.field("name")) == "User 3")
    assert dataset.to_table(columns=["user"], filter=where).to_pylist() == [{"user": 3}, {"user": 53}]
    assert (dataset.last_report.rows_matched, dataset.last_report.row_groups_read) == (100, 1)


def test_a_supported_filter_does_not_read_its_column_where_it_is_proven(dataset):
    assert dataset.to_table(columns=["user"], filter=pc.field("day") == 1).num_rows == NUM_ROWS
    assert dataset.count_rows(filter=pc.field("user") < 300) == 300
    assert dataset.last_report.row_groups_read == 0


def test_a_replacement_scan_of_duckdb_finds_the_dataset(dataset):
    lake = dataset
    assert duckdb.sql('SELECT count(*) FROM lake WHERE "user" >= 780').fetchall() == [(20,)]
    assert lake.last_report.rows_matched == 20


def test_a_head_stops_early(dataset):
    assert dataset.head(3, columns=["user"]).to_pylist() == [{"user": 0}, {"user": 1}, {"user": 2}]
    assert dataset.last_report.pages["user"].read == 1


# --- the rest of the interface of datasets -----------------------------------------------------------------


def test_partition_columns_have_plain_types(dataset, plain):
    assert dataset.schema.equals(plain.schema)


def test_a_scanner_runs_several_times(dataset):
    scanner = dataset.scanner(columns=["user"], filter=pc.field("user") < 2)
    for _ in range(2):
        assert scanner.to_table().num_rows == scanner.count_rows() == 2
        assert scanner.to_reader().read_all().num_rows == pa.table(scanner).num_rows == 2
    assert scanner.projected_schema == pa.schema({"user": pa.int64()})


def test_other_methods_of_datasets_read_the_rows(dataset, tmp_path):
    ds.write_dataset(dataset, tmp_path / "copy", format="parquet")
    assert ds.dataset(tmp_path / "copy").count_rows() == 4 * NUM_ROWS
    few = dataset.filter(pc.field("user") < 3)
    assert few.sort_by([("user", "descending")]).to_table()["user"].to_pylist() == [2, 1, 0]
    assert few.take([2])["user"].to_pylist() == [2]
    numbers = ds.dataset(pa.table({"user": [1, 2], "number": [10, 20]}))
    assert numbers.join(ds.dataset(few.to_table(columns=["user", "name"])), "user").count_rows() == 2
    assert [fragment.count_rows() for fragment in few.get_fragments()] == [3]


def test_rows_with_views_are_selected_by_number(tmp_path):
    table = pa.table({"x": pa.array(["a", "b", "c"], pa.string_view())})
    pq.write_table(table, tmp_path / "t.parquet")
    assert ia.open(tmp_path).dataset().take(pa.array([2, 0]))["x"].to_pylist() == ["c", "a"]


def test_rows_with_views_are_filtered_by_pyarrow(tmp_path):
    table = pa.table({"x": pa.array(["a", "b", "c"], pa.string_view()), "n": [1, 2, 3]})
    pq.write_table(table, tmp_path / "t.parquet")
    where = (pc.field("n") + 1 > 2) & (pc.field("n") < 3)
    assert ia.open(tmp_path).dataset().to_table(filter=where).to_pylist() == [{"x": "b", "n": 2}]


def test_a_dataset_has_one_schema(dataset):
    with pytest.raises(ia.UnsupportedFeatureError) as caught:
        dataset.replace_schema(pa.schema({"user": pa.int8()}))
    assert caught.value.reason == "replaced-schema"


def test_columns_that_do_not_exist_are_refused_by_pyarrow(dataset):
    with pytest.raises(pa.ArrowInvalid):
        dataset.to_table(columns=["nobody"])
    with pytest.raises(pa.ArrowInvalid):
        dataset.to_table(filter=pc.field("nobody") == 1)


def test_a_dataset_without_a_scan_has_no_report(dataset):
    assert dataset.last_report is None
