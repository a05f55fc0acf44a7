"""An index of another package on a lake: executors get its kind and parameters; `ias.read` uses it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pyarrow.parquet as pq
import pytest

import intarsia as ia
from intarsia import spark as ias
from intarsia.errors import IndexBuildError
from intarsia.spark import shipping
from tests.authoring.conftest import pages

PROGRAM = """
import json, sys
from intarsia import spark as ias
from intarsia_hosts import Hosts
lake = sys.argv[1]
report = ias.index(spark, lake, [Hosts("url"), Hosts("url", granularity="file")], progress=False)
found = ias.read(spark, lake, where="url LIKE 'https://site7.example/%'")
ids = sorted(row["id"] for row in found.select("id").collect())
print(json.dumps({"files": report.to_dict()["files"], "ids": ids, "read": len(found.inputFiles())}))
"""


@dataclass(frozen=True)
class Unregistered(ia.Distinct):
    """An index that no package registers."""

    kind: ClassVar[str] = "unregistered"


def write_lake(folder):
    folder.mkdir()
    for part in range(4):
        options = {"use_dictionary": False, "write_statistics": False}
        pq.write_table(pages().slice(part * 500, 500), folder / f"part-{part}.parquet", **options)
    return str(folder)


@pytest.mark.spark
@pytest.mark.slow
def test_a_lake(packages_host, tmp_path):
    """Runs in a separate process, because workers inherit the search path when the session starts."""
    lake = write_lake(tmp_path / "lake")
    found = json.loads(packages_host.run(PROGRAM, lake))
    assert found["files"] == {"total": 4, "indexed": 4, "unchanged": 0, "failed": 0, "skipped": 0, "other": 0}
    assert found["ids"] == list(range(350, 400))
    assert found["read"] == 1
    kinds = {
        entry.kind for file in Path(lake).glob("*.parquet") for entry in ia.inspect(file).directory.entries
    }
    assert kinds == {"hosts"}


def test_a_class_that_is_not_registered_is_rejected_before_a_job_runs(tmp_path):
    lake = write_lake(tmp_path / "lake")
    with pytest.raises(IndexBuildError) as caught:
        ias.index(None, lake, [Unregistered("url")], progress=False)  # without a session
    assert caught.value.reason == "unregistered-kind"


@pytest.mark.parametrize(
    "index",
    [ia.Distinct("a.b", 500), ia.Bloom("x", 0.5), ia.Bloom(("a.b", "c")), ia.PageIndex(), ia.Statistics()],
    ids=repr,
)
def test_an_index_survives_the_way_to_an_executor(index):
    assert shipping.unpack_index(shipping.pack_index(index)) == index


def test_a_kind_that_executors_lack_is_reported():
    with pytest.raises(IndexBuildError) as caught:
        shipping.unpack_index(("nonesuch", "{}"))
    assert caught.value.reason == "unregistered-kind"
    assert "nonesuch" in str(caught.value)


def test_classes_are_sent_by_kind(announce):
    """If a class of a notebook were sent by value, readers of its files would not have it."""
    announce({"unregistered": f"{__name__}:Unregistered"})
    assert shipping.pack_index(Unregistered("x"))[0] == "unregistered"
