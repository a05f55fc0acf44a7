"""A report has every request that the store got for its query, and every byte that was fetched."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import intarsia as ia
from tests.effort import examples
from tests.lake.report_lakes import FORMS, Form, forms, queries
from tests.object_stores.store_server import BUCKET

LAKES = ("pages", "indexes", "many small files", "many files of pages", "partitions")


@pytest.fixture
def lakes(s3, tmp_path, monkeypatch):
    """The server with all lakes, one of them with a lake index."""
    monkeypatch.setenv("INTARSIA_CACHE_DIR", str(tmp_path / "cache"))
    for name in LAKES:
        folder = FORMS[name].write(tmp_path / name)
        for path in folder.rglob("*.parquet"):
            s3.put(f"{name}/{path.relative_to(folder)}", path.read_bytes())
    return s3


def assert_counted(query, table, server):
    """Run a query, and compare its report with the requests; listings are not in a report."""
    with server.recording() as recording:
        report = query(table).to_dict()
    requests = [one for one in recording.requests if not one.is_listing]
    assert report["requests"] == len(requests)
    assert report["bytes"]["read"] == sum(one.num_bytes for one in requests)
    assert 0 <= report["bytes"]["index"] <= report["bytes"]["read"]
    return report, recording.methods


@given(forms(*LAKES), st.lists(queries, min_size=1, max_size=3))
@settings(
    max_examples=examples(60, deep=400),
    suppress_health_check=[*settings().suppress_health_check, HealthCheck.function_scoped_fixture],
)
def test_each_report_has_the_requests_of_its_query(lakes, form, several):
    """Later queries check with a HEAD request that an object has not changed."""
    table = ia.open(f"s3://{BUCKET}/{form}/")
    for query in several:
        assert_counted(query.run, table, lakes)


def test_a_lake_index_that_is_downloaded_is_in_the_report(s3, tmp_path, monkeypatch):
    monkeypatch.setenv("INTARSIA_CACHE_DIR", str(tmp_path / "first"))
    folder = Form(12, indexes=(ia.Bloom("user"),)).write(tmp_path / "lake")
    for path in folder.iterdir():
        s3.put(f"lake/{path.name}", path.read_bytes())
    url = f"s3://{BUCKET}/lake/"
    ia.open(url).build_lake_index("beside")
    monkeypatch.setenv("INTARSIA_CACHE_DIR", str(tmp_path / "second"))
    size = sum(len(s3.content(key)) for key in s3.list_keys() if key.startswith("lake/_intarsia/"))
    first, _ = explained(ia.open(url), s3)
    assert first["bytes"]["index"] >= size
    later, requests = explained(ia.open(url), s3)
    assert later["bytes"]["index"] > 0  # of the local copy
    assert later["requests"] > len(requests)
    assert all("_intarsia" not in one.key for one in requests)


def explained(table, server):
    with server.recording() as recording:
        report = table.explain("user = 4999 AND key = 3").to_dict()
    return report, [one for one in recording.requests if not one.is_listing]
