"""Objects without a lake index are planned together: the same rows, few requests, and few bytes."""

from __future__ import annotations

import io
import random
import threading
import time
import warnings
from collections import Counter

import numpy as np
import obstore
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from obstore.store import MemoryStore

import intarsia as ia
from intarsia.tuning import REMOTE_FILES_AT_ONCE
from tests.effort import examples

FOLDER = "s3://bucket/lake/"

KEY = "lake/{:03}.parquet"


class Recorded:
    """The requests to a store, each delayed.

    Attributes:
        store: The store.
        names: The number of requests by kind.
        num_bytes: The bytes of the requested ranges.
        waves: The length of the longest chain of requests, each of which began after the previous one ended.
        action: Called before each read of an object with its key.
        has_e_tags: Whether the responses to HEAD requests have ETags.
    """

    def __init__(self, store):
        self.store = store
        self.latency_seconds = 0.0
        self.action = lambda _: None
        self.has_e_tags = True
        self._lock = threading.Lock()
        self.reset()

    def reset(self):
        self.names, self.num_bytes, self.waves, self._ended = Counter(), 0, 0, 0
        self.keys = Counter()

    def recorded(self, name, real):
        def request(store, *args, **options):
            start, stop = (options.get("options") or {}).get("range", (0, 0))
            with self._lock:
                wave = self._ended + 1
                self.names[name] += 1
                self.num_bytes += stop - start
                self.waves = max(self.waves, wave)
                if name == "get":
                    self.keys[args[0]] += 1
            time.sleep(self.latency_seconds)
            try:
                if name == "get":
                    self.action(args[0])
                found = real(store, *args, **options)
                return found if self.has_e_tags or name != "head" else {**found, "e_tag": None}
            finally:
                with self._lock:
                    self._ended = max(self._ended, wave)

        return request


@pytest.fixture
def recorded(put_behind_urls, monkeypatch):
    recorded = Recorded(MemoryStore())
    put_behind_urls(recorded.store)
    for name in ("head", "get", "list"):
        monkeypatch.setattr(obstore, name, recorded.recorded(name, getattr(obstore, name)))
    return recorded


# --- costs ------------------------------------------------------------------------------------------

NUM_OBJECTS, NUM_ROWS = 64, 4_000

#: The object with the value.
TARGET, VALUE = 41, 41 * NUM_ROWS + 7

FILTER_BYTES = 8192


def rows_of_object(ordinal):
    noise = np.random.default_rng(ordinal)
    rows = np.arange(ordinal * NUM_ROWS, (ordinal + 1) * NUM_ROWS)
    return pa.table(
        {
            "id": rows,
            "user": rows * 7919 % (NUM_OBJECTS * NUM_ROWS) * 2,
            "name": [f"name {ordinal % 8} {row % 97}" for row in rows.tolist()],
            "noise": noise.integers(0, 256, NUM_ROWS * 60, dtype=np.uint8).view("S60"),
        }
    )


@pytest.fixture(scope="module")
def objects():
    """Objects of 300 KB without page indexes, whose filters are near the footer."""
    found = []
    for ordinal in range(NUM_OBJECTS):
        sink = io.BytesIO()
        filters = {"user": {"ndv": NUM_ROWS, "fpp": 0.001}}
        pq.write_table(
            rows_of_object(ordinal),
            sink,
            use_dictionary=["name"],
            compression="none",
            bloom_filter_options=filters,
        )
        found.append(sink.getvalue())
    return found


@pytest.fixture
def lake(recorded, objects):
    for ordinal, data in enumerate(objects):
        obstore.put(recorded.store, KEY.format(ordinal), data)
    return recorded


def user(row):
    return f"user = {row * 7919 % (NUM_OBJECTS * NUM_ROWS) * 2}"


