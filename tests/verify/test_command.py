"""`intarsia verify`: exit codes, JSON, and the list of rules."""

import json
import re
import shutil

import pytest

import intarsia as ia
from intarsia.check.verification import RULES
from intarsia.cli import main
from intarsia.cli.verify_command import _counted
from intarsia.format.structs import BoundaryOrder
from tests.verify.damage import Damage, change_column_index


@pytest.fixture
def run(capsys):
    """The exit code and what came to stdout."""

    def run(*arguments):
        code = main(["verify", *map(str, arguments)])
        return code, capsys.readouterr().out

    return run


def test_a_good_file(run, path):
    code, out = run(path)
    assert code == 0
    assert out.startswith("1 file checked, no error")


def test_one_of_a_thing_and_two(run, path, tmp_path):
    ia.attach(path, [ia.Distinct("id")])
    other = shutil.copy(path, tmp_path / "other.parquet")
    assert {"1 directory", "1 embedded index"} <= set(re.split(r", |[()]", run(path)[1]))
    assert {"2 directories", "2 embedded indexes"} <= set(re.split(r", |[()]", run(path, other)[1]))


@pytest.mark.parametrize(
    ("name", "one"),
    [("page_statistics", "page statistics"), ("bloom_filters", "bloom filter"), ("pages", "page")],
)
def test_plurals(name, one):
    assert _counted(1, name) == f"1 {one}"
    assert _counted(1234, name) == f"1,234 {name.replace('_', ' ')}"


def test_a_finding_in_text_and_json(run, path):
    change_column_index(path, boundary_order=BoundaryOrder.DESCENDING)
    code, out = run(path)
    assert code == 1
    consequence = RULES["boundary-order"][1]
    assert f"error: {path}, row group 0, column id, ColumnIndex: it says 'descending'" in out
    assert consequence in out
    code, out = run(path, "--json")
    assert code == 1
    finding = json.loads(out)["reports"][0]["findings"][0]
    message = finding.pop("message")
    assert message.startswith("it says 'descending', but")
    assert finding == {
        "severity": "error", "rule": "boundary-order", "file": path, "row_group": 0, "column": "id",
        "page": None, "index": "ColumnIndex", "consequence": consequence,
    }  # fmt: skip


def test_warnings(run, path):
    damage = Damage(path)
    damage.statistics("id", distinct_count=7)
    damage.write()
    assert run(path)[0] == 0
    code, out = run(path, "--strict", "--json")
    assert code == 1
    assert [finding["severity"] for finding in json.loads(out)["reports"][0]["findings"]] == ["warning"]


def test_notes_are_no_warnings(run, corpus):
    path = next(corpus.rglob("encrypt_columns_plaintext_footer.parquet.encrypted"))
    code, out = run(path, "--strict")
    assert code == 0
    assert "note: " in out


def test_rules(run):
    code, out = run("--list-rules")
    assert code == 0
    lines = out.splitlines()
    assert len(lines) == len(RULES)
    for line, (rule, (severity, consequence)) in zip(lines, RULES.items(), strict=True):
        assert line.split(maxsplit=2) == [severity, rule, consequence]


def test_wrong_usage(run):
    assert run()[0] == 2
    assert run("--rules")[0] == 2
