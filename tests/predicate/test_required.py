"""Every matching value contains the required texts, for every pattern, as judged by RE2."""

from __future__ import annotations

import sys

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from intarsia.predicate import (
    Like,
    RegexpLike,
    bind,
    conditions,
    evaluate,
    fold_case,
    ignores_case,
    parse_sql,
    required_texts,
)
from intarsia.predicate.pattern import fold_text, skeleton_of
from tests.effort import examples
from tests.predicate import strategies

SCHEMA = pa.schema({"s": pa.string()})

PIECES = [
    *"abkKsé1.-*+?|()[]{}^$\\,:i",
    *("(?i)", "(?i:", "(?-i)", "(?m)", "(?:", "(?P<n>", "\\Q", "\\E", "{0}", "{1}", "{2,}", "{0,2}"),
    *(
        "{01}",
        "{1,01}",
        "[ab]",
        "[^a]",
        "[k]",
        "[[:alpha:]]",
        "\\b",
        "\\d",
        "\\.",
        "\\x41",
        "\\pL",
        "\\n",
        "\n",
    ),
    *("*?", "\\A", "\\z"),
]
TEXTS = st.lists(
    st.text("abkKsSéÉ1.-\n\u212a\u017fA{},0:i", max_size=8) | st.text("abk", max_size=4),
    min_size=20,
    max_size=40,
)


def found(regex, texts, *, ignore_case=False):
    """Return one boolean per text, whether RE2 finds the regex, or None if the regex is not valid."""
    try:
        return pc.match_substring_regex(pa.array(texts), regex, ignore_case=ignore_case).to_pylist()
    except pa.ArrowInvalid:
        return None


def check_skeleton(skeleton, texts, hits):
    for text, hit in zip(texts, hits, strict=True):
        value = fold_text(text) if skeleton.ignores_case else text
        if hit:
            assert all(required in value for required in skeleton.texts), text
            assert text.startswith(skeleton.prefix), text
        if skeleton.is_prefix:
            assert hit == text.startswith(skeleton.prefix), text


@settings(max_examples=examples(800), deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=9).map("".join), TEXTS, st.booleans())
def test_every_re2_match_contains_the_texts(regex, texts, ignore_case):
    hits = found(regex, texts, ignore_case=ignore_case)
    if hits is not None:
        check_skeleton(skeleton_of(regex, ignore_case=ignore_case), texts, hits)


# A grammar draws the text along with the regex, so that most regexes are valid and match.
ATOMS = st.sampled_from(
    [
        *(
            ("a", "a"),
            ("k", "k"),
            (r"\.", "."),
            ("é", "é"),
            ("[b]", "b"),
            ("[ab]", "b"),
            (".", "x"),
            (r"\Qa*b\E", "a*b"),
        ),
        *(
            (r"\x6b", "k"),
            (r"\d", "7"),
            (r"\b", ""),
            ("()", ""),
            ("(?i)k", "\u212a"),
            ("(?i:sa)", "\u017fA"),
            ("{", "{"),
        ),
    ]
)
QUANTIFIERS = st.sampled_from(
    [
        ("", 1),
        ("", 1),
        ("", 1),
        ("*", 0),
        ("*", 2),
        ("?", 0),
        ("+", 1),
        ("+", 3),
        ("{2}", 2),
        ("{0,1}", 0),
        ("{1,}?", 2),
    ]
)


def _quantified(pair):
    (regex, text), (sign, times) = pair
    return (f"(?:{regex}){sign}", text * times)


def _joined(pairs):
    return "".join(regex for regex, _ in pairs), "".join(text for _, text in pairs)


GRAMMAR = st.recursive(
    ATOMS,
    lambda inner: (
        st.tuples(inner, QUANTIFIERS).map(_quantified)
        | st.lists(inner, min_size=1, max_size=4).map(_joined)
        | st.tuples(inner, inner).map(lambda pair: (f"({pair[0][0]}|{pair[1][0]})", pair[0][1]))
        | inner.map(lambda pair: (f"({pair[0]})", pair[1]))
    ),
    max_leaves=8,
)