#: For a table whose footers are known: the condition, the rows, the reads, the waves, and the bytes of the
#: indexes of all objects. One object is read completely in one request if it has matching rows.
COSTS = {
    "one value": (user(VALUE), 1, NUM_OBJECTS + 1, 5, NUM_OBJECTS * FILTER_BYTES),
    "absent value": ("user = 11111", 0, NUM_OBJECTS, 4, NUM_OBJECTS * FILTER_BYTES),
    "two conditions": (f"name >= 'n' AND {user(VALUE)}", 1, NUM_OBJECTS + 1, 5, NUM_OBJECTS * FILTER_BYTES),
    "range": (f"id BETWEEN {VALUE} AND {VALUE + 5}", 6, 1, 3, 0),
    "absent range": ("id < 0", 0, 0, 2, 0),
    "text": ("name LIKE '%nothing%'", 0, NUM_OBJECTS, 4, NUM_OBJECTS * 1500),
}


def fewest_waves(recorded, expected, run):
    """Return the waves of requests; on a busy machine, longer delays are tried, as requests may be late."""
    for recorded.latency_seconds in (0.03, 0.1, 0.3, 1.0):
        recorded.reset()
        run()
        if recorded.waves <= expected:
            break
    return recorded.waves


@pytest.mark.parametrize(("where", "num_rows", "reads", "waves", "index_bytes"), COSTS.values(), ids=COSTS)
def test_costs(lake, objects, where, num_rows, reads, waves, index_bytes):
    """Each object is checked with a HEAD request, and indexes are read in one request, 32 at a time."""
    table = ia.open(FOLDER)
    assert table.schema.names == ["id", "user", "name", "noise"]
    scan = table.scan(where)
    assert scan.to_arrow().num_rows == num_rows

    def run():
        assert scan.to_arrow().num_rows == num_rows
        assert (lake.names["head"], lake.names["get"]) == (NUM_OBJECTS, reads)
        assert lake.num_bytes <= index_bytes + (len(objects[TARGET]) if num_rows else 0)
        assert (scan.report.requests, scan.report.bytes_read) == (NUM_OBJECTS + reads, lake.num_bytes)

    assert fewest_waves(lake, waves, run) <= waves


@pytest.mark.parametrize("plan", [ia.Scan.explain, ia.Scan.plan])
def test_a_plan_opens_no_object_and_reads_no_page(lake, plan):
    """Objects that are planned together are only compared with their listed versions."""
    table = ia.open(FOLDER)
    assert table.schema.names  # reads the footers
    for where in ("id >= 70", None):
        scan = table.scan(where)
        scan.explain()
        lake.reset()
        plan(scan)
        assert (lake.names["get"], lake.num_bytes) == (0, 0)
        assert lake.names["head"] == NUM_OBJECTS


def test_a_first_query_reads_only_footers(lake):
    """The bytes that are read with the footers contain the filters; the next query reads the filters."""
    scan = ia.open(FOLDER).scan(user(VALUE))
    assert scan.to_arrow().num_rows == 1
    assert lake.names == {"list": 1, "get": NUM_OBJECTS + 1}
    assert scan.report.requests == NUM_OBJECTS + 1
    assert scan.to_arrow().num_rows == 1
    assert scan.report.requests == NUM_OBJECTS + NUM_OBJECTS + 1  # HEAD, filters, rows


def test_small_objects_are_read_together(recorded):
    """One request for each object, 32 at a time, and the rows are those of one object after the other."""
    for ordinal in range(NUM_OBJECTS):
        sink = io.BytesIO()
        rows = pa.table({"a": range(ordinal, ordinal + 50), "b": [f"{ordinal} {row}" for row in range(50)]})
        pq.write_table(rows, sink)
        obstore.put(recorded.store, KEY.format(ordinal), sink.getvalue())
    table = ia.open(FOLDER)
    expected = [
        (ordinal + row, f"{ordinal} {row}")
        for ordinal in range(NUM_OBJECTS)
        for row in range(50)
        if ordinal + row < 60
    ]
    scan = table.scan("a < 60")
    for _ in range(2):
        recorded.reset()
        found = [(row["a"], row["b"]) for row in scan.to_arrow().to_pylist()]
        assert found == expected
        assert recorded.names["get"] == (60 if recorded.names["head"] else 0)  # the footers had all rows
        assert scan.report.files_read == 60

    def run():
        assert table.aggregate({"a": "sum"}, "a < 60")["a"]["sum"] == sum(a for a, _ in expected)

    assert fewest_waves(recorded, 4, run) <= 4  # two of HEAD requests, and two of reads


