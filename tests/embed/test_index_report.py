"""What people are told of many files."""

from intarsia.embed.index_report import IndexedFile, IndexReport


def note(column, reason="failed: its type has no order"):
    return {"column": column, "index": "page_index", "reason": reason}


INDEXED = IndexedFile("a", 100, 150, ("page_index",), notes=(note("x"), note("y")))
FAILED = [IndexedFile(f"f{place:02}", 100, 100, error="failed: no Parquet file") for place in range(12)]


def test_everything_is_told():
    lines = str(IndexReport((INDEXED, *FAILED[:2]), 1.0)).splitlines()
    assert lines == [
        "indexed 1 of 3 files in 1.0 s (2 failed)",
        "50 B added to 300 B (16.7%)",
        "note: page_index of x: failed: its type has no order (1 file)",
        "note: page_index of y: failed: its type has no order (1 file)",
        "failed: f00: failed: no Parquet file",
        "failed: f01: failed: no Parquet file",
    ]


def test_the_summary_tells_only_how_many_failed():
    lines = IndexReport((INDEXED, *FAILED), 1.0).summary().splitlines()
    assert lines[0] == "indexed 1 of 13 files in 1.0 s (12 failed)"
    assert [line.split(":")[0] for line in lines[2:]] == ["note", "note"]


def test_notes_that_are_too_many_are_counted():
    assert str(IndexReport((INDEXED, *FAILED), 1.0)).endswith("… and 4 more notes")


def test_what_holds_for_many_files_is_told_once():
    files = tuple(IndexedFile(name, 1, 1, notes=(note("x", "no pages"),)) for name in "abc")
    assert IndexReport(files, 1.0).summary().splitlines()[1:] == ["note: page_index of x: no pages (3 files)"]
