"""The page in ``examples/browser``, in a browser without a window."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from urllib.parse import urlencode

import pytest

import intarsia as ia
from intarsia.amounts import size
from tests import browser
from tests.clients.reader import served, what_is_missing

ROOT = Path(__file__).parents[2]
FOLDER = "/tests/conformance"

if missing := what_is_missing():
    pytest.skip(missing, allow_module_level=True)
BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
if BROWSER is None:
    pytest.skip("needs Chromium", allow_module_level=True)


def page_of(server, tmp_path, **asked):
    """The text of the page's parts after it has run a condition."""
    address = f"{server}/examples/browser/index.html?{urlencode(asked)}"
    options = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}", "--dump-dom"]
    found = subprocess.run(
        [BROWSER, *options, "--virtual-time-budget=60000", address],
        capture_output=True, text=True, timeout=120, check=True,
    ).stdout  # fmt: skip
    parts = {}
    for name in ("summary", "indexes", "status", "rows", "map"):
        inside = re.search(rf'<(\w+) id="{name}"[^>]*>(.*?)</\1>', found, re.DOTALL)[2]
        parts[name] = " ".join(re.sub(r"<[^>]*>", " ", inside).split())
    return parts


def test_a_condition_is_run(tmp_path):
    with served(ROOT) as server:
        path = f"{FOLDER}/payloads-2/indexed.parquet"
        page = page_of(server, tmp_path, url=path, column="dest", operator="=", value="LEX")
        assert page["summary"].startswith(
            "1,230 rows in 127,079 bytes; opened with 32,768 bytes in 1 request"
        )
        assert "distinct(dest):page 1,128 yes" in page["indexes"]
        assert re.match(r"1 matching row; read [\d,]+ bytes in \d requests?; .*\(dest\)", page["status"])
        assert re.match("id dest small .* 8614277 LEX 186", page["rows"])


def file_columns(file):
    return [lane.name for lane in file.lanes if lane.name != "dest"]


def test_the_map_has_the_numbers_of_the_query(tmp_path):
    """What the indexes excluded is what the status says; columns and matches are those of Intarsia."""
    with served(ROOT) as server:
        path = f"{FOLDER}/payloads-2/indexed.parquet"
        page = page_of(server, tmp_path, url=path, column="dest", operator="=", value="LEX")
    own = ia.open(f"{ROOT}{path}").scan("dest = 'LEX'").map().facts
    shown = page["map"]
    assert shown.startswith("dest = LEX indexed.parquet, 1,230 rows · select ")
    assert f" {size(own.num_bytes)} were read: " in shown
    left = re.findall(r"(\S+) excluded (\d+)", page["status"].replace("page index", "page_index"))
    table = shown.split("What each index excluded")[1].replace("page index", "page_index")
    for name, rows in left:
        assert f" {name} dest {rows} " in table
    (file,) = own.files
    columns = shown.split("Pages by column")[1].split("Bytes by part")[0]
    assert re.findall(r"(\w+) \d+(?: \d+)+(?= |$)", columns) == ["dest", *file_columns(file)]
    assert file.num_matches == 1
    assert "1 match" in shown


def test_a_stale_file_says_so(tmp_path):
    with served(ROOT) as server:
        page = page_of(server, tmp_path, url=f"{FOLDER}/changed/rewritten.parquet")
        assert page["status"].startswith("the indexes are ignored: ")
        assert page["indexes"] == "Embedded indexes index bytes used"


CHOSEN = """
const part = (id) => document.getElementById(id);
return new Promise((done) => {
  const isDone = () => part("status").textContent.includes("matching");
  const shown = () => ["summary", "status"].map((id) => part(id).textContent);
  const look = () => isDone() ? done(shown()) : setTimeout(look, 5);
  const opened = () => {
    if (part("about").hidden) return setTimeout(opened, 5);
    const { column, operator, value } = part("query").elements;
    [column.value, operator.value, value.value] = ["dest", "=", "LEX"];
    part("query").requestSubmit();
    look();
  };
  opened();
});
"""


@pytest.mark.skipif(browser.what_is_missing() is not None, reason="needs Chromium and its driver")
def test_a_chosen_file():
    """A file of the reader's machine is read in parts, and never sent to the server."""
    with served(ROOT) as server, browser.browser() as window:
        window.open(f"{server}/examples/browser/index.html")
        page = window.command("DOM.getDocument")["root"]["nodeId"]
        chosen = window.command("DOM.querySelector", nodeId=page, selector="input[type=file]")["nodeId"]
        window.command(
            "DOM.setFileInputFiles", nodeId=chosen, files=[f"{ROOT}{FOLDER}/payloads-2/indexed.parquet"]
        )
        summary, status = window.run(CHOSEN)
        assert re.match(r"1,230 rows in 127,079 bytes; opened with \d\d,\d+ bytes in 2 requests", summary)
        assert re.match(r"1 matching row; read [\d,]+ bytes in \d requests?; .*\(dest\)", status)
        loaded = window.run("return performance.getEntriesByType('resource').map((one) => one.name)")
        assert not [name for name in loaded if "parquet" in name.rsplit("/", 1)[-1].replace("parquet.js", "")]
