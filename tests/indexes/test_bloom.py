"""Bloom filters in scans: which conditions use them, their cost, and the cost of long lists."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from intarsia.arrow.hashing import xxh64
from intarsia.format.bloom import FilterLocation, build, serialize_bloom_filter
from intarsia.indexes import bloom
from intarsia.predicate.bound import MAX_LOOKUPS, BoundIn
from tests.counting import calls

GROUPS, ROWS = 5, 10_000

#: The difference of neighbouring values. So values of a list are unlikely to be in a row group by chance.
STEP = 1000


def write(path, values, num_groups=GROUPS, fpp=0.001, noise=None):
    """Write a shuffled column, so that bounds exclude nothing."""
    pq.write_table(
        pa.table({"x": values} | ({} if noise is None else {"noise": noise})),
        path,
        row_group_size=len(values) // num_groups,
        use_dictionary=False,
        compression="zstd",
        bloom_filter_options={"x": {"ndv": len(values) // num_groups, "fpp": fpp}},
    )


@pytest.fixture(scope="module")
def multiples(tmp_path_factory):
    """Multiples of `STEP`, shuffled."""
    path = tmp_path_factory.mktemp("bloom") / "multiples.parquet"
    write(path, np.random.default_rng(1).permutation(GROUPS * ROWS) * STEP)
    return path


def absent(count):
    return (np.random.default_rng(2).choice(GROUPS * ROWS - 1, count, replace=False) * STEP + 1).tolist()


def index_bytes(scan):
    return scan.report.to_dict()["bytes"]["index"]


def test_a_list_of_absent_values(multiples):
    scan = ia.open(multiples).scan([("x", "in", absent(20))])
    assert scan.to_arrow().num_rows == 0
    assert scan.report.row_groups_read == 0


def test_a_list_with_one_present_value(multiples):
    present = pq.ParquetFile(multiples).read_row_group(3, ["x"])["x"][77].as_py()
    scan = ia.open(multiples).scan([("x", "in", [*absent(20), present])])
    assert scan.to_arrow()["x"].to_pylist() == [present]
    assert scan.report.row_groups_read == 1


@pytest.mark.parametrize(("count", "is_asked"), [(MAX_LOOKUPS, True), (MAX_LOOKUPS + 1, False)])
def test_a_longer_list_is_not_looked_up(tmp_path, count, is_asked):
    random = np.random.default_rng(1)
    noise = random.integers(0, 256, GROUPS * ROWS * 20, dtype=np.uint8).view("S20")  # costly to read
    write(tmp_path / "x.parquet", random.permutation(GROUPS * ROWS) * STEP, noise=noise)
    scan = ia.open(tmp_path / "x.parquet").scan([("x", "in", absent(count))])
    assert scan.to_arrow().num_rows == 0
    assert (index_bytes(scan) > 0) is is_asked


def test_present_values_are_never_excluded(multiples):
    values = pq.read_table(multiples, columns=["x"])["x"].to_pylist()
    assert (
        ia.open(multiples).count([("x", "in", values[:: len(values) // MAX_LOOKUPS + 1])]) > MAX_LOOKUPS // 2
    )


@pytest.mark.parametrize(
    "kind", [pa.float32(), pa.float64(), pa.float16(), pa.decimal128(30, 2), pa.string()]
)
def test_values_of_each_type_are_found(tmp_path, kind):
    path = tmp_path / "t.parquet"
    numbers = pa.array(np.arange(400) % 200 - 100)
    values = numbers.cast(pa.float64()).cast(kind) if pa.types.is_floating(kind) else numbers.cast(kind)
    pq.write_table(pa.table({"x": values}), path, row_group_size=100, write_statistics=False)
    ia.attach(path, [ia.Bloom("x")])
    asked = [values[place].as_py() for place in (0, 100, 150)] + [values[0].as_py()]
    assert ia.open(path).count([("x", "in", asked)]) == 6


def test_minus_zero_is_zero(tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(
        pa.table({"x": [-0.0] * 100}), path, bloom_filter_options={"x": {"ndv": 9}}, write_statistics=False
    )
    assert ia.open(path).count([("x", "in", [0.0, 5.0])]) == 100


def test_a_predicate_is_not_hashed_for_each_value(multiples):
    where = [("x", "in", list(range(0, STEP * MAX_LOOKUPS, STEP)))]
    assert ia.open(multiples).count(where) == MAX_LOOKUPS
    assert 0 < calls(lambda: ia.open(multiples).count(where), of=BoundIn.__hash__) < MAX_LOOKUPS // 4


@pytest.fixture
def dear(tmp_path):
    """A file whose filters are larger than the data."""
    path = tmp_path / "dear.parquet"
    write(path, np.random.default_rng(1).permutation(10_000) * STEP, num_groups=10, fpp=1e-6)
    chunk = pq.read_metadata(path).row_group(0).column(0)
    return path, chunk.total_compressed_size, chunk.bloom_filter_length


def odd(first, num_bytes):
    """Return absent numbers, one for each filter block in ``num_bytes``."""
    return list(range(STEP * first + 1, STEP * (first + num_bytes // bloom.BLOCK_BYTES), STEP))


def test_filters_that_cost_more_than_they_could_save_are_not_read(dear):
    path, data_bytes, filter_bytes = dear
    assert filter_bytes > 2 * data_bytes
    few, many = (
        ia.open(path).scan([("x", "in", odd(0, share))]) for share in (data_bytes // 2, filter_bytes)
    )
    for scan in (few, many):
        assert scan.to_arrow().num_rows == 0
    assert few.report.row_groups_read == 0 < index_bytes(few)
    assert many.report.row_groups_read > 5  # bounds exclude some
    assert index_bytes(many) <= bloom.HEADER_BYTES  # of the last filter, whose length may be unknown


def test_two_conditions_share_the_possible_savings_of_a_row_group(dear):
    """Each list on its own is worth its lookups. Of both lists, only the shorter one is."""
    path, data_bytes, _ = dear
    lists = odd(0, data_bytes * 6 // 10), odd(3000, data_bytes * 5 // 10)
    alone = [ia.open(path).scan([("x", "in", values)]) for values in lists]
    assert [(scan.to_arrow().num_rows, scan.report.row_groups_read) for scan in alone] == [(0, 0), (0, 0)]
    both = ia.open(path).scan([("x", "in", values) for values in lists])
    assert both.to_arrow().num_rows == 0
    assert index_bytes(both) == index_bytes(alone[1])


def test_a_header_of_another_length(tmp_path):
    """The header has an unknown field of 32 bytes, so the bits are not where the length suggests."""
    path, values = tmp_path / "x.parquet", np.arange(60) * STEP
    write(path, values, num_groups=1, fpp=0.01)
    meta = pq.ParquetFile(path).metadata.row_group(0).column(0)
    start, length = meta.bloom_filter_offset, meta.bloom_filter_length
    place = FilterLocation(start, start + length)
    assert place.likely_bits == (start + length - 128, start + length)
    hashes = xxh64(pa.array([int(value).to_bytes(8, "little") for value in values], pa.binary()))
    found = serialize_bloom_filter(build(hashes, 96))
    header, bits = found[:-96], found[-96:]
    header = header[:-1] + b"\x18\x1e" + bytes(30) + b"\0"
    content = bytearray(path.read_bytes())
    content[start : start + length] = header + bits
    path.write_bytes(content)
    table = ia.open(path)
    for value in values.tolist():
        assert table.count(f"x = {value}") == 1
    scans = [table.scan(f"x = {value * STEP + 1}") for value in range(50)]
    assert sum(scan.to_arrow().num_rows for scan in scans) == 0
    assert sum(scan.report.row_groups_read for scan in scans) < 25
