"""Compare all kinds of answers of a table with the rows that another reader found in it."""

from __future__ import annotations

import pickle


def ordered(rows):
    """Return rows in an order that does not depend on files."""
    return sorted(rows, key=repr)


def assert_answers(table, expected, conditions, key="id"):
    """Compare rows, counts, aggregates, places, splits, samples and first rows for several conditions.

    Args:
        table: The table.
        expected: All of its rows, as Python objects.
        conditions: Pairs of a condition and a function that decides whether a row matches. The first one is
            tested with all kinds of answers.
        key: A column of unique numbers, which may be null.
    """
    assert ordered(table.sample(len(expected) + 5).to_pylist()) == ordered(expected)
    assert ordered(pickle.loads(pickle.dumps(table.dataset())).to_table().to_pylist()) == ordered(expected)
    _assert_all_kinds(table, expected, None, key)
    whole = table.scan().to_arrow()
    for name in table.schema.names:
        assert table.scan(columns=[name]).to_arrow()[name] == whole[name]
    for place, (where, matches) in enumerate(conditions):
        rows = [row for row in expected if matches(row)]
        if place == 0:
            _assert_all_kinds(table, rows, where, key)
        else:
            _assert_rows(table, rows, where, key)


def _assert_rows(table, rows, where, key):
    """Compare rows, counts, aggregates and places."""
    found = table.scan(where).to_arrow()
    assert ordered(found.to_pylist()) == ordered(rows), where
    assert found.schema == table.schema
    assert table.count(where) == len(rows), where
    values = [row[key] for row in rows if row[key] is not None]
    totals = table.aggregate({key: ["min", "max", "sum", "count"]}, where)
    assert totals[key] == {
        "min": min(values, default=None),
        "max": max(values, default=None),
        "sum": sum(values) if values else None,
        "count": len(values),
    }, where
    assert table.locate(where).num_rows == len(rows), where


def _assert_all_kinds(table, rows, where, key):
    _assert_rows(table, rows, where, key)
    values = sorted(row[key] for row in rows if row[key] is not None)
    splits = pickle.loads(pickle.dumps(table.plan(where)))
    assert ordered(row for split in splits for row in split.to_arrow().to_pylist()) == ordered(rows), where
    first = table.scan(where, [key], order_by=f"{key} DESC", limit=3).to_arrow()
    assert [one for one in first[key].to_pylist() if one is not None] == values[::-1][:3], where
    assert table.scan(where, limit=2).to_arrow().num_rows == min(2, len(rows)), where
    assert int(table.approx_distinct(key, where)) == len(set(values)), where
    assert table.count_distinct(key, where) == len(set(values)), where
    assert sum(table.value_counts(key, where)["count"].to_pylist()) == len(rows), where
    assert table.explain(where).rows_candidate >= len(rows)