@settings(max_examples=examples(600), deadline=None)
@given(GRAMMAR, st.sampled_from(["", "a", "xb"]), st.booleans())
def test_texts_along_with_their_regex(pair, around, anchored):
    regex, text = pair
    regex, text = (f"^{regex}", text + around) if anchored else (regex, around + text + around)
    hits = found(regex, [text])
    if hits is not None:
        check_skeleton(skeleton_of(regex), [text], hits)


@pytest.mark.parametrize(
    ("regex", "texts"),
    {
        "error": ("error",),
        "": (),
        r"GET /api/\w+\.json$": ("GET /api/", ".json"),
        "cat|dog": (),
        "x(cat|dog)y": ("x", "y"),
        "a(bc)d": ("abcd",),
        "a(bc)?d": ("a", "d"),
        "a(bc)*d": ("a", "d"),
        "a(bc)+d": ("abc", "bcd"),
        "a(bc){2,3}d": ("abc", "bcd"),
        "a(bc){0,3}d": ("a", "d"),
        "abc?d": ("ab", "d"),
        "abc+?d": ("abc", "cd"),
        r"\Qa.b\E*c": ("a.", "c"),
        r"1\.5 \x41\x{e9}": ("1.5 Aé",),
        "[.]x[ab]y": (".x", "y"),
        "x[]a]y[^]]z[[:^alpha:]]w": ("x", "y", "z", "w"),
        "a{,2}": (),  # RE2 reads it literally for now
        "{a}": ("{a}",),
        "ab\\b cd": ("ab", " cd"),
        "(?s)ab.cd": ("ab", "cd"),
        "(?P<name>ab)c": ("abc",),
        "(" * 40 + "a" + ")" * 40: ("a",),
        "(" * 200 + "a" + ")" * 200: (),
    }.items(),
)
def test_texts_of_regular_expressions(regex, texts):
    assert found(regex, [""]) is not None
    skeleton = skeleton_of(regex)
    assert (skeleton.texts, skeleton.ignores_case) == (texts, False)


@pytest.mark.parametrize(
    ("regex", "texts"),
    {
        "(?i)Error 5": ("error 5",),
        "(?i)K\u212as\u017f": ("kkss",),
        "(?i)straße": ("stra", "e"),
        "ABC(?i)def": ("abcdef",),
        "É(?i)é1": ("É", "1"),
        "(?i:a)B": ("ab",),
        "(?i)中文a": ("中文a",),
    }.items(),
)
def test_texts_where_case_is_ignored_are_folded(regex, texts):
    skeleton = skeleton_of(regex)
    assert (skeleton.texts, skeleton.ignores_case) == (texts, True)


def test_only_characters_with_case_ignore_case():
    for regex in ("(?i)12-34", "(?i)中文", "(?i)(?-i)abc", "((?i)1)abc"):
        assert not skeleton_of(regex).ignores_case
    assert skeleton_of("^(?i)12ab").prefix == "12"


def test_repetitions_in_repetitions_stay_small():
    skeleton = skeleton_of("(" * 40 + "ab" + ")+" * 40)
    assert len(skeleton.items) < 300


@pytest.fixture(scope="module")
def every_character():
    return pa.array(chr(point) for point in range(sys.maxunicode + 1) if not 0xD800 <= point < 0xE000)


def test_no_character_but_those_folded_is_another_case_of_an_ascii_letter(every_character):
    folded = fold_case(every_character)
    for letter in "abcdefghijklmnopqrstuvwxyz":
        mask = pc.match_substring_regex(every_character, letter, ignore_case=True)
        assert mask.equals(pc.equal(folded, letter)), letter
    others = pc.match_substring_regex(every_character, r"^[\x00-@\[-`{-\x7f]$", ignore_case=True)
    assert pc.sum(others).as_py() == 128 - 52


