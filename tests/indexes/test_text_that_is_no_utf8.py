"""Text that is no UTF-8: an index that cannot keep it is refused when it is built, and the others work."""

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
def test_refused(path, index):
    before = path.read_bytes()
    with pytest.raises(ia.IndexBuildError, match="UTF"):
        ia.attach(path, [index])
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "index", [ia.RowMap("s"), ia.BloomGranule("s"), ia.Hll("s"), ia.Ngram("s")], ids=lambda i: i.kind
)
def test_taken(path, index):
    ia.attach(path, [index])
    table = ia.open(path)
    assert table.count("s = 'zz'") == table.count("s LIKE '%zz%'") == 10
    assert ia.verify(path).ok
