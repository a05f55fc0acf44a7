"""Files of queries."""

import pytest

from intarsia.advice.queries import parse_queries, read_queries
from intarsia.errors import PredicateError


def parsed(text):
    return [(str(query), query.columns) for query in parse_queries(text)]


def test_one_predicate_per_line():
    assert parsed("a = 1\n\n  b > 2 -- comment\n-- c = 3\r\nd IS NULL") == [
        ("a = 1", None),
        ("b > 2", None),
        ("d IS NULL", None),
    ]


def test_semicolons_end_queries_that_span_lines():
    text = "a = 1\n  AND b = ';' /* x; y */;\nselect d\nfrom t\nwhere c = '--'\n;\n"
    assert parsed(text) == [("a = 1 AND b = ';'", None), ("c = '--'", ("d",))]


@pytest.mark.parametrize("text", ["", "\n\n", ";;", "-- only\n/* comments */", "/* open"])
def test_no_queries(text):
    assert parsed(text) == []


@pytest.mark.parametrize(
    ("statement", "predicate", "columns"),
    [
        ("SELECT * FROM t WHERE a = 1", "a = 1", None),
        (
            "select t.b, sum(c) as s from t where t.a = 1 group by b having s > 3 order by d",
            "a = 1",
            ("b", "c", "d"),
        ),
        ("SELECT count(*) FROM lake.t AS x WHERE x.a LIKE '%y%' LIMIT 3", "a LIKE '%y%'", ()),
        ('SELECT "a b" FROM t', "all rows", ("a b",)),
        ("SELECT s.x FROM t WHERE s.y = 1", "s.y = 1", ("s.x",)),
        ("SELECT t.* FROM t", "all rows", None),
        ("FROM t WHERE x = 1", "x = 1", None),
        ("SELECT DISTINCT a FROM db.t x WHERE x.b = 2 AND t.c = 1", "b = 2 AND c = 1", ("a",)),
    ],
)
def test_statements(statement, predicate, columns):
    assert parsed(statement) == [(predicate, columns)]


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("SELECT a FROM t JOIN u ON t.a = u.a", "unsupported-statement"),
        ("SELECT a FROM t, u", "unsupported-statement"),
        ("SELECT a FROM (SELECT a FROM t)", "unsupported-statement"),
        ("SELECT a FROM t WHERE b IN (SELECT c FROM u)", "unsupported-statement"),
        ("SELECT 1", "unsupported-statement"),
        ("SELECT a FROM t UNION SELECT a FROM u", "unsupported-statement"),
        ("SELECT a FROM t WHERE a = b", "two-columns"),
        ("a ==== 1", "syntax-error"),
        ("a = 'open", "syntax-error"),
        ("SELECT FROM WHERE", "syntax-error"),
    ],
)
def test_errors_name_the_line(statement, reason, tmp_path):
    path = tmp_path / "queries.sql"
    path.write_text(f"x = 1;\n\n-- comment\n{statement};\n", encoding="utf-8")
    with pytest.raises(PredicateError) as caught:
        read_queries(path)
    error = caught.value
    assert (error.reason, error.path) == (reason, str(path))
    assert path.read_text().count("\n", 0, error.position) == 3
    assert str(error).startswith(f"{path}, line 4: ")


def test_other_files(tmp_path):
    path = tmp_path / "queries.sql"
    path.write_bytes(b"a = '\xff'")
    with pytest.raises(PredicateError) as caught:
        read_queries(path)
    assert (caught.value.reason, caught.value.path) == ("not-utf-8", str(path))
    path.write_bytes("a = 'ü'".encode("utf-8-sig"))
    assert [str(query) for query in read_queries(path)] == ["a = 'ü'"]
    with pytest.raises(PredicateError) as long:
        parse_queries(" " * 5_000_000)
    assert long.value.reason == "too-many-queries"
