"""Text that is not UTF-8: an index that cannot store it is rejected when it is built; the others work."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia

RAW = [b"abc", b"\xff\xfe", None, b"a\xc3", b"zz", b"\xed\xa0\x80"] * 10


@pytest.fixture
def path(tmp_path):
    table = pa.table({"s": pa.array(RAW, pa.binary()).view(pa.string()), "n": range(len(RAW))})
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=20)
    return tmp_path / "t.parquet"


@pytest.mark.parametrize(
    "index", [ia.Distinct("s"), ia.ZoneMap("s"), ia.Histogram("s"), ia.Sample(60)], ids=lambda i: i.kind
)
def test_rejected(path, index):
    before = path.read_bytes()
    with pytest.raises(ia.IndexBuildError) as caught:
        ia.attach(path, [index])
    assert caught.value.reason in ("invalid-values", "type-not-storable")
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "index", [ia.RowMap("s"), ia.BloomGranule("s"), ia.Hll("s"), ia.Ngram("s")], ids=lambda i: i.kind
)
def test_accepted(path, index):
    ia.attach(path, [index])
    table = ia.open(path)
    assert table.count("s = 'zz'") == table.count("s LIKE '%zz%'") == 10
    assert ia.verify(path).ok
