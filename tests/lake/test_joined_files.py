"""Local files with the same columns are planned together: the same rows, and nothing is read twice."""

from __future__ import annotations

import os
import pickle
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from intarsia.embed import Statistics
from intarsia.errors import ReplacedWhileReadError
from intarsia.file import ParquetInput
from intarsia.file.chunks import dictionary_range
from intarsia.file.joined import JoinedInput, JoinedMetadata, JoinedPart
from intarsia.file.writers import Claim
from intarsia.indexes.bloom import filter_exists
from intarsia.indexes.statistics import statistics_bounds
from intarsia.storage import ByteRange, LocalFile
from tests.counting import calls, python_calls
from tests.embed.test_trust import written_by
from tests.lake.index.lakes import age, write


def rows_of_file(ordinal, num_rows=200):
    first, random = ordinal * num_rows, np.random.default_rng(ordinal)
    return pa.table(
        {
            "id": range(first, first + num_rows),
            "user": [row * 7919 % 100_003 for row in range(first, first + num_rows)],
            "name": [f"name {row * 31 % 1009}" for row in range(first, first + num_rows)],
            "noise": [bytes(noise) for noise in random.integers(0, 256, (num_rows, 500), dtype="uint8")],
        }
    )


def make_lake(folder, num_files, indexes=()):
    for ordinal in range(num_files):
        path = folder / f"{ordinal:03}.parquet"
        write(path, rows_of_file(ordinal), indexes, row_group_size=100, use_dictionary=["name"])
    return folder


def names_of(*ordinals):
    return {name for ordinal in ordinals for name in rows_of_file(ordinal)["name"].to_pylist()}


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    return make_lake(tmp_path_factory.mktemp("lake"), 6)


def pruned_by(report):
    return {(entry["index"], entry["column"]): entry for entry in report.to_dict()["pruned_by"]}


def test_statistics_exclude_files_without_a_request(lake):
    table = ia.open(lake)
    scan = table.scan("id = 777")
    assert scan.to_arrow()["id"].to_pylist() == [777]
    report = scan.report
    entry = pruned_by(report)["statistics", "id"]
    assert (entry["files"], entry["row_groups"], entry["rows"]) == (5, 11, 1100)
    assert (report.files_opened, report.files_read, report.row_groups_total) == (6, 1, 12)
    assert report.pages["id"].total == 12
    assert report.bytes_total == sum(path.stat().st_size for path in lake.iterdir())


def test_footers_are_counted_once(lake):
    """A pickled table has its schema, but reads the footers again."""
    table = ia.open(lake)
    first = table.scan("id = 777")
    first.to_arrow()
    scan = pickle.loads(pickle.dumps(table)).scan("id = 777")
    scan.to_arrow()
    footers = [pq.ParquetFile(path).metadata.serialized_size + 8 for path in lake.iterdir()]
    assert scan.report.bytes_read == first.report.bytes_read > sum(footers)


def test_a_dictionary_page_is_read_once(lake):
    """The file with the value is planned with the page that was read for all files."""
    wanted = sorted(names_of(4) - names_of(0, 1, 2, 3, 5))[0]
    table = ia.open(lake)
    assert table.schema  # the footers are in no report
    scan = table.scan(f"name = '{wanted}'")
    assert scan.to_arrow().num_rows == 1
    report = scan.report
    assert (report.files_read, report.row_groups_read) == (1, 1)
    dictionaries = 0
    for path in lake.iterdir():
        metadata = pq.ParquetFile(path).metadata
        for group in range(metadata.num_row_groups):
            chunk = metadata.row_group(group).column(2)
            if chunk.statistics.min <= wanted <= chunk.statistics.max:
                dictionaries += chunk.data_page_offset - chunk.dictionary_page_offset
    assert report.bytes_index == dictionaries
    assert pruned_by(report)["dictionary", "name"]["files"] >= 3
    file = pq.ParquetFile(lake / "004.parquet").metadata
    chunks = [file.row_group(group).column(2) for group in range(2)]
    row_group = next(
        group for group in range(2) if wanted in rows_of_file(4)["name"].to_pylist()[group * 100 :][:100]
    )
    data = sum(file.row_group(row_group).column(leaf).total_compressed_size for leaf in range(4))
    of_dictionary = chunks[row_group].data_page_offset - chunks[row_group].dictionary_page_offset
    assert report.bytes_read == dictionaries + data - of_dictionary


