"""Files whose chunks omit ``path_in_schema``: Polars and DataFusion read them, pyarrow and DuckDB do not."""

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datafusion import SessionContext

import intarsia as ia
from tests.embed.tables import edit_footer

TABLE = pa.table(
    {
        "n": pa.array(range(200)),
        "text": pa.array([f"value {row % 50}" for row in range(200)]),
        "struct": pa.array([{"x": row, "y": None} for row in range(200)], pa.struct({"x": "i4", "y": "f8"})),
        "list": pa.array([list(range(row % 3)) for row in range(200)]),
    }
)


@pytest.fixture(params=["all", "some"])
def path(tmp_path, request):
    path = str(tmp_path / "a.parquet")
    pq.write_table(TABLE, path, row_group_size=100, max_rows_per_page=20, write_batch_size=20)

    def change(tree):
        for group in tree.get(4).items:
            for ordinal, chunk in enumerate(group.get(1).items):
                if request.param == "all" or ordinal % 2:
                    chunk.get(3).remove(3)

    edit_footer(path, change)
    with pytest.raises(OSError, match="thrift"):
        pq.read_table(path)
    return path


def test_everything_is_read(path):
    assert ia.open(path).scan().to_arrow().equals(TABLE)
    assert ia.open(path).schema.equals(TABLE.schema)


@pytest.mark.parametrize(
    "where", ["n = 77", "text = 'value 3'", "struct.x >= 190", "struct.y IS NULL AND n < 5"]
)
def test_queries(path, where):
    plain = path.replace("a.parquet", "plain.parquet")
    pq.write_table(TABLE, plain)
    expected = ia.open(plain).scan(where).to_arrow()
    assert expected.num_rows
    assert ia.open(path).scan(where).to_arrow().equals(expected)
    indexes = [
        ia.PageIndex(),
        ia.Statistics(),
        ia.Bloom("text"),
        ia.Distinct("text"),
        ia.ZoneMap("n"),
        ia.RowMap("n"),
    ]
    ia.attach(path, indexes)
    assert ia.open(path).scan(where).to_arrow().equals(expected)
    assert ia.open(path).count(where) == expected.num_rows


@pytest.mark.skipif(pl.__version__ < "2", reason="some versions of Polars 1 need the paths")
def test_indexing_and_back(path):
    with open(path, "rb") as file:
        before = file.read()
    report = ia.attach(path, [ia.PageIndex(), ia.Distinct("text")])
    assert (report.built, report.notes) == (("page_index", "distinct(text):page"), ())
    assert not ia.attach(path, [ia.PageIndex(), ia.Distinct("text")]).changed
    assert ia.verify(path).findings == ()
    assert ia.inspect(path)
    assert ia.open(path).aggregate({"n": ["sum", "max"]})
    assert pl.read_parquet(path)["n"].to_list() == TABLE["n"].to_pylist()
    assert SessionContext().read_parquet(path).count() == 200
    ia.detach(path)
    with open(path, "rb") as file:
        assert file.read() == before


def test_a_damaged_chunk_without_a_path(path):
    edit_footer(path, lambda tree: tree.get(4).items[0].get(1).items[1].get(3).set(7, 6, 1 << 40))
    with pytest.raises(ia.CorruptFileError) as caught:
        ia.open(path).count("text = 'value 3'")
    assert (caught.value.path, caught.value.struct) == (path, "ColumnMetaData")
