"""An n-gram index never excludes a match, for every pattern, script, case and granularity."""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import intarsia as ia
from intarsia.errors import IndexBuildError, IndexPayloadError
from intarsia.indexes import ngram
from intarsia.indexes.layout import Layout, parameters
from intarsia.predicate import Comparison, In, Like, RegexpLike, bind, conditions
from intarsia.rows.selection import RowSelection
from tests.indexes.probing import pages_of
from tests.indexes.test_distinct import Values, find, rows_where
from tests.predicate import strategies

TEXT_TYPES = [kind for kind in strategies.TYPES if strategies.is_text(kind)]
# characters that share bytes, and characters that differ only in case
CHARACTERS = "aAbBkKsS1.-%_é\u00c9ß\u017f\u212a\u0130\u0131日本\U0001f600"


def opened(data, index):
    return index.open(index.build(data), data.layout)


@st.composite
def cases(draw):
    kind = draw(st.sampled_from(TEXT_TYPES))
    base = kind.value_type if pa.types.is_dictionary(kind) else kind
    texts = st.text("aAbB1", max_size=6) | st.text(CHARACTERS, max_size=8) | strategies.values(base)
    items = draw(st.lists(st.none() | texts, max_size=12))
    array = strategies.make_array(kind, items)
    cuts = st.lists(st.integers(0, len(array)), max_size=4, unique=True)
    groups = sorted({0, len(array), *draw(cuts)})
    pages = sorted({*groups, *draw(cuts)})
    index = ia.Ngram(
        "x",
        draw(st.sampled_from([2, 3, 4])),
        draw(st.sampled_from(["page", "row_group", "file", 2])),
        draw(st.booleans()),
        draw(st.sampled_from([3, 100_000])),
    )
    return Values(array, pages, groups), index, draw(predicates([item for item in items if item]))


@st.composite
def predicates(draw, items):
    """Draw predicates that match values: pieces of them, in another case, inside patterns."""

    def piece():
        text = draw(st.sampled_from(items)) if items else "ab"
        start, stop = sorted((draw(st.integers(0, len(text))), draw(st.integers(0, len(text)))))
        text = text[start:stop] if draw(st.booleans()) else text
        return draw(st.sampled_from([text, text.upper(), text.lower(), text.swapcase()]))

    kind = draw(st.sampled_from(["like", "ilike", "regex", "=", "in", "any"]))
    if kind == "like":
        pieces = [draw(st.sampled_from(["", "%", "_"])), piece(), draw(st.sampled_from(["", "%", "_"]))]
        if draw(st.booleans()):
            pieces += [piece(), "%"]
        return Like("x", "".join(pieces), draw(st.booleans()), "", draw(st.booleans()))
    if kind == "ilike":
        return Like("x", f"%{piece()}%", False, "", True)
    if kind == "regex":
        text = re.sub(r"[!-/:-@[-^`{-~]", r"\\\g<0>", "".join(filter(str.isprintable, piece())))
        around = draw(st.sampled_from(["{}", "^{}", "{}$", "{}.*", "a?{}b*", "(?i:{})k", "({}|{}a)"]))
        return RegexpLike("x", around.replace("{}", text), draw(st.booleans()), draw(st.booleans()))
    if kind == "=":
        return Comparison("x", "=", piece())
    if kind == "in":
        return In("x", (piece(), piece()))
    return draw(strategies.predicates({"x": pa.string()}))


@given(cases())
def test_candidates_contain_every_matching_row(case):
    data, index, predicate = case
    opened_index = opened(data, index)
    for leaf in conditions(bind(predicate, pa.schema({"x": pa.string()}))):
        found = opened_index.candidate_rows(leaf)
        assert (found is not None) == index.can_prune(leaf)
        if found is not None:
            assert (rows_where(leaf, data.array) - found).is_empty


PAGES = ["https://a.org/index.html", "ftp://B.org/Readme.TXT", None, "", "größe 日本語", "id=42;Kelvin"]


