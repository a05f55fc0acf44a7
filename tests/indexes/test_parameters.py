"""Parameters that are none are refused when an index is named, before any file is opened."""

import math

import pytest

import intarsia as ia
from intarsia.cli.failures import UsageError
from intarsia.cli.index_calls import parse_index
from intarsia.format.bloom import bits_per_value, optimal_bytes

FPP = (0, 1, 0.0, 1.0, 1e-30, 7, -0.1, "a", "0.01", None, math.nan, math.inf, True, [])
INTEGERS = (-1, 1.0, "1", True, None, math.nan, {})
GRANULARITIES = (0, -1, 1.0, True, "pages", "", None, [], {})


def wrong(make, name, values, allowed):
    return [(make, name, value, allowed) for value in values]


WRONG = [
    *wrong(ia.Bloom, "fpp", FPP, "a share between 0.000001 and 1"),
    *wrong(ia.BloomGranule, "fpp", FPP, "a share between 0.000001 and 1"),
    *wrong(ia.Histogram, "buckets", (*INTEGERS, 0, 4097), "an integer of 1 to 4,096"),
    *wrong(ia.Hll, "lg_config_k", (*INTEGERS, 3, 22), "an integer of 4 to 21"),
    *wrong(ia.Distinct, "max_values", filter(None, INTEGERS), "an integer of 0 or more"),
    *wrong(ia.Distinct, "layout", ("idx1", None, 1, []), "'granules' or 'datafusion'"),
    *wrong(ia.Ngram, "n", (*INTEGERS, 0, 5), "an integer of 2 to 4"),
    *wrong(ia.Ngram, "max_grams", (*INTEGERS, 0), "an integer of 1 or more"),
    *wrong(ia.Ngram, "ignore_case", (0, 1, "yes", None), "True or False"),
    *(
        case
        for kind in (ia.BloomGranule, ia.Distinct, ia.Hll, ia.Ngram, ia.ZoneMap)
        for case in wrong(kind, "granularity", GRANULARITIES, "'file', 'row_group', 'page' or a number")
    ),
    *wrong(ia.Histogram, "granularity", GRANULARITIES, "'row_group', 'page' or a number"),
]


@pytest.mark.parametrize(("make", "name", "value", "allowed"), WRONG)
def test_the_index_the_parameter_and_what_is_allowed_are_named(make, name, value, allowed):
    with pytest.raises(ia.IndexBuildError) as caught:
        make("x", **{name: value})
    assert str(caught.value).startswith(f"{make.__name__}: {name} is {value!r}; use {allowed}")


@pytest.mark.parametrize("name", ["n", "seed"])
@pytest.mark.parametrize("value", INTEGERS)
def test_samples(name, value):
    with pytest.raises(ia.IndexBuildError, match=f"Sample: {name} is .*; use an integer of 0 or more"):
        ia.Sample(**{"n": 1, name: value})


@pytest.mark.parametrize("share", [1e-6, 0.01, 0.99, 1 - 2**-53])
def test_every_share_makes_a_filter(share):
    assert ia.Bloom("x", fpp=share).fpp == ia.BloomGranule("x", fpp=share).fpp == share
    assert bits_per_value(share) > 0
    assert optimal_bytes(1, share) >= 32


def test_what_goes_together():
    with pytest.raises(
        ia.IndexBuildError, match="'file' would need a whole column in memory; use 'row_group'"
    ):
        ia.Histogram("x", "file")
    with pytest.raises(
        ia.IndexBuildError, match="granularity is 'row_group', and DataFusion's form knows 'file' only"
    ):
        ia.Distinct("x", "row_group", layout="datafusion")


@pytest.mark.parametrize("text", ["histogram(x, buckets=0)", "bloom(x, fpp='a')", "hll(x, lg_config_k=3)"])
def test_the_command_line_refuses_them_before_a_file_is_opened(text):
    with pytest.raises(UsageError, match=r"use an? "):
        parse_index(text)