def test_caseless_characters_have_no_other_case(every_character):
    caseless = "[\u0590-\u109f\u2e80-\ua4cf\uac00-\ud7af]"
    found_with = pc.match_substring_regex(every_character, caseless, ignore_case=True)
    assert found_with.equals(pc.match_substring_regex(every_character, caseless))


def test_folding_arrays_and_texts_is_the_same(every_character):
    assert fold_case(every_character).to_pylist() == list(map(fold_text, every_character.to_pylist()))
    assert fold_case(pa.array([None, "aK\u212aſÉ"])).to_pylist() == [None, "akksÉ"]


LIKES = st.builds(
    Like,
    st.just("s"),
    st.lists(st.sampled_from(["a", "bc", "%", "_", "\\%", "K", "é", "1"]), max_size=6).map("".join),
    st.booleans(),
    st.none(),
    st.booleans(),
)
REGEXPS = st.builds(RegexpLike, st.just("s"), strategies.regexes(), st.booleans(), st.booleans())


@settings(max_examples=examples(500), deadline=None)
@given(LIKES | REGEXPS, TEXTS)
def test_matching_values_contain_the_texts_of_a_condition(node, texts):
    bound = bind(node, SCHEMA)
    mask = evaluate(bound, {("s",): pa.array(texts)}, len(texts)).to_pylist()
    for leaf in conditions(bound):
        required = required_texts(leaf)
        assert not (node.negated and required)
        for text, hit in zip(texts, mask, strict=True):
            value = fold_text(text) if ignores_case(leaf) else text
            assert not hit or all(part in value for part in required)


@pytest.mark.parametrize(
    ("text", "required"),
    {
        "s LIKE '%ab%'": ("ab",),
        "s LIKE 'ab%'": ("ab",),
        r"s LIKE '%a\%b_c%a\%b%'": ("a%b", "c"),
        "s LIKE '_%_'": (),
        "s = 'abc'": ("abc",),
        "s = ''": (),
        "s <> 'abc'": (),
        "s NOT LIKE 'ab%'": (),
        "s NOT LIKE '%ab'": (),
        "s IN ('a', 'b')": (),
        "s ~ 'ab.*(cd)'": ("ab", "cd"),
        "s !~ 'ab'": (),
        "s ~ '^ab'": ("ab",),
        "s IS NOT NULL": (),
    }.items(),
)
def test_texts_of_conditions(text, required):
    assert required_texts(bind(parse_sql(text), SCHEMA)) == required


@pytest.mark.parametrize(
    ("text", "required"),
    {
        "s ILIKE '%Ab_É%'": ("ab",),
        "s ~* 'X+Y'": ("x", "xy"),
        "s ~ '(?i)x1'": ("x1",),
    }.items(),
)
def test_texts_of_conditions_that_ignore_case(text, required):
    leaf = bind(parse_sql(text), SCHEMA)
    assert ignores_case(leaf)
    assert required_texts(leaf) == required
    assert required_texts(bind(parse_sql(f"NOT ({text})"), SCHEMA)) == ()


@pytest.mark.parametrize(
    ("regex", "text"),
    [
        (r"a\Q\E*b", "b"),  # the repetition does not apply to the empty quotation
        (r"\Qab\E*c", "ac"),
        ("a{1,01}b", "a{1,01}b"),  # not a repetition, because a number starts with 0
        ("a{01}b", "a{01}b"),
        ("a{,2}b", "a{,2}b"),
        ("a{0}b", "b"),
        ("(?i:a)b|c", "c"),
        ("x(?i)a|b", "B"),  # flags apply beyond their alternative
        ("[]x]y", "]y"),
        ("[^]x]y", "ay"),
        ("[[:digit:]x]y", "1y"),
        (r"[\]x]y", "]y"),
        (r"[[:]y", ":y"),
    ],
)
def test_traps_of_the_syntax(regex, text):
    assert found(regex, [text]) == [True]
    check_skeleton(skeleton_of(regex), [text], [True])
