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
        conditions: Pairs of a condition and a function that decides whether a row matches.
        key: A column of unique numbers, which may be null.
    """
    for where, matches in [(None, lambda row: True), *conditions]:
        rows = ordered(row for row in expected if matches(row))
        found = table.scan(where).to_arrow()
        assert ordered(found.to_pylist()) == rows, where
        assert found.schema == table.schema
        assert table.count(where) == len(rows), where
        values = sorted(row[key] for row in rows if row[key] is not None)
        totals = table.aggregate({key: ["min", "max", "sum", "count"]}, where)
        assert totals[key] == {
            "min": min(values, default=None),
            "max": max(values, default=None),
            "sum": sum(values) if values else None,
            "count": len(values),
        }, where
        assert table.locate(where).num_rows == len(rows), where
        splits = pickle.loads(pickle.dumps(table.plan(where)))
        assert ordered(row for split in splits for row in split.to_arrow().to_pylist()) == rows, where
        first = table.scan(where, [key], order_by=f"{key} DESC", limit=3).to_arrow()
        assert [one for one in first[key].to_pylist() if one is not None] == values[::-1][:3], where
        assert table.scan(where, limit=2).to_arrow().num_rows == min(2, len(rows)), where
        assert int(table.approx_distinct(key, where)) == len(set(values)), where
        assert table.count_distinct(key, where) == len(set(values)), where
        counts = table.value_counts(key, where)
        assert sum(counts["count"].to_pylist()) == len(rows), where
        explained = table.explain(where)
        assert explained.rows_candidate >= len(rows)
    whole = table.scan().to_arrow()
    for name in table.schema.names:
        assert table.scan(columns=[name]).to_arrow()[name] == whole[name]
    assert ordered(table.sample(len(expected) + 5).to_pylist()) == ordered(expected)
    assert ordered(pickle.loads(pickle.dumps(table.dataset())).to_table().to_pylist()) == ordered(expected)
