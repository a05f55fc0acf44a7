"""SQL text of any words is read as sqlglot groups it, and in the same way when it is rendered."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
import sqlglot
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.tokens import Tokenizer

from intarsia.errors import PredicateError
from intarsia.predicate import And, Not, Or, parse_sql
from intarsia.predicate.sql_parser import parse_condition

KEYWORDS = sorted(word for word in Tokenizer.KEYWORDS if re.fullmatch(r"\w+", word))

names = st.sampled_from(
    ["x", "a.b", "A.b_1.c", "_", '"a b"', '"a.b"', '"a"."b.c"', "a.`b`", "`x`", "é", "x1", "date", "a.date"]
) | st.sampled_from([*KEYWORDS, *map(str.lower, KEYWORDS), *(f"a.{word}" for word in KEYWORDS)])
literals = st.sampled_from(
    [
        *("0", "7", "-7", "007", "1.50", "-0.0", "1e5", ".5", "5.", "1_000", "- 3", "+4", "9" * 40, "9" * 41),
        *("'a'", "''", "'it''s'", "'\\'", "'a\nb'", "'a' 'b'", "x'0a'", "n'a'", "'ö'", "'''"),
        *("TRUE", "false", "NULL", "null", "?", ":p", ":date", ": p", "??", "?1", "5::int", "'a'::text"),
        *("DATE '2024-02-29'", "date'2024-01-01'", "DATE '2024-02-30'", "TIMESTAMP '2024-01-01 10:00:00'"),
        *(
            "TIMESTAMP '2024-01-01T10:00:00.123456789Z'",
            "TIME '10:00:00'",
            "TIME '1'",
            "DATE ?",
            "INTERVAL '1' DAY",
        ),
        *("timestamp '1'", "CAST(1 AS INT)", "(1)", "x", "1 + 1"),
    ]
)
operators = st.sampled_from(
    ["=", "==", "<>", "!=", "<", "<=", ">", ">=", "<=>", "=>", "=<", "~", "<-", "IS", "LIKE"]
)
spaces = st.sampled_from([" ", "", "\n", "  ", "\t", "\u00a0"])
nots = st.sampled_from(["", "", " NOT", " not "])


def joined(*parts):
    """Texts of these parts, with any space between them."""
    return st.builds(
        lambda *all_parts: "".join(all_parts), *(one for part in parts for one in (part, spaces))
    )


conditions = st.one_of(
    joined(names, operators, literals),
    joined(literals, operators, names),
    joined(
        names, nots, st.just(" IN "), st.lists(literals, max_size=4).map(lambda items: f"({','.join(items)})")
    ),
    joined(names, nots, st.sampled_from([" in ", " IN"]), st.sampled_from(["?", ":p", "(?, ?)", "?, ?"])),
    joined(names, nots, st.just(" BETWEEN "), literals, st.just(" AND "), literals),
    joined(names, st.just(" IS "), nots, st.just(" NULL")),
)
texts = st.recursive(
    conditions,
    lambda inner: st.one_of(
        joined(inner, st.sampled_from([" AND ", " or ", "AND", " OR ", " XOR ", ""]), inner),
        joined(st.sampled_from(["NOT ", "NOT", "not not ", "("]), inner),
        joined(st.just("("), inner, st.just(")")),
        joined(st.just("NOT ("), inner, st.just(")")),
    ),
    max_leaves=6,
)


def outcome(text):
    """The nodes of a text with a value for each parameter; the reason if it is refused."""
    try:
        names = parse_condition(text).names
        values = [f"value {ordinal}" if ordinal % 2 else ordinal for ordinal in range(len(names))]
        if re.search(r"IN\s*[?:]", text, re.IGNORECASE):
            values = [[value] for value in values]
        by_name = dict(zip(names, values, strict=True))
        return parse_sql(text, values if None in names else by_name if names else None)
    except PredicateError as error:
        return error.reason


def grouped(text):
    """The same text with a parenthesis around each operation, as sqlglot reads it; None if it cannot."""
    try:
        tree = sqlglot.parse_one(text, into=exp.Condition)
    except SqlglotError:
        return None
    return tree.transform(
        lambda node: exp.Paren(this=node) if type(node) in (exp.And, exp.Or) else node
    ).sql()


def flat(node):
    """The nodes without parentheses around operands of the same operator."""
    if isinstance(node, Not):
        return Not(flat(node.child))
    if not isinstance(node, (And, Or)):
        return node
    children = [flat(child) for child in node.children]
    return type(node)(
        tuple(
            inner
            for child in children
            for inner in (child.children if type(child) is type(node) else (child,))
        )
    )


def check_same(text):
    """Check a text; return whether it is a condition."""
    found = outcome(text)
    assert outcome(f"{text} /* a comment */") in (found, "syntax-error")
    if isinstance(found, str):
        return False
    assert str(parse_sql(str(found))) == str(found)
    with_parentheses = grouped(text)
    if with_parentheses is not None and "`" not in text:
        again = outcome(with_parentheses)
        assert isinstance(again, str) or str(flat(again)) == str(flat(found)), with_parentheses
    return True


@settings(max_examples=600)
@given(texts)
@example("NOT x NOT IN (1, 2)")
@example("NOT NOT x IN (1)")
@example("NOT x IS NOT NULL")
@example("NOT (x IN (1))")
@example("NOT x BETWEEN 1 AND 2 AND y = 1")
@example("x = 1 AND (y = 2 AND z = 3) AND w BETWEEN 1 AND 2")
@example("x<-5 AND y=-5")
def test_conditions(text):
    check_same(text)


@settings(max_examples=400)
@given(
    st.lists(
        names | literals | operators | st.sampled_from(list("(),;?:-+*'\"`.") + ["AND", "OR", "NOT", "IN"])
    )
)
def test_any_words(words):
    check_same(" ".join(words))
    check_same("".join(words))


@pytest.mark.parametrize("word", KEYWORDS)
def test_keywords_as_names(word):
    for text in (
        f"{word} = 1",
        f"a.{word} = 1",
        f"{word} IN (1, 2)",
        f"{word} IS NULL",
        f"x = {word}",
        f"x = :{word}",
        f"({word} = 1 OR {word} IS NULL)",
        f"NOT (1 < {word}.a)",
    ):
        check_same(text)
        check_same(text.lower())


@pytest.mark.parametrize(
    "text",
    [
        "id = 777",
        "5 < x AND y <> 'it''s'",
        "a.b IN (1, 2, 3) OR NOT c IS NULL",
        "day BETWEEN DATE '2024-01-01' AND DATE '2024-02-29'",
        '"a.b" >= -1.50 AND `c d` NOT IN (?, ?)',
        "x IN ? AND y != NULL AND z = TRUE",
        "ts = TIMESTAMP '2024-01-01 10:00:00'",
    ],
)
def test_plain_conditions(text):
    assert check_same(text)


def test_sqlglot_is_not_loaded():
    program = (
        "import sys; from intarsia.predicate import parse_sql;"
        "print(parse_sql('lower(x) LIKE ? AND y IN (?, ?)', ['a', 1, 2]), 'sqlglot' in sys.modules)"
    )
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True).stdout
    assert shown == "lower(x) LIKE 'a' AND y IN (1, 2) False\n"
