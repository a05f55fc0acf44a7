"""Text that is read without sqlglot gives the nodes that sqlglot gives, or is declined."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sqlglot.tokens import Tokenizer

from intarsia.predicate import parse_sql
from intarsia.predicate.sql_simple import read_simple

KEYWORDS = sorted(word for word in Tokenizer.KEYWORDS if re.fullmatch(r"\w+", word))
#: A comment changes nothing, and is always left to sqlglot.
COMMENT = " /* */"

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


def check_same(text):
    found = read_simple(text)
    if found is None:
        return False
    assert read_simple(text + COMMENT) is None
    values = [f"value {ordinal}" if ordinal % 2 else ordinal for ordinal in range(len(found.names))]
    if re.search(r"IN\s*[?:]", text, re.IGNORECASE):
        values = [[value] for value in values]
    if not values:
        parameters = None
    elif None in found.names:
        parameters = values
    else:
        parameters = dict(zip(found.names, values, strict=True))
    outcomes = []
    for one in (text, text + COMMENT):
        try:
            outcomes.append(parse_sql(one, parameters))
        except Exception as error:  # noqa: BLE001  any error has to be the same
            outcomes.append((type(error), getattr(error, "reason", str(error))))
    assert outcomes[0] == outcomes[1], text
    assert repr(outcomes[0]) == repr(outcomes[1])  # 1 equals Decimal("1") and True
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
def test_same_nodes_or_declined(text):
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
def test_simple_text_is_not_declined(text):
    assert check_same(text)


def test_depth_is_limited():
    assert read_simple("(" * 400 + "x = 1" + ")" * 400) is None
    assert read_simple("NOT " * 200 + "x = 1") is None


def test_sqlglot_is_not_loaded():
    program = (
        "import sys; from intarsia.predicate import parse_sql;"
        "print(parse_sql('x = 1 AND y IN (?, ?)', [1, 2]), 'sqlglot' in sys.modules)"
    )
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True).stdout
    assert shown == "x = 1 AND y IN (1, 2) False\n"
