"""`sorting_columns` that the rows contradict."""

from decimal import Decimal
from itertools import pairwise

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from intarsia.check.verification import verify
from intarsia.check.verification.pages import steps
from intarsia.format import thrift
from tests.effort import examples
from tests.verify.damage import Damage
from tests.verify.found import found, numbers, only

NAN = float("nan")


def write(path, columns, *order, **options):
    """A file that declares that it is sorted by ``(column, descending, nulls first)``."""
    table = columns if isinstance(columns, pa.Table) else pa.table(columns)
    sorting = [pq.SortingColumn(*claim) for claim in order]
    pq.write_table(table, path, sorting_columns=sorting, **options)
    return str(path)


@pytest.mark.parametrize(
    ("values", "claim"),
    [
        ([1, 2, 2, 3], (False, False)),
        ([3, 2, 2, 1], (True, False)),
        ([None, None, 1, 2], (False, True)),
        ([1, 2, None, None], (False, False)),
        ([None, 2, 1], (True, True)),
        (["a", "\uffff", "\U00010000"], (False, False)),
        ([b"\x01", b"\x80", b"\xff"], (False, False)),
        ([Decimal("-1.5"), Decimal("0.0"), Decimal("2.5")], (False, False)),
        ([False, True, None], (False, False)),
        ([-0.0, 0.0, -0.0, 1.0, NAN], (False, False)),
        ([NAN, -1.0, 0.0, NAN], (False, False)),
        ([5], (True, True)),
        ([], (False, False)),
    ],
)  # fmt: skip
def test_true_claims(tmp_path, values, claim):
    path = write(tmp_path / "good.parquet", {"id": values}, (0, *claim))
    assert found(path) == []


@pytest.mark.parametrize(
    ("values", "claim", "rows"),
    [
        ([1, 3, 2, 4], (False, False), (2, 1)),
        ([1, 2, 3], (True, False), (1, 0)),
        ([None, 1, 2], (False, False), (1, 0)),
        ([1, 2, None], (False, True), (2, 1)),
        (["b", None, "a"], (False, True), (1, 0)),
        ([b"\x80", b"\x01"], (False, False), (1, 0)),
        ([Decimal("0.5"), Decimal("-0.5")], (False, False), (1, 0)),
        ([True, False], (False, False), (1, 0)),
        ([1.0, -1.0], (False, False), (1, 0)),
    ],
)
def test_rows_out_of_order(tmp_path, values, claim, rows):
    path = write(tmp_path / "bad.parquet", {"id": values}, (0, *claim))
    message = only(path, "rows-not-sorted", index="sorting_columns")
    assert numbers(message)[:2] == list(rows)


def test_each_row_group_by_itself(tmp_path):
    path = write(tmp_path / "groups.parquet", {"id": [1, 2, 1, 2, 2, 1]}, (0,), row_group_size=2)
    only(path, "rows-not-sorted", index="sorting_columns", row_group=2)


def test_ties_are_broken_by_the_next_column(tmp_path):
    columns = {"a": [1, 1, 2, 2], "b": [1, 2, 1, 2]}
    path = write(tmp_path / "two.parquet", columns, (0,), (1,))
    assert found(path) == []
    path = write(tmp_path / "bad.parquet", {**columns, "b": [1, 2, 2, 1]}, (0,), (1,))
    message = only(path, "rows-not-sorted", index="sorting_columns", column="b")
    assert numbers(message)[:2] == [3, 2]


def test_fields_of_structs(tmp_path):
    fields = [{"x": 1}, None, {"x": None}]
    path = write(tmp_path / "struct.parquet", {"s": fields}, (0, False, False))
    assert found(path) == []
    path = write(tmp_path / "bad.parquet", {"s": fields}, (0, False, True))
    only(path, "rows-not-sorted", index="sorting_columns", column="s.x")


def test_columns_without_order_are_not_judged(tmp_path):
    path = write(tmp_path / "list.parquet", {"l": [[2], [1]]}, (0,))
    only(path, "unchecked", index="sorting_columns", column="l.list.element", severity="note")


def test_a_column_that_is_not_there(tmp_path):
    path = write(tmp_path / "bad.parquet", {"id": [1, 2]}, (0,))
    damage = Damage(path)
    damage.row_group().get(4).items[0].set(1, thrift.I32, 7)
    damage.write()
    only(path, "sorting-column", index="sorting_columns", column=None)


def test_every_type(tmp_path, table):
    """Rows that are sorted by Arrow are found sorted, and reversed rows are not."""
    for ordinal, name in enumerate(("id", "n", "u64", "u8", "word", "long", "raw", "fixed", "price", "huge")):
        rows = table.select([name]).sort_by(name)
        path = write(tmp_path / f"{ordinal}.parquet", rows, (0, False, False))
        assert found(path) == []
        assert verify(path).checked["sorting_orders"] == 1
        path = write(tmp_path / f"{ordinal}.parquet", rows.take(list(range(len(rows)))[::-1]), (0,))
        assert {finding.rule for finding in found(path)} == {"rows-not-sorted"}


@settings(max_examples=examples(100))
@given(
    st.sampled_from([(pa.int64(), st.integers(-3, 3)), (pa.string(), st.text("ab\u00e9", max_size=2)),
                     (pa.float64(), st.sampled_from([-1.5, 0.0, 2.0]))])
    .flatmap(lambda kind: st.tuples(st.just(kind[0]), st.lists(st.none() | kind[1], max_size=12))),
    st.booleans(),
    st.booleans(),
)  # fmt: skip
def test_steps_between_two_rows(typed, descending, nulls_first):
    kind, values = typed

    def is_before(one, other):
        if None in (one, other):
            return (one is None) == nulls_first
        return one > other if descending else one < other

    pairs = list(pairwise(values))
    expected = [0 if one == other else 1 if is_before(one, other) else -1 for one, other in pairs]
    found = steps(pa.array(values, kind), descending=descending, nulls_first=nulls_first)
    assert found.tolist() == expected
