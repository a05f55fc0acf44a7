"""Lake indexes of many segments: each file is found, and full segments are not built again."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from intarsia.file import ParquetInput
from intarsia.lake.data_file import DataFile, FileList, paths_of
from intarsia.lake.index.build import serialize_segment
from intarsia.lake.index.facts import read_facts
from intarsia.lake.index.folder import LakeIndexFolder
from intarsia.lake.index.of_table import MAX_SEGMENTS, LakeIndex, locate
from intarsia.lake.index.segment import MAX_FAMILIES, MAX_SEGMENT_FILES
from intarsia.storage import LocalFile
from tests.counting import calls
from tests.lake.index.lakes import age, write

NUM_SEGMENTS = MAX_SEGMENTS + 1
NUM_SCHEMAS = MAX_SEGMENTS * MAX_FAMILIES + 1


@pytest.fixture(scope="module")
def facts(tmp_path_factory):
    path = tmp_path_factory.mktemp("facts") / "one.parquet"
    pq.write_table(pa.table({"id": [1, 2, 3]}), path)
    age(path)
    return read_facts(ParquetInput(LocalFile(str(path))))


def listed(names, facts):
    """Files of a lake that does not exist, all with the stamp of the facts."""
    stamp = facts.stamp
    return FileList(
        pa.array([f"/lake/{name}".encode() for name in names], pa.large_binary()),
        np.full(len(names), stamp.size_bytes),
        [()],
        np.zeros(len(names), dtype=np.int64),
        np.tile([stamp.modified_ns, stamp.changed_ns], (len(names), 1)),
    )


def opened(files, names_of, facts, root="/lake"):
    """Return a lake index with a segment for each list of names."""
    index = LakeIndex(locate(files, "/lake"), files, [])
    folder = LakeIndexFolder.of(root, "cache")
    index.add(folder, [serialize_segment(dict.fromkeys(names, facts)) for names in names_of])
    return index, folder


@pytest.mark.parametrize(("num_files", "is_merged"), [(MAX_SEGMENT_FILES // 2, False), (10, True)])
def test_segments_are_merged_until_they_are_full(facts, num_files, is_merged):
    names = [[f"{segment}/{file}.parquet" for file in range(num_files)] for segment in range(NUM_SEGMENTS)]
    files = listed([name for of in names for name in of], facts)
    index, folder = opened(files, names, facts)
    known = index.known(as_listed=True)
    assert known.is_known.all()
    replaced, again = index.replaced(known, folder)
    assert bool(replaced) is is_merged
    assert len(again) == len(replaced) * num_files


def test_files_are_found_in_any_order_and_in_a_lake_that_contains_theirs(facts):
    names = [f"a b/{file}é.parquet" for file in range(20)]
    files = listed([*names[::-1], "new.parquet"], facts)
    for root, prefix in (("/lake", ""), ("/", "lake/")):
        indexed = [f"{prefix}{name}" for name in names]
        index, _ = opened(files, [indexed[:7], [*indexed[3:], "elsewhere/x.parquet"]], facts, root)
        known = index.known(as_listed=True)
        assert known.is_known.tolist() == [True] * 20 + [False]
        assert known.segment_of.tolist() == [1] * 13 + [0] * 7 + [-1]
        assert known.position_in.tolist() == [*range(16, 3, -1), *range(6, -1, -1), -1]
        found = sorted(np.concatenate([family.files for family in known.families]).tolist())
        assert found == [*range(20)]


def test_calls_of_finding_files_do_not_grow_with_their_number(facts):
    def find(num_files):
        names = [[f"{segment}/{file}.parquet" for file in range(num_files)] for segment in range(3)]
        files = listed([name for of in names for name in of], facts)
        index, _ = opened(files, names, facts)
        return calls(lambda: list(index.known(as_listed=True).families))

    assert find(400) == find(100)


def test_files_in_columns_are_those_of_a_list():
    columns = FileList(
        pa.array([b"/lake/p=1/a.parquet", b"s3://b/\xff.parquet"], pa.large_binary()),
        np.array([1, 2]),
        [(("p", "1"),), ()],
        np.array([0, 1]),
        np.array([[3, 4], [0, 0]]),
        pa.array([None, "tag"]),
    )
    one, two = columns
    assert one == DataFile("/lake/p=1/a.parquet", 1, (("p", "1"),))
    assert one.times_ns == (3, 4)
    assert two.path == "s3://b/\udcff.parquet"
    assert two.e_tag == "tag"
    assert paths_of([one, two]).equals(columns.paths)
    assert (columns[-1], columns[:1]) == (two, [one])
    assert [columns.ordinal_of(file.path) for file in (two, one)] == [1, 0]
    with pytest.raises(IndexError):
        columns[2]


@pytest.fixture(scope="module")
def lake_of_schemas(tmp_path_factory):
    """A lake with more schemas than a segment has, each in two files that are not neighbours."""
    folder = tmp_path_factory.mktemp("schemas")
    for file in range(2 * NUM_SCHEMAS):
        write(folder / f"{file:03}.parquet", pa.table({"id": [file], f"own_{file % NUM_SCHEMAS}": [file]}))
    return folder


def test_files_of_more_schemas_than_a_segment_has_are_known(lake_of_schemas):
    """Those of other schemas were left out, reported as added, and read again by each build."""
    report = ia.open(lake_of_schemas).build_lake_index("beside")
    assert (report.files_added, report.files_known) == (2 * NUM_SCHEMAS, 0)
    again = ia.open(lake_of_schemas).build_lake_index("beside")
    assert (again.files_added, again.files_known, again.num_bytes) == (0, 2 * NUM_SCHEMAS, 0)
    assert len(list((lake_of_schemas / "_intarsia").iterdir())) == MAX_SEGMENTS + 1
    scan = ia.open(lake_of_schemas).scan(f"id = {NUM_SCHEMAS + 3}", ["id"])
    assert scan.to_arrow().num_rows == 1
    assert scan.report.files_opened == 1
