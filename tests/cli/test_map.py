"""`intarsia map`: the page, the picture, and what it refuses."""

from __future__ import annotations

import pytest


def test_page(run, file, tmp_path):
    page = tmp_path / "map.html"
    found = run("map", file, "--where", "id = 250", "--columns", "km", "-o", page)
    assert found.code == 0
    assert found.out.startswith(f"{page}: ")
    assert "1 row" in found.out
    text = page.read_text("utf-8")
    assert text.startswith("<!doctype html>")
    assert "id = 250" in text


def test_picture(run, lake, tmp_path):
    picture = tmp_path / "map.svg"
    assert run("map", lake, "-w", "id = 2500", "-a", "count(*), max(km)", "-o", picture).code == 0
    text = picture.read_text("utf-8")
    assert text.startswith("<svg")
    assert "Pages of year=" in text or "excluded by" in text


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["-o", "map.png"], ".svg"),
        (["--aggregate", "count(*)", "--limit", "3"], "--limit"),
        (["--order-by", "id"], "--limit"),
    ],
)
def test_refused(run, file, arguments, reason):
    found = run("map", file, *arguments)
    assert found.code == 2
    assert reason in found.err
