"""`intarsia inspect` and `explain`: their text, and their JSON."""

from __future__ import annotations

import contextlib
import errno
import io
import json
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from intarsia.cli import main
from tests.cli.test_query import KEYS


class TestInspect:
    def test_text(self, run, file):
        run("index", file, "--page-index", "--distinct", "city")
        lines = run("inspect", file).out.splitlines()
        assert lines[0] == str(file)
        assert lines[1].startswith("2,000 rows in 2 row groups, ")
        assert "written by parquet-cpp-arrow" in lines[1]
        text = "\n".join(lines)
        assert "distinct(city):page" in text
        assert "original footer" in text
        assert "row group 1: 1,000 rows" in text
        (line,) = [line.split() for line in lines if line.startswith("id ")][:1]
        assert line[:4] == ["id", "INT64", "snappy", "plain"]
        assert line[6:10] == ["10", "0", "0", "999"]
        assert " ".join(line[10:]) == "bounds, page index (ascending)"
        assert not [line for line in lines if line.endswith(" ")]

    def test_pages(self, run, file):
        run("index", file, "--page-index")
        lines = [line.split() for line in run("inspect", file, "--pages").out.splitlines()]
        pages = [line for line in lines if line[:1] == ["id"] and line[1].isdecimal()]
        assert [line[2] for line in pages[:3]] == ["0", "100", "200"]
        assert [line[-2:] for line in pages[:2]] == [["0", "99"], ["100", "199"]]
        assert len(pages) == 20

    def test_unknown_pages(self, run, file):
        assert run("inspect", file, "--pages").out.splitlines()[-1].endswith(": id, city, km")

    def test_json_equals_that_of_the_library(self, run, file):
        document = json.loads(run("inspect", file, "--json").out)
        assert document == json.loads(json.dumps(ia.inspect(file).to_dict()))

    def test_some_columns_and_row_groups(self, run, file):
        chosen = ["--columns", "city,id", "--row-groups", "1"]
        document = json.loads(run("inspect", file, *chosen, "--pages", "--json").out)
        expected = ia.inspect(file, pages=True, columns=["id", "city"], row_groups=[1])
        assert document == json.loads(json.dumps(expected.to_dict()))
        assert document["num_row_groups"] == 2
        ((group,), names) = document["row_groups"], [leaf["name"] for leaf in document["schema"]]
        assert (group["ordinal"], names) == (1, ["id", "city"])
        assert [chunk["offset"] is not None for chunk in group["columns"]] == [True, True]
        out = run("inspect", file, *chosen).out
        assert "2,000 rows in 2 row groups" in out
        assert "row group 1: 1,000 rows" in out
        assert "row group 0" not in out
        assert "km" not in out
        assert "more; use" not in out

    def test_parts_that_do_not_exist(self, run, file):
        assert run("inspect", file, "--columns", "town").code == 2
        for text in ("first", "1-0"):
            assert run("inspect", file, "--row-groups", text).code == 2
        outcome = run("inspect", file, "--row-groups", "0-2")
        assert outcome.code == 1
        assert "no row group 2" in outcome.err

    def test_many_row_groups(self, run, tmp_path):
        from tests.cli.trips import trips, write

        path = tmp_path / "many.parquet"
        write(trips(), path, row_group_size=200)
        out = run("inspect", path).out
        assert out.count("row group ") == 5
        assert run("inspect", path, "--pages").out.count("\nrow group ") == 10


class TestInspectMany:
    def test_text(self, run, lake, file):
        (lake / "notes.txt").write_bytes(b"of another kind")
        outcome = run("inspect", lake, file)
        assert (outcome.code, outcome.err) == (0, "")
        paths = [*sorted(map(str, lake.rglob("*.parquet"))), str(file)]
        lines = outcome.out.splitlines()
        assert [line for line in lines if line.endswith(".parquet")] == paths
        assert lines[-1].startswith("4 files; 1 other file")

    def test_json_is_a_list_unless_the_path_is_one_file(self, run, lake, file):
        paths = sorted(map(str, lake.rglob("*.parquet")))
        for arguments in ((lake,), paths, (f"{lake}/year=*",), (lake.as_uri(),)):
            assert [found["path"] for found in json.loads(run("inspect", *arguments, "--json").out)] == paths
        assert [found["path"] for found in json.loads(run("inspect", f"{file}*", "--json").out)] == [
            str(file)
        ]
        for argument in (file, file.as_uri()):
            assert json.loads(run("inspect", argument, "--json").out)["path"] == str(file)

    def test_bad_files_are_reported_and_the_rest_are_shown(self, run, lake, broken):
        outcome = run("inspect", broken, lake)
        assert outcome.code == 1
        assert [line for line in outcome.err.splitlines() if str(broken) in line]
        assert outcome.out.splitlines()[-1] == "3 files"
        outcome = run("inspect", broken, lake, "--json")
        assert outcome.code == 1
        assert [(found["path"], "error" in found) for found in json.loads(outcome.out)][-1] == (
            str(broken),
            True,
        )

    def test_json_is_printed_file_by_file(self, file, tmp_path):
        """So the descriptions of a lake need not fit in memory."""
        folder = tmp_path / "copies"
        folder.mkdir()
        files = [shutil.copy(file, folder / f"{name}.parquet") for name in "abc"]

        class Taken(io.StringIO):
            def write(self, text):
                if str(files[0]) in text:
                    files[2].unlink()
                return super().write(text)

        with contextlib.redirect_stdout(Taken()) as out:
            assert main(["inspect", str(folder), "--json"]) == 1
        found = [(one["path"], "error" in one) for one in json.loads(out.getvalue())]
        assert found == [(str(files[0]), False), (str(files[1]), False), (str(files[2]), True)]

    def test_json_is_complete_after_an_interrupt(self, lake):
        files = sorted(map(str, lake.rglob("*.parquet")))

        class Interrupted(io.StringIO):
            def write(self, text):
                super().write(text)
                if files[1] in text:
                    raise KeyboardInterrupt
                return len(text)

        with contextlib.redirect_stdout(Interrupted()) as out:
            assert main(["inspect", str(lake), "--json"]) == 130
        assert [one["path"] for one in json.loads(out.getvalue())] == files[:2]

    @pytest.mark.parametrize("form", [[], ["--json"]])
    def test_nothing_more_is_read_after_an_error_of_printing(self, lake, form):
        """It was taken for an error of the file: `inspect lake/ | head` read all files."""

        class Full(io.StringIO):
            attempts = 0

            def write(self, _text):
                self.attempts += 1
                raise OSError(errno.ENOSPC, "no space left on device")

        with contextlib.redirect_stdout(Full()) as out:
            assert main(["inspect", str(lake), *form]) == 1
        assert out.attempts <= 2