def test_indexes_are_not_opened_if_dictionary_pages_cost_less(tmp_path):
    """Opening an index takes longer than searching a small page, so it may not make a lake slower."""
    folders = [tmp_path / "plain", tmp_path / "attached"]
    for folder, indexes in zip(folders, ([], [ia.Distinct("name"), ia.Ngram("name")]), strict=True):
        for ordinal in range(20):
            write(folder / f"{ordinal:03}.parquet", rows_of_file(ordinal), indexes, use_dictionary=["name"])
    where = f"name = '{min(names_of(4))}x'"
    for folder in folders:
        scan = ia.open(folder).scan(where)
        assert scan.to_arrow().num_rows == 0
        assert {index for index, _ in scan.report.pruned_by} == {"statistics", "dictionary"}
    plain, attached = (calls(lambda folder=folder: ia.open(folder).count(where)) for folder in folders)
    assert attached < 1.1 * plain


def test_bloom_filters_of_all_files_are_asked_together(tmp_path):
    lake = make_lake(tmp_path / "lake", 6, [ia.Bloom("user")])
    wanted = rows_of_file(3)["user"][150].as_py()
    scan = ia.open(lake).scan(f"user = {wanted}")
    assert scan.to_arrow()["user"].to_pylist() == [wanted]
    entry = pruned_by(scan.report)["bloom_filter", "user"]
    assert (entry["files"], entry["row_groups"]) == (5, 11)


def test_conditions_on_partitions_and_missing_columns(tmp_path):
    for ordinal in range(6):
        table = rows_of_file(ordinal)
        if ordinal % 2:
            table = table.append_column("extra", pa.array([ordinal] * table.num_rows))
        write(tmp_path / f"p={ordinal % 3}" / f"{ordinal}.parquet", table, row_group_size=100)
    table = ia.open(tmp_path)
    assert table.count("p = 1 AND id < 250") == 50
    assert table.count("extra IS NULL OR id = 1100") == 601
    assert table.count("extra = 3 AND (p = 0 OR id < 0)") == 200
    assert table.count("extra = 3 AND p = 1") == 0


def test_calls_for_each_file(tmp_path):
    """An excluded file of two row groups takes a few hundred calls, and if it is unchanged a dozen."""
    few, many = (make_lake(tmp_path / str(count), count) for count in (20, 60))

    def calls(folder, where):
        table = ia.open(folder)
        _, cold = python_calls(lambda: table.scan(where).to_arrow())
        _, warm = python_calls(lambda: table.scan(where).to_arrow())
        return cold, warm

    calls(few, "id = -1")
    for where, cold_limit, warm_limit in [("id = -1", 320, 20), ("name = 'name 1a'", 620, 250)]:
        (cold, warm), (cold_of_few, warm_of_few) = calls(many, where), calls(few, where)
        assert cold - cold_of_few < cold_limit * 40
        assert warm - warm_of_few < warm_limit * 40


# --- damage and change --------------------------------------------------------------------------------------


