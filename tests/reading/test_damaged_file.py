"""Damaged and hostile files quickly give an Intarsia error that names the file, and never wrong rows."""

from __future__ import annotations

import random
import time
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import intarsia as ia
from intarsia.format import thrift, thrift_tree
from intarsia.format.structs import ColumnIndex, OffsetIndex
from intarsia.storage import MemorySource
from tests.effort import examples
from tests.embed.tables import edit_footer
from tests.reading.exact import assert_same_rows
from tests.reading.pages import layout_of
from tests.reading.surgery import Patient, table_in_memory

NAME = "damaged.parquet"
ROWS = 300
SECONDS = 5  # of the CPU, much longer than any of these takes


def table_of(data):
    return table_in_memory(MemorySource(data, NAME))


def scan(data, where=None, columns=None):
    return table_of(data).scan(where, columns).to_arrow()


def survives(data, where=None):
    """The rows, or None after an Intarsia error, within the time limit."""
    started = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ia.IntarsiaWarning)
        try:
            return scan(data, where)
        except ia.IntarsiaError:
            return None
        finally:
            assert time.process_time() - started < SECONDS


def make_table():
    return pa.table(
        {
            "key": pa.array(np.arange(ROWS)),
            "text": [f"text {row}" for row in range(ROWS)],
            "s": pa.array([{"x": row, "y": None if row % 3 else str(row)} for row in range(ROWS)]),
            "l": pa.array([[row] * (row % 4) for row in range(ROWS)]),
            "m": pa.array([[("a", 1)]] * ROWS, pa.map_(pa.string(), pa.int8())),
            "d": pa.array(range(ROWS), pa.decimal128(20, 2)),
        }
    )


def make_bytes(table, **options):
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, row_group_size=100, **options)
    return sink.getvalue().to_pybytes()


FILES = {
    "v1": {"write_page_index": True, "max_rows_per_page": 20},
    "v2": {
        "write_page_index": True,
        "max_rows_per_page": 20,
        "data_page_version": "2.0",
        "use_dictionary": False,
    },
    "bloom": {"bloom_filter_options": {"key": {"ndv": 50}, "text": {"ndv": 50}}, "store_schema": False},
}


@pytest.fixture(scope="module")
def files():
    return {name: make_bytes(make_table(), **options) for name, options in FILES.items()}


WHERES = [None, "key = 150", "text = 'text 7' OR s.x > 280"]

# --- not Parquet files ---


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "empty-file"),
        (b"P", "file-too-short"),
        (b"PAR1", "file-too-short"),
        (b"PAR1" + b"\0" * 4 + b"PAR", "file-too-short"),
        (b"PAR1" + b"\0" * 4 + b"PAR1", "truncated-struct"),
        (b"PAR1" + b"\xff" * 4 + b"PAR1", "truncated-file"),
        (b"PAR1" + b"\x05\0\0\0" + b"PAR1", "truncated-file"),
        (b"a,b\n1,2\n3,4\n5,6\n", "text-file"),
        ("Straße,Ort\r\nAm Ring,Köln\r\n".encode("latin-1"), "text-file"),
        (b'{"a": 1}\n' * 1000, "text-file"),
        (b"PAR1" + b"text" * 10, "wrong-magic"),
        (b"PK\x03\x04" + b"\0" * 100, "wrong-magic"),
        (b"PAR1" + b"\0" * 100 + b"PARE", "encrypted-footer"),
    ],
)
@pytest.mark.parametrize("on_disk", [False, True])
def test_not_a_parquet_file(tmp_path, data, reason, on_disk):
    (tmp_path / NAME).write_bytes(data)
    with pytest.raises(ia.FormatError) as caught:
        ia.open(tmp_path / NAME).scan().to_arrow() if on_disk else scan(data)
    assert caught.value.reason == reason
    assert caught.value.path == (str(tmp_path / NAME) if on_disk else NAME)


def test_truncated_anywhere(files):
    for data in files.values():
        for length in [*range(40), *range(40, len(data) - 1, 211), len(data) - 1]:
            with pytest.raises(ia.CorruptFileError) as caught:
                scan(data[:length])
            assert caught.value.path == NAME


