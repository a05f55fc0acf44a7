"""`ias.optimize(…, in_place=True)`: readers see the old files or the new ones, and no file is lost."""

import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import nullcontext
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from intarsia import spark as ias
from intarsia.errors import UnsupportedFeatureError, WriteError
from intarsia.spark.in_place import states_of
from intarsia.spark.part_files import Staging
from tests.child import KILLED_AT_A_CALL, run
from tests.effort import examples
from tests.spark.skipping import dropped
from tests.spark.test_indexing import write_lake


def write(folder, names, start):
    """Write files with the rows 0 to 99; their names tell the old state from the new one."""
    rows = 100 // len(names)
    for ordinal, name in enumerate(names):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"id": range(ordinal * rows, (ordinal + 1) * rows)}), path)


OLD = ["p=0/a.parquet", "p=0/b.parquet", "p=1/c.parquet", "p=1/d.parquet"]
NEW = ["p=0/n.parquet", "p=1/m.parquet"]


@pytest.fixture
def lake(tmp_path):
    folder = tmp_path / "lake"
    write(folder, OLD, 0)
    (folder / "_SUCCESS").touch()
    (folder / "p=0" / ".a.parquet.crc").touch()
    (folder / "notes.txt").write_text("notes")
    return folder


def rows_of(lake):
    paths = sorted(lake.rglob("*.parquet"))
    return sorted(row for path in paths for row in pq.read_table(path, partitioning=None)["id"].to_pylist())


def rewritten(lake):
    return {path: state for path, state in states_of(str(lake)).items() if path in OLD}


@pytest.mark.parametrize("is_replaced", [True, False])
def test_a_mount_point_is_refused(is_replaced):
    """It cannot be renamed; otherwise, the error would come when everything has been written."""
    with pytest.raises(UnsupportedFeatureError) as caught:
        Staging("/dev", is_replaced=is_replaced)
    assert (caught.value.reason, caught.value.path) == ("mount-point", "/dev")


def test_the_folders_are_exchanged(lake):
    before = lake.stat()
    with Staging(str(lake), is_replaced=True) as staging:
        write(Path(staging.data), NEW, 0)
        staging.publish(rewritten(lake))
    assert rows_of(lake) == list(range(100))
    assert sorted(states_of(str(lake))) == ["_SUCCESS", "notes.txt", *NEW]
    assert os.listdir(lake.parent) == ["lake"]
    assert lake.stat().st_mode == before.st_mode