def test_calls_for_each_file_with_an_index_that_is_ignored(tmp_path):
    """Each note was compared with those of all other files."""

    def calls_of(num_files):
        folder = tmp_path / str(num_files)
        path = folder / "0.parquet"
        write(path, pa.table({"x": range(100)}), [ia.Distinct("x")], row_group_size=20)
        data = path.read_bytes().replace(b'"fingerprint"', b'"another"    ')
        for ordinal in range(num_files):
            (folder / f"{ordinal}.parquet").write_bytes(data)
            age(folder / f"{ordinal}.parquet")
        table = ia.open(folder)

        def scanned():
            scan = table.scan("x = 3")
            assert scan.to_arrow().num_rows == num_files
            return scan.report

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ia.IntarsiaWarning)
            assert len(scanned().ignored) == num_files
            return calls(scanned)

    assert (calls_of(400) - calls_of(200)) / 200 < 1000


def damage(path, offset, data):
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)
    age(path)


def test_a_damaged_dictionary_page_is_reported_by_its_file(tmp_path):
    lake = make_lake(tmp_path / "lake", 5)
    path = lake / "002.parquet"
    chunk = pq.ParquetFile(path).metadata.row_group(1).column(2)
    damage(path, chunk.dictionary_page_offset, b"\xff" * 4)
    scan = ia.open(lake).scan("name = 'name 1a'", on_error="skip")
    with pytest.warns(ia.IntarsiaWarning, match=r"002\.parquet"):
        assert scan.to_arrow().num_rows == 0
    assert {os.path.basename(note.file) for note in scan.report.ignored} == {"002.parquet"}


def test_a_truncated_file_does_not_stop_planning_the_others_together(tmp_path):
    lake = make_lake(tmp_path / "lake", 5)
    path = lake / "001.parquet"
    path.write_bytes(path.read_bytes()[:-100])
    age(path)
    scan = ia.open(lake, schema="first").scan("id = 401", on_error="skip")
    with pytest.warns(ia.IntarsiaWarning):
        assert scan.to_arrow()["id"].to_pylist() == [401]
    assert [os.path.basename(failed.file) for failed in scan.report.files_failed] == ["001.parquet"]
    assert pruned_by(scan.report)["statistics", "id"]["files"] == 3


def test_a_file_that_is_replaced_is_planned_again(tmp_path):
    lake = make_lake(tmp_path / "lake", 4)
    table = ia.open(lake)
    assert table.count("id = 250") == 1
    write(lake / "003.parquet", rows_of_file(1))
    assert table.count("id = 250") == 2
    os.remove(lake / "001.parquet")
    write(lake / "001.parquet", rows_of_file(9))
    assert table.count("id = 250") == 1


def part(path):
    with ParquetInput.open(path) as file:
        return JoinedPart(file.metadata, file.source.identity, lambda: LocalFile(path))


def test_bytes_of_a_replaced_file_are_not_read(tmp_path):
    lake = make_lake(tmp_path / "lake", 3)
    parts = [part(path) for path in sorted(lake.iterdir())]
    write(lake / "001.parquet", rows_of_file(1))
    with JoinedInput(JoinedMetadata(parts)) as joined:
        start = joined.joined.starts[1]
        joined.source.read(0, 4)
        with pytest.raises(ReplacedWhileReadError) as caught:
            joined.source.read(start, start + 4)
    assert caught.value.path == str(lake / "001.parquet")


def test_the_bytes_of_joined_files(tmp_path):
    paths = sorted(make_lake(tmp_path / "lake", 3).iterdir())
    whole = b"".join(path.read_bytes() for path in paths)
    with JoinedInput(JoinedMetadata([part(path) for path in paths])) as joined:
        assert joined.footer.num_rows == 600
        assert joined.joined.row_edges.tolist() == [0, 200, 400, 600]
        first, second = joined.joined.starts[1], joined.joined.starts[2]
        ranges = [
            ByteRange(second, second + 9),
            ByteRange(0, 4),
            ByteRange(first - 4, first),
            ByteRange(5, 5),
        ]
        found = joined.source.read_ranges(ranges)
        assert found == [whole[start:stop] for start, stop in ranges]
        assert joined.joined.part_at(first) == 1
        with pytest.raises(ia.CorruptFileError) as caught:
            joined.source.read(first - 1, first + 1)
        assert (caught.value.reason, caught.value.path) == ("range-outside-file", str(paths[0]))
        # a chunk at its offset in the joined bytes is the chunk of its file
        chunk = joined.footer.chunk_metadata(5, joined.footer.leaves[2])
        own = pq.ParquetFile(paths[2]).metadata.row_group(1).column(2)
        assert chunk.dictionary_page_offset == second + own.dictionary_page_offset
        assert chunk.data_page_offset == second + own.data_page_offset


