"""Random predicates and random plans in an enabled session: the rows are those of plain Spark.

`make test` tries 198 predicates and 8 plans, `make nightly-spark` 12,000 and 960.
"""

import random

import pytest

import intarsia as ia
from tests.effort import examples
from tests.lake.index.lakes import age
from tests.spark import lakes
from tests.spark.comparing import settings
from tests.spark.random_queries import check_plans, check_predicates
from tests.spark.skipping import saved_files
from tests.spark.test_lake_index import attach

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


@pytest.fixture(scope="module")
def lake_paths(spark, tmp_path_factory):
    folder = tmp_path_factory.mktemp("random")
    paths = {"pyarrow": lakes.write_with_pyarrow(folder / "pyarrow", rows=60)}
    paths["spark"] = lakes.write_with_spark(spark, folder / "spark", paths["pyarrow"])
    paths["indexed"] = lakes.write_with_pyarrow(
        folder / "indexed", rows=60, row_group_size=30, max_rows_per_page=6
    )
    for name in ("spark", "indexed"):
        attach(paths[name])
    ia.attach(paths["indexed"], [ia.PageIndex()])
    for path in folder.rglob("*.parquet"):
        for checksum in path.parent.glob(f".{path.name}.crc"):
            checksum.unlink()
        age(path)
    ia.open(paths["spark"]).build_lake_index()
    return paths


@pytest.mark.parametrize(
    ("lake", "ansi", "zone"),
    [
        ("indexed", "true", "UTC"),
        ("indexed", "false", "America/New_York"),
        ("spark", "false", "Asia/Kolkata"),
    ],
)
def test_predicates(enabled, lake_paths, lake, ansi, zone):
    rng = random.Random(f"predicates {lake} {ansi} {zone}")
    values = {"spark.sql.ansi.enabled": ansi, "spark.sql.session.timeZone": zone}
    with settings(enabled, values):
        check_predicates(enabled.read.parquet(lake_paths[lake]), rng, examples(330, deep=4_000))


def test_plans(enabled, lake_paths):
    whole, number = enabled.read.parquet(lake_paths["indexed"]), examples(40, deep=960)
    check_plans(whole, random.Random("plans"), number, lambda query: saved_files(enabled, query))
