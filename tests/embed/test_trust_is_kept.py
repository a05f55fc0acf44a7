"""What was not trusted before `attach` is not trusted after it, unless Intarsia computed it."""

from __future__ import annotations

import math
import shutil
import struct
import warnings
from contextlib import suppress

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import intarsia as ia
from intarsia.embed import Bloom, PageIndex, Statistics, attach, detach
from intarsia.file import ParquetInput
from intarsia.file.writers import Claim
from intarsia.format import thrift, thrift_tree
from intarsia.format.enums import Type
from tests.conftest import CORPUS, SHARED
from tests.effort import examples
from tests.reading.surgery import Patient

CREATED_BY, COLUMN_ORDERS, STATISTICS = 6, 7, 12
MAX, MIN, NULL_COUNT, MAX_VALUE, MIN_VALUE = 1, 2, 3, 5, 6

FILES = sorted(
    path for folder in (CORPUS, SHARED / "corpus") for path in folder.rglob("*") if ".parquet" in path.name
)


def trusted(path):
    """Return the trusted statistics of each chunk: bounds and null count."""
    found = {}
    with ParquetInput.open(path) as file:
        for group, row_group in enumerate(file.footer.metadata.row_groups):
            for leaf in file.footer.leaves:
                with suppress(ia.UnsupportedFeatureError):
                    meta = file.footer.chunk_metadata(group, leaf)
                    trust = file.trust(leaf, file.leaf_types.get(leaf.ordinal))
                    found[group, leaf.name] = (
                        trust.bounds(meta).value,
                        trust.null_count(meta, row_group.num_rows).value,
                        frozenset(claim for claim in Claim if trust.doubt(claim, meta) is None),
                    )
    return found


def int96_columns(path):
    with ParquetInput.open(path) as file:
        return {leaf.name for leaf in file.footer.leaves if leaf.type == Type.INT96}


def indexes_of(path):
    """Return an index of every kind that a file's first plain column can have, apart from statistics."""
    yield [PageIndex()]
    yield [PageIndex(int96="order")]
    schema = pq.read_schema(path)
    name = next((f.name for f in schema if not pa.types.is_nested(f.type)), None)
    if name is not None:
        yield [Bloom(name), PageIndex()]
        yield [ia.Distinct(name, granularity="row_group")]
        yield [ia.ZoneMap(name, granularity="row_group"), PageIndex()]


def computed(path):
    """Return the statistics of a file that are trusted if those that are not are computed from the values."""
    attach(path, [Statistics()])
    found = trusted(path)
    detach(path)
    return found


def assert_nothing_gained(path, before, recomputed, int96=()):
    """A bound or count is the same as before, is computed from the values, or is not trusted."""
    after = trusted(path)
    assert after.keys() == before.keys()
    for chunk, (bounds, null_count, _) in after.items():
        if chunk[1] in int96:
            continue
        assert bounds in (before[chunk][0], recomputed[chunk][0], None), chunk
        assert null_count in (before[chunk][1], recomputed[chunk][1], None), chunk