@pytest.mark.parametrize("rows_per_page", [20, 400])
@pytest.mark.parametrize("limit", [None, 5])
@pytest.mark.parametrize("num_objects", [1, 2, 8])
def test_the_end_of_an_object_is_read_once(recorded, num_objects, limit, rows_per_page):
    """The last 64 KiB are read with the footer; the first query requested them again for the rows."""
    for ordinal in range(num_objects):
        sink = io.BytesIO()
        table = pa.table({"number": np.random.default_rng(ordinal).permutation(400)})
        options = {"data_page_size": 1, "write_batch_size": rows_per_page, "write_page_index": True}
        pq.write_table(table, sink, use_dictionary=False, **options)
        obstore.put(recorded.store, KEY.format(ordinal), sink.getvalue())
    found = ia.open(FOLDER).scan("number < 100", limit=limit).to_arrow()
    assert found.num_rows == (limit or 100 * num_objects)
    assert recorded.names["get"] == num_objects
    assert set(recorded.keys.values()) == {1}


def test_few_objects_are_planned_one_by_one(recorded, objects):
    """The indexes of two objects are read with the page index, because a further round trip takes longer."""
    for ordinal in (0, TARGET):
        obstore.put(recorded.store, KEY.format(ordinal), objects[ordinal])
    assert ia.open(FOLDER).scan(user(VALUE)).to_arrow().num_rows == 1
    assert recorded.keys[KEY.format(0)] == 2


@pytest.mark.parametrize(("order", "num_read"), [("id DESC", 1), ("user", 3)])
def test_first_rows_in_an_order(lake, order, num_read):
    """Only the objects with the rows are read, first the column of the order and then the rows."""
    table = ia.open(FOLDER)
    assert table.schema
    lake.reset()
    scan = table.scan(None, ["id", "user"], order_by=order, limit=3)
    name, _, direction = order.partition(" ")
    values = pa.concat_tables(map(rows_of_object, range(NUM_OBJECTS)))[name].to_pylist()
    assert scan.to_arrow()[name].to_pylist() == sorted(values, reverse=direction == "DESC")[:3]
    assert len(lake.keys) <= num_read + 1
    assert lake.names["get"] <= 3 * len(lake.keys)


def test_a_limit_makes_no_requests_for_other_objects(lake):
    table = ia.open(FOLDER)
    assert table.schema
    assert table.scan("user >= 0", limit=1).to_arrow().num_rows == 1
    lake.reset()
    assert table.scan("user >= 0", limit=1).to_arrow().num_rows == 1
    assert lake.names == {"head": 1, "get": 1}


def test_a_single_object(recorded, objects):
    obstore.put(recorded.store, KEY.format(0), objects[0])
    table = ia.open(FOLDER)
    for _ in range(2):
        assert table.count("id = 5") == 1
    assert recorded.names["head"] == 1


def test_objects_without_etags_are_planned_one_by_one(lake):
    """A change of such an object might not be detected, so the bytes of two requests are not combined."""
    lake.has_e_tags = False
    table = ia.open([FOLDER + KEY.format(ordinal)[5:] for ordinal in range(NUM_OBJECTS)])
    assert table.schema
    lake.reset()
    assert table.count(user(VALUE)) == 1
    assert lake.names["head"] <= NUM_OBJECTS + 32 + 1


def test_the_query_ends_at_its_time_limit(lake, monkeypatch):
    """The limit applies to the requests for the indexes of all objects.

    By the clock of this test, each request takes a second: no request begins after the limit but those that
    other threads are about to make.
    """
    monkeypatch.setattr(time, "monotonic", lambda: float(lake.names.total()))
    table = ia.open(FOLDER, query_timeout_seconds=9.5)
    lake.reset()
    with pytest.raises(ia.QueryTimeoutError) as caught:
        table.count(user(VALUE))
    assert caught.value.requests <= lake.names.total() <= 9 + REMOTE_FILES_AT_ONCE < NUM_OBJECTS
    assert ia.open(FOLDER).count(user(VALUE)) == 1


# --- answers ----------------------------------------------------------------------------------------

WORDS = ["", "a", "ab", "zebra", "日本", "naïve", None]


