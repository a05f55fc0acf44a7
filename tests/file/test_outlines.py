"""The chunks of a file are outlined only in the row groups that are needed."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from intarsia.file import ParquetInput
from intarsia.file.decode import outlines_of
from intarsia.file.joined import JoinedMetadata, JoinedPart
from intarsia.storage import LocalFile
from tests.counting import arguments_of

NUM_GROUPS = 30
JOINED = 3
LEAVES = 3

#: Requests, each for some leaves and row groups; None for all.
requests = st.lists(
    st.tuples(
        st.lists(st.integers(0, LEAVES - 1), unique=True),
        st.none() | st.lists(st.integers(0, NUM_GROUPS - 1), unique=True, max_size=9),
    )
)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("outlines") / "file.parquet"
    numbers = np.arange(NUM_GROUPS * 10)
    table = pa.table({"id": numbers, "text": list(map(str, numbers % 7)), "share": numbers / 3})
    pq.write_table(table, path, row_group_size=10, write_page_index=True, use_dictionary=["text"])
    return path


def chunks_of(outlines, groups):
    """Return what is known of some chunks, as values that can be compared."""
    names = [field.name for field in fields(outlines) if field.name != "pages"]
    arrays = [getattr(outlines, name) for name in names]
    return [[outlines.pages[group], *(values[group].item() for values in arrays)] for group in groups]


def open_once(path):
    with ParquetInput.open(path) as file:
        return file.metadata


def open_joined(path):
    """Return the metadata of three files that are joined, with as many row groups together."""
    with ParquetInput.open(path) as file:
        part = JoinedPart(file.metadata, file.source.identity, lambda: LocalFile(path))
    return JoinedMetadata([part] * JOINED)


@pytest.mark.parametrize("open_metadata", [open_once, open_joined])
@given(asked=requests)
def test_outlines_do_not_depend_on_earlier_requests(path, open_metadata, asked):
    expected, found = open_metadata(path), open_metadata(path)
    leaves, num_groups = expected.footer.leaves, len(expected.footer.metadata.row_groups)
    everything = expected.outlines(leaves)
    for ordinals, groups in asked:
        some = range(num_groups) if groups is None else groups
        outlines = found.outlines([leaves[ordinal] for ordinal in ordinals], groups)
        for ordinal, of_leaf in zip(ordinals, outlines, strict=True):
            assert chunks_of(of_leaf, some) == chunks_of(everything[ordinal], some)


def test_known_chunks_are_not_outlined_again(path):
    metadata = open_once(path)
    leaves = metadata.footer.leaves

    def outlined(some, groups):
        """Return the numbers of leaves and of row groups that a request outlines."""
        found = arguments_of(lambda: metadata.outlines(some, groups), of=outlines_of)
        return [(len(one["leaves"]), len(one["groups"])) for one in found]

    assert outlined(leaves[:2], [3, 4]) == [(2, 2)]
    assert outlined(leaves[:1], [4]) == []
    assert outlined(leaves, [4, 5]) == [(3, 2)]
    assert outlined(leaves[2:], [3]) == [(1, 1)]
    assert outlined(leaves, None) == [(3, NUM_GROUPS - 3)]
    assert outlined(leaves, None) == outlined(leaves, [9]) == []
