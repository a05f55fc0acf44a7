"""Delta and Iceberg tables in an object store."""

from __future__ import annotations

import pyarrow as pa
import pytest

import intarsia as ia
from tests.object_stores.store_server import BUCKET

ROWS = pa.table({"id": range(100), "part": ["a b", "c/d"] * 50})


def test_a_delta_table_has_the_options_of_its_store(s3, monkeypatch):
    deltalake = pytest.importorskip("deltalake")
    options = s3.environment
    for name in options:
        monkeypatch.delenv(name, raising=False)
    url = f"s3://{BUCKET}/lake/delta"
    deltalake.write_deltalake(url, ROWS, partition_by=["part"], storage_options=options)
    for table in (
        ia.open(deltalake.DeltaTable(url, storage_options=options)),
        ia.open(f"delta+{url}", storage_options=options),
    ):
        scan = table.scan("part = 'c/d' AND id > 90", ["id"])
        assert scan.to_arrow()["id"].to_pylist() == [91, 93, 95, 97, 99]
        assert scan.report.files_opened == 1
    # the objects are longer than the log says
    ia.attach(f"delta+{url}", [ia.Distinct("id")], storage_options=options)
    indexed = ia.open(f"delta+{url}", storage_options=options)
    scan = indexed.scan("id = 50 OR id = 1000")
    assert scan.to_arrow()["id"].to_pylist() == [50]
    assert deltalake.DeltaTable(url, storage_options=options).to_pyarrow_table().num_rows == 100
    assert indexed.plan("id = 41")[0].num_bytes > 0
    report = table.build_lake_index()
    assert (report.files_total, report.files_added) == (2, 2)
    again = ia.open(deltalake.DeltaTable(url, storage_options=options))
    with s3.recording() as recording:
        assert again.count("id = 1000") == 0
    assert set(recording.methods) == {"LIST"}  # no object is opened
    with pytest.raises(FileNotFoundError):
        ia.open(f"delta+s3://{BUCKET}/lake", storage_options=options)


def test_an_iceberg_table_has_the_options_of_its_catalog(s3, tmp_path, monkeypatch):
    catalogs = pytest.importorskip("pyiceberg.catalog.sql")
    for name in s3.environment:
        monkeypatch.delenv(name, raising=False)
    catalog = catalogs.SqlCatalog(
        "test",
        uri=f"sqlite:///{tmp_path}/catalog.db",
        warehouse=f"s3://{BUCKET}/warehouse",
        **{
            "s3.endpoint": s3.url,
            "s3.access-key-id": "testing",
            "s3.secret-access-key": "testing",
            "s3.region": "us-east-1",
        },
    )
    try:
        catalog.create_namespace("db")
        iceberg = catalog.create_table("db.t", schema=ROWS.schema)
        iceberg.append(ROWS)
        table = ia.open(iceberg)
        assert table.scan("id = 42").to_arrow().to_pylist() == [{"id": 42, "part": "a b"}]
    finally:
        catalog.close()
