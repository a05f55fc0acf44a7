"""Damaged footers: attach refuses them before it writes, or detach restores the file byte for byte."""

from __future__ import annotations

import random
import warnings

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from intarsia.format import thrift, thrift_tree
from intarsia.format.footer import MAGIC
from tests.effort import examples
from tests.reading.surgery import Patient


def write(path):
    rows = pa.table({"a": range(50), "b": [str(row) for row in range(50)]})
    pq.write_table(rows, path, row_group_size=25)
    return path.read_bytes()


def with_second_field(data):
    """A footer in which the field of the version occurs twice, as a number and as a struct.

    Readers use the first, but a footer whose fields are written in order can have only one.
    """
    patient = Patient(data)
    footer = thrift_tree.serialize_tree(patient.footer)
    assert footer.endswith(b"\0")
    second = bytes([thrift.STRUCT, 1 << 1, 0])  # an explicit field id, and an empty struct
    footer = footer[:-1] + second + b"\0"
    return bytes(patient.body) + footer + len(footer).to_bytes(4, "little") + MAGIC


@pytest.mark.parametrize("index", [ia.PageIndex(), ia.Distinct("b"), ia.Bloom("a")])
def test_footers_that_cannot_be_written_again(tmp_path, index):
    path = tmp_path / "t.parquet"
    data = with_second_field(write(path))
    path.write_bytes(data)
    assert ia.open(path).scan("a = 7").to_arrow()["b"].to_pylist() == ["7"]
    with pytest.raises(ia.CorruptFileError) as caught:
        ia.attach(path, index)
    assert caught.value.reason == "damaged-footer"
    assert caught.value.path == str(path)
    assert path.read_bytes() == data
    assert [found.name for found in tmp_path.iterdir()] == ["t.parquet"]


def test_random_footers(tmp_path):
    path = tmp_path / "t.parquet"
    data = write(path)
    start = Patient(data).footer_start
    restored = 0
    for seed in range(examples(400, deep=10_000)):
        draw = random.Random(seed)
        changed = bytearray(data)
        for _ in range(draw.choice((1, 1, 2, 3))):
            changed[draw.randrange(start, len(data) - 8)] = draw.randrange(256)
        path.write_bytes(changed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ia.IntarsiaWarning)
            try:
                ia.attach(path, [ia.PageIndex(), ia.Distinct("a")] if seed % 2 else ia.PageIndex())
                ia.detach(path)
                restored += 1
            except ia.IntarsiaError:
                pass  # the file must be unchanged
        assert path.read_bytes() == changed, seed
    assert restored
