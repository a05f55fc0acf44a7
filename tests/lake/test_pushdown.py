"""Random filters through engines: the rows that they find in the same table without Intarsia."""

from __future__ import annotations

import operator

import datafusion
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import intarsia as ia
from tests.effort import examples
from tests.predicate.strategies import TYPES, literals, make_array, values

NAN = float("nan")
NUM_ROWS = 24
OPS = (operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge)


def written(path, column):
    """Write a column of NUM_ROWS values as ``x`` and as a field of ``s``, with their ordinals as ``n``.

    Returns:
        The rows as a dataset in memory: that of a file excludes NaN and zeros by bounds that do not include
        them.
    """
    ordinals = pa.array(range(NUM_ROWS))
    nested = pa.StructArray.from_arrays([column, ordinals], ["x", "n"])
    table = pa.table({"n": ordinals, "x": column, "s": nested})
    # pyarrow 26 does not write views in several row groups
    rows = NUM_ROWS if column.type in (pa.string_view(), pa.binary_view()) else 7
    pq.write_table(table, path, row_group_size=rows, write_page_index=True)
    return ds.dataset(pq.read_table(path))


# --- pyarrow -----------------------------------------------------------------------------------------------


@st.composite
def columns(draw):
    data_type = draw(st.sampled_from([one for one in TYPES if not pa.types.is_dictionary(one)]))
    items = draw(st.lists(st.none() | values(data_type), min_size=NUM_ROWS, max_size=NUM_ROWS))
    return make_array(data_type, items)


@st.composite
def expressions(draw, column):
    """Filters with literals that are values of the column, or that can be compared with them."""
    field = draw(st.sampled_from([pc.field("x"), pc.field("s", "x")]))
    own = st.integers(0, NUM_ROWS - 1).map(lambda row: column[row])
    kind = draw(st.sampled_from(["comparison", "range", "list", "odd comparison", "odd list"]))
    if kind == "comparison":
        found = draw(st.sampled_from(OPS))(field, draw(own))
    elif kind == "range":
        found = (field >= draw(own)) & (field <= draw(own))
    elif kind == "odd comparison":
        found = draw(st.sampled_from(OPS))(field, draw(literals(column.type)))
    else:
        odd = st.lists(st.none() | literals(column.type), max_size=4)
        listed = draw(odd) if kind == "odd list" else draw(st.lists(own, min_size=1, max_size=4))
        options = pc.SetLookupOptions(pa.array(listed), skip_nulls=draw(st.booleans()))
        found = pc.is_in(field, options=options)
        if draw(st.booleans()):
            found = pc.if_else(field.is_valid(), found, pa.scalar(None, pa.bool_()))
    if draw(st.booleans()):
        found = ~found
    other = pc.field("n") < draw(st.integers(0, NUM_ROWS))
    return draw(st.sampled_from([found, found & other, found | other]))


@settings(max_examples=examples(300, deep=3_000))
@given(data=st.data())
def test_filters_find_the_rows_of_the_dataset_of_pyarrow(tmp_path_factory, data):
    column = data.draw(columns())
    path = tmp_path_factory.mktemp("pushdown") / "t.parquet"
    try:
        plain = written(path, column)
    except pa.ArrowException:  # a timestamp that the file cannot contain
        return
    for _ in range(3):
        try:
            where = data.draw(expressions(column))
            expected = plain.to_table(filter=where, columns=["n"])
        except (pa.ArrowException, OverflowError, TypeError):  # pyarrow has no such literal or comparison
            continue
        found = ia.open(path).dataset()
        assert found.to_table(filter=where, columns=["n"]).equals(expected), where
        assert found.count_rows(filter=where) == expected.num_rows


ZEROS = [0.0, -0.0, 1.0, 2.0, NAN, 5.0, 7.0, None]


@pytest.fixture
def zeros(tmp_path):
    path = tmp_path / "zeros.parquet"
    pq.write_table(pa.table({"n": range(len(ZEROS)), "x": ZEROS}), path, row_group_size=2)
    return path


@pytest.mark.parametrize("listed", [[0.0, 5.0], [-0.0, 5.0], [0, 5], [NAN, 5.0], [0.0, None]], ids=str)
@pytest.mark.parametrize("negated", [False, True])
def test_a_list_with_a_zero_has_the_meaning_of_pyarrow(zeros, listed, negated):
    where = pc.field("x").isin(listed)
    where = ~where if negated else where
    found = ia.open(zeros).dataset().to_table(filter=where)
    assert found["n"].to_pylist() == pq.read_table(zeros).filter(where)["n"].to_pylist()


@pytest.mark.parametrize("listed", [[0.1, 2.0], [1e300, 2.0]], ids=str)
def test_a_list_is_rounded_as_pyarrow_rounds_it(tmp_path, listed):
    column = pa.array([0.1, float("inf"), 2.0, None], pa.float32())
    pq.write_table(pa.table({"x": column}), tmp_path / "t.parquet")
    where = pc.field("x").isin(listed)
    found = ia.open(tmp_path).dataset().to_table(filter=where)
    assert found.num_rows == pq.read_table(tmp_path).filter(where).num_rows == 2


def test_a_list_with_a_zero_still_skips(zeros):
    dataset = ia.open(zeros).dataset()
    assert dataset.to_table(filter=pc.field("x").isin([0.0, -3.0]))["n"].to_pylist() == [0]
    assert dataset.last_report.row_groups_read == 1
    assert dataset.to_table(filter=pc.field("n").isin([0, 5]), columns=["x"]).num_rows == 2
    assert dataset.last_report.rows_matched == 2  # integers are complete: pyarrow does not see them again


@pytest.mark.parametrize("negated", ["", "NOT "])
def test_a_list_of_datafusion_has_its_own_result(zeros, negated):
    # shorter lists are rewritten with =; NOT IN is passed as a filter that is TRUE for null
    where = f"x IS NOT NULL AND x {negated}IN (1.0, 2.0, 3.0, 4.0, 5.0, 0.0)"
    context = datafusion.SessionContext()
    context.register_dataset("lake", ia.open(zeros).dataset())
    context.register_record_batches("rows", [pq.read_table(zeros).to_batches()])
    found, expected = (context.sql(f"SELECT n FROM {name} WHERE {where}") for name in ("lake", "rows"))
    assert found.to_arrow_table().equals(expected.to_arrow_table())


def test_dates_after_the_year_9999(tmp_path):
    column = pa.array([-(2**31), 0, 2**31 - 1, None], pa.int32()).view(pa.date32())
    pq.write_table(pa.table({"x": column}), tmp_path / "t.parquet")
    for where in (pc.field("x") == column[2], pc.field("x").isin(column[::2]), pc.field("x") > column[0]):
        found = ia.open(tmp_path).dataset().to_table(filter=where)
        assert found.equals(pa.table({"x": column}).filter(where))