class TestExplain:
    def test_other_files_of_a_folder_are_counted(self, run, lake):
        (lake / "notes.txt").write_bytes(b"of another kind")
        assert "1 other file" in run("explain", lake).out
        assert json.loads(run("explain", lake, "--json").out)["files"]["other"] == 1

    def test_json(self, run, lake):
        document = json.loads(run("explain", lake, "--where", "year = 2022 AND id = 2500", "--json").out)
        assert list(document) == KEYS
        assert document["files"] == {"total": 3, "read": 1, "opened": 1, "other": 0}
        assert document["row_groups"] == {"total": 2, "read": 1}
        assert document["rows"] == {"total": 2000, "candidates": 1000, "estimated": None, "matched": None}
        assert {entry["index"] for entry in document["pruned_by"]} == {"partition", "statistics"}

    def test_json_with_pages(self, run, file):
        run("index", file, "--page-index")
        document = json.loads(run("explain", file, "--where", "id = 250", "-c", "km", "--json").out)
        assert document["pages"]["by_column"] == {
            "id": {"total": 20, "read": 1, "excluded": 19, "unneeded": 0},
            "km": {"total": 20, "read": 1, "excluded": 19, "unneeded": 0},
        }
        assert 0 < document["bytes"]["planned"] < document["bytes"]["total"] / 10

    def test_text(self, run, lake):
        run("index", lake, "--page-index", "--distinct", "city")
        outcome = run("explain", lake, "--where", "city = 'Bremen' AND year = 2021", "--columns", "km")
        lines = [line.split() for line in outcome.out.splitlines()]
        assert ["files", "3", "1", "2", "files", "not", "opened"] in lines
        assert ["pages", "40", "4", "of", "opened", "files"] in lines
        assert ["city,", "km", "20", "2", "each"] in lines
        assert ["partition", "year", "2", "-", "-", "-"] in lines
        assert ["distinct(city):page", "city", "-", "-", "36", "1,800"] in lines

    def test_a_plan_is_an_upper_bound(self, run, file):
        where = "city = 'Bremen' AND id < 1000"
        plan = json.loads(run("explain", file, "--where", where, "--json").out)
        done = json.loads(run("query", file, "--where", where, "-f", "csv", "--report", "-").err)
        assert plan["bytes"]["read"] + plan["bytes"]["planned"] >= done["bytes"]["read"]
        assert plan["pages"]["read"] >= done["pages"]["read"]

    def test_ignored_indexes_are_reported(self, run, file):
        run("index", file, "--distinct", "city:5")
        raw = bytearray(file.read_bytes())
        (entry,) = ia.inspect(file).directory.entries
        raw[entry.offset + entry.size_bytes - 5] ^= 1
        file.write_bytes(raw)
        outcome = run("explain", file, "--where", "city = 'Bremen'")
        assert outcome.code == 0
        assert f"{file}: distinct(city):5: " in outcome.out


def test_control_characters_are_escaped(run, tmp_path):
    path = tmp_path / "evil.parquet"
    pq.write_table(pa.table({"a\x1b[2J": ["b\x1b[31m", "c"]}), path)
    run("index", path, "--page-index")
    for arguments in (["inspect", path, "--pages"], ["explain", path], ["query", path], ["verify", path]):
        outcome = run(*arguments)
        assert outcome.code == 0
        assert "\x1b" not in outcome.out + outcome.err
    outcome = run("query", path, "--where", "d = 1")
    assert "a\\x1b[2J" in outcome.err
    assert "\x1b" not in outcome.err
