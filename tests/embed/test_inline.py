"""Small payloads are stored in the directory: they cost no request, and are checked like all others."""

import base64
import json
import warnings

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from intarsia.embed.structures import INLINE_BYTES
from intarsia.embed.tail import FooterEdit
from intarsia.format.blob import checksum
from intarsia.format.directory import KEY
from intarsia.format.footer import parse_footer

PRESENT, ABSENT = "word = 'b7'", "word = 'c7'"


@pytest.fixture
def path(tmp_path):
    """A file with words that dictionary pages cannot exclude."""
    path = tmp_path / "a.parquet"
    rows = range(100_000)
    words = [f"{'abd'[row % 3]}7" for row in rows]
    pq.write_table(pa.table({"word": words, "row": rows}), path, use_dictionary=False)
    return path


def footer_of(path):
    data = path.read_bytes()
    start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    return parse_footer(data[start:-8], start, len(data))


def entries(path):
    return json.loads(footer_of(path).key_values[KEY])["entries"]


def change_payload(path, change):
    """Change a payload in the directory; ``change`` may also fix the checksum."""
    data, footer = path.read_bytes(), footer_of(path)
    directory = json.loads(footer.key_values[KEY])
    change(directory["entries"][0])
    edit = FooterEdit(footer.raw)
    edit.set_key_value(KEY, json.dumps(directory).encode())
    raw = edit.to_bytes()
    path.write_bytes(data[: directory["region_stop"]] + raw + len(raw).to_bytes(4, "little") + b"PAR1")


def scanned(path, where):
    table = ia.open(path)
    _ = table.schema  # the footer of a file that was just written is read again, for the run
    scan = table.scan(where)
    return scan.to_arrow().num_rows, scan.report


def test_a_small_payload_costs_no_request(path):
    assert scanned(path, ABSENT)[1].requests > 2
    ia.attach(path, [ia.Distinct("word", "file")])
    (entry,) = entries(path)
    assert len(base64.b64decode(entry["payload"])) <= INLINE_BYTES
    assert "offset" not in entry
    rows, report = scanned(path, ABSENT)
    assert (rows, report.requests, report.row_groups_read) == (
        0,
        2,
        0,
    )  # the length of the footer, the footer
    assert scanned(path, PRESENT)[0] == 33_333


def test_a_large_payload_is_a_blob(path):
    ia.attach(path, [ia.Distinct("row", "file", max_values=100_000)])
    (entry,) = entries(path)
    assert entry["length"] > INLINE_BYTES
    assert "payload" not in entry


@pytest.mark.parametrize("fixed", [False, True], ids=["checksum_fails", "checksum_holds"])
def test_a_damaged_payload_is_ignored(path, fixed):
    ia.attach(path, [ia.Distinct("word", "file")])

    def cut(entry):
        payload = base64.b64decode(entry["payload"])[:-40]
        entry["payload"] = base64.b64encode(payload).decode()
        if fixed:
            entry["xxh3"] = checksum(payload)

    change_payload(path, cut)
    with pytest.warns(ia.IntarsiaWarning, match="distinct"):
        rows, report = scanned(path, PRESENT)
    assert (rows, report.row_groups_read) == (33_333, 1)


def test_invalid_base64_affects_only_the_directory(path):
    ia.attach(path, [ia.Distinct("word", "file")])
    change_payload(path, lambda entry: entry.update(payload="not base64!"))
    with pytest.warns(ia.IntarsiaWarning):
        assert scanned(path, PRESENT)[0] == 33_333


def test_detach_removes_it(path):
    before = path.read_bytes()
    ia.attach(path, [ia.Distinct("word", "file")])
    assert ia.detach(path).removed == ("distinct(word):file",)
    assert path.read_bytes() == before
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert scanned(path, PRESENT)[0] == 33_333