@pytest.mark.parametrize(
    ("where", "pages", "folded"),
    [
        ("x LIKE '%.org%'", [0, 1], [0, 1]),
        ("x LIKE '%html'", [0], [0]),
        ("x LIKE 'ftp%'", [1], [1]),
        ("x LIKE 'ht%'", [0], [0]),  # two bytes are enough where the value starts
        ("x LIKE '%readme%'", [], [1]),
        ("x LIKE '%Readme%txt%'", [], [1]),
        ("x ILIKE '%readme%'", None, [1]),
        ("x ILIKE '%ID=42;k%'", [5], [5]),  # parts without letters need no folding
        ("x RLIKE '^https?://.*[.]html$'", [0], [0]),
        ("x RLIKE '(?i)README[.]txt'", None, [1]),
        ("x LIKE '%日本%'", [4], [4]),
        ("x LIKE '%öß%'", [4], [4]),
        ("x = 'ftp://B.org/Readme.TXT'", [1], [1]),
        ("x = 'ftp://b.org/readme.txt'", [], [1]),
        ("x IN ('größe 日本語', 'id=42;Kelvin')", [4, 5], [4, 5]),
        ("x = 'absent'", [], []),
    ],
)
def test_candidates_are_exact_for_the_grams(where, pages, folded):
    data = pages_of(pa.array(PAGES), 1)
    for expected, ignore_case in ((pages, False), (folded, True)):
        index = ia.Ngram("x", ignore_case=ignore_case)
        found = opened(data, index).candidate_rows(find(where, pa.string()))
        assert found == (None if expected is None else RowSelection.from_rows(expected))


@pytest.mark.parametrize(
    "where",
    [
        "x LIKE '%ab%'",
        "x LIKE 'a%'",
        "x = 'a'",
        "x IN ('abc', 'a')",
        "x NOT LIKE '%abc%'",
        "x <> 'abc'",
        "x NOT IN ('abc', 'abd')",
        "x > 'abc'",
        "x IS NULL",
        "x RLIKE 'abc|def'",
        "x ILIKE '%abc%'",
    ],
)
def test_conditions_that_it_cannot_evaluate(where):
    index = ia.Ngram("x")
    leaf = find(where, pa.string())
    assert not index.can_prune(leaf)
    assert opened(pages_of(pa.array(PAGES), 1), index).candidate_rows(leaf) is None


def test_grams_do_not_reach_into_the_next_value():
    index = opened(pages_of(pa.array(["ab", "cd", "", "ef", None, "gh"]), 6), ia.Ngram("x", 2))
    for text in ("bc", "de", "fg"):
        assert index.candidate_rows(find(f"x LIKE '%{text}%'", pa.string())).is_empty
    for text in ("ab", "cd", "ef", "gh"):
        assert not index.candidate_rows(find(f"x LIKE '%{text}%'", pa.string())).is_empty


def test_a_reader_that_knows_only_the_format_page_finds_the_granules():
    payload = ia.Ngram("x", 2, ignore_case=True).build(pages_of(pa.array(["ABA", "\u212a1", None, "ba"]), 1))
    with pa.ipc.open_stream(payload) as reader:
        batch = reader.read_next_batch()
    (row,) = batch.to_pylist()
    grams = np.cumsum(row["gram_steps"]).tolist()
    steps = iter(row["granule_steps"])
    granules = [np.cumsum([next(steps) for _ in range(count)]).tolist() for count in row["counts"]]
    assert next(steps, None) is None
    assert dict(zip(grams, granules, strict=True)) == {
        int.from_bytes(gram, "big"): ordinals
        for gram, ordinals in {
            b"ab": [0],
            b"ba": [0, 3],
            b"k1": [1],
            b"\xffa": [0],
            b"\xffb": [3],
            b"\xffk": [1],
        }.items()
    }


