"""Dictionary pages exclude row groups where reading them is cheap."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from intarsia.format import thrift, thrift_tree
from intarsia.lake.table import Table
from tests.reading.pages import (
    RecordedDataFile,
    footer_bytes,
    layout_of,
    open_recorded,
    pages_read,
    run,
    touched,
)
from tests.reading.surgery import Patient

ROWS = 40_000
ROWS_PER_GROUP = 20_000

#: Fields of ColumnMetaData.
ENCODINGS, DATA_PAGE_OFFSET, DICTIONARY_PAGE_OFFSET, ENCODING_STATS = 2, 9, 11, 13


def unsorted_table() -> pa.Table:
    """Every other word in random order, so bounds do not exclude those between. One group has 'w0404'."""
    random = np.random.default_rng(3)
    words = [f"w{2 * word:04}" for word in random.integers(0, 200, ROWS)]
    words[0] = words[ROWS_PER_GROUP] = "w0000"
    words[1] = words[ROWS_PER_GROUP + 1] = "w0998"
    words[ROWS_PER_GROUP + 7] = "w0404"
    colours = [f"colour {2 * colour}" for colour in random.integers(0, 9, ROWS)]
    return pa.table({"word": words, "colour": colours, "number": random.integers(0, 1 << 60, ROWS)})


def write(path, **options):
    given_options = {"row_group_size": ROWS_PER_GROUP, "use_dictionary": ["word", "colour"]}
    pq.write_table(unsorted_table(), path, **given_options | {"write_page_index": True} | options)


@pytest.fixture(scope="module", params=["1.0", "2.0"], ids=["v1", "v2"])
def unsorted_file(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("dictionary") / "unsorted.parquet"
    write(path, data_page_version=request.param)
    return unsorted_table(), path, layout_of(path)


def pruned_by(report):
    return {(entry["index"], entry["column"]): entry["row_groups"] for entry in report["pruned_by"]}


# --- reads ---


@pytest.mark.parametrize(
    "where",
    [
        "word = 'w0101'",
        "word IN ('w0101', 'w0303')",
        "word LIKE 'w%1'",
        "word LIKE 'w001_' AND word LIKE '%7'",
    ],
)
def test_absent_value_within_the_bounds_reads_only_the_dictionary_pages(unsorted_file, where):
    _, path, layout = unsorted_file
    rows, ranges, report = run(path, where)
    assert rows.num_rows == 0
    read = touched(layout, ranges)
    assert read.pages == {}
    assert read.dictionaries == {"word": [0, 1]}
    indexes = sum(layout.indexes[name].length for name in read.indexes)
    pages = sum(place.length for place in layout.dictionaries["word"])
    assert report["bytes"]["index"] == indexes + pages
    assert report["bytes"]["read"] == footer_bytes(path) + indexes + pages
    assert report["pages"]["read"] == report["pages"]["dictionary_read"] == report["row_groups"]["read"] == 0
    assert pruned_by(report) == {("dictionary", "word"): 2}


def test_all_values_listed_reads_only_the_dictionary_pages(tmp_path):
    path = tmp_path / "few.parquet"
    write(path)
    colours = ", ".join(f"'colour {2 * colour}'" for colour in range(9))
    rows, ranges, report = run(path, f"colour NOT IN ({colours})")
    assert rows.num_rows == 0
    assert touched(layout_of(path), ranges).pages == {}
    assert pruned_by(report) == {("dictionary", "colour"): 2}


def test_present_value_reads_no_page_twice(unsorted_file):
    table, path, layout = unsorted_file
    rows, ranges, report = run(path, "word = 'w0404'", ["word", "number"])
    expected = table.filter(pc.equal(table["word"], "w0404")).select(["word", "number"])
    assert rows.equals(expected)
    read = touched(layout, ranges)  # fails if anything is read twice
    assert read.dictionaries == {"word": [0, 1]}
    assert report["pages"]["dictionary_read"] == 0  # counted as bytes of indexes
    assert pages_read(report)["word"] == len(read.pages["word"])


def test_without_a_page_index_no_page_is_read_twice(tmp_path):
    path = tmp_path / "plain.parquet"
    write(path, write_page_index=False)
    layout = layout_of(path)
    table = unsorted_table()
    rows, ranges, report = run(path, "word = 'w0002'", ["word", "number"])
    assert rows.equals(table.filter(pc.equal(table["word"], "w0002")).select(["word", "number"]))
    assert touched(layout, ranges).dictionaries == {"word": [0, 1]}
    assert report["bytes"]["index"] == sum(place.length for place in layout.dictionaries["word"])
    rows, ranges, _ = run(path, "word = 'w0101'")
    assert rows.num_rows == 0
    assert touched(layout, ranges).pages == {}


# --- AND, OR, and several columns ---


@pytest.mark.parametrize(
    ("where", "row_groups", "dictionaries"),
    [
        ("word = 'w0101' AND number > 5", 0, {"word"}),
        ("word = 'w0101' OR colour = 'colour 3'", 0, {"word", "colour"}),
        ("word = 'w0404' AND colour = 'colour 3'", 0, {"word", "colour"}),
        ("word = 'w0404' AND colour = 'colour 4'", 1, {"word", "colour"}),
        ("word = 'w0101' OR colour = 'colour 4'", 2, {"word", "colour"}),
        (
            "word = 'w0101' OR number = 500000000000000000",
            2,
            set(),
        ),  # numbers have no dictionary, and words alone exclude nothing
    ],
)
def test_dictionaries_of_several_columns(unsorted_file, where, row_groups, dictionaries):
    table, path, layout = unsorted_file
    recorded, ranges = open_recorded(path)
    report = recorded.explain(where).to_dict()
    assert report["row_groups"]["read"] == row_groups
    assert set(touched(layout, ranges).dictionaries) == dictionaries
    kept = run(path, where)[0]
    assert kept.equals(duckdb_filter(table, where))


def duckdb_filter(table, where):
    """The rows by another engine, in their order."""
    import duckdb

    numbered = table.append_column("row", pa.array(range(table.num_rows)))
    with duckdb.connect() as connection:
        connection.register("made", numbered)
        found = connection.sql(f"SELECT * FROM made WHERE {where} ORDER BY row").to_arrow_table()
    return found.drop_columns("row").cast(table.schema)


# --- cases in which it is not read ---


@pytest.mark.parametrize(
    "where",
    [
        None,
        "word IS NULL",
        "word IS NOT NULL",
        "word > 'w0100'",
        "word <> 'w0100'",
        "word = 'x'",
        "word >= 'w0000'",
    ],
)
def test_not_read_for_row_groups_excluded_by_statistics(unsorted_file, where):
    _, path, layout = unsorted_file
    recorded, ranges = open_recorded(path)
    recorded.explain(where)
    assert touched(layout, ranges).dictionaries == {}


def test_not_read_for_rows_excluded_by_the_page_index(tmp_path):
    path = tmp_path / "sorted.parquet"
    table = unsorted_table().sort_by("word")
    options = {"use_dictionary": ["word"], "write_page_index": True, "max_rows_per_page": 1000}
    pq.write_table(table, path, row_group_size=ROWS_PER_GROUP, **options)
    recorded, ranges = open_recorded(path)
    report = recorded.explain("word = 'w0101'").to_dict()
    assert 0 < report["rows"]["candidates"] <= 1000
    assert touched(layout_of(path), ranges).dictionaries == {}


def test_not_read_for_row_groups_excluded_by_a_bloom_filter(tmp_path):
    path = tmp_path / "bloom.parquet"
    write(path, bloom_filter_options={"word": {"ndv": 200, "fpp": 0.001}})
    layout = layout_of(path)
    for where in ("word = 'w0002'", "word = 'w0101'", "word IN ('w0002', 'w0101')"):
        recorded, ranges = open_recorded(path)
        recorded.explain(where)
        assert touched(layout, ranges).dictionaries == {}
    recorded, ranges = open_recorded(path)
    assert recorded.explain("word LIKE 'w%1'").row_groups_read == 0
    assert touched(layout, ranges).dictionaries == {"word": [0, 1]}


def test_not_read_for_columns_with_distinct(tmp_path):
    path = tmp_path / "distinct.parquet"
    write(path)
    ia.attach(path, [ia.Distinct("word", granularity="row_group")])
    report = run(path, "word = 'w0101'")[2]
    assert set(pruned_by(report).values()) == {2}
    assert ("dictionary", "word") not in pruned_by(report)


def test_dictionary_as_large_as_its_column_is_searched_but_not_decoded(tmp_path):
    path = tmp_path / "unique.parquet"
    numbers = np.random.default_rng(1).permutation(ROWS) * 2
    pq.write_table(pa.table({"number": numbers}), path, row_group_size=ROWS_PER_GROUP, use_dictionary=True)
    layout = layout_of(path)
    assert len(layout.dictionaries["number"]) == 2
    absent = [777 + 2 * place for place in range(20)]
    for where, groups_read, dictionaries in [
        ("number = 777", 0, {"number": [0, 1]}),
        (f"number IN ({', '.join(map(str, absent))})", 2, {}),  # too many to be searched for
    ]:
        recorded, ranges = open_recorded(path)
        assert recorded.explain(where).row_groups_read == groups_read
        assert touched(layout, ranges).dictionaries == dictionaries


@pytest.mark.parametrize(("distinct", "dictionaries"), [(2_000, {"key": [0]}), (45_000, {})])
def test_a_dictionary_must_cost_less_than_a_scan_of_its_column(tmp_path, distinct, dictionaries):
    """If no row matches, a scan does not read the other columns, however large they are."""
    random = np.random.default_rng(1)
    keys = random.integers(0, distinct, 60_000)
    noise = [bytes(row) for row in random.integers(0, 256, (len(keys), 100), dtype="uint8")]
    path = tmp_path / "wide.parquet"
    pq.write_table(pa.table({"key": keys, "noise": noise}), path, use_dictionary=["key"], compression="none")
    layout = layout_of(path)
    recorded, ranges = open_recorded(path)
    assert recorded.scan("key % 2 = 5").to_arrow().num_rows == 0
    assert "noise" not in touched(layout, ranges).pages
    recorded, ranges = open_recorded(path)
    recorded.explain("key % 2 = 5")
    assert touched(layout, ranges).dictionaries == dictionaries


class _Far(RecordedDataFile):
    """A file whose requests cost as much as reading a number of bytes."""

    coalesce_bytes = 0

    def open(self, **_):
        source = super().open()
        source.coalesce_bytes = type(self).coalesce_bytes
        return source


@pytest.mark.parametrize(("coalesce_bytes", "groups_read"), [(0, 0), (1 << 13, 0), (1 << 20, 2)])
def test_request_to_a_remote_file_must_be_worth_its_cost(
    unsorted_file, monkeypatch, coalesce_bytes, groups_read
):
    _, path, _ = unsorted_file
    monkeypatch.setattr(_Far, "coalesce_bytes", coalesce_bytes)
    file = _Far(str(path), path.stat().st_size)
    assert Table([file]).explain("word = 'w0101'").row_groups_read == groups_read


# --- without proof that all pages use the dictionary ---


def changed(path, change) -> None:
    """Change the metadata of each chunk of column 0."""
    patient = Patient.read(path)
    for group in range(2):
        change(patient.chunk(group, 0).get(3))
    patient.write(path)


def groups_read(path) -> int:
    """The row groups left for an absent value; a present value is found."""
    table = unsorted_table()
    present = pc.equal(table["word"], "w0404")
    assert run(path, "word = 'w0404'")[0].equals(table.filter(present))
    return open_recorded(path)[0].explain("word = 'w0101'").row_groups_read


def test_pages_that_fall_back_to_plain_are_not_pruned(tmp_path):
    path = tmp_path / "fallback.parquet"
    write(path, dictionary_pagesize_limit=500, data_page_size=2000, write_batch_size=100)
    layout = layout_of(path)
    uses = [page.uses_dictionary for page in layout.pages["word"]]
    assert any(uses)
    assert not all(uses)
    recorded, ranges = open_recorded(path)
    assert recorded.explain("word = 'w0101'").row_groups_read == 2
    assert touched(layout, ranges).dictionaries == {}


def test_without_encoding_stats_nothing_is_proven(tmp_path):
    path = tmp_path / "no_stats.parquet"
    write(path)
    changed(path, lambda meta: meta.remove(ENCODING_STATS))
    assert groups_read(path) == 2


def test_without_encoding_stats_only_the_old_encoding_is_proof(tmp_path):
    path = tmp_path / "old.parquet"
    write(path)

    def old(meta):
        meta.remove(ENCODING_STATS)
        meta.set(ENCODINGS, thrift.LIST, thrift_tree.List(thrift.I32, [2, 3]))  # PLAIN_DICTIONARY, RLE

    changed(path, old)
    assert groups_read(path) == 0


def test_without_its_offset_the_dictionary_is_found_before_the_first_page(tmp_path):
    path = tmp_path / "no_offset.parquet"
    write(path)

    def unsaid(meta):
        meta.set(DATA_PAGE_OFFSET, thrift.I64, meta.get(DICTIONARY_PAGE_OFFSET))
        meta.remove(DICTIONARY_PAGE_OFFSET)

    changed(path, unsaid)
    assert groups_read(path) == 0


def test_damaged_dictionary_is_reported_and_excludes_nothing(tmp_path):
    path = tmp_path / "damaged.parquet"
    write(path, write_page_index=False)
    place = layout_of(path).dictionaries["word"][1]
    data = bytearray(path.read_bytes())
    data[place.start : place.stop] = bytes(place.length)
    path.write_bytes(data)
    report = open_recorded(path)[0].explain("word = 'w0101'")
    assert report.row_groups_read == 1
    assert [note.index for note in report.ignored] == ["dictionary of word, row group 1"]
    with pytest.raises(ia.CorruptFileError), pytest.warns(ia.IntarsiaWarning):
        run(path, "word = 'w0101'")


# --- what a page costs and could save ---


@pytest.mark.parametrize("step", [2, 1 << 40])
def test_dictionaries_are_not_read_for_a_list_of_which_a_value_is_probably_present(tmp_path, step):
    """Of 500 even numbers among 10,000, some are probably present; of few among billions, none."""
    path = tmp_path / "numbers.parquet"
    random = np.random.default_rng(8)
    numbers = random.permutation(20_000)[:10_000] * step
    numbers[:4] = [0, 20_000 * step, 0, 20_000 * step]
    table = pa.table({"number": numbers, "other": random.random(10_000), "more": random.random(10_000)})
    pq.write_table(table, path, row_group_size=5_000)
    absent = (random.permutation(20_000)[:500] * step + 1).tolist()
    rows, ranges, report = run(path, [("number", "in", absent)])
    assert rows.num_rows == 0
    read = touched(layout_of(path), ranges)  # fails if anything is read twice
    if step == 2:
        assert report["bytes"]["index"] == 0
        assert pruned_by(report) == {}
    else:
        assert read.pages == {}
        assert pruned_by(report) == {("dictionary", "number"): 2}


def test_a_page_index_does_not_prevent_that_a_dictionary_excludes_the_remaining_pages(tmp_path):
    """The bounds of two pages of twelve admit the word, which no page contains."""
    random = np.random.default_rng(5)
    words = [f"w{2 * word:04}" for word in random.integers(0, 40, 4_000)]
    words += [f"x{2 * word:04}" for word in random.integers(0, 40, 20_000)]
    table = pa.table({"word": words} | {f"n{n}": random.integers(0, 1 << 60, 24_000) for n in range(4)})
    for with_index in (False, True):
        path = tmp_path / f"{with_index}.parquet"
        pq.write_table(
            table, path, use_dictionary=["word"], max_rows_per_page=2_000, write_page_index=with_index
        )
        rows, ranges, report = run(path, "word = 'w0031'")
        assert rows.num_rows == 0
        assert touched(layout_of(path), ranges).pages == {}
        assert ("dictionary", "word") in pruned_by(report)
        assert report["bytes"]["index"] < 1_000
    rows, _, report = run(path, "word = 'w0030'")
    assert rows.equals(table.filter(pc.equal(table["word"], "w0030")))
    assert report["pages"]["by_column"]["word"]["read"] == 2
