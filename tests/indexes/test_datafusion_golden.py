"""``tests/golden/datafusion.parquet``, read as DataFusion's blog describes the form, and by DataFusion."""

from __future__ import annotations

from pathlib import Path

import datafusion
import pyarrow.parquet as pq
import pytest

GOLDEN = Path(__file__).parents[1] / "golden"

WORDS = [letter * times for letter in "abcdez" for times in (1, 2, 3)]

BLOCK = b"IDX1" + b"\x35\0\0\0\0\0\0\0" + "\n".join(WORDS).encode()


def distinct_values(path: Path) -> set[str]:
    """The footer's key, the magic, the length, the lines."""
    offset = int(pq.read_metadata(path).metadata[b"distinct_index_offset"])
    with path.open("rb") as file:
        file.seek(offset)
        assert file.read(4) == b"IDX1"
        length = int.from_bytes(file.read(8), "little")
        payload = file.read(length)
    assert len(payload) == length
    return set(payload.decode().split("\n"))


def test_the_values_are_found_by_the_blog_alone():
    words = pq.read_table(GOLDEN / "datafusion.parquet")["word"]
    assert words.null_count
    assert distinct_values(GOLDEN / "datafusion.parquet") == set(words.drop_null().to_pylist())


def test_the_block_byte_for_byte():
    data = (GOLDEN / "datafusion.parquet").read_bytes()
    offset = int(pq.read_metadata(GOLDEN / "datafusion.parquet").metadata[b"distinct_index_offset"])
    assert data[offset : offset + len(BLOCK)] == BLOCK
    original = (GOLDEN / "original.parquet").read_bytes()
    assert data.startswith(original)
    assert offset == -(-len(original) // 8) * 8 + 48  # a blob starts at a multiple of 8, with its header


@pytest.mark.parametrize("where", ["", " WHERE word = 'bb'", " WHERE word IS NULL", " WHERE word = 'absent'"])
def test_datafusion_reads_the_same_rows(where):
    found = []
    for name in ("original.parquet", "datafusion.parquet"):
        context = datafusion.SessionContext()
        context.register_parquet("t", str(GOLDEN / name))
        found.append(context.sql(f"SELECT n, u, word, x FROM t{where} ORDER BY n").to_arrow_table())
    assert str(found[0].to_pylist()) == str(found[1].to_pylist())  # NaN, too
    assert bool(found[0].num_rows) == ("absent" not in where)
