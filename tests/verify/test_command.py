"""`intarsia verify`: exit codes, JSON, and the list of rules."""

import json
import re
import shutil

import pytest

import intarsia as ia
from intarsia.check.verification import RULES
from intarsia.cli import main
from intarsia.format.enums import BoundaryOrder
from tests.verify.damage import Damage, change_column_index


@pytest.fixture
def run(capsys):
    """Return a function that runs the command and returns its exit code and stdout."""

    def run(*arguments):
        code = main(["verify", *map(str, arguments)])
        return code, capsys.readouterr().out

    return run


def test_a_good_file(run, path):
    code, out = run(path)
    assert code == 0
    assert out.startswith("1 file checked, ")
    assert json.loads(run(path, "--json")[1])["ok"] is True


def test_singular_and_plural(run, path, tmp_path):
    ia.attach(path, [ia.Distinct("id")])
    other = shutil.copy(path, tmp_path / "other.parquet")
    assert {"1 directory", "1 embedded index"} <= set(re.split(r", |[()]", run(path)[1]))
    assert {"2 directories", "2 embedded indexes"} <= set(re.split(r", |[()]", run(path, other)[1]))


def test_a_finding_as_text_and_json(run, path):
    change_column_index(path, boundary_order=BoundaryOrder.DESCENDING)
    code, out = run(path)
    assert code == 1
    consequence = RULES["boundary-order"][1]
    assert f"error: {path}: row group 0, column id, ColumnIndex: " in out
    assert consequence in out
    code, out = run(path, "--json")
    assert code == 1
    finding = json.loads(out)["reports"][0]["findings"][0]
    assert "'descending'" in finding.pop("message")
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


def test_notes_are_not_warnings(run, corpus):
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
    code, out = run("--json", "--list-rules")
    assert (code, json.loads(out)) == (
        0,
        [
            {"severity": severity, "rule": rule, "consequence": consequence}
            for rule, (severity, consequence) in RULES.items()
        ],
    )


def test_wrong_usage(run):
    assert run()[0] == 2
    assert run("--rules")[0] == 2
