"""Conditions on the value of a key in a map read only the pages that can have the key and the value."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from tests.lake.index.lakes import age

FILES, ROWS = 4, 2_000


def entries(row):
    """Return one to three entries: the keys change slowly, the values are spread."""
    if row % 11 == 0:
        return None
    value = f"v{row * 7919 % 100_003}" if row % 5 else None
    return [(f"k{row // 400}", value), ("all", f"{row // 100:03}"), (f"own {row}", "x")][: row % 4]


@pytest.fixture(scope="module", params=["1.0", "2.0"])
def lake(tmp_path_factory, request):
    folder = tmp_path_factory.mktemp("maps")
    for file in range(FILES):
        rows = range(file * ROWS, (file + 1) * ROWS)
        maps = pa.array(map(entries, rows), pa.map_(pa.string(), pa.string()))
        path = folder / f"{file}.parquet"
        options = {"row_group_size": 500, "max_rows_per_page": 100, "data_page_version": request.param}
        pq.write_table(pa.table({"row": rows, "m": maps, "other": maps}), path, **options)
        of_keys, of_values = ("m.key_value.key", ("m", "key_value", "value"))
        ia.attach(path, [ia.PageIndex(), ia.Bloom(of_keys), ia.Bloom(of_values)])
        age(path)
    ia.open(folder).build_lake_index("beside")
    return folder


def value_of(row, key):
    return next((value for name, value in entries(row) or () if name == key), None)


CASES = {
    "m['k7'] = 'v24052'": (lambda row: value_of(row, "k7") == "v24052", 600, {"bloom_filter"}),
    "m['k99'] IS NOT NULL": (lambda _: False, 0, {"bloom_filter"}),
    "element_at(m, 'k3') > 'v5'": (lambda row: (value_of(row, "k3") or "") > "v5", 1_000, {"bloom_filter"}),
    "other['all'] BETWEEN '030' AND '032'": (
        lambda row: "030" <= (value_of(row, "all") or "") <= "032",
        8_000,
        set(),
    ),
    "lower(m['own 77']) = 'x'": (lambda row: value_of(row, "own 77") == "x", 500, {"bloom_filter"}),
    "m['k1'] IS NULL": (lambda row: value_of(row, "k1") is None, 8_000, set()),
    "NOT (m['k1'] <> 'v1')": (lambda row: value_of(row, "k1") == "v1", 0, {"bloom_filter"}),
}


@pytest.mark.parametrize("where", CASES)
def test_pages_are_skipped(lake, where):
    is_match, most_rows, proofs = CASES[where]
    scan = ia.open(lake).scan(where, ["row"])
    assert scan.to_arrow()["row"].to_pylist() == [row for row in range(FILES * ROWS) if is_match(row)]
    assert scan.report.rows_candidate <= most_rows
    assert proofs <= {name for name, _ in scan.report.pruned_by}


def test_a_lake_index_excludes_files_without_the_key(lake):
    scan = ia.open(lake).scan("m['own 4999'] = 'x'", ["row"])
    assert scan.to_arrow()["row"].to_pylist() == [4999]
    assert scan.report.files_opened == 1


@pytest.mark.parametrize(
    ("where", "reason"),
    [
        ("row['k'] = 1", "function-type"),
        ("m['k', 'l'] = 'x'", "unsupported-expression"),
        ("m[1] = 'x'", "type-mismatch"),
        ("m['k'] = 1", "type-mismatch"),
        ("m = 'x'", "nested-column"),
        ("m['k'] = m['l']", "unsupported-expression"),
    ],
)
def test_errors(lake, where, reason):
    with pytest.raises(ia.PredicateError) as caught:
        ia.open(lake).count(where)
    assert caught.value.reason == reason
