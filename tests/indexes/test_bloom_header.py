"""Bloom filters whose header and footer disagree about the length are ignored, wherever filters are used."""

from __future__ import annotations

import shutil
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from intarsia.format import thrift
from intarsia.format.structs import BloomFilterHeader
from tests.lake.index.lakes import age
from tests.reading.surgery import Patient

VALUES = [int(value) * 7919 for value in np.random.default_rng(3).permutation(400)]
SOME = VALUES[::8]
BLOOM_LENGTH = 15


def write(path, values=VALUES):
    """Write a file whose filter has 4 or more blocks, and which bounds and dictionaries do not exclude."""
    table = pa.table({"x": pa.array(values, pa.int64()), "noise": ["noise" * 40] * len(values)})
    options = {"x": {"ndv": len(values), "fpp": 0.01}}
    pq.write_table(table, path, use_dictionary=False, compression="none", bloom_filter_options=options)


def halve(path):
    """Let the header of the filter claim half of its bits."""
    patient = Patient.read(path)
    start = patient.chunk(0, 0).get(3).get(14)
    header, header_stop = thrift.parse(BloomFilterHeader, bytes(patient.body), start)
    halved = thrift.serialize(header._replace(numBytes=header.numBytes // 2))
    assert len(halved) == header_stop - start
    patient.body[start:header_stop] = halved
    patient.write(path)


def assert_all_found(table, values):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ia.IntarsiaWarning)
        assert [value for value in values if table.count(f"x = {value}") != 1] == []


def test_a_filter_that_claims_fewer_bits_is_ignored(tmp_path):
    path = tmp_path / "x.parquet"
    write(path)
    assert ia.open(path).explain("x = 5").row_groups_read == 0
    halve(path)
    assert_all_found(ia.open(path), SOME)
    scan = ia.open(path).scan("x = 5")
    with pytest.warns(ia.IntarsiaWarning, match="Bloom filter of x"):
        assert scan.to_arrow().num_rows == 0
    assert [note.code for note in scan.report.ignored] == ["filter-length-mismatch"]
    assert "bloom-filter-length" in {finding.rule for finding in ia.verify(path).findings}
    assert "bloom-filter-length" in {finding.rule for finding in ia.verify(path, quick=True).findings}
    (chunk, _) = ia.inspect(path).row_groups[0].columns
    assert chunk.bloom_filter is None
    assert any("Bloom filter ignored" in reason for reason in chunk.ignored_metadata)


def test_attach_replaces_such_a_filter(tmp_path):
    path = tmp_path / "x.parquet"
    write(path)
    halve(path)
    assert ia.attach(path, [ia.Bloom("x")]).built == ("bloom(x)",)
    assert_all_found(ia.open(path), SOME)
    assert ia.open(path).explain("x = 5").row_groups_read == 0


@pytest.mark.parametrize("records_lengths", [True, False])
@pytest.mark.parametrize("indexed", [False, True])
def test_filters_of_many_files(tmp_path, records_lengths, indexed):
    """Planned together and by a lake index; a filter without a recorded length belongs to its own file."""
    lake = tmp_path / "lake"
    lake.mkdir()
    parts = [VALUES[start : start + 100] for start in range(0, 400, 100)]
    for ordinal, values in enumerate(parts):
        path = lake / f"{ordinal}.parquet"
        write(path, values)
        if records_lengths:
            halve(path)
        else:
            patient = Patient.read(path)
            patient.chunk(0, 0).get(3).remove(BLOOM_LENGTH)
            patient.write(path)
        age(path)
    if indexed:
        ia.open(lake).build_lake_index("cache")
    table = ia.open(lake)
    assert_all_found(table, SOME)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ia.IntarsiaWarning)
        read = [table.explain(f"x = {value + 1}").row_groups_read for value in VALUES[:20]]
    assert (sum(read) < 20) != records_lengths


def test_the_short_header_of_a_real_file(large_corpus, tmp_path):
    """The values of a row group of DuckDB's are all present; its header claims 256 of 512 bytes of bits."""
    path = tmp_path / "short.parquet"
    shutil.copyfile(next(large_corpus.rglob("bloom_filter_short_numbytes.parquet")), path)
    rows = pq.read_table(path)["r"].to_pylist()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ia.IntarsiaWarning)
        table = ia.open(path)
        assert {value: table.count(f"r = {value}") for value in set(rows)} == dict.fromkeys(set(rows), 100)
        assert table.scan(f"r IN ({rows[0]}, {rows[-1]})").to_arrow().num_rows == 200
