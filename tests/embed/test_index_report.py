"""The text report on many files."""

from intarsia.embed.report import IndexedFile, IndexReport


def note(column, reason="its type has no order"):
    return {"column": column, "index": "page_index", "reason": reason, "code": "no-order"}


INDEXED = IndexedFile("a", 100, 150, ("page_index",), notes=(note("x"), note("y")))
FAILED = [IndexedFile(f"f{place:02}", 100, 100, error="not a Parquet file") for place in range(12)]


def test_the_text_contains_notes_and_failures():
    lines = str(IndexReport((INDEXED, *FAILED[:2]), 1.0)).splitlines()
    assert lines == [
        "indexed 1 of 3 files in 1.0 s (2 failed)",
        "50 B added to 300 B (16.7%)",
        "note: page_index of x: its type has no order (1 file)",
        "note: page_index of y: its type has no order (1 file)",
        "failed: f00: not a Parquet file",
        "failed: f01: not a Parquet file",
    ]


def test_the_summary_contains_only_the_number_of_failures():
    lines = IndexReport((INDEXED, *FAILED), 1.0).summary().splitlines()
    assert lines[0] == "indexed 1 of 13 files in 1.0 s (12 failed)"
    assert [line.split(":")[0] for line in lines[2:]] == ["note", "note"]


def test_surplus_notes_are_counted():
    assert str(IndexReport((INDEXED, *FAILED), 1.0)).endswith("… and 4 more notes")


def test_a_note_on_many_files_is_shown_once():
    files = tuple(IndexedFile(name, 1, 1, notes=(note("x", "no pages"),)) for name in "abc")
    assert IndexReport(files, 1.0).summary().splitlines()[1:] == ["note: page_index of x: no pages (3 files)"]


def test_notes_on_files_that_were_indexed_before_are_counted():
    files = tuple(
        IndexedFile(name, 1, 1, kept=("page_index",), notes=(note("x"), note("y", f"page {name}")))
        for name in "abc"
    )
    report = IndexReport(files, 1.0)
    assert report.summary().splitlines()[1:] == ["6 notes on 3 files indexed before"]
    assert len(report.notes) == 6