def test_footer_of_a_longer_file(files):
    """The body is truncated and the footer complete, so its offsets are beyond the end of the file."""
    data = files["v1"]
    patient = Patient(data)
    patient.body = patient.body[: len(patient.body) // 2]
    for read in (lambda table: table.scan().to_arrow(), lambda table: table.dataset().to_table()):
        with pytest.raises(ia.CorruptFileError) as caught:
            read(table_of(patient.bytes()))
        assert caught.value.path == NAME


def test_other_files_of_a_table_are_named(tmp_path):
    pq.write_table(pa.table({"a": [1]}), tmp_path / "1.parquet")
    (tmp_path / "2.parquet").write_bytes(b"PAR1 no PAR1")
    with pytest.raises(ia.CorruptFileError) as caught:
        ia.open(tmp_path).scan("a = 1").to_arrow()
    assert caught.value.path == str(tmp_path / "2.parquet")


# --- damaged pages ---


@pytest.fixture(scope="module", params=["page index", "none", "v2"])
def broken_page(request, tmp_path_factory):
    """The second page of ``text`` has a body that cannot be decompressed."""
    path = tmp_path_factory.mktemp("broken") / NAME
    table = make_table()
    options = {"write_page_index": request.param != "none", "max_rows_per_page": 20, "compression": "zstd"}
    version = "2.0" if request.param == "v2" else "1.0"
    pq.write_table(
        table.select(["key", "text"]), path, use_dictionary=False, data_page_version=version, **options
    )
    place = layout_of(path).pages["text"][1].place
    data = bytearray(path.read_bytes())
    data[place.stop - 30 : place.stop] = b"\xff" * 30
    path.write_bytes(data)
    return table.select(["key", "text"]), path


@pytest.mark.parametrize(
    ("where", "columns"),
    [
        (None, None),
        (None, ["text"]),
        ("key BETWEEN 15 AND 25", None),
        ("key = 30", ["text"]),
        ("text = 'text 30'", ["key"]),
    ],
)
def test_damaged_page_names_file_and_column(broken_page, where, columns):
    _, path = broken_page
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ia.IntarsiaWarning)
        for run in (ia.Scan.to_arrow, list):
            with pytest.raises(ia.CorruptFileError) as caught:
                run(ia.open(path).scan(where, columns))
            assert caught.value.path == str(path)
            assert caught.value.column in ("text", None)
            assert "'text'" in str(caught.value)
            assert "'key'" not in str(caught.value)


def test_damaged_page_affects_only_queries_that_read_it(broken_page):
    table, path = broken_page
    assert_same_rows(ia.open(path).scan(columns=["key"]).to_arrow(), table.select(["key"]))
    assert_same_rows(ia.open(path).scan("key = 30", ["key"]).to_arrow(), table.select(["key"]).slice(30, 1))
    if pq.read_metadata(path).row_group(0).column(0).has_offset_index:
        assert_same_rows(ia.open(path).scan("key = 70").to_arrow(), table.slice(70, 1))


@pytest.mark.parametrize("where", WHERES)
def test_fewer_rows_than_the_footer_claims(files, where):
    for data in files.values():
        patient = Patient(data)
        patient.footer.set(3, thrift.I64, ROWS + 50)
        group = patient.footer.get(4).items[1]
        group.set(3, thrift.I64, 150)
        found = survives(patient.bytes(), where)
        assert found is None or where is not None
        if found is not None:  # the matching rows were read and are correct
            assert found.num_rows == scan(data, where).num_rows


# --- hostile footers ---


def footer_of(data):
    patient = Patient(data)
    return bytes(patient.body), thrift_tree.serialize_tree(patient.footer)


def with_footer(body, footer):
    return body + footer + len(footer).to_bytes(4, "little") + b"PAR1"


UNKNOWN_FIELD = b"\xc8\x01"  # field 100, as a zigzag number

HOSTILE_TAILS = {
    "a list of 2**31 structs": b"\x19\xfc\xff\xff\xff\xff\x07",
    "a string of 2 GiB": b"\x28\xff\xff\xff\xff\x07",
    "structs in structs": b"\x0c" + UNKNOWN_FIELD + b"\x1c" * 1_000_000,
    "structs in structs, closed": b"\x0c" + UNKNOWN_FIELD + b"\x1c" * 500_000 + bytes(500_001),
    "lists in lists": b"\x09" + UNKNOWN_FIELD + b"\x19" * 1_000_000,
    "a map of 2**31 entries": b"\x0b" + UNKNOWN_FIELD + b"\xff\xff\xff\xff\x07\x55",
    "a number without end": b"\x16" + b"\xff" * 1_000,
}


@pytest.mark.parametrize("tail", HOSTILE_TAILS)
def test_hostile_thrift_is_refused(files, tail):
    body, footer = footer_of(files["v1"])
    for start in (b"", footer[:-1]):
        data = with_footer(body, start + HOSTILE_TAILS[tail])
        started = time.process_time()
        with pytest.raises(ia.CorruptFileError) as caught:
            scan(data)
        assert caught.value.path == NAME
        with pytest.raises(ia.CorruptFileError):
            thrift_tree.parse_tree(start + HOSTILE_TAILS[tail])
        assert time.process_time() - started < SECONDS


@pytest.mark.parametrize("children", [2**31 - 1, -1, 0, 5])
@pytest.mark.parametrize("element", [0, 1, 3])
def test_schema_that_is_not_a_tree(files, element, children):
    patient = Patient(files["v1"])
    patient.footer.get(2).items[element].set(5, thrift.I32, children)
    if (element, children) == (1, 0):  # valid for a leaf
        assert survives(patient.bytes()).num_rows == ROWS
    else:
        with pytest.raises(ia.CorruptFileError):
            scan(patient.bytes())


