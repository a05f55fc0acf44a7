"""`verify` of a file with any damaged byte ends soon, with findings or a clear error."""

import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from intarsia.check.verification import verify
from intarsia.embed import attach
from intarsia.errors import IntarsiaError
from intarsia.indexes.bloom_granule import BloomGranule
from intarsia.indexes.distinct import Distinct
from intarsia.indexes.rowmap import RowMap
from intarsia.indexes.zonemap import ZoneMap
from tests.verify.damage import Damage

ROWS = 120


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """A small file with one of everything."""
    path = tmp_path_factory.mktemp("good") / "good.parquet"
    table = pa.table(
        {
            "id": range(ROWS),
            "s": [None if n % 9 == 0 else f"text {n % 50}" for n in range(ROWS)],
            "x": [n / 7 for n in range(ROWS)],
            "l": [[n, None][: n % 3] for n in range(ROWS)],
        }
    )
    pq.write_table(
        table, path, row_group_size=80, write_page_index=True, max_rows_per_page=40, write_batch_size=40,
        write_page_checksum=True, compression="none", sorting_columns=[pq.SortingColumn(0)],
        bloom_filter_options={"s": {"ndv": 50, "fpp": 0.01}},
    )  # fmt: skip
    attach(path, [Distinct("s"), ZoneMap("x"), RowMap("id"), BloomGranule("s")])
    assert verify(path).findings == ()
    return path.read_bytes()


@pytest.mark.parametrize("where", ["footer", "body"])
def test_bytes_changed(good, tmp_path, where):
    rng = random.Random(7)
    footer = len(good) - 8 - int.from_bytes(good[-8:-4], "little")
    start, stop = (footer, len(good) - 8) if where == "footer" else (4, footer)
    path = tmp_path / "damaged.parquet"
    outcomes = {"found": 0, "refused": 0, "unseen": 0}
    for _ in range(20):
        data = bytearray(good)
        for _ in range(rng.choice([1, 1, 3])):
            data[rng.randrange(start, stop)] ^= rng.randrange(1, 256)
        path.write_bytes(data)
        try:
            outcomes["found" if verify(path).findings else "unseen"] += 1
        except IntarsiaError:
            outcomes["refused"] += 1
    assert outcomes["found"] + outcomes["refused"] > 12
    assert outcomes["found"]


def test_every_damaged_page_is_found(good, tmp_path):
    """By checksums, or because it cannot be decoded; headers have none."""
    path = tmp_path / "damaged.parquet"
    path.write_bytes(good)
    rng = random.Random(8)
    bodies = []
    for column in ("id", "s", "x", "l.list.element"):
        start, pages = Damage(path).pages(column)
        bodies += [(start + page.body_start, start + page.stop) for page in pages]
    for begin, end in bodies:
        data = bytearray(good)
        data[rng.randrange(begin, end)] ^= 1 << rng.randrange(8)
        path.write_bytes(data)
        assert "page-checksum" in {finding.rule for finding in verify(path).findings}
