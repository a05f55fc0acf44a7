"""Sample: a uniform sample of the file's rows, and the estimates from it."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from intarsia.errors import IndexBuildError, IndexPayloadError
from intarsia.file import ParquetInput
from intarsia.indexes.embedded import EmbeddedIndexes
from intarsia.indexes.layout import Layout, parameters
from intarsia.indexes.sample import Sample, draw
from intarsia.predicate import bind, conditions, parse_sql
from intarsia.testing import MemoryColumns

STRUCT = pa.struct([("a", pa.int32()), ("b", pa.list_(pa.string()))])
NESTED = pa.table(
    {
        "int": pa.array(range(300), pa.int16()),
        "half": pa.array(np.arange(300, dtype=np.float16)),
        "text": pa.array([f"t{i % 7}" for i in range(300)], pa.large_string()),
        "view": pa.array([f"view of a longer text {i}" for i in range(300)], pa.string_view()),
        "word": pa.array([None if i % 5 == 0 else f"w{i % 11}" for i in range(300)]).dictionary_encode(),
        "list": pa.array([None if i % 3 == 0 else [i, None] for i in range(300)], pa.list_(pa.int64())),
        "struct": pa.array([None if i % 4 == 0 else {"a": i, "b": [str(i)]} for i in range(300)], STRUCT),
        "map": pa.array([[("k", i)] for i in range(300)], pa.map_(pa.string(), pa.int64())),
        "time": pa.array(range(300), pa.timestamp("us", "Europe/Zurich")),
        "decimal": pa.array(range(300)).cast(pa.decimal128(21, 2)),
        "fixed": pa.array([b"%03d" % i for i in range(300)], pa.binary(3)),
    }
)


def opened(table, index, edges=None):
    columns = MemoryColumns(table, edges or [0, table.num_rows])
    return index.open(index.build(columns), columns.layout_when_opened)


def attached(path, table, *indexes, **options):
    pq.write_table(table, path, **options)
    ia.attach(path, list(indexes))


def sample_in(path):
    with ParquetInput.open(path) as file:
        embedded = EmbeddedIndexes(file)
        return embedded.open(embedded.entries[0])


def test_the_rows_are_those_of_the_file_in_every_type(tmp_path):
    path = tmp_path / "t.parquet"
    attached(path, NESTED, Sample(40, seed=3), row_group_size=70)
    sample, table = sample_in(path), pq.read_table(path)
    assert sample.rows.schema.equals(table.schema)
    assert len(sample.ordinals) == 40
    for ordinal, row in zip(sample.ordinals.tolist(), range(40), strict=True):
        assert sample.rows.slice(row, 1).to_pylist() == table.slice(ordinal, 1).to_pylist()


@pytest.mark.parametrize("rows", [[], [{"id": b"0" * 16}, None]])
def test_extension_types_in_structs(tmp_path, rows):
    """pyarrow cannot make an empty column of these types."""
    path = tmp_path / "t.parquet"
    array = pa.array(rows, pa.struct([("id", pa.binary(16))]))
    ids = pa.StructArray.from_arrays([pa.ExtensionArray.from_storage(pa.uuid(), array.field(0))], ["id"])
    table = pa.table({"s": ids})
    pq.write_table(table, path)
    assert ia.open(path).sample().equals(table)
    ia.attach(path, [ia.Sample(5)])
    assert ia.open(path).sample().equals(table)
    ia.write_table(table.append_column("x", [range(len(rows))]), path, sort_by="x")
    assert ia.open(path).count() == len(rows)


def test_a_dictionary_keeps_only_the_values_that_are_used(tmp_path):
    words = pa.array([f"word number {i}" for i in range(5000)]).dictionary_encode()
    sample = opened(pa.table({"x": words}), Sample(3))
    assert sample.rows.column(0).to_pylist() == words.take(pa.array(sample.ordinals)).to_pylist()
    assert len(sample.rows.column(0).chunk(0).dictionary) == 3


@pytest.mark.parametrize("rows", [0, 1, 5])
def test_a_file_of_few_rows_is_there_whole(tmp_path, rows):
    path = tmp_path / "t.parquet"
    attached(path, NESTED.slice(0, rows), Sample(5))
    sample = sample_in(path)
    assert sample.ordinals.tolist() == list(range(rows))
    assert sample.rows.to_pylist() == pq.read_table(path).to_pylist()


def test_a_sample_may_have_no_rows():
    assert opened(NESTED.select(["int"]), Sample(0)).rows.num_rows == 0


def test_the_seed_alone_decides():
    table = NESTED.select(["int"])
    first, again, other = (opened(table, Sample(20, seed)) for seed in (1, 1, 2))
    assert first.rows.equals(again.rows)
    assert not first.rows.equals(other.rows)


def test_every_row_is_as_likely_as_any_other():
    counts = np.zeros(20)
    for seed in range(4000):
        counts[draw(20, 5, np.random.default_rng(seed))] += 1
    expected = 4000 * 5 / 20
    # the counts' covariance makes the statistic that of 19 degrees of freedom, times 15/19
    statistic = ((counts - expected) ** 2).sum() / expected * 19 / 15
    assert statistic < 43.8  # 0.999 quantile of chi-square with 19 degrees of freedom


def test_estimates_by_the_rule_of_succession():
    table = pa.table({"x": range(10_000), "s": [{"a": i % 2} for i in range(10_000)]})
    sample = opened(table, Sample(998))

    def estimate(where):
        return sample.estimated_rows(next(conditions(bind(parse_sql(where), table.schema))))

    hits = int((sample.rows["x"].to_numpy() < 2500).sum())
    assert estimate("x < 2500") == hits + 9002 * (hits + 1) / 1000
    assert estimate("x < 2500") == pytest.approx(2500, abs=300)
    assert estimate("x = -1") == pytest.approx(9.002)
    assert estimate("s.a = 1") == pytest.approx(5000, abs=400)
    assert estimate("x IS NULL") == pytest.approx(9.002)


def test_estimates_are_exact_where_the_sample_is_the_file():
    sample = opened(NESTED, Sample(1000))
    for where, truth in [
        ("int < 10", 10),
        ("text = 't3'", 43),
        ("view LIKE '%9'", 30),
        ("word IS NULL", 60),
        ("word IN ('w0', 'absent')", 22),
        ("struct.a >= 200", 75),
        ("decimal > 296.5", 3),
    ]:
        assert sample.estimated_rows(bind(parse_sql(where), NESTED.schema)) == truth


def test_a_condition_on_a_missing_column_is_not_estimated():
    schema = pa.schema({"y": pa.int64(), "int": pa.struct([("a", pa.int64())])})
    sample = opened(NESTED.select(["int"]), Sample(10))
    for where in ("y = 1", "int.a = 1"):
        assert sample.estimated_rows(bind(parse_sql(where), schema)) is None


def test_it_estimates_on_every_column_and_does_not_prune(tmp_path):
    path = tmp_path / "t.parquet"
    attached(path, NESTED, Sample(40))
    with ParquetInput.open(path) as file:
        embedded = EmbeddedIndexes(file)
        for where in ("int = 1", "word LIKE '%w%'", "struct.a = 1"):
            leaf = next(conditions(bind(parse_sql(where), file.arrow_schema)))
            assert [name for name, _ in embedded.estimators(leaf, 1 << 20)] == ["sample():file"]
            assert not any(embedded.can_prune(entry, leaf) for entry in embedded.entries)
        assert not file.ignored


def test_explain_estimates_conditions_that_histograms_cannot(tmp_path):
    path = tmp_path / "t.parquet"
    attached(path, pa.table({"x": [f"{i:04}" for i in range(5000)]}), Sample(1000))
    report = ia.open(path).explain("x LIKE '%7'")
    assert report.rows_estimated == pytest.approx(500, abs=200)


def test_a_file_has_one_sample_and_detaching_removes_it(tmp_path):
    path = tmp_path / "t.parquet"
    attached(path, NESTED.select(["int", "text"]), Sample(40))
    before = path.read_bytes()
    ia.attach(path, [Sample(40)])
    assert path.read_bytes() == before
    ia.attach(path, [Sample(10), ia.Distinct("text")])
    entries = {entry.kind: entry for entry in ia.inspect(path).directory.entries}
    assert sorted(entries) == ["distinct", "sample"]
    assert (entries["sample"].name, entries["sample"].columns) == ("sample():file", ())
    assert entries["sample"].parameters["n"] == 10
    assert not ia.verify(path).findings
    assert ia.open(path).scan().to_arrow().equals(NESTED.select(["int", "text"]))
    ia.detach(path)
    assert ia.inspect(path).directory is None


def test_its_parameters_survive_json():
    stored = json.loads(json.dumps(parameters(Sample(3, 4))))
    assert Sample(**stored) == Sample(3, 4)


@pytest.mark.parametrize("parameters_", [(-1,), (2.0,), (True,), (3, -1), (3, None)], ids=repr)
def test_invalid_parameters_are_rejected(parameters_):
    with pytest.raises(IndexBuildError) as caught:
        Sample(*parameters_)
    assert caught.value.reason in ("invalid-n", "invalid-seed")


def test_damage_is_detected():
    columns = MemoryColumns(NESTED, [0, 300])
    payload = Sample(20).build(columns)
    for length in range(0, len(payload) - 16, 97):
        with pytest.raises(IndexPayloadError):
            Sample(20).open(payload[:length], columns.layout_when_opened)


@pytest.mark.parametrize(
    "ordinals",
    [
        pa.array([0, 1]),
        pa.array([1, 0, 2]),
        pa.array([0, 0, 1]),
        pa.array([-1, 0, 1]),
        pa.array([0, 1, 10]),
        pa.array([0, None, 1]),
        pa.array([0, 1, 2], pa.int32()),
        pa.array(["0", "1", "2"]),
    ],
    ids=str,
)
def test_impossible_ordinals_are_rejected(ordinals):
    sink = pa.BufferOutputStream()
    table = pa.table({"ordinal": ordinals, "x": [1] * len(ordinals)})
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    with pytest.raises(IndexPayloadError):
        Sample(3).open(bytes(sink.getvalue()), Layout(10, np.array([0, 10]), {}))
