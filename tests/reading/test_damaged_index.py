"""Damaged page indexes and Bloom filters are ignored with one warning and a reason, and results are correct.

The tests cover damage that can be detected, in the structs themselves or by reading pages that contradict
the index. No reader can detect wrong bounds that contradict nothing.
"""

from __future__ import annotations

import contextlib
import functools
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from intarsia.format.structs import ColumnIndex, OffsetIndex, PageLocation
from tests.reading.exact import assert_same_rows
from tests.reading.surgery import Patient

ROWS = 600
ROWS_PER_GROUP = 400
LEAVES = {"key": 0, "text": 1, "value": 2}
QUERIES = {
    "key = 100": lambda key, value: key == 100,
    "key BETWEEN 95 AND 131": lambda key, value: 95 <= key <= 131,
    "key < 50 OR key >= 399": lambda key, value: key < 50 or key >= 399,
    "value = 3": lambda key, value: value == 3,
    "value IS NULL AND key > 20": lambda key, value: value is None and key > 20,
    "value <> 3 AND key IN (7, 99, 100, 101, 480)": lambda key, value: (
        value is not None and value != 3 and key in (7, 99, 100, 101, 480)
    ),
    "text = 'text 0100'": lambda key, value: key == 100,
    "text >= 'text 0570' OR key = 3": lambda key, value: key >= 570 or key == 3,
}


TABLE = pa.table(
    {
        "key": pa.array(np.arange(ROWS), pa.int32()),
        "text": [f"text {row:04}" for row in range(ROWS)],
        "value": pa.array(
            np.random.default_rng(4).integers(0, 9, ROWS).astype(float), mask=np.arange(ROWS) % 11 == 0
        ),
    }
)


@functools.cache
def matching():
    """Return the rows of `TABLE` that match each query."""
    rows = list(zip(TABLE["key"].to_pylist(), TABLE["value"].to_pylist(), strict=True))
    return {where: TABLE.filter(pa.array([judge(*row) for row in rows])) for where, judge in QUERIES.items()}


def make_file(path, **options):
    """Write `TABLE`, in two row groups of several pages."""
    settings = {"use_dictionary": False, "write_page_index": True, "max_rows_per_page": 50, **options}
    pq.write_table(TABLE, path, row_group_size=ROWS_PER_GROUP, write_batch_size=10, **settings)
    return path


@pytest.fixture(scope="module", params=["plain", "dictionary"])
def whole_file(request, tmp_path_factory):
    """A valid file with 8 pages in the first row group and 4 in the second."""
    path = tmp_path_factory.mktemp("damaged") / "whole.parquet"
    if request.param == "plain":
        return make_file(path)
    options = {"use_dictionary": ["text", "value"], "dictionary_pagesize_limit": 700}  # some pages use it
    return make_file(path, data_page_version="2.0", **options)


@pytest.fixture(scope="module")
def plain_file(tmp_path_factory):
    """The same rows in plain pages of version 1."""
    path = tmp_path_factory.mktemp("damaged") / "plain.parquet"
    return make_file(path)


@contextlib.contextmanager
def caught():
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        yield found


def scan_all(path, *, noted=True):
    """Every query returns the correct rows, and warns once if an index is ignored."""
    notes = []
    for where, expected in matching().items():
        with caught() as found:
            scan = ia.open(path).scan(where)
            assert_same_rows(scan.to_arrow(), expected)
        assert len(found) == bool(scan.report.ignored), (where, [str(item.message) for item in found])
        for item in found:
            assert item.category is ia.IntarsiaWarning
            assert str(path) in str(item.message)
        assert all(note.file == str(path) and note.reason and note.code for note in scan.report.ignored)
        notes += scan.report.ignored
    with caught() as found:
        assert_same_rows(ia.open(path).scan().to_arrow(), TABLE)
    assert found == []
    assert bool(notes) is noted, notes
    return notes


def test_valid_file_has_no_ignored_indexes(whole_file):
    scan_all(whole_file, noted=False)


# --- OffsetIndex ---


def _locations(change):
    def changed(index):
        return index._replace(page_locations=change(list(index.page_locations)))

    return changed


