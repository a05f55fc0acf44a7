"""A footer with an extension, such as a FlatBuffers footer: attach drops it, and detach restores it."""

import zlib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from intarsia.embed import Note
from intarsia.errors import UnsupportedFeatureError
from intarsia.file import ParquetInput
from intarsia.format import thrift_tree

ORIGINAL = (Path(__file__).parents[1] / "golden" / "original.parquet").read_bytes()
UUID = bytes(range(16))


def little_endian(number):
    return number.to_bytes(4, "little")


def flatbuffers_extension(flatbuffer):
    """The bytes that BinaryProtocolExtensions.md of parquet-format gives for a FlatBuffers footer."""
    size = little_endian(len(flatbuffer))
    return flatbuffer + little_endian(zlib.crc32(flatbuffer)) + size + little_endian(zlib.crc32(size)) + UUID


#: The header of field 32767, a binary: as Thrift writes it, and as the specification's example has it.
THRIFTS_HEADER, SPECIFIED_HEADER = b"\x08\xfe\xff\x03", b"\x08\xff\xff\x01"


def with_extension(data, extension, header=THRIFTS_HEADER):
    """A file whose footer ends with an extension in place of its stop field."""
    length = int.from_bytes(data[-8:-4], "little")
    footer = data[-8 - length : -8]
    assert footer[-1] == 0
    size, uleb = len(extension), b""
    while size >= 0x80:
        uleb += bytes([size & 0x7F | 0x80])
        size >>= 7
    uleb += bytes([size])
    footer = footer[:-1] + header + uleb + extension + b"\x00"
    return data[: -8 - length] + footer + little_endian(len(footer)) + b"PAR1"


@pytest.fixture(params=[THRIFTS_HEADER, SPECIFIED_HEADER], ids=["zigzag", "plain"])
def path(tmp_path, request):
    path = tmp_path / "a.parquet"
    extension = flatbuffers_extension(b"\x10\x00\x00\x00 the footer" * 40)
    path.write_bytes(with_extension(ORIGINAL, extension, request.param))
    return path


def footer_tree(path):
    with ParquetInput.open(path) as file:
        return thrift_tree.parse_tree(file.footer.raw)[0]


def extension_of(path):
    tree = footer_tree(path)
    return tree.get(32767, tree.get(-16384))


def footer_notes(report):
    return [note for note in report.notes if note.index == "footer_extension"]


def test_the_new_footer_has_no_stale_copy(path):
    before = path.read_bytes()
    assert extension_of(path).endswith(UUID)
    report = ia.attach(path, ia.PageIndex())
    (note,) = footer_notes(report)
    assert (note.column, note.row_group) == (None, None)
    after = path.read_bytes()
    assert after[: len(before)] == before
    assert UUID not in after[len(before) :]
    assert extension_of(path) is None
    assert str(pq.read_table(path).to_pylist()) == str(pq.read_table(pa.BufferReader(before)).to_pylist())


def test_everything_else_is_as_without_it(path, tmp_path):
    plain = tmp_path / "plain.parquet"
    plain.write_bytes(ORIGINAL)
    for each in (path, plain):
        assert ia.attach(each, ia.Hll("n", granularity="file")).changed
    trees = [footer_tree(each) for each in (path, plain)]
    for tree in trees:
        assert tree.get(5) is not None
        tree.remove(5)  # the directory, which has the original length
    assert trees[0] == trees[1]


def test_detaching_restores_it(path):
    before = path.read_bytes()
    ia.attach(path, [ia.PageIndex(), ia.Distinct("word")])
    ia.detach(path)
    assert path.read_bytes() == before


def test_attaching_again_starts_from_the_original(path):
    ia.attach(path, ia.PageIndex())
    once = path.read_bytes()
    assert not ia.attach(path, ia.PageIndex()).changed
    assert path.read_bytes() == once
    more = ia.attach(path, ia.Distinct("word"))
    assert len(footer_notes(more)) == 1
    assert extension_of(path) is None


def test_nothing_is_dropped_where_nothing_is_added(path):
    before = path.read_bytes()
    assert footer_notes(ia.attach(path, [])) == []
    assert path.read_bytes() == before


@pytest.mark.parametrize("extension", [b"", b"\x00", b"not FlatBuffers", UUID, b"\xff" * 300])
def test_any_extension_of_the_footer_may_be_a_copy(tmp_path, extension):
    path = tmp_path / "a.parquet"
    path.write_bytes(with_extension(ORIGINAL, extension))
    before = path.read_bytes()
    assert len(footer_notes(ia.attach(path, ia.PageIndex()))) == 1
    assert extension_of(path) is None
    ia.detach(path)
    assert path.read_bytes() == before


def test_a_cut_extension_is_an_error(tmp_path):
    path = tmp_path / "a.parquet"
    whole = with_extension(ORIGINAL, b"x" * 50)
    length = int.from_bytes(whole[-8:-4], "little")
    footer = whole[-8 - length : -8][:-20]
    path.write_bytes(whole[: -8 - length] + footer + little_endian(len(footer)) + b"PAR1")
    before = path.read_bytes()
    with pytest.raises(ia.CorruptFileError) as caught:
        ia.attach(path, ia.PageIndex())
    assert caught.value.path == str(path)
    assert path.read_bytes() == before


def test_a_note_about_the_footer_names_no_column():
    assert str(Note(None, None, "footer_extension", "why", "code")) == "footer_extension: why"
    assert str(Note("a.b", 3, "page_index", "why", "code")) == "page_index of a.b, row group 3: why"


def test_a_file_with_only_a_flatbuffers_footer_is_refused(tmp_path):
    path = tmp_path / "a.parquet"
    path.write_bytes(ORIGINAL[:-4] + b"PAR3")
    with pytest.raises(UnsupportedFeatureError) as caught:
        ia.inspect(path)
    assert (caught.value.reason, caught.value.path) == ("flatbuffers-footer", str(path))