CORPUS = sorted(path for path in (Path(__file__).parents[1] / "corpus").rglob("*.parquet"))


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_joined_metadata_of_other_writers(path):
    """A file that is joined with itself has the same bounds, filters and dictionaries twice."""
    try:
        own = part(path)
    except ia.IntarsiaError:
        return
    with ParquetInput.open(path) as single, JoinedInput(JoinedMetadata([own, own])) as joined:
        size = single.footer.file_length
        for leaf in (leaf for leaf in single.footer.leaves if leaf.is_flat):
            try:
                expected = statistics_bounds(single, leaf, single.schema.ordering(leaf))
                outlines = single.metadata.outlines([leaf])[0]
            except ia.IntarsiaError as error:
                with pytest.raises(type(error)):
                    statistics_bounds(joined, leaf, joined.schema.ordering(leaf))
                continue
            found = statistics_bounds(joined, leaf, joined.schema.ordering(leaf))
            twice = joined.metadata.outlines([leaf])[0]
            for name in ("known", "minima", "maxima", "null_counts", "nan_counts", "all_null"):
                once = getattr(expected, name).tolist()
                assert repr(getattr(found, name).tolist()) == repr(once + once), name
            shifted = np.where(outlines.is_sound, outlines.starts + size, -1)
            assert twice.starts.tolist() == [*outlines.starts.tolist(), *shifted.tolist()]
            assert twice.data_pages.tolist() == outlines.data_pages.tolist() * 2
            assert filter_exists(joined, leaf).tolist() == filter_exists(single, leaf).tolist() * 2
            groups = len(single.footer.metadata.row_groups)
            for group in range(groups):
                chunk = single.footer.metadata.row_groups[group].columns[leaf.ordinal]
                if chunk.meta_data is None or chunk.file_path or chunk.crypto_metadata is not None:
                    continue
                here = single.footer.chunk_metadata(group, leaf)
                there = joined.footer.chunk_metadata(groups + group, leaf)
                place = dictionary_range(here, None)
                expected_place = place and ByteRange(place.start + size, place.stop + size)
                assert dictionary_range(there, None) == expected_place
                assert (there.dictionary_page_offset is None) == (here.dictionary_page_offset is None)
                for claim in (Claim.BOUNDS, Claim.NULL_COUNT, Claim.BLOOM_FILTER):
                    assert joined.trust(leaf).doubt(claim, there) == single.trust(leaf).doubt(claim, here)


def test_statistics_and_page_indexes_of_intarsia_are_trusted_in_files_of_other_writers(tmp_path):
    """The writer's own ones are not. Files are joined only if they deserve the same trust."""
    for ordinal in range(8):
        text = [f"{ordinal} {row:04} {'x' * 70}" for row in range(1_000)]
        path = tmp_path / f"{ordinal}.parquet"
        written_by(path, b"parquet-go version latest", pa.table({"s": text}), max_rows_per_page=100)
        if ordinal % 4:
            ia.attach(path, [ia.PageIndex(), *([Statistics()] if ordinal % 2 else [])])
        age(path)
    scan = ia.open(tmp_path).scan("s = '{}'".format(f"3 0777 {'x' * 70}"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert scan.to_arrow().num_rows == 1
    report = scan.report
    assert report.files_opened == 8
    # all pages of the files without indexes, and one page of the file with the row
    assert report.pages["s"].read == 2 * 10 + 1
