"""Invalid parameters are rejected when an index is constructed, before any file is opened."""

import math

import pytest

import intarsia as ia
from intarsia.cli.options import parse_index
from intarsia.cli.terminal import UsageError
from intarsia.format.bloom import bits_per_value, optimal_bytes

FPP = (0, 1, 0.0, 1.0, 1e-30, 7, -0.1, "a", "0.01", None, math.nan, math.inf, True, [])
INTEGERS = (-1, 1.0, "1", True, None, math.nan, {})
GRANULARITIES = (0, -1, 2**63, 1.0, True, "pages", "", None, [], {})


def wrong(make, name, values):
    return [(make, name, value) for value in values]


WRONG = [
    *wrong(ia.Bloom, "fpp", FPP),
    *wrong(ia.BloomGranule, "fpp", FPP),
    *wrong(ia.Histogram, "buckets", (*INTEGERS, 0, 4097)),
    *wrong(ia.Hll, "lg_config_k", (*INTEGERS, 3, 22)),
    *wrong(ia.Distinct, "max_values", (*filter(None, INTEGERS), 2**63)),
    *wrong(ia.Distinct, "form", ("idx1", None, 1, [])),
    *wrong(ia.Ngram, "n", (*INTEGERS, 0, 5)),
    *wrong(ia.Ngram, "max_grams", (*INTEGERS, 0)),
    *wrong(ia.Ngram, "ignore_case", (0, 1, "yes", None)),
    *(
        case
        for kind in (ia.BloomGranule, ia.Distinct, ia.Hll, ia.Ngram, ia.ZoneMap)
        for case in wrong(kind, "granularity", GRANULARITIES)
    ),
    *wrong(ia.Histogram, "granularity", GRANULARITIES),
]


@pytest.mark.parametrize(("make", "name", "value"), WRONG)
def test_the_error_names_the_index_the_parameter_and_the_value(make, name, value):
    with pytest.raises(ia.IndexBuildError) as caught:
        make("x", **{name: value})
    assert caught.value.reason == f"invalid-{name.replace('_', '-')}"
    for part in (make.__name__, name, repr(value)):
        assert part in str(caught.value)


@pytest.mark.parametrize("name", ["n", "seed"])
@pytest.mark.parametrize("value", INTEGERS)
def test_samples(name, value):
    with pytest.raises(ia.IndexBuildError) as caught:
        ia.Sample(**{"n": 1, name: value})
    assert caught.value.reason == f"invalid-{name}"


@pytest.mark.parametrize("share", [1e-6, 0.01, 0.99, 1 - 2**-53])
def test_every_rate_makes_a_filter(share):
    assert ia.Bloom("x", fpp=share).fpp == ia.BloomGranule("x", fpp=share).fpp == share
    assert bits_per_value(share) > 0
    assert optimal_bytes(1, share) >= 32


@pytest.mark.parametrize(
    "construct",
    [lambda: ia.Histogram("x", "file"), lambda: ia.Distinct("x", "row_group", form="datafusion")],
)
def test_granularities_that_a_kind_does_not_have(construct):
    with pytest.raises(ia.IndexBuildError) as caught:
        construct()
    assert caught.value.reason == "invalid-granularity"


@pytest.mark.parametrize("text", ["histogram(x, buckets=0)", "bloom(x, fpp='a')", "hll(x, lg_config_k=3)"])
def test_the_command_line_rejects_them_before_a_file_is_opened(text):
    with pytest.raises(UsageError):
        parse_index(text)