def test_a_link_to_a_folder_stays(lake, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (lake / "_more").symlink_to(tmp_path / "elsewhere")
    with Staging(str(lake), is_replaced=True) as staging:
        write(Path(staging.data), NEW, 0)
        staging.publish(rewritten(lake))
    assert (lake / "_more").readlink() == tmp_path / "elsewhere"


@pytest.mark.parametrize("is_rewritten", [False, True])
def test_other_files_that_are_replaced_at_the_last_moment(lake, monkeypatch, is_rewritten):
    """The new folder has links to the old ones, which are replaced as well, also if the folders go back."""
    known = rewritten(lake)
    names = ["notes.txt", *OLD[: 1 if is_rewritten else 0]]

    def fsync(fd, fsync=os.fsync):
        fsync(fd)
        for name in names:
            (lake / "other").write_text("later")
            os.replace(lake / "other", lake / name)

    with Staging(str(lake), is_replaced=True) as staging:
        write(Path(staging.data), NEW, 0)
        monkeypatch.setattr(os, "fsync", fsync)
        with pytest.raises(WriteError) if is_rewritten else nullcontext():
            staging.publish(known)
    assert (lake / OLD[0]).exists() is is_rewritten
    assert [(lake / name).read_text() for name in names] == ["later"] * len(names)


def test_a_file_that_has_changed(lake):
    with Staging(str(lake), is_replaced=True) as staging:
        write(Path(staging.data), NEW, 0)
        known = rewritten(lake)
        write(lake / "other", ["a.parquet"], 0)
        os.replace(lake / "other" / "a.parquet", lake / OLD[0])
        with pytest.raises(WriteError) as caught:
            staging.publish(known)
    assert caught.value.reason == "source-changed"
    assert {*OLD, "_SUCCESS", "notes.txt"} <= {*states_of(str(lake))}
    assert not {*NEW} & {*states_of(str(lake))}
    assert os.listdir(lake.parent) == ["lake"]


def test_what_cannot_be_exchanged(lake):
    (lake / "_spark_metadata").mkdir()
    with pytest.raises(UnsupportedFeatureError) as caught, Staging(str(lake), is_replaced=True):
        pass
    assert caught.value.reason == "listed-by-sink"
    assert os.listdir(lake.parent) == ["lake"]


#: Exchanges a lake of another user in which a folder is read-only, after a lake of this user for the imports.
READ_ONLY = """
import os, sys
import pyarrow as pa, pyarrow.parquet as pq
from intarsia.errors import IntarsiaError
from intarsia.spark.in_place import states_of
from intarsia.spark.part_files import Staging
def attempt(parent, closed):
    lake = os.path.join(parent, "lake")
    os.makedirs(os.path.join(lake, "p=0"))
    pq.write_table(pa.table({"id": [1]}), os.path.join(lake, "p=0", "old.parquet"))
    known = states_of(lake)
    os.chmod(os.path.join(parent, closed), 0o555)
    try:
        with Staging(lake, is_replaced=True) as staging:
            os.mkdir(os.path.join(staging.data, "p=0"))
            pq.write_table(pa.table({"id": [1]}), os.path.join(staging.data, "p=0", "new.parquet"))
            staging.publish(known)
    except IntarsiaError as error:
        print(error.reason)
    os.chmod(os.path.join(parent, closed), 0o755)
    return [*os.listdir(parent), *os.listdir(os.path.join(lake, "p=0"))]
attempt(os.path.join(sys.argv[1], "first"), "lake/p=0")
os.mkdir(os.path.join(sys.argv[1], "second"))
if os.geteuid() == 0:
    os.chown(os.path.join(sys.argv[1], "second"), 1357, 1357)
    os.setuid(1357)
print(*attempt(os.path.join(sys.argv[1], "second"), sys.argv[2]))
"""


@pytest.mark.parametrize(
    ("closed", "shown"),
    [
        (".", ["permission-denied", "lake", "old.parquet"]),
        ("lake", ["read-only", "lake", "old.parquet"]),
        ("lake/p=0", ["lake", "new.parquet"]),
    ],
)
def test_a_read_only_folder(closed, shown):
    """An error comes before the rows are written, and old files in it are removed afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        assert run(READ_ONLY, folder, closed).split() == shown


#: Exchanges a lake, and is killed at a call. Another program writes a file at the last moment before the
#: exchange, or the first one after it, where it also changes an old file, so that the exchange is undone.
PROGRAM = (
    KILLED_AT_A_CALL
    + """
import contextlib
import pyarrow as pa, pyarrow.parquet as pq
from intarsia.errors import WriteError
from intarsia.spark.in_place import states_of
from intarsia.spark.part_files import Staging
lake, late = sys.argv[1], sys.argv[3]
known = {path: state for path, state in states_of(lake).items() if path in sys.argv[4:]}
staging = Staging(lake, is_replaced=True)
with staging:
    for ordinal in range(2):
        path = os.path.join(staging.data, f"p={ordinal}", "mn"[ordinal] + ".parquet")
        os.mkdir(os.path.dirname(path))
        pq.write_table(pa.table({"id": range(ordinal * 50, ordinal * 50 + 50)}), path)
    def write_late(fd, fsync=os.fsync):
        fsync(fd)
        if late == "before":
            pq.write_table(pa.table({"id": [1000]}), os.path.join(lake, "p=1", "late.parquet"))
    def change_late(path, stat=os.stat, **options):
        global late
        if late == "after" and os.access(os.path.join(lake, "p=0", "m.parquet"), os.F_OK):
            late = "done"
            os.utime(os.path.join(staging.data, sys.argv[4]), (0, 0))
            pq.write_table(pa.table({"id": [1000]}), os.path.join(lake, "p=1", "late.parquet"))
            open(os.path.join(os.path.dirname(lake), "wrote"), "w").close()
        return stat(path, **options)
    os.fsync, os.stat = write_late, change_late
    for name in ("stat", "link", "fsync", "rename", "scandir", "unlink", "rmdir", "makedirs"):
        setattr(os, name, counted(getattr(os, name)))
    with contextlib.suppress(WriteError):  # the exchange was undone
        staging.publish(known)
print(count)
"""
)


@pytest.mark.parametrize("late", ["", "before", "after"])
def test_killed_at_every_call(lake, tmp_path, late):
    """The lake has the old or the new rows; the next run removes what is left, and loses no late file."""
    saved = shutil.copytree(lake, tmp_path / "saved")
    calls = int(run(PROGRAM, lake, -1, late, *OLD))
    assert calls > 20
    states = set()
    # by default, two cases divide the calls
    for call in range(1, calls + 1) if examples(0, deep=1) else range(1 + bool(late), calls + 1, 2):
        shutil.rmtree(lake)
        shutil.copytree(saved, lake)
        (tmp_path / "wrote").unlink(missing_ok=True)
        run(PROGRAM, lake, call, late, *OLD)
        found = rows_of(lake)
        assert found[:100] == list(range(100))
        states.add((lake / NEW[0]).exists() or (lake / "p=0" / "m.parquet").exists())
        with Staging(str(lake), is_replaced=True):
            pass
        wrote = (lake / "p=1" / "late.parquet").exists()
        assert rows_of(lake) == [*range(100), *([1000] if wrote else [])]
        # if it is written before the exchange, it exists if the lake was exchanged
        assert wrote or not (tmp_path / "wrote").exists()
        assert wrote or late != "before" or not (lake / "p=0" / "m.parquet").exists()
        assert {"_SUCCESS", "notes.txt"} <= {*os.listdir(lake)}
        assert not list(tmp_path.glob(".lake.*"))
    assert states == {True, False}


def test_a_killed_run_of_a_lake_that_is_gone(lake, tmp_path):
    """Its files are removed, and the folder can be the destination of another run."""
    saved, call = shutil.copytree(lake, tmp_path / "saved"), int(run(PROGRAM, lake, -1, "", *OLD))
    while not list(tmp_path.glob(".lake.*/exchange.json")):
        shutil.rmtree(lake, ignore_errors=True)
        shutil.copytree(saved, lake)
        run(PROGRAM, lake, call, "", *OLD)
        shutil.rmtree(lake)
        call -= 3
    with Staging(str(lake)):
        pass
    assert not list(tmp_path.glob(".lake.*"))


#: Reads a lake again and again, as plain readers do; prints the numbers of rows that it has read.
READER = """
import os, sys
import pyarrow.parquet as pq
lake, found, failed = sys.argv[1], set(), 0
print("ready", flush=True)
while not os.path.exists(sys.argv[2]):
    try:
        paths = [os.path.join(parent, name) for parent, _, names in os.walk(lake) for name in names]
        rows = [row for path in paths if path.endswith(".parquet")
                for row in pq.read_table(path, partitioning=None)["id"].to_pylist()]
    except OSError:
        failed += 1
        continue
    found.add(tuple(sorted(rows)) == tuple(range(100)))
print(found, failed)
"""


def test_readers_see_the_old_or_the_new_files(lake, tmp_path):
    reader = subprocess.Popen(
        [sys.executable, "-c", READER, lake, tmp_path / "stop"], stdout=subprocess.PIPE, text=True
    )
    assert reader.stdout.readline() == "ready\n"
    for _ in range(40):
        names = [path for path in states_of(str(lake)) if path.endswith(".parquet")]
        with Staging(str(lake), is_replaced=True) as staging:
            write(Path(staging.data), NEW if OLD[0] in names else OLD, 0)
            staging.publish({path: state for path, state in states_of(str(lake)).items() if path in names})
    (tmp_path / "stop").touch()
    assert reader.stdout.read().startswith("{True} ")
    reader.wait()
    reader.stdout.close()


@pytest.mark.spark
def test_small_files_are_merged(spark, tmp_path):
    lake = Path(write_lake(tmp_path / "lake", files=6, rows_of_each=200))
    ia.attach(lake, [ia.Distinct("s"), ia.Bloom("x"), ia.PageIndex()])
    (lake / "_notes.txt").write_text("notes")
    expected = sorted(map(tuple, spark.read.parquet(str(lake)).collect()))
    cached = spark.read.parquet(str(lake)).cache()
    assert cached.count() == 1_200
    report = ias.optimize(spark, str(lake), in_place=True, sort_by="x", progress=False)
    assert (report.files_before, report.files_after, report.num_rows) == (6, 2, 1_200)
    assert {"distinct(s):page", "bloom(x)"} <= {*report.built}
    assert sorted(map(tuple, spark.read.parquet(str(lake)).collect())) == expected
    cached.unpersist()
    assert sorted(os.listdir(lake)) == ["_notes.txt", "p=0", "p=1"]
    assert os.listdir(tmp_path) == ["lake"]
    assert all(ia.verify(path).ok for path in lake.rglob("*.parquet"))
    for arguments in ({}, {"destination": str(tmp_path / "new"), "in_place": True}):
        with pytest.raises(ValueError, match="in_place"):
            ias.optimize(spark, str(lake), **arguments)
    with pytest.raises(WriteError) as caught:
        ias.optimize(spark, str(next(lake.rglob("*.parquet"))), in_place=True, progress=False)
    assert caught.value.reason == "not-a-folder"


@pytest.mark.spark
def test_a_folder_whose_name_begins_with_that_of_the_lake_is_another_one(spark, tmp_path):
    lake, other = tmp_path / "lake", tmp_path / "lake-2024"
    write(lake, ["p=0/a.parquet"], 0)
    write(other, ["b.parquet"], 0)
    (lake / "p=1").symlink_to(other)
    with pytest.raises(WriteError) as caught:
        ias.optimize(spark, str(lake), in_place=True, sort_by="id", progress=False)
    assert (caught.value.reason, caught.value.path) == ("files-elsewhere", str(lake))
    assert (other / "b.parquet").is_file()


@pytest.mark.spark
@pytest.mark.parametrize("folder", ["p=01", "p=2", "v2"])
def test_a_partition_in_a_folder_with_another_name_is_refused(spark, tmp_path, folder):
    """The catalog would look for its files in the old folder, which is gone, and the rows would be lost."""
    write(tmp_path / "lake", ["p=0/a.parquet", f"{folder}/b.parquet"], 0)
    with dropped(spark, "renamed"):
        spark.sql(
            f"CREATE TABLE renamed (id BIGINT, p INT) USING parquet PARTITIONED BY (p) "
            f"LOCATION '{tmp_path / 'lake'}'"
        )
        spark.sql("ALTER TABLE renamed ADD PARTITION (p = 0)")
        spark.sql(f"ALTER TABLE renamed ADD PARTITION (p = 1) LOCATION '{tmp_path / 'lake' / folder}'")
        with pytest.raises(WriteError) as caught:
            ias.optimize(spark, "renamed", in_place=True, progress=False)
        assert caught.value.reason == "partitions-of-table"
        assert caught.value.path == str(tmp_path / "lake" / folder)
        assert [row.id for row in spark.table("renamed").orderBy("id").collect()] == list(range(100))


@pytest.mark.spark
def test_what_the_catalog_knows_of_a_table_is_kept(spark, tmp_path):
    """Otherwise the table would be empty or unreadable afterwards, or columns would be lost."""
    lake = tmp_path / "lake"
    for ordinal in range(2):
        nested = [{"x": row, "y": row} for row in range(5)]
        table = pa.table({"id": range(5), "st": nested, "l": [[one] for one in nested], "more": range(5)})
        (lake / f"p={ordinal}").mkdir(parents=True)
        pq.write_table(table, lake / f"p={ordinal}" / "a.parquet")
    y, inner = "st STRUCT<x: BIGINT, y: BIGINT>", "l ARRAY<STRUCT<x: BIGINT, y: BIGINT>>"
    columns = {
        f"id BIGINT, {y}, {inner}, more BIGINT": None,
        f"id BIGINT, {y}, {inner}": "more",
        f"id BIGINT, st STRUCT<x: BIGINT>, {inner}, more BIGINT": "st.y",
        f"id BIGINT, {y}, l ARRAY<STRUCT<x: BIGINT>>, more BIGINT": "l.item.y",
    }
    with dropped(spark, "known", "bucketed"):
        spark.range(9).write.bucketBy(2, "id").saveAsTable("bucketed")
        row = spark.sql("DESCRIBE FORMATTED bucketed").where("col_name = 'Location'").first()
        for name in ("bucketed", row.data_type):
            with pytest.raises(UnsupportedFeatureError) as caught:
                ias.optimize(spark, name, in_place=True, progress=False)
            assert caught.value.reason == "bucketed-table"
        for schema, lost in columns.items():
            spark.sql("DROP TABLE IF EXISTS known")
            spark.sql(
                f"CREATE TABLE known ({schema}, p INT) USING parquet PARTITIONED BY (p) LOCATION '{lake}'"
            )
            spark.sql("MSCK REPAIR TABLE known")
            if lost is None:
                with pytest.raises(WriteError) as caught:
                    ias.optimize(spark, "known", in_place=True, partition_by=(), progress=False)
                assert caught.value.reason == "partitions-of-table"
                assert str(caught.value).count("known") == 1
                assert ias.optimize(spark, "known", in_place=True, progress=False).num_rows == 10
            else:
                with pytest.raises(WriteError) as caught:
                    ias.optimize(spark, "known", in_place=True, progress=False)
                assert (caught.value.reason, caught.value.column) == ("columns-not-in-table", lost)
                assert str(caught.value).count("known") == 1
            assert spark.table("known").count() == 10
