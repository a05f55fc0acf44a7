"""The example of `docs/write-an-index.md`, installed from its package and used as documented."""

from __future__ import annotations

import ast
import json
import re
import shlex

import pyarrow.parquet as pq
import pytest
from hypothesis import settings

import intarsia as ia
from tests.authoring.conftest import EXAMPLE, ROOT, pages

DOCUMENT = (ROOT / "docs" / "write-an-index.md").read_text(encoding="utf-8")
WHERE = "url LIKE 'https://site7.example/%'"
IDS = list(range(350, 400))


def shown(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", DOCUMENT, re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize(
    ("name", "language", "place"),
    [("intarsia_hosts.py", "py", 0), ("test_hosts.py", "py", 1), ("pyproject.toml", "toml", 0)],
)
def test_the_document_shows_the_package(name, language, place):
    assert shown(language)[place] == (EXAMPLE / name).read_text(encoding="utf-8")


def test_it_has_about_50_lines():
    source = (EXAMPLE / "intarsia_hosts.py").read_text(encoding="utf-8")
    plain = ast.unparse(ast.parse(source))  # without comments
    without_docstrings = re.sub(r'^\s*""".*"""$', "", plain, flags=re.MULTILINE)
    assert len([line for line in without_docstrings.splitlines() if line.strip()]) < 56


def test_it_passes_the_contract(with_hosts, tmp_path):
    (tmp_path / "test_hosts.py").write_bytes((EXAMPLE / "test_hosts.py").read_bytes())
    profile = f"settings.register_profile('these', max_examples={settings().max_examples})"
    lines = ["from hypothesis import settings", profile, "settings.load_profile('these')"]
    (tmp_path / "conftest.py").write_text("\n".join(lines))
    options = ["-q", "-p", "no:cacheprovider", "-c", "/dev/null", "--rootdir", tmp_path]
    done = with_hosts.run_alone("-m", "pytest", *options, tmp_path / "test_hosts.py", cwd=tmp_path)
    assert done.returncode == 0, done.stdout
    assert re.search(r"^1\d passed", done.stdout, re.MULTILINE)


def test_the_documented_commands(with_hosts, file):
    before = file.read_bytes()
    written = {}
    (block,) = shown("shell")
    for line in block.splitlines():
        command, name, *options = shlex.split(line)
        assert command == "intarsia"
        arguments = [str(file) if option == "pages.parquet" else option for option in options]
        done = with_hosts.intarsia(name, *arguments)
        assert done.stderr == ""
        written[name] = done.stdout
    assert [json.loads(row)["id"] for row in written["query"].splitlines()] == IDS
    assert "hosts(url):page" in written["inspect"]
    assert "no error" in written["verify"]
    assert file.read_bytes() == before


def test_it_prunes(with_hosts, file, tmp_path):
    report = tmp_path / "report.json"
    with_hosts.intarsia("index", file, "--add", "hosts(url)")
    for where, rows in [
        (WHERE, 50),
        ("url = 'https://site7.example/page/360'", 1),
        ("url IN ('https://site7.example/page/360', 'https://absent.example/')", 1),
    ]:
        done = with_hosts.intarsia(
            "query", file, "--where", where, "--format", "jsonl", "--report", report, "--columns", "id"
        )
        assert len(done.stdout.splitlines()) == rows
        found = json.loads(report.read_text())
        assert [step["index"] for step in found["pruned_by"]] == ["hosts(url):page"]
        assert found["rows"]["candidates"] == 100
        assert found["ignored"] == []


LAKE = """
import json, os, sys
import intarsia as ia
from intarsia_hosts import Hosts

lake, *wheres = sys.argv[1:]
for second, name in enumerate(sorted(os.listdir(lake)), 1_600_000_000):
    ia.attach(f"{lake}/{name}", [Hosts("url")])
    os.utime(f"{lake}/{name}", (second, second))  # files that may still change are not indexed
ia.open(lake).build_lake_index()
for where in wheres:
    scan = ia.open(lake).scan(where, ["id"])
    ids = scan.to_arrow()["id"].to_pylist()
    by = [step["index"] for step in scan.report.to_dict()["pruned_by"]]
    print(json.dumps([len(ids), scan.report.files_opened, by]))
"""


def test_files_of_a_lake_are_excluded_without_opening_them(with_hosts, tmp_path):
    lake = tmp_path / "lake"
    lake.mkdir()
    for part in range(8):  # five sites in each
        table = pages().slice(250 * part, 250)
        pq.write_table(table, lake / f"{part}.parquet", use_dictionary=False, write_statistics=False)
    wheres = {
        WHERE: [50, 1, ["hosts(url):page"]],
        "url = 'https://site7.example/page/360'": [1, 1, ["hosts(url):page"]],
        "url IN ('https://site7.example/page/360', 'https://site30.example/page/1500')": [
            2,
            2,
            ["hosts(url):page"],
        ],
        "url LIKE 'https://absent.example/%'": [0, 0, ["hosts(url):page"]],
        "url LIKE '%/360'": [1, 8, []],
    }
    done = with_hosts.run(LAKE, lake, *wheres)
    assert done.returncode == 0, done.stderr
    assert [json.loads(line) for line in done.stdout.splitlines()] == list(wheres.values())


def test_the_command_lists_it(with_hosts, without_hosts):
    listed = with_hosts.intarsia("index", "--list").stdout
    assert re.search(r"^hosts +The hosts of URLs, per page", listed, re.MULTILINE)
    assert not re.search("^hosts ", without_hosts.intarsia("index", "--list").stdout, re.MULTILINE)


def test_without_the_package_the_file_is_read_with_one_note(with_hosts, without_hosts, file):
    with_hosts.intarsia("index", file, "--add", "hosts(url)")
    done = without_hosts.intarsia("query", file, "--where", WHERE, "--columns", "id", "--format", "jsonl")
    assert [json.loads(row)["id"] for row in done.stdout.splitlines()] == IDS
    (note,) = done.stderr.splitlines()
    assert "'hosts'" in note
    assert "hosts(url):page" in without_hosts.intarsia("inspect", file).stdout
    (entry,) = json.loads(without_hosts.intarsia("inspect", file, "--json").stdout)["directory"]["entries"]
    assert (entry["kind"], entry["is_known"], entry["is_trusted"]) == ("hosts", False, False)
    assert pq.read_table(file).equals(pages())
    # an index of an unknown kind survives attaching another one
    without_hosts.intarsia("index", file, "--distinct", "id:row_group")
    assert {entry.kind for entry in ia.inspect(file).directory.entries} == {"hosts", "distinct"}
    assert "hosts(url):page" in with_hosts.intarsia("explain", file, "--where", WHERE).stdout


def test_a_kind_that_is_not_installed_is_reported(without_hosts, file):
    before = file.read_bytes()
    done = without_hosts.intarsia("index", file, "--add", "hosts(url)", code=2)
    assert "'hosts'" in done.stderr
    assert file.read_bytes() == before