@pytest.mark.parametrize("n", [2, 3, 4])
def test_grams_of_a_long_column_equal_those_of_a_loop(n):
    random = np.random.default_rng(n)
    letters = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz0123456789 ./", np.uint8)
    edges = np.cumsum(random.integers(0, 400, 5700))
    letters = random.choice(letters, edges[-1]).tobytes().decode()
    texts = [letters[start:stop] for start, stop in pairwise([0, *edges.tolist()])]
    index = ia.Ngram("x", n=n, max_grams=1 << 30)
    found = opened(pages_of(pa.array(["cut off", *texts])[1:], len(texts)), index)
    assert sum(map(len, texts)) > ngram.BLOCK_BYTES + ngram.MANY_GRAMS
    expected = set()
    for text in texts:
        marked = ngram.START + text.encode()
        expected.update(marked[at : at + n] for at in range(len(marked) - n + 1))
    assert found.grams.tolist() == [int.from_bytes(gram, "big") for gram in sorted(expected)]


def test_a_long_text_is_found_at_every_block_boundary():
    text = "".join(f"{row:07}" for row in range(ngram.BLOCK_BYTES // 3))
    data = pages_of(pa.array([text, "other"]), 1)
    index = opened(data, ia.Ngram("x", max_grams=10_000))
    for start in range(ngram.BLOCK_BYTES - 8, ngram.BLOCK_BYTES + 3):
        leaf = find(f"x LIKE '%{text[start : start + 9]}%'", pa.string())
        assert index.candidate_rows(leaf) == RowSelection.from_rows([0])


def test_bytes_that_are_not_text_are_never_excluded():
    raw = pa.array([b"ab\xffcdef", b"\xffabc", b"\xc3", b"abc"])
    array = pa.Array.from_buffers(pa.string(), len(raw), raw.buffers())
    data = pages_of(array, 1)
    index = opened(data, ia.Ngram("x"))
    for where in ("x LIKE '%cde%'", "x LIKE '%abc%'", "x LIKE '%def'"):
        leaf = find(where, pa.string())
        assert (rows_where(leaf, array) - index.candidate_rows(leaf)).is_empty


def test_a_granule_over_the_limit_cannot_be_skipped():
    data = pages_of(pa.array(["abcdefgh", "abc", "ijklmnop", None]), 1)
    index = opened(data, ia.Ngram("x", max_grams=4))
    assert index.candidate_rows(find("x LIKE '%zzz%'", pa.string())) == RowSelection.from_rows([0, 2])
    assert index.candidate_rows(find("x LIKE '%abc%'", pa.string())) == RowSelection.from_rows([0, 1, 2])


@pytest.mark.parametrize("num_rows", [0, 1, 5])
@pytest.mark.parametrize("value", [None, "", "ab"])
def test_values_without_grams(num_rows, value):
    data = pages_of(pa.array([value] * num_rows, pa.string()), 2)
    assert opened(data, ia.Ngram("x", 4)).candidate_rows(find("x LIKE '%abcd%'", pa.string())).is_empty


def test_damage_is_detected_or_harmless():
    """The checksum of the payload detects damage. Damage that passes it never crashes."""
    data = pages_of(pa.array([f"value {row}" for row in range(20)]), 4)
    index = ia.Ngram("x")
    payload = index.build(data)
    for place in range(len(payload)):
        damaged = bytearray(payload)
        damaged[place] ^= 1 << place % 8
        try:
            found = index.open(bytes(damaged), data.layout).candidate_rows(
                find("x LIKE '%value%'", pa.string())
            )
        except IndexPayloadError:
            continue
        assert found.num_rows <= 20
    for length in range(0, len(payload) - 8, 7):  # the last 8 bytes are only the end of the stream
        with pytest.raises(IndexPayloadError):
            index.open(payload[:length], data.layout)


#: The columns of a payload.
LISTS = ("gram_steps", "counts", "granule_steps")


def hostile(lists, num_rows=1, types=None):
    types = types or [pa.list_(pa.uint32())] * 3
    schema = pa.schema(
        [pa.field(name, kind) for name, kind in zip(LISTS, types, strict=True)],
        metadata={b"edges": np.array([0, 5, 10], "<i8").tobytes(), b"unlisted": b""},
    )
    columns = [pa.array([numbers] * num_rows, kind) for numbers, kind in zip(lists, types, strict=True)]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_batch(pa.record_batch(columns, schema=schema))
    return bytes(sink.getvalue())


GRAM = int.from_bytes(b"abc", "big")


@pytest.mark.parametrize(
    "payload",
    [
        hostile([[GRAM], [1], [2]]),
        hostile([[GRAM], [2], [2**32 - 1, 2**32 - 1]]),
        hostile([[GRAM], [1], [0, 1]]),
        hostile([[GRAM, 1], [1], [0]]),
        hostile([[GRAM], [2**32 - 1], [0]]),
        hostile([[GRAM], [1], [0]], num_rows=2),
        hostile([[GRAM], [1], [0]], num_rows=0),
        hostile([[GRAM], [1], None]),
        hostile([[GRAM], [1], [None]]),
        hostile([[GRAM], [1], [0]], types=[pa.list_(pa.int64())] * 3),
        hostile([GRAM, 1, 0], types=[pa.uint32()] * 3),
    ],
)
def test_impossible_payloads_are_rejected(payload):
    layout = Layout(10, np.array([0, 10], dtype=np.int64), {})
    with pytest.raises(IndexPayloadError):
        ia.Ngram("x").open(payload, layout).candidate_rows(find("x LIKE '%abc%'", pa.string()))


def test_the_hostile_form_itself_is_read():
    layout = Layout(10, np.array([0, 10], dtype=np.int64), {})
    index = ia.Ngram("x").open(hostile([[GRAM], [1], [1]]), layout)
    assert index.candidate_rows(find("x LIKE '%abc%'", pa.string())) == RowSelection.from_ranges([(5, 10)])


@pytest.mark.parametrize("array", [pa.array([1]), pa.array([b"abc"]), pa.array([["abc"]])], ids=str)
def test_a_column_without_strings_is_rejected(array):
    with pytest.raises(IndexBuildError) as caught:
        ia.Ngram("x").build(pages_of(array, 1))
    assert (caught.value.reason, caught.value.column) == ("not-a-string-column", "x")


def test_an_index_equals_one_with_its_parameters():
    index = ia.Ngram("a.b", 2, 500, True, 7)
    assert ia.Ngram(**parameters(index)) == index


@pytest.mark.parametrize("granularity", ["page", "row_group", 100])
def test_patterns_on_a_nested_leaf_in_a_file(tmp_path, granularity):
    path = tmp_path / "t.parquet"
    rows = 4000
    texts = [
        f"line {row * 7919 % rows:05} of some text, {'NEEDLE' if row in (7, 3210) else 'hay'}"
        for row in range(rows)
    ]
    table = pa.table({"s": pa.array([{"line": text} for text in texts]), "n": range(rows)})
    sizes = {"row_group_size": 1500, "data_page_size": 4000}
    pq.write_table(table, path, use_dictionary=False, compression="none", **sizes)
    ia.attach(path, [ia.PageIndex(), ia.Ngram("s.line", granularity=granularity, ignore_case=True)])
    opened_table = ia.open(path)
    for where in ("s.line LIKE '%NEEDLE'", "s.line ILIKE '%needle%'", "s.line RLIKE 'text, (?i:needle)$'"):
        scan = opened_table.scan(where)
        assert scan.to_arrow().equals(table.take([7, 3210]))
        assert any(index.startswith("ngram") for index, _ in scan.report.pruned_by)
    assert opened_table.scan("s.line LIKE '%needle%'").to_arrow().num_rows == 0