def test_schema_of_a_hundred_thousand_levels(files):
    patient = Patient(files["v1"])
    level = thrift_tree.Struct({3: (thrift.I32, 1), 4: (thrift.BINARY, b"g"), 5: (thrift.I32, 1)})
    items = patient.footer.get(2).items
    items[1:1] = [level] * 100_000
    with pytest.raises(ia.CorruptFileError) as caught:
        scan(patient.bytes())
    assert caught.value.reason == "schema-too-deep"


@pytest.mark.parametrize("rows", [2**33, 2**40, 2**62, -1, 0])
def test_impossible_row_counts(files, rows):
    patient = Patient(files["v1"])
    patient.footer.set(3, thrift.I64, rows + 200)
    group = patient.footer.get(4).items[0]
    group.set(3, thrift.I64, rows)
    for chunk in group.get(1).items:
        chunk.get(3).set(5, thrift.I64, rows)
    for where in WHERES:
        found = survives(patient.bytes(), where)
        assert found is None or found.num_rows <= ROWS


# --- fuzz ---


def flip_bytes(rng, data):
    """Change some bytes, mostly in the footer."""
    start = Patient(data).footer_start if rng.random() < 0.7 else 0
    out = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 5, 20])):
        place = rng.randrange(start, len(data) - 8)
        out[place] = rng.choice([rng.randrange(256), out[place] ^ 1 << rng.randrange(8), 0, 0x7F, 0x80, 0xFF])
    return bytes(out)


NUMBERS = [0, 1, -1, 2, 5, 7, 8, 100, 300, 2**31 - 1, 2**31, -(2**31), 2**40, 2**63 - 1, -(2**63)]
LIMITS = {thrift.I16: 15, thrift.I32: 31, thrift.I64: 63}


def places(node, found):
    if isinstance(node, thrift_tree.Struct):
        for field_id, (_, value) in node.fields.items():
            found.append((node, field_id))
            places(value, found)
    elif isinstance(node, thrift_tree.List):
        found.append((node, None))
        for item in node.items:
            places(item, found)
    return found


def poke(rng, tree):
    """Change one field or list of a tree to another valid value."""
    node, field_id = rng.choice(places(tree, []))
    if field_id is None:
        if node.items:
            place = rng.randrange(len(node.items))
            rng.choice([lambda: node.items.pop(place), lambda: node.items.append(node.items[place])])()
            rng.shuffle(node.items) if rng.random() < 0.3 else None
        return
    kind, value = node.fields[field_id]
    if rng.random() < 0.2:
        node.remove(field_id)
    elif kind in LIMITS:
        number = rng.choice([*NUMBERS, value + 1, value - 1, value * 2, value + 100, value - 100])
        node.set(field_id, kind, max(-(2 ** LIMITS[kind]), min(2 ** LIMITS[kind] - 1, number)))
    elif kind == thrift.BINARY:
        node.set(field_id, kind, rng.choice([b"", b"\xff\xfe", b"key", value[:-1], value + b"x"]))
    elif kind == thrift.BOOL_TRUE:
        node.set(field_id, kind, not value)


def poke_file(rng, data):
    """Change fields of the footer or of an index."""
    patient = Patient(data)
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        cls = rng.choice([OffsetIndex, ColumnIndex])
        if rng.random() < 0.25 and patient.chunk(0, 0).get(4):
            tree, _ = thrift_tree.parse_tree(patient.index_bytes(cls, 0, 0))
            poke(rng, tree)
            patient.put_index(cls, 0, 0, thrift_tree.serialize_tree(tree))
        else:
            poke(rng, patient.footer)
            break
    return patient.bytes()


@settings(max_examples=examples(150))
@given(seed=st.integers(0, 2**32), name=st.sampled_from(sorted(FILES)), where=st.sampled_from(WHERES))
@pytest.mark.parametrize("change", [flip_bytes, poke_file])
def test_fuzzed_file_gives_rows_or_an_intarsia_error(files, change, seed, name, where):
    data = change(random.Random(seed), files[name])
    survives(data, where)


@pytest.mark.parametrize("question", ["count", "aggregate", "scan", "plan"])
def test_rows_that_no_column_has_values_for(tmp_path, question):
    """Like Impala's huge_num_rows.parquet: the footer claims 4,294,967,294 rows; chunks have one."""
    path = tmp_path / "huge.parquet"
    pq.write_table(pa.table({"n": [1], "t": ["a"]}), path)

    def claim_more(footer):
        footer.set(3, thrift.I64, 2**32 - 2)
        footer.get(4).items[0].set(3, thrift.I64, 2**32 - 2)

    edit_footer(path, claim_more)
    table = ia.open(path)
    ask = {
        "count": table.count,
        "aggregate": lambda: table.aggregate({"n": ["count", "max"]}),
        "scan": lambda: table.scan().to_arrow(),
        "plan": lambda: [split.to_arrow() for split in table.plan("n = 1")],
    }[question]
    with pytest.raises(ia.CorruptFileError) as caught:
        ask()
    assert caught.value.path == str(path)