def random_rows(random, version):
    """Rows with the version of their object."""
    num_rows = random.choice([0, 1, 7, 40, 200])
    start = random.randint(0, 300)
    return pa.table(
        {
            "id": pa.array(range(start, start + num_rows), pa.int64()),
            "user": pa.array([random.choice([None, *range(0, 400, 3)]) for _ in range(num_rows)], pa.int32()),
            "word": pa.array([random.choice(WORDS) for _ in range(num_rows)], pa.string()),
            "number": pa.array(
                [random.choice([None, float("nan"), -0.0, 0.5, 3.0]) for _ in range(num_rows)]
            ),
            "version": pa.array([version] * num_rows, pa.int32()),
        },
    )


def write(random, rows, path):
    pq.write_table(
        rows,
        path,
        row_group_size=random.choice([20, 50, 1000]),
        use_dictionary=random.choice([True, False, ["word"]]),
        data_page_size=random.choice([100, 1 << 20]),
        write_page_index=random.choice([True, False]),
        bloom_filter_options={"user": {"ndv": 100, "fpp": 0.01}, "word": {"ndv": 10}}
        if random.random() < 0.6
        else {},
    )
    if rows.num_rows and random.random() < 0.2:
        ia.attach(path, [random.choice([ia.Bloom("word"), ia.Distinct("user"), ia.RowMap("id")])])
    return path.read_bytes()


def random_condition(random):
    """A condition as SQL, and as a function of a row."""
    value, low = random.randint(-5, 420), random.randint(0, 400)
    values = tuple(random.randint(0, 420) for _ in range(4))
    kind = random.randrange(7 if random.random() < 0.7 else 9)
    if kind == 0:
        return f"user = {value}", lambda row: row["user"] == value
    if kind == 1:
        return f"user IN {values}", lambda row: row["user"] in values
    if kind == 2:
        return f"id BETWEEN {low} AND {low + 9}", lambda row: low <= row["id"] <= low + 9
    if kind == 3:
        return "word LIKE '%b%'", lambda row: row["word"] is not None and "b" in row["word"]
    if kind == 4:
        return "word = '日本'", lambda row: row["word"] == "日本"
    if kind == 5:
        return "word IS NULL", lambda row: row["word"] is None
    if kind == 6:
        return "number > 1", lambda row: row["number"] is not None and row["number"] > 1
    (left, is_left), (right, is_right) = random_condition(random), random_condition(random)
    if kind == 7:
        return f"({left}) AND ({right})", lambda row: is_left(row) and is_right(row)
    return f"({left}) OR ({right})", lambda row: is_left(row) or is_right(row)


class RandomLake:
    """Random objects in a store, in two versions."""

    def __init__(self, seed, store, folder):
        self.random = random.Random(seed)
        self.store = store
        self.rows, self.objects = {}, {}
        options = self.random.getrandbits(64)
        for ordinal in range(self.random.randint(3, 8)):
            for version in (1, 2):
                # most objects have the same columns, writer and options
                how = random.Random(options if self.random.random() < 0.9 else ordinal)
                rows = random_rows(self.random, version)
                self.rows[ordinal, version] = rows.to_pylist()
                self.objects[ordinal, version] = write(how, rows, folder / "x.parquet")
            self.put(ordinal, 1)
        self.ordinals = sorted({ordinal for ordinal, _ in self.objects})

    def put(self, ordinal, version):
        obstore.put(self.store, KEY.format(ordinal), self.objects[ordinal, version])

    def expected(self, matches, versions):
        """The matching rows, given the versions of some objects."""
        return [
            row
            for ordinal, version in versions.items()
            for row in self.rows[ordinal, version]
            if matches(row)
        ]

    def spoil(self, ordinal):
        """Replace, delete, truncate or damage an object."""
        data = self.objects[ordinal, 1]
        kind = self.random.choice(["replace", "replace", "delete", "truncate", "damage"])
        if kind == "replace":
            self.put(ordinal, 2)
        elif kind == "delete":
            obstore.delete(self.store, KEY.format(ordinal))
        elif kind == "truncate":
            obstore.put(self.store, KEY.format(ordinal), data[: self.random.randrange(len(data))])
        else:
            place = self.random.randrange(4, len(data) - 8)
            obstore.put(self.store, KEY.format(ordinal), data[:place] + b"\xff" * 4 + data[place + 4 :])
        return kind


