"""`intarsia cache`: list and delete the lake indexes in the user's cache folder."""

from __future__ import annotations

import json
import os
import shutil

import pytest

import intarsia as ia
from intarsia.lake.index.folder import CACHE_VARIABLE, LakeIndexFolder
from tests.lake.index.lakes import make_lake


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    monkeypatch.setenv(CACHE_VARIABLE, str(folder))
    return folder


@pytest.fixture
def lakes(tmp_path, cache):
    """Two lakes with lake indexes in the cache."""
    made = [make_lake(tmp_path / name, 2, ()) for name in ("a", "b")]
    for lake in made:
        ia.open(lake).build_lake_index()
    return made


def listed(run):
    outcome = run("cache", "list", "--json")
    assert (outcome.code, outcome.err) == (0, "")
    return json.loads(outcome.out)


@pytest.mark.parametrize("shared", ["cache", "./cache", ""])
def test_a_relative_cache_folder_of_xdg_is_ignored(run, monkeypatch, tmp_path, shared):
    monkeypatch.delenv(CACHE_VARIABLE)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert listed(run)["folder"] == str(tmp_path / "intarsia")
    monkeypatch.setenv("XDG_CACHE_HOME", shared)
    found = listed(run)["folder"]
    assert found.startswith(str(tmp_path / "home"))
    assert found.endswith("intarsia")


def test_list(run, lakes, cache):
    folder = LakeIndexFolder.of(str(lakes[0]), "cache")
    (segment,) = folder.names()
    path = os.path.join(folder.path, segment)
    os.utime(path, (os.path.getmtime(path) - 7200,) * 2)
    shutil.rmtree(lakes[1])
    found = listed(run)
    assert found["folder"] == str(cache)
    first, second = found["lakes"]
    assert 7200 <= first.pop("age_seconds") < 7300
    assert first == {
        "lake": str(lakes[0]),
        "folder": folder.path,
        "copy": False,
        "bytes": os.path.getsize(path),
        "lake_exists": True,
    }
    assert (second["lake"], second["lake_exists"]) == (str(lakes[1]), False)
    lines = run("cache", "list").out.splitlines()
    assert [line.split()[0] for line in lines[1:3]] == [str(lake) for lake in lakes]
    assert "2 h" in lines[1]


def test_an_empty_cache(run):
    assert listed(run)["lakes"] == []
    assert run("cache", "list").code == 0
    assert json.loads(run("cache", "clear", "--json").out) == {"deleted": []}


def test_clear(run, lakes, cache, monkeypatch):
    monkeypatch.chdir(lakes[0].parent)
    deleted = json.loads(run("cache", "clear", "a/", "--json").out)["deleted"]
    assert [lake["lake"] for lake in deleted] == [str(lakes[0])]
    assert [lake["lake"] for lake in listed(run)["lakes"]] == [str(lakes[1])]
    assert run("cache", "clear", "a").code == 2
    assert run("cache", "clear", "b", "--gone").code == 2
    assert run("cache", "clear").code == 0
    assert listed(run)["lakes"] == []
    assert [path for path in cache.rglob("*") if path.is_file()] == []


def test_clear_those_of_lakes_that_are_gone(run, lakes):
    shutil.rmtree(lakes[1])
    deleted = json.loads(run("cache", "clear", "--gone", "--json").out)["deleted"]
    assert [lake["lake"] for lake in deleted] == [str(lakes[1])]
    assert [lake["lake"] for lake in listed(run)["lakes"]] == [str(lakes[0])]


def test_one_of_an_older_version(run, lakes):
    """It has no file with the root of the lake."""
    folder = LakeIndexFolder.of(str(lakes[0]), "cache").path
    os.unlink(os.path.join(folder, "lake.txt"))
    assert [lake["lake"] for lake in listed(run)["lakes"]] == [None, str(lakes[1])]
    assert folder in run("cache", "list").out
    assert run("cache", "clear").code == 0
    assert listed(run)["lakes"] == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to other users")
def test_one_of_another_user_is_not_used(run, lakes):
    folder = LakeIndexFolder.of(str(lakes[0]), "cache").path
    os.chown(folder, 12345, 12345)
    assert [lake["lake"] for lake in listed(run)["lakes"]] == [str(lakes[1])]


@pytest.mark.parametrize("name", ["list", "clear"])
def test_help_has_examples(run, name):
    examples = run("cache", name, "--help").out.partition("\nExamples:\n")[2].splitlines()
    assert len(examples) >= 2
    assert all(line.startswith(f"  intarsia cache {name}") for line in examples)
    assert name in run("cache", "--help").out