def _one(page, **fields):
    """Change fields of one page's location, to a number or by a function of the old value."""

    def change(found):
        old = found[page]
        found[page] = old._replace(
            **{name: new(getattr(old, name)) if callable(new) else new for name, new in fields.items()}
        )
        return found

    return _locations(change)


OFFSET_DAMAGE = {
    "interior page starts a row late": _one(2, first_row_index=lambda row: row + 1),
    "interior page starts a row early": _one(2, first_row_index=lambda row: row - 1),
    "first row is not 0": _one(0, first_row_index=1),
    "rows do not ascend": _one(3, first_row_index=lambda row: row - 60),
    "a row is repeated": _one(3, first_row_index=lambda row: row - 50),
    "row beyond the row group": _one(-1, first_row_index=ROWS),
    "row beyond all numbers": _one(-1, first_row_index=2**63 - 1),
    "negative row": _one(1, first_row_index=-5),
    "offset before the chunk": _one(0, offset=4 - 1),
    "negative offset": _one(0, offset=-(2**40)),
    "least offset": _one(0, offset=-(2**63)),
    "offset beyond the file": _one(-1, offset=2**40),
    "greatest offset": _one(-1, offset=2**63 - 1),
    "offset in the middle of a page": _one(2, offset=lambda offset: offset + 5),
    "size 0": _one(2, compressed_page_size=0),
    "negative size": _one(2, compressed_page_size=-40),
    "size too small by one": _one(2, compressed_page_size=lambda size: size - 1),
    "size of a few bytes": _one(2, compressed_page_size=9),
    "size too large by one": _one(2, compressed_page_size=lambda size: size + 1),
    "greatest size": _one(2, compressed_page_size=2**31 - 1),
    "last size too small": _one(-1, compressed_page_size=lambda size: size - 1),
    "no pages": _locations(lambda found: []),
    "one page for all": _locations(lambda found: found[:1]),
    "first page is missing": _locations(lambda found: [found[1]._replace(first_row_index=0), *found[2:]]),
    "last page is missing": _locations(lambda found: found[:-1]),
    "a page is missing": _locations(lambda found: found[:2] + found[3:]),
    "two pages are swapped": _locations(lambda found: [found[1], found[0], *found[2:]]),
    "two offsets are swapped": _locations(
        lambda found: [
            found[0],
            found[1]._replace(offset=found[2].offset),
            found[2]._replace(offset=found[1].offset),
            *found[3:],
        ]
    ),
    "a page too many": _locations(
        lambda found: [*found, PageLocation(found[-1].offset + 3, 5, found[-1].first_row_index + 2)]
    ),
    "garbage": lambda index: b"\xba\xad" * 30,
    "zeros": lambda index: bytes(60),
}


@pytest.mark.parametrize("leaf", ["key", "value"])
@pytest.mark.parametrize("damage", OFFSET_DAMAGE)
def test_damaged_offset_index(whole_file, tmp_path, damage, leaf):
    patient = Patient.read(whole_file)
    patient.change_index(OffsetIndex, 0, LEAVES[leaf], OFFSET_DAMAGE[damage])
    patient.write(damaged := tmp_path / "damaged.parquet")
    scan_all(damaged)


@pytest.mark.filterwarnings("ignore::intarsia.IntarsiaWarning")
@pytest.mark.parametrize("leaf", ["key", "value"])
@pytest.mark.parametrize("damage", OFFSET_DAMAGE)
def test_locations_and_first_rows_with_a_damaged_offset_index(plain_file, tmp_path, damage, leaf):
    patient = Patient.read(plain_file)
    patient.change_index(OffsetIndex, 0, LEAVES[leaf], OFFSET_DAMAGE[damage])
    patient.write(damaged := tmp_path / "damaged.parquet")
    table = ia.open(damaged)
    for where, expected in list(matching().items())[::2]:
        assert ia.open(damaged).locate(where)["row"].to_pylist() == expected["key"].to_pylist(), where
        for limit in (3, 90):  # a later part of a row group may prove that its page index is wrong
            assert_same_rows(ia.open(damaged).scan(where, limit=limit).to_arrow(), expected.slice(0, limit))
    for order_by, where, expected in (
        ("key DESC", "key < 590", range(589, 582, -1)),
        ("key", "text > 'text 0105'", range(106, 113)),
        ("text DESC", "key <= 399", range(399, 392, -1)),
    ):
        for opened in (table, ia.open(damaged)):
            found = opened.scan(where, ["key"], order_by=order_by, limit=7)
            assert found.to_arrow()["key"].to_pylist() == list(expected)
    best = ia.open(damaged).scan(columns=["value"], order_by="value DESC", limit=9)
    assert best.to_arrow()["value"].to_pylist() == sorted(TABLE["value"].drop_null().to_pylist())[:-10:-1]