def texts(rows):
    return list(map(repr, rows))


@pytest.mark.parametrize("seed", range(examples(10)))
def test_the_rows_of_a_full_read(recorded, tmp_path, seed):
    lake = RandomLake(seed, recorded.store, tmp_path)
    table = ia.open(FOLDER)
    single = [ia.open(FOLDER + KEY.format(ordinal)[5:]) for ordinal in lake.ordinals]
    for _ in range(4):
        where, matches = random_condition(lake.random)
        expected = lake.expected(matches, dict.fromkeys(lake.ordinals, 1))
        for _ in range(2):  # cold and warm
            scan = table.scan(where)
            assert texts(scan.to_arrow().to_pylist()) == texts(expected), where
            assert table.count(where) == len(expected)
        alone = [row for one in single for row in one.scan(where).to_arrow().to_pylist()]
        assert texts(alone) == texts(expected)
        planned = [row for split in table.plan(where) for row in split.to_arrow().to_pylist()]
        assert texts(planned) == texts(expected)


CHANGED = (ia.ReplacedWhileReadError, ia.FormatError, FileNotFoundError)


@pytest.mark.parametrize("seed", range(examples(16)))
def test_objects_that_change_during_a_query(recorded, tmp_path, seed):
    """The rows of each object are those of one version, or an error is raised."""
    lake = RandomLake(seed, recorded.store, tmp_path)
    table = ia.open(FOLDER)
    if seed % 2:
        assert table.schema
    changed = {}

    def change(_):
        if len(changed) < 3 and lake.random.random() < 0.2:
            ordinal = lake.random.choice(lake.ordinals)
            if ordinal not in changed:
                changed[ordinal] = lake.spoil(ordinal)

    recorded.action = change
    for _ in range(4):
        where, matches = random_condition(lake.random)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ia.IntarsiaWarning)
            try:
                rows = table.scan(where).to_arrow().to_pylist()
            except CHANGED:
                assert changed
                continue
        options = [
            [texts(lake.expected(matches, {ordinal: version})) for version in (1, 2)]
            for ordinal in lake.ordinals
        ]
        found = texts(rows)
        # damaged bytes may be in values, which have no checksums
        if "damage" not in changed.values():
            assert fits(found, options), where
    recorded.action = lambda _: None
    for ordinal in changed:
        lake.put(ordinal, 2)
    where, matches = random_condition(lake.random)
    versions = {ordinal: 2 if ordinal in changed else 1 for ordinal in lake.ordinals}
    assert texts(table.scan(where).to_arrow().to_pylist()) == texts(lake.expected(matches, versions))


def fits(found, options):
    """Return whether rows are those of one version of each object, in order."""
    if not options:
        return not found
    return any(found[: len(one)] == one and fits(found[len(one) :], options[1:]) for one in options[0])


def test_a_replaced_object_does_not_stop_planning_the_others_together(lake, objects):
    """Objects are replaced and deleted while filters are read; the filters of the others are read twice."""
    table = ia.open(FOLDER)
    assert table.count(user(VALUE)) == 1

    def change(_):
        lake.action = lambda _: None
        for ordinal in (40, 50):
            obstore.put(lake.store, KEY.format(ordinal), objects[TARGET])
        obstore.delete(lake.store, KEY.format(60))

    lake.reset()
    lake.action = change
    with pytest.raises(FileNotFoundError, match=r"060\.parquet"):
        table.count(user(VALUE))
    assert lake.names["get"] <= 2 * NUM_OBJECTS + 8
    obstore.put(lake.store, KEY.format(60), objects[60])
    assert table.count(user(VALUE)) == 3


def test_a_store_that_fails_is_not_asked_again_and_again(lake):
    """After the first error, no more objects are read together, and the error is raised as for one object."""
    table = ia.open(FOLDER)
    assert table.count(user(VALUE)) == 1

    def refuse(_):
        raise obstore.exceptions.GenericError("status code: 503 Slow Down: <Code>SlowDown</Code>")

    lake.reset()
    lake.action = refuse
    with pytest.raises(ia.ObjectStoreError) as caught:
        table.count(user(VALUE))
    assert caught.value.reason == "throttled"
    assert lake.names["get"] < NUM_OBJECTS + 32
