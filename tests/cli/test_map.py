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


def test_an_old_page_remains_until_the_new_one_is_complete(run, file, tmp_path):
    page = tmp_path / "map.html"
    page.write_text("old")
    (tmp_path / "linked").hardlink_to(page)
    assert run("map", file, "-o", page).code == 0
    assert page.read_text("utf-8").startswith("<!doctype html>")
    assert (tmp_path / "linked").read_text() == "old"


def test_an_input_is_not_replaced(run, file, tmp_path):
    page = file.rename(tmp_path / "rows.html")
    before = page.read_bytes()
    assert run("map", page, "-o", page).code == 2
    assert page.read_bytes() == before


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