def test_rows_that_a_wrong_page_index_proves(tmp_path):
    """No row is excluded and every page of ``coarse`` is read, but row 199 is not: its index proves it."""
    rows = range(1000)
    coarse = [-5 if row == 199 else row % 7 for row in rows]
    fine = [f"{'y' if row // 30 % 2 and row % 30 == 7 else 'x'}{row:050}" for row in rows]
    table = pa.table({"coarse": pa.array(coarse, pa.int64()), "fine": fine})
    whole, damaged = tmp_path / "whole.parquet", tmp_path / "damaged.parquet"
    options = {"write_page_index": True, "use_dictionary": False, "compression": "none"}
    pq.write_table(table, whole, data_page_size=1600, write_batch_size=10, **options)
    where = "coarse >= 0 AND fine < 'xz'"
    expected = sum(number >= 0 and text < "xz" for number, text in zip(coarse, fine, strict=True))
    assert ia.open(whole).count(where) == expected

    patient = Patient.read(whole)
    assert [found.first_row_index for found in patient.index(OffsetIndex, 0, 0).page_locations][1] == 200
    patient.change_index(OffsetIndex, 0, 0, _one(1, first_row_index=199))
    patient.write(damaged)
    with pytest.warns(ia.IntarsiaWarning):
        assert ia.open(damaged).count(where) == expected


@pytest.mark.parametrize("cls", [OffsetIndex, ColumnIndex])
@pytest.mark.parametrize(
    ("offset", "length"),
    [
        (0, 40),
        (4, 60),
        (-5, 40),
        (2**62, 40),
        (2**63 - 1, 2**31 - 1),
        (200, 2**31 - 1),
        (200, -3),
        (-(2**63), 1),
    ],
)
def test_index_at_another_offset(plain_file, tmp_path, cls, offset, length):
    patient = Patient.read(plain_file)
    patient.point_index(cls, 0, 0, offset, length)
    patient.write(damaged := tmp_path / "damaged.parquet")
    scan_all(damaged, noted=offset != 0)  # some writers write 0 for "absent"


@pytest.mark.parametrize("cls", [OffsetIndex, ColumnIndex])
def test_truncated_index(plain_file, tmp_path, cls):
    data = Patient.read(plain_file).index_bytes(cls, 0, 0)
    for length in range(0, len(data) - 1, 19):
        patient = Patient.read(plain_file)
        patient.put_index(cls, 0, 0, data[:length] or b"\xff")
        patient.write(damaged := tmp_path / "damaged.parquet")
        scan_all(damaged)


@pytest.mark.parametrize("cls", [OffsetIndex, ColumnIndex])
def test_index_of_another_column(plain_file, tmp_path, cls):
    """It has the expected shape and wrong contents: ``key`` gets the index of ``text``."""
    patient = Patient.read(plain_file)
    patient.put_index(cls, 0, 0, patient.index_bytes(cls, 0, 1))
    patient.write(damaged := tmp_path / "damaged.parquet")
    scan_all(damaged)


# --- ColumnIndex ---


def _listed(name, page, new):
    def changed(index):
        values = list(getattr(index, name))
        values[page] = new
        return index._replace(**{name: values})

    return changed


def _shorter(name):
    return lambda index: index._replace(**{name: getattr(index, name)[:-1]})


