"""Conditions on the lower case of a column skip with n-grams and listed values."""

import random

import pyarrow as pa
import pytest

import intarsia as ia
from intarsia import spark as ias
from tests.effort import examples
from tests.lake.index.lakes import write
from tests.spark.random_queries import check_predicates
from tests.spark.skipping import compare

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

WORDS = ("fail", "disk", "kelvin", "index", "strasse", "title")

#: Of these, some have an i, a k or an s in lower case, or look like it.
LETTERS = {"i": "iIİıÌÍĨĪį", "k": "kK\N{KELVIN SIGN}", "s": "sSſß", "e": "eEÉ"}

FILES = 24


def spelled(rng, word):
    """Spell a word in some other way."""
    text = "".join(rng.choice(LETTERS.get(letter, letter + letter.upper())) for letter in word)
    return text + rng.choice(["", "", "\N{COMBINING DOT ABOVE}", "%", "_"])


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    """Files of different words, in n-grams, listed values or dictionary pages."""
    folder, rng = tmp_path_factory.mktemp("texts"), random.Random("texts")
    for ordinal in range(FILES):
        words = [WORDS[ordinal % len(WORDS)], WORDS[ordinal // 4 % len(WORDS)]]
        texts = [f"{rng.choice(['', 'a ', '~'])}{spelled(rng, rng.choice(words))}" for _ in range(7)]
        invalid = pa.array([b"\xff dISk", None], pa.binary()).cast(pa.string(), safe=False)
        indexes = [ia.Ngram("s")], [ia.Distinct("s")], []  # an index contains no invalid text
        column = pa.concat_arrays([pa.array(texts), *([] if indexes[ordinal % 3] else [invalid])])
        write(folder / f"{ordinal:02}.parquet", pa.table({"s": column}), indexes[ordinal % 3])
    return str(folder)


def condition(rng):
    text = rng.choice(WORDS)
    text = rng.choice([text, text[: rng.randrange(1, 5)], text[rng.randrange(4) :], spelled(rng, text)])
    pattern = rng.choice(["{}", "{}%", "%{}", "%{}%", "%{}_", "_{}%"]).format(text)
    found = rng.choice(
        [
            f"lower(s) = '{text}'",
            f"'{text}' <=> lower(s)",
            f"lower(s) IN ('{text}', '{rng.choice(WORDS)}', NULL)",
            f"lower(s) LIKE '{pattern}'",
            f"s ILIKE '{pattern}'",
            f"contains(lower(s), '{text}')",
            f"lower(s) RLIKE '{text}'",
            f"lower(s) < '{text}'",
        ]
    )
    return f"NOT {found}" if rng.random() < 0.2 else found


@pytest.mark.parametrize("language", ["en", "tr", "lt"])
def test_random_conditions(enabled, lake, language):
    """Strings have another lower case in Turkish and Lithuanian."""
    locale = enabled._jvm.java.util.Locale
    before = locale.getDefault()
    locale.setDefault(locale.forLanguageTag(language))
    try:
        rng = random.Random(f"lower case {language}")
        check_predicates(
            enabled.read.parquet(lake), rng, examples(99, deep=2_000), draw=condition, files=FILES
        )
    finally:
        locale.setDefault(before)


@pytest.mark.parametrize(
    "where", ["lower(s) LIKE '%kelvin%'", "s ILIKE '%strasse%'", "lower(s) = 'title'", "s ILIKE '%DISK'"]
)
def test_files_are_skipped(enabled, lake, where):
    assert compare(enabled, lambda: enabled.read.parquet(lake).where(where)).files < FILES / 2
    assert ias.explain(enabled, lake, where=where).files_read < FILES / 2
