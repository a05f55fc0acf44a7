"""Files by many writers, and damaged ones: they get indexes, or are refused with a clear error."""

import os
from contextlib import suppress

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from intarsia.embed import Bloom, PageIndex, Statistics, attach, detach
from intarsia.errors import IntarsiaError
from intarsia.file import ParquetInput
from intarsia.indexes.distinct import Distinct
from tests.effort import examples
from tests.embed.tables import page_indexes


def rows_of(source):
    """Return the rows that pyarrow reads, or its error."""
    try:
        return str(pq.ParquetFile(source).read().to_pylist())
    except (pa.ArrowException, OSError, ValueError) as error:
        return type(error).__name__


def corpus_files(corpus):
    return sorted(path for path in corpus.rglob("*") if ".parquet" in path.name)


def everything(path):
    """Return every standard structure, with Bloom filters on the columns that can have one."""
    asked = [PageIndex(), Statistics()]
    with suppress(IntarsiaError), ParquetInput.open(path) as file:
        for name in file.arrow_schema.names:
            with suppress(IntarsiaError):
                Bloom(name).leaves(file)
                asked.append(Bloom(name))
    return asked


def test_every_file_gets_indexes_or_is_refused(corpus, tmp_path):
    refused, attached = {}, []
    for source in corpus_files(corpus):
        path = tmp_path / source.name
        before = source.read_bytes()
        path.write_bytes(before)
        asked = everything(path)
        try:
            report = attach(path, asked)
        except IntarsiaError as error:
            refused[source.name] = str(error)
        if source.name in refused:
            assert source.name in refused[source.name]
            assert path.read_bytes() == before
            path.unlink()
            continue
        attached.append(source.name)
        after = path.read_bytes()
        assert after.startswith(before)
        assert rows_of(path) == rows_of(pa.BufferReader(before))
        again = attach(path, asked)
        assert path.read_bytes() == after, source.name
        assert again.notes == report.notes
        detach(path)
        assert path.read_bytes() == before
        assert os.listdir(tmp_path) == [source.name]
        path.unlink()
    assert attached
    assert {name.split(".")[0] for name in refused} <= {
        "PARQUET-1481",
        "encrypt_columns_plaintext_footer",
        "uniform_encryption",
    }, refused


def reasons(corpus, name, tmp_path):
    source = next(path for path in corpus_files(corpus) if path.name == name)
    path = tmp_path / name
    path.write_bytes(source.read_bytes())
    report = attach(path, [PageIndex()])
    found, footer = page_indexes(str(path))
    return {note.column: note.code for note in report.notes}, found, footer


def test_pages_that_split_a_row(corpus, tmp_path):
    found_reasons, found, footer = reasons(corpus, "continued_page.parquet", tmp_path)
    assert "page-splits-row" in found_reasons.values()
    for leaf in footer.leaves:
        if found_reasons.get(leaf.name) == "page-splits-row":
            assert found[0, leaf.ordinal] == (None, None)


def test_index_that_contradicts_itself_is_replaced(corpus, tmp_path):
    """Its writer marked every page as a null page, with -1 nulls and real values."""
    found_reasons, found, _ = reasons(corpus, "datapage_v1-uncompressed-checksum.parquet", tmp_path)
    assert found_reasons == {}
    for column_index, offset_index in found.values():
        assert column_index.null_pages == [False] * len(offset_index.page_locations)
        assert column_index.null_counts == [0] * len(offset_index.page_locations)


def test_int96_has_no_bounds(corpus, tmp_path):
    found_reasons, found, _ = reasons(corpus, "int96_from_spark.parquet", tmp_path)
    assert set(found_reasons.values()) == {"no-order"}
    assert all(column_index is None and offset_index for column_index, offset_index in found.values())


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    path = tmp_path_factory.mktemp("whole") / "whole.parquet"
    table = pa.table(
        {
            "n": range(60),
            "s": [f"v{i % 9}" for i in range(60)],
            "l": [[i] * (i % 3) for i in range(60)],
            "x": [i / 2 for i in range(60)],
        }
    )
    pq.write_table(
        table, path, row_group_size=20, data_page_size=60, write_batch_size=5, write_page_index=True
    )
    plain = path.read_bytes()
    attach(path, [PageIndex(), Statistics(), Bloom("n"), Distinct("s")])
    return plain, path.read_bytes()


# these may be damaged in the new footer only
@pytest.mark.filterwarnings("ignore:.* has its original key/value metadata again")
@settings(max_examples=examples(300))
@given(data=st.data())
def test_damaged_bytes_never_raise_a_foreign_error(whole, data, tmp_path_factory):
    """Any byte may be wrong: `attach` raises one of our errors, or `detach` restores the file."""
    damaged = bytearray(data.draw(st.sampled_from(whole)))
    for _ in range(data.draw(st.integers(1, 4))):
        # footers are a third of these files, and the most interesting part
        place = data.draw(
            st.one_of(st.integers(0, len(damaged) - 1), st.integers(len(damaged) - 2500, len(damaged) - 9))
        )
        damaged[place] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.mktemp("damaged") / "a.parquet"
    path.write_bytes(damaged)
    try:
        attach(path, [PageIndex(), Statistics(), Bloom("n"), Bloom("s"), Distinct("n", "row_group")])
    except IntarsiaError:
        assert path.read_bytes() == damaged
    else:
        detach(path)