COLUMN_DAMAGE = {
    **{
        f"too few {name}": _shorter(name)
        for name in ("null_pages", "min_values", "max_values", "null_counts")
    },
    "bounds swapped": lambda index: index._replace(min_values=index.max_values, max_values=index.min_values),
    "bounds of one page swapped": lambda index: _listed("min_values", 2, index.max_values[2])(
        _listed("max_values", 2, index.min_values[2])(index)
    ),
    "unknown boundary order": lambda index: index._replace(boundary_order=7),
    "null page without nulls": _listed("null_pages", 2, True),
    "all null pages, uncounted": lambda index: index._replace(
        null_pages=[True] * len(index.null_pages), null_counts=None
    ),
    "all null pages, counted as -1": lambda index: index._replace(
        null_pages=[True] * len(index.null_pages), null_counts=[-1] * len(index.null_pages)
    ),
    "a null page that carries bounds": lambda index: _listed("null_pages", 2, True)(
        index._replace(null_counts=None)
    ),
    "null page of fewer nulls than rows": lambda index: index._replace(
        null_pages=[True] * len(index.null_pages), null_counts=[3] * len(index.null_pages)
    ),
    "negative null count": _listed("null_counts", 1, -2),
    "more nulls than rows": _listed("null_counts", 1, 51),
    "lower bound too short": _listed("min_values", 2, b"\x01"),
    "upper bound is missing": _listed("max_values", 2, b""),
    "garbage": lambda index: b"\xba\xad" * 30,
}

_FIXED_WIDTH_ONLY = {"lower bound too short"}


@pytest.mark.parametrize("leaf", LEAVES)
@pytest.mark.parametrize("damage", COLUMN_DAMAGE)
def test_damaged_column_index(plain_file, tmp_path, damage, leaf):
    if leaf == "text" and damage in _FIXED_WIDTH_ONLY:
        pytest.skip("text has bounds of any length")
    patient = Patient.read(plain_file)
    patient.change_index(ColumnIndex, 0, LEAVES[leaf], COLUMN_DAMAGE[damage])
    patient.write(damaged := tmp_path / "damaged.parquet")
    scan_all(damaged)


@pytest.mark.parametrize("leaf", LEAVES)
@pytest.mark.parametrize("order", [0, 1, 2])
def test_wrong_boundary_order_is_harmless(plain_file, tmp_path, order, leaf):
    """A wrong order must not mislead the binary search, and the bounds are still used."""
    patient = Patient.read(plain_file)
    patient.change_index(ColumnIndex, 0, LEAVES[leaf], lambda index: index._replace(boundary_order=order))
    patient.write(damaged := tmp_path / "damaged.parquet")
    scan_all(damaged, noted=False)


@pytest.mark.parametrize("order", [0, 1, 2])
def test_nan_in_bounds_is_ignored(tmp_path, order):
    """Some writers write NaN, which is not damage; the page may contain any value."""
    path = tmp_path / "whole.parquet"
    make_file(path)
    patient = Patient.read(path)
    nan = np.array([np.nan]).tobytes()
    patient.change_index(ColumnIndex, 0, 2, _listed("min_values", 1, nan))
    patient.change_index(ColumnIndex, 0, 2, _listed("max_values", 2, nan))
    patient.change_index(ColumnIndex, 0, 2, lambda index: index._replace(boundary_order=order))
    patient.write(path)
    scan_all(path, noted=False)


# --- Bloom filters ---


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"\x00",
        b"\xff" * 16,
        b"PAR1" * 4,
        b"\x15\x3e\x1c\x1c\x00\x00\x1c\x1c\x00\x00\x1c\x1c\x00\x00\x00",
    ],
    ids=["unchanged", "empty struct", "ones", "magic", "31 bytes"],
)
@pytest.mark.parametrize("offset", [None, 0, 2**40, -7])
def test_damaged_bloom_filter(tmp_path, header, offset):
    path = tmp_path / "bloom.parquet"
    filters = {name: {"ndv": 100, "fpp": 0.01} for name in LEAVES}
    make_file(path, write_page_index=False, write_statistics=False, bloom_filter_options=filters)
    patient = Patient.read(path)
    meta = patient.chunk(0, 0).get(3)
    start = meta.get(14)
    patient.body[start : start + len(header)] = header
    if offset is not None:
        meta.fields[14] = (meta.fields[14][0], offset)
    patient.write(path)
    sound = (not header and offset is None) or offset == 0
    scan_all(path, noted=not sound)
