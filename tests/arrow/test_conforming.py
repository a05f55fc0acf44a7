"""Values are converted to other types only without loss."""

import math

import pyarrow as pa
import pytest

from intarsia.arrow.nested import conform

FLOATS = [pa.float16(), pa.float32(), pa.float64()]
TEXTS = [
    pa.string(),
    pa.large_string(),
    pa.string_view(),
    pa.dictionary(pa.int32(), pa.string()),
    pa.dictionary(pa.int8(), pa.large_string()),
]


@pytest.mark.parametrize("target", FLOATS, ids=str)
@pytest.mark.parametrize("source", FLOATS, ids=str)
def test_floats_are_narrowed_only_if_every_value_fits(source, target):
    kept = pa.array([1.5, -0.0, None, math.inf, -math.inf, 2.0**-24], source)
    assert conform(kept, target).to_pylist() == kept.to_pylist()
    nan = conform(pa.chunked_array([[math.nan]], source), target)
    assert math.isnan(nan[0].as_py())
    assert conform(pa.array([], source), target).type == target
    if target.bit_width < source.bit_width:
        for value in (0.1, 1 / 3, 1e30 if source == pa.float32() else 1e300):
            for values in (pa.array([1.0, value], source), pa.chunked_array([[None], [value]], source)):
                with pytest.raises(pa.ArrowInvalid):
                    conform(values, target)


@pytest.mark.parametrize("target", TEXTS, ids=str)
@pytest.mark.parametrize("source", TEXTS, ids=str)
def test_text_is_converted_between_all_layouts(source, target):
    values = pa.array(["a", None, "b", "a"]).cast(source)
    for given in (values, pa.chunked_array([values, values])):
        found = conform(given, target)
        assert found.type == target
        assert found.to_pylist() == given.to_pylist()


def test_lists_become_lists_of_a_fixed_size_only_if_all_have_it():
    target = pa.list_(pa.int32(), 2)
    values = pa.array([[9, 9], [1, 2], None, [3, 4]])[1:]
    assert conform(values, target).to_pylist() == [[1, 2], None, [3, 4]]
    for lengths in ([[1, 2], [3]], [[1], [2, 3, 4]]):
        with pytest.raises(pa.ArrowInvalid):
            conform(pa.array(lengths), target)
