"""The golden files of DataFusion's form, read as its blog describes the form, and by DataFusion.

The entry of ``datafusion.parquet`` has kind version 1, those of the others have 2.
``datafusion-2-without-head.parquet`` is of a version that did not write the `head` of the directory.
"""

from __future__ import annotations

from pathlib import Path

import datafusion
import pyarrow.parquet as pq
import pytest

GOLDEN = Path(__file__).parents[1] / "golden"

FILES = ("datafusion.parquet", "datafusion-2-without-head.parquet", "datafusion-2.parquet")

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


@pytest.mark.parametrize("name", FILES)
def test_the_values_are_found_by_the_blog_alone(name):
    words = pq.read_table(GOLDEN / name)["word"]
    assert words.null_count
    assert distinct_values(GOLDEN / name) == set(words.drop_null().to_pylist())


@pytest.mark.parametrize("name", FILES)
def test_the_block_byte_for_byte(name):
    data = (GOLDEN / name).read_bytes()
    offset = int(pq.read_metadata(GOLDEN / name).metadata[b"distinct_index_offset"])
    assert data[offset : offset + len(BLOCK)] == BLOCK
    original = (GOLDEN / "original.parquet").read_bytes()
    assert data.startswith(original)
    assert offset == -(-len(original) // 8) * 8 + 48  # a blob starts at a multiple of 8, with its header


@pytest.mark.parametrize("where", ["", " WHERE word = 'bb'", " WHERE word IS NULL", " WHERE word = 'absent'"])
def test_datafusion_reads_the_same_rows(where):
    found = []
    for name in ("original.parquet", *FILES):
        context = datafusion.SessionContext()
        context.register_parquet("t", str(GOLDEN / name))
        found.append(context.sql(f"SELECT n, u, word, x FROM t{where} ORDER BY n").to_arrow_table())
    assert len({str(rows.to_pylist()) for rows in found}) == 1  # NaN, too
    assert bool(found[0].num_rows) == ("absent" not in where)
