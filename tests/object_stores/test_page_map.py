"""Page maps of objects: what the server was asked for is what they show."""

from __future__ import annotations

import pytest

import intarsia as ia
from intarsia.picture.facts import EXCLUDED, READ
from tests.lake.report_lakes import FORMS
from tests.object_stores.store_server import BUCKET


@pytest.fixture
def lake(s3, tmp_path, monkeypatch):
    """Returns the address of a lake and its copy on this machine."""
    monkeypatch.setenv("INTARSIA_CACHE_DIR", str(tmp_path / "cache"))

    def put(form):
        folder = FORMS[form].write(tmp_path / form)
        for path in folder.rglob("*.parquet"):
            s3.put(f"{form}/{path.relative_to(folder)}", path.read_bytes())
        return f"s3://{BUCKET}/{form}/", folder

    return put


@pytest.mark.parametrize("form", ["pages", "indexes", "many small files"])
def test_a_map_shows_what_was_requested(lake, s3, form):
    url, folder = lake(form)
    table = ia.open(url)
    with s3.recording() as recording:
        scan = table.scan("key = 333", ["user"], trace=True)
        assert scan.to_arrow().num_rows
    requests = [one for one in recording.requests if not one.is_listing]
    found = scan.report.map().facts
    assert found.num_read == sum(one.num_bytes for one in requests)
    assert found.num_requests == len(requests)
    here = ia.open(folder).scan("key = 333", ["user"]).map().facts
    assert [file.path for file in found.files] == [file.path for file in here.files]
    assert found.least_bytes == here.least_bytes
    is_excluded = [state >= EXCLUDED for state in found.lake.state]
    assert is_excluded == [state >= EXCLUDED for state in here.lake.state]
    for file, local in zip(found.files, here.files, strict=True):
        for lane, other in zip(file.lanes, local.lanes, strict=True):
            assert lane.num_pages == other.num_pages
            # pages between two that are wanted may be fetched with them, but only wanted ones are decoded
            assert lane.by_state[READ : READ + 1] == other.by_state[READ : READ + 1]
    page = scan.report.map().html()
    assert "s3://" not in page.split("<script id")[0]


def test_a_cold_map_of_one_object(lake, s3):
    url, folder = lake("pages")
    name = sorted(folder.glob("*.parquet"))[0].name
    found = ia.open(f"{url}{name}").scan("key < 30").map()
    assert found.facts.lake is None
    assert found.facts.title == name
    assert found.facts.num_read == found.facts.report["bytes"]["read"] > 0
    assert "<svg" in found.svg()