@pytest.mark.parametrize("source", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_files_by_other_writers(source, tmp_path):
    path = tmp_path / source.name
    shutil.copyfile(source, path)
    try:
        before = trusted(path)
        asked = list(indexes_of(path))
        recomputed = computed(path)
    except (ia.IntarsiaError, pa.ArrowException, OSError):
        pytest.skip("it is damaged or encrypted")
    for indexes in asked:
        try:
            attach(path, indexes)
        except ia.IntarsiaError:
            assert path.read_bytes() == source.read_bytes()
            continue
        is_int96 = any(getattr(index, "int96", None) for index in indexes)
        assert_nothing_gained(path, before, recomputed, int96_columns(path) if is_int96 else ())
        detach(path)
        assert path.read_bytes() == source.read_bytes()
        assert trusted(path) == before


# --- made footers ------------------------------------------------------------------------------------------

ROWS = 40
VALUES = {
    "int": [row * 3 + 10 for row in range(ROWS)],
    "float": [row / 2 + 1 for row in range(ROWS)],
    "nan": [math.nan if row == 7 else row / 2 + 1 for row in range(ROWS)],
    "text": [f"v{row:02}" for row in range(ROWS)],
    "nulls": [None if row % 4 == 0 else row + 1 for row in range(ROWS)],
}
LIES = {"int": (12, 13), "float": (2.0, 2.5), "nan": (2.0, 2.5), "text": ("v03", "v04"), "nulls": (2, 3)}
WRITERS = (
    None,
    b"parquet-mr version 1.7.0 (build 1)",
    b"parquet-mr version 1.13.1 (build 1)",
    b"parquet-go version latest",
    b"Parquet.Net version 4.25.0 (build 1)",
    b"fastparquet-python version 2024.5.0 (build 0)",
    b"DuckDB version v1.4.4 (build 1)",
)


def encoded(value):
    if isinstance(value, str):
        return value.encode()
    return struct.pack("<q" if isinstance(value, int) else "<d", value)


def is_nan(value):
    return isinstance(value, float) and math.isnan(value)


def truth(name):
    present = [value for value in VALUES[name] if value is not None and not is_nan(value)]
    return encoded(min(present)), encoded(max(present))


@st.composite
def footers(draw, plain):
    """Draw a file whose footer has some of the statistics of each column, true or not."""
    patient = Patient.read(plain)
    writer = draw(st.sampled_from(WRITERS))
    patient.footer.remove(CREATED_BY)
    if writer is not None:
        patient.footer.set(CREATED_BY, thrift.BINARY, writer)
    if draw(st.booleans()):
        patient.footer.remove(COLUMN_ORDERS)
    for ordinal, name in enumerate(VALUES):
        statistics = thrift_tree.Struct()
        for low_field, high_field in ((MIN, MAX), (MIN_VALUE, MAX_VALUE)):
            low, high = map(encoded, LIES[name]) if draw(st.booleans()) else truth(name)
            for field, bound in ((low_field, low), (high_field, high)):
                if draw(st.integers(0, 3)):
                    statistics.set(field, thrift.BINARY, bound)
        if draw(st.booleans()):
            statistics.set(NULL_COUNT, thrift.I64, draw(st.sampled_from((0, 3, VALUES[name].count(None)))))
        patient.chunk(0, ordinal).get(3).set(STATISTICS, thrift.STRUCT, statistics)
    return patient


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    path = tmp_path_factory.mktemp("plain") / "plain.parquet"
    pq.write_table(pa.table(VALUES), path, use_dictionary=False, compression="none")
    return path


KINDS = (
    [PageIndex()],
    [Bloom("int")],
    [ia.Distinct("text")],
    [ia.ZoneMap("float"), PageIndex()],
    [ia.RowMap("int")],
)


@settings(max_examples=examples(200))
@given(st.data())
def test_made_footers(tmp_path_factory, plain, data):
    path = tmp_path_factory.getbasetemp() / "made.parquet"
    data.draw(footers(plain)).write(path)
    original = path.read_bytes()
    before = trusted(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ia.IntarsiaWarning)
        recomputed = computed(path)
        for indexes in data.draw(st.permutations(KINDS)):  # each replaces the indexes of the one before
            attach(path, indexes)
            assert_nothing_gained(path, before, recomputed)
        attach(path, [Statistics()])
        for (_, name), (bounds, null_count, _) in trusted(path).items():
            assert bounds in (before[0, name][0], truth(name), None)
            assert null_count in (before[0, name][1], VALUES[name].count(None), None)
        detach(path)
    assert path.read_bytes() == original
    assert trusted(path) == before


def test_deprecated_bounds_beside_bounds_without_order(large_corpus, tmp_path):
    path = tmp_path / "corrupt_stats.parquet"
    shutil.copyfile(next(large_corpus.rglob(path.name)), path)
    where = "A = TIMESTAMP '2021-01-01 12:00:00'"
    assert ia.open(path).count(where) == 5
    for indexes in ([PageIndex()], [Statistics()], [PageIndex(), Bloom("A")], [ia.Distinct("A")]):
        attach(path, indexes)
        assert ia.open(path).count(where) == 5
        detach(path)
