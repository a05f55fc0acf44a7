import datetime as dt
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

ROWS = 1000


def part_of(n):
    return None if n % 9 == 0 else {"a": n, "b": {"c": None if n % 2 else str(n)}}


@pytest.fixture(scope="session")
def table():
    """Every type with its own order of bounds; nulls, NaN, zeros of both signs, lists."""
    rng = np.random.default_rng(7)
    numbers = rng.integers(-(10**6), 10**6, ROWS).tolist()
    some = [None if n % 10 == 0 else n for n in numbers]
    return pa.table(
        {
            "id": pa.array(range(ROWS)),
            "n": pa.array(some),
            "u64": pa.array([2**63 + n % 5000 for n in numbers], pa.uint64()),
            "u8": pa.array([n % 256 for n in numbers], pa.uint8()),
            "x": pa.array([[None, float("nan"), -0.0, 0.0][n % 4] if n % 7 < 3 else n / 8 for n in numbers]),
            "h": pa.array((np.array(numbers) / 1000).astype(np.float16)),
            "word": pa.array([None if n is None else "é" * (n % 5) + str(n % 100) for n in some]),
            "long": pa.array([f"{'x' * 70}{n}" for n in numbers]),
            "raw": pa.array([None if n % 10 == 0 else n.to_bytes(4, "big", signed=True) for n in numbers]),
            "fixed": pa.array([n.to_bytes(5, "big", signed=True) for n in numbers], pa.binary(5)),
            "price": pa.array([Decimal(n).scaleb(-2) for n in numbers], pa.decimal128(9, 2)),
            "huge": pa.array([Decimal(n) * 10**20 for n in numbers], pa.decimal128(38, 2)),
            "day": pa.array([dt.date(2000, 1, 1) + dt.timedelta(days=n % 5000) for n in numbers]),
            "at": pa.array([n * 10**9 for n in numbers], pa.timestamp("us", "UTC")),
            "flag": pa.array([None if n is None else n % 2 == 0 for n in some]),
            "nothing": pa.nulls(ROWS, pa.int32()),
            "later": pa.array([None] * (ROWS // 2) + numbers[ROWS // 2 :]),
            "tags": pa.array([None if n % 9 == 0 else [n, None][: n % 3] for n in numbers]),
            "part": pa.array([part_of(n) for n in numbers]),
            "rare": pa.array([f"c{n % 7}" for n in numbers]).dictionary_encode(),
        }
    )  # fmt: skip


@pytest.fixture
def path(tmp_path, table):
    """A good file with a page index, Bloom filters, row groups of 400 rows and pages of 40."""
    path = str(tmp_path / "good.parquet")
    options = {"ndv": 400, "fpp": 0.01}
    pq.write_table(
        table,
        path,
        row_group_size=400,
        write_page_index=True,
        max_rows_per_page=40,
        write_batch_size=40,
        bloom_filter_options={"id": options, "word": options, "fixed": options},
    )
    return path
