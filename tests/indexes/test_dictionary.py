"""Dictionary pages prune exactly if all data pages use them; otherwise they are not used."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import event, given, reject, settings
from hypothesis import strategies as st

from intarsia.arrow.comparison import comparison_array, comparison_type
from intarsia.errors import FormatError
from intarsia.file import ParquetInput
from intarsia.file.chunks import recorded_pages
from intarsia.format.enums import Encoding, PageType
from intarsia.format.footer import chunk_range
from intarsia.format.pages import walk_pages
from intarsia.format.structs import PageEncodingStats
from intarsia.indexes.dictionary import Dictionaries, DictionaryLimits
from intarsia.indexes.proof import split_batches
from intarsia.predicate import (
    BoundCompare,
    BoundConstant,
    BoundNull,
    bind,
    conditions,
    parse_sql,
)
from intarsia.rows.selection import RowSelection
from intarsia.storage import ByteRange, MemorySource
from tests.effort import examples
from tests.indexes.test_distinct import rows_where
from tests.leaves import open_table
from tests.predicate import strategies as flat
from tests.reading import tables
from tests.reading.exact import leaf_at
from tests.reading.surgery import Patient


def evaluated(file, wanted, budget=1 << 62, **limits):
    """Return the dictionaries of a file, evaluated for all rows if they cost less than a budget, in bytes."""
    found = Dictionaries(file, limits=DictionaryLimits(page_cost_bytes=0, scan_cost_bytes=0, **limits))
    reach = {leaf: found.reach(leaf) for leaf in wanted}
    wanted = {leaf: groups for leaf, groups in reach.items() if groups is not None}
    return Evaluated(found, list(found.evaluate(wanted, Everything(file, budget))))


class Evaluated:
    """The verdicts of dictionaries."""

    def __init__(self, dictionaries, verdicts):
        self.pages = dictionaries.pages
        self.verdicts = {verdict.condition: verdict for verdict in verdicts}

    def candidate_rows(self, leaf):
        return self.verdicts[leaf].possible if leaf in self.verdicts else None

    def certain_rows(self, leaf):
        return self.verdicts[leaf].certain if leaf in self.verdicts else RowSelection.none()


class Everything:
    """Savings where every row is a candidate, and any cost below a budget is worth it."""

    def __init__(self, file, budget):
        self.edges = file.footer.row_group_starts
        self.budget = budget

    def column_bytes(self, leaf):
        return np.full(len(self.edges) - 1, self.budget)

    def num_rows(self):
        return np.diff(self.edges)

    def excluded_if(self, denied):
        return np.ones(len(self.edges) - 1, dtype=bool)


def groups_of_dictionaries(file, leaf) -> list[bool]:
    """Return whether all data pages of each chunk use the dictionary, according to their headers."""
    out = []
    for group in range(len(file.footer.metadata.row_groups)):
        meta = file.footer.chunk_metadata(group, leaf)
        start, stop = chunk_range(meta)
        pages = walk_pages(file.source.read(start, stop), meta.num_values)
        out.append(all(page.uses_dictionary for page in pages if page.is_data))
    return out


# --- against the rows ---


@st.composite
def files(draw):
    kind = draw(st.sampled_from(flat.TYPES))
    num_rows = draw(st.integers(1, 60))
    column = draw(tables.columns(kind, num_rows, nullable=draw(st.booleans())))
    table = pa.table([column], schema=pa.schema([pa.field("x", kind, nullable=bool(column.null_count))]))
    if draw(st.booleans()):
        mask = pa.array([row % 5 == 3 for row in range(num_rows)])
        table = pa.table({"s": pa.StructArray.from_arrays([column], ["x"], mask=mask)})
    options = {
        "row_group_size": draw(st.integers(1, 60)),
        "compression": draw(st.sampled_from(tables.CODECS)),
        "data_page_version": draw(st.sampled_from(["1.0", "2.0"])),
        "data_page_size": draw(st.sampled_from([1, 1 << 20])),
        "write_batch_size": draw(st.integers(1, 9)),
        "dictionary_pagesize_limit": draw(st.sampled_from([None, None, 8, 40])),
        "write_statistics": draw(st.sampled_from([False, False, True])),
        "store_schema": draw(st.booleans()),
        "store_decimal_as_integer": draw(st.booleans()),
        "use_deprecated_int96_timestamps": draw(st.booleans()),
    }
    return table, options


@settings(max_examples=examples(250))
@given(st.data())
def test_its_rows_agree_with_the_data(data):
    table, options = data.draw(files(), label="file")
    try:
        file = open_table(table, **options)
        read = pq.read_table(pa.BufferReader(file.source.read(0, file.source.size())))
    except (pa.ArrowException, OSError) as error:
        event(str(error)[:50])
        reject()
    path = "x" if "x" in table.column_names else "s.x"
    column = leaf_at(read, path)
    bound = bind(data.draw(flat.predicates({path: column.type}), label="where"), file.arrow_schema)
    wanted = list(dict.fromkeys(conditions(bound)))
    found = evaluated(file, wanted)
    assert file.ignored == []
    edges = file.footer.row_group_starts.tolist()
    proven = groups_of_dictionaries(file, file.footer.leaves[0])
    for leaf in wanted:
        matching = rows_where(leaf, column)
        possible = found.candidate_rows(leaf)
        certain = found.certain_rows(leaf)
        if possible is None:
            assert isinstance(leaf, BoundNull) or options["write_statistics"] or not any(proven)
            assert certain.is_empty
            continue
        assert (matching - possible).is_empty
        assert (certain - matching).is_empty
        for (start, stop), is_proven in zip(itertools.pairwise(edges), proven, strict=True):
            if not is_proven:
                assert possible.clip(start, stop).num_rows == stop - start
                assert certain.clip(start, stop).is_empty
            elif not options["write_statistics"] and not pa.types.is_dictionary(leaf_at(table, path).type):
                # otherwise statistics may exclude as much, or pyarrow wrote unused values
                event("judged")
                assert possible.clip(start, stop).is_empty == matching.clip(start, stop).is_empty


@pytest.mark.parametrize("kind", [kind for kind in flat.TYPES if not pa.types.is_boolean(kind)], ids=str)
@settings(max_examples=examples(8))
@given(st.data())
def test_values_of_every_type_are_found(kind, data):
    column = data.draw(tables.columns(kind, 12), label="column")
    try:
        file = open_table(pa.table({"x": column}), row_group_size=4, write_statistics=False)
        read = pq.read_table(pa.BufferReader(file.source.read(0, file.source.size())))["x"]
    except (pa.ArrowException, OSError):
        reject()
    plain = comparison_type(read.type)
    values = [value for value in comparison_array(read, plain) if value.is_valid]
    wanted = [
        BoundCompare(("x",), plain, "=", value)
        for value in dict.fromkeys(values)
        if not (pa.types.is_floating(plain) and (value.as_py() == 0 or value.as_py() != value.as_py()))
    ]
    found = evaluated(file, wanted)
    assert file.ignored == []
    for leaf in wanted:
        matching = rows_where(leaf, read)
        groups = matching.overlaps([0, 4, 8], [4, 8, 12])
        possible = found.candidate_rows(leaf)
        assert (matching - possible).is_empty
        if not pa.types.is_dictionary(kind):  # pyarrow writes unused values of these
            assert possible.covers([0, 4, 8], [4, 8, 12]).tolist() == groups.tolist()


@pytest.mark.parametrize("count", [1, 7, 8, 255, 256, 257, 65536, 65537])
@pytest.mark.parametrize("nullable", [False, True])
def test_every_entry_is_decoded(count, nullable):
    values = pa.array(np.arange(count) * 3)
    table = pa.table([values], schema=pa.schema([pa.field("x", pa.int64(), nullable=nullable)]))
    file = open_table(table, write_statistics=False, dictionary_pagesize_limit=1 << 24, compression="snappy")
    assert groups_of_dictionaries(file, file.footer.leaves[0]) == [True]
    for value, present in [(0, True), ((count - 1) * 3, True), (1, False), (count * 3, False)]:
        (leaf,) = conditions(bind(parse_sql(f"x = {value}"), table.schema))
        assert evaluated(file, [leaf]).candidate_rows(leaf).num_rows == (count if present else 0)


def test_rows_are_certain_only_if_the_null_count_is_known_to_be_0():
    table = pa.table({"x": ["a", "a", "b", "a", None, "a", None, None]})
    for statistics, certain in [(True, [(0, 2)]), (False, [])]:
        file = open_table(table, row_group_size=2, write_statistics=statistics)
        (leaf,) = conditions(bind(parse_sql("x = 'a'"), table.schema))
        found = evaluated(file, [leaf])
        assert found.candidate_rows(leaf) == RowSelection.from_ranges([(0, 6)])
        assert found.certain_rows(leaf) == RowSelection.from_ranges(certain)
    (leaf,) = conditions(bind(parse_sql("x IN ('a', 'b')"), table.schema))
    found = evaluated(open_table(table, row_group_size=2), [leaf])
    assert found.certain_rows(leaf) == RowSelection.from_ranges([(0, 4)])


# --- searching the bytes of pages that are not worth decoding ---


@settings(max_examples=examples(60))
@given(st.data())
def test_searching_bytes_excludes_no_match(data):
    words = st.text("abé", min_size=3, max_size=80 if data.draw(st.booleans()) else 8)
    texts = data.draw(st.lists(st.none() | words, min_size=1, max_size=30), label="texts")
    codec = data.draw(st.sampled_from(["none", "snappy", "zstd"]))
    table = pa.table({"x": pa.array(texts, data.draw(st.sampled_from([pa.string(), pa.large_string()])))})
    file = open_table(table, row_group_size=5, write_statistics=False, compression=codec)
    of_texts = words | st.sampled_from([text for text in texts if text] or ["aaa"])
    cuts = st.tuples(st.integers(0, 3), st.integers(3, 5))
    patterns = [
        f"{text[: cut[0]]}%{text[cut[1] :]}"
        for text, cut in data.draw(
            st.lists(st.tuples(of_texts, cuts), min_size=1, max_size=3), label="patterns"
        )
    ]
    negation, start, stop = (data.draw(st.sampled_from(["", one])) for one in ("NOT ", "%", "%"))
    wanted = [
        leaf
        for pattern in patterns
        for leaf in conditions(bind(parse_sql(f"x {negation}LIKE '{start}{pattern}{stop}'"), table.schema))
        if not isinstance(leaf, BoundNull | BoundConstant)
    ]
    lengths = [
        column.data_page_offset - column.dictionary_page_offset
        for group in file.footer.metadata.row_groups
        for column in [group.columns[0].meta_data]
        if column.dictionary_page_offset
    ]
    found = evaluated(file, wanted, budget=max(lengths, default=0) + 1)
    assert file.ignored == []
    for leaf in wanted:
        possible = found.candidate_rows(leaf)
        if possible is not None:
            event("searched")
            assert (rows_where(leaf, table["x"]) - possible).is_empty


def lookup_in(num_groups, has_text):
    """Return row groups whose dictionaries are worth searching only, a condition, and their sizes."""
    texts = [f"value {row:09}" + "needle" * has_text(row // 10) for row in range(10 * num_groups)]
    table = pa.table({"x": texts})
    file = open_table(table, row_group_size=10, write_statistics=False, compression="none")
    (leaf,) = conditions(bind(parse_sql("x LIKE '%needle%'"), table.schema))
    metas = [group.columns[0].meta_data for group in file.footer.metadata.row_groups]
    return file, leaf, [meta.data_page_offset - meta.dictionary_page_offset for meta in metas]


def test_dictionaries_without_a_text_are_excluded_without_decoding():
    file, leaf, sizes = lookup_in(40, lambda group: group % 20 == 7)
    before = file.source.counts.bytes
    found = evaluated(file, [leaf], budget=2 * max(sizes))
    assert found.candidate_rows(leaf) == RowSelection.from_ranges([(70, 80), (270, 280)])
    assert found.certain_rows(leaf).is_empty
    assert file.source.counts.bytes - before == sum(sizes)
    assert sum(map(len, found.pages.values())) == sizes[7] + sizes[27]  # a scan needs only these
    exact = evaluated(file, [leaf])
    assert exact.candidate_rows(leaf) == found.candidate_rows(leaf)


@pytest.mark.parametrize("budget", [2, 1000], ids=["searched", "decoded"])
def test_searching_ends_if_dictionaries_in_all_parts_of_the_file_have_the_text(budget):
    file, leaf, sizes = lookup_in(40, lambda group: group != 31)
    before = file.source.counts.bytes
    found = evaluated(file, [leaf], budget=budget * max(sizes))
    assert found.candidate_rows(leaf) == RowSelection.all(400)
    assert file.source.counts.bytes - before == sum(sizes[::3])
    assert found.pages.keys() == {
        group.columns[0].meta_data.dictionary_page_offset for group in file.footer.metadata.row_groups[::3]
    }


def test_searching_goes_on_if_a_part_of_the_file_lacks_the_text():
    file, leaf, sizes = lookup_in(40, lambda group: group < 30)
    assert evaluated(file, [leaf], budget=2 * max(sizes)).candidate_rows(leaf) == RowSelection.all(300)


# --- where it is proven that all pages use the dictionary ---

_V1, _V2, _DICTIONARY = PageType.DATA_PAGE, PageType.DATA_PAGE_V2, PageType.DICTIONARY_PAGE
_PLAIN, _OLD, _NEW, _RLE = Encoding.PLAIN, Encoding.PLAIN_DICTIONARY, Encoding.RLE_DICTIONARY, Encoding.RLE


@pytest.mark.parametrize(
    ("encodings", "stats", "proven"),
    [
        ([_PLAIN, _RLE, _NEW], [(_DICTIONARY, _PLAIN, 1), (_V1, _NEW, 3)], True),
        ([_PLAIN, _RLE, _NEW], [(_DICTIONARY, _PLAIN, 1), (_V2, _NEW, 3)], True),
        ([_OLD, _RLE], [(_DICTIONARY, _OLD, 1), (_V1, _OLD, 3)], True),
        ([_PLAIN, _RLE, _NEW], [(_DICTIONARY, _PLAIN, 1), (_V1, _NEW, 3), (_V1, _PLAIN, 0)], True),
        ([_PLAIN, _RLE, _NEW], [(_DICTIONARY, _PLAIN, 1), (_V1, _NEW, 3), (_V1, _PLAIN, 1)], False),
        ([_OLD, _RLE], [(_DICTIONARY, _OLD, 1), (_V1, _OLD, 3), (_V2, Encoding.DELTA_BYTE_ARRAY, 1)], False),
        ([_PLAIN, _RLE, _NEW], [(_DICTIONARY, _PLAIN, 1)], False),
        ([_PLAIN, _RLE], [(_V1, _PLAIN, 3)], False),
        ([_PLAIN, _RLE, _NEW], None, False),
        ([_NEW], None, False),
        ([_OLD], None, True),
        ([_OLD, _RLE, Encoding.BIT_PACKED], None, True),
        ([_OLD, _RLE, _PLAIN], None, False),
        ([_OLD, _NEW], None, False),
        ([_RLE, Encoding.BIT_PACKED], None, False),
        ([], None, False),
        ([_OLD, _RLE, _PLAIN], [], False),
    ],
)
def test_proof_that_all_pages_use_the_dictionary(encodings, stats, proven):
    given_stats = None if stats is None else [PageEncodingStats(*stat) for stat in stats]
    assert recorded_pages(given_stats, encodings).is_all_dictionary is proven


# --- damage ---


def damaged(data: bytes, place: int, flip: int) -> bytes:
    return data[:place] + bytes((data[place] ^ flip,)) + data[place + 1 :]


@pytest.mark.parametrize("codec", ["none", "snappy", "zstd"])
@pytest.mark.parametrize("flip", [0xFF, 0x01, 0x80])
def test_a_damaged_dictionary_never_excludes_matching_rows(codec, flip):
    table = pa.table({"x": [f"value {row % 5}" for row in range(100)]})
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression=codec, write_statistics=False)
    data = sink.getvalue().to_pybytes()
    wanted = [
        leaf
        for text in ("x = 'value 3'", "x = 'absent'", "x LIKE 'value%'")
        for leaf in conditions(bind(parse_sql(text), table.schema))
    ]
    meta = ParquetInput(MemorySource(data)).footer.metadata.row_groups[0].columns[0].meta_data
    noted = 0
    for place in range(meta.dictionary_page_offset, meta.data_page_offset):
        broken = damaged(data, place, flip)
        file = ParquetInput(MemorySource(broken))
        found = evaluated(file, wanted)
        try:
            read = pq.read_table(pa.BufferReader(broken))["x"]
        except (pa.ArrowException, OSError):
            read = None
        for leaf in wanted:
            possible = found.candidate_rows(leaf)
            if possible is None:
                assert [note.index for note in file.ignored] == ["dictionary of x, row group 0"]
                noted += 1
            elif read is not None:
                assert (rows_where(leaf, read) - possible).is_empty
    assert noted


def test_a_page_of_another_type_is_not_a_dictionary():
    table = pa.table({"x": ["a", "b"] * 50})
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, write_statistics=False, compression="none")
    patient = Patient(sink.getvalue().to_pybytes())
    meta = patient.chunk(0, 0).get(3)
    meta.set(11, 6, meta.get(9))
    meta.set(9, 6, meta.get(9) + 5)
    file = ParquetInput(MemorySource(patient.bytes()))
    (leaf,) = conditions(bind(parse_sql("x = 'c'"), table.schema))
    assert evaluated(file, [leaf]).candidate_rows(leaf) is None
    assert [note.index for note in file.ignored] == ["dictionary of x, row group 0"]


def test_claims_of_a_page_are_bounded():
    table = pa.table({"x": [f"value {row % 50:09}" for row in range(100)]})
    (leaf,) = conditions(bind(parse_sql("x = 'c'"), table.schema))
    file = open_table(table, write_statistics=False, compression="zstd")
    # small to read, but large when decompressed
    assert evaluated(file, [leaf], page_bytes=500).candidate_rows(leaf) is None
    (note,) = file.ignored
    assert (note.index, "limit of this index is 500" in note.reason) == ("dictionary of x, row group 0", True)
    file = open_table(table, write_statistics=False, compression="none")
    before = file.source.counts.bytes
    assert evaluated(file, [leaf], page_bytes=500).candidate_rows(leaf) is None
    assert file.source.counts.bytes == before
    assert file.ignored == []


def test_pages_are_read_in_batches_and_kept_up_to_a_limit():
    table = pa.table({"x": [f"value {row // 10:09}" for row in range(100)]})
    file = open_table(table, row_group_size=10, write_statistics=False, compression="none")
    (leaf,) = conditions(bind(parse_sql("x <> 'value 000000003'"), table.schema))
    meta = file.footer.metadata.row_groups[0].columns[0].meta_data
    page_bytes = meta.data_page_offset - meta.dictionary_page_offset
    found = evaluated(file, [leaf], memory_bytes=3 * page_bytes)
    assert found.candidate_rows(leaf) == RowSelection.from_ranges([(0, 30), (40, 100)])
    assert sum(map(len, found.pages.values())) == 3 * page_bytes


def test_splitting_into_batches_is_linear():
    looked = []

    class Place(ByteRange):
        @property
        def length(self):
            looked.append(self)
            return super().length

    places = [Place(row, row + 1) for row in range(500)]
    assert list(split_batches(places, lambda place: place.length)) == [places]
    assert len(looked) <= 2 * len(places)


def test_encrypted_and_external_chunks_are_not_used():
    table = pa.table({"x": ["a", "b"] * 50})
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, write_statistics=False)
    patient = Patient(sink.getvalue().to_pybytes())
    patient.chunk(0, 0).set(1, 8, b"elsewhere.parquet")
    file = ParquetInput(MemorySource(patient.bytes()))
    (leaf,) = conditions(bind(parse_sql("x = 'c'"), table.schema))
    assert evaluated(file, [leaf]).candidate_rows(leaf) is None
    with pytest.raises(FormatError):
        file.footer.chunk_metadata(0, file.footer.leaves[0])
