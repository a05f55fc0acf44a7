"""An enabled session whose tasks run in another process, as on a cluster."""

import json

import pytest

from tests.spark.skipping import FILES, ROWS, code_of, make_lake

PROGRAM = """
import json, sys
from intarsia import spark as ias
from tests.spark.comparing import settings
from tests.spark.skipping import compare, metrics_of_scans
lake, code = sys.argv[1:]
where = f"code = '{code}'"
query = f"SELECT * FROM parquet.`{lake}` WHERE {where}"
spark.conf.set("spark.intarsia.enabled", "true")
ias.enable(spark)
found = compare(spark, lambda: spark.sql(query))
answer = {"rows": len(found.rows), "read": found.files, "scanned": found.scanned}
answer["ui"] = metrics_of_scans(spark)
with settings(spark, {"spark.sql.parquet.enableVectorizedReader": "false"}):
    answer["by_rows"] = len(compare(spark, lambda: spark.sql(query)).rows)
ias.disable(spark)
for mode in ("native", "pages", "files"):
    answer[mode] = ias.read(spark, lake, where, mode=mode).count()
context = spark.sparkContext
answer["processes"] = len(context._jsc.sc().statusTracker().getExecutorInfos())
print(json.dumps(answer))
"""


@pytest.mark.spark
@pytest.mark.slow
def test_executors_of_a_cluster_read_the_planned_rows(packages_host, tmp_path):
    lake = make_lake(tmp_path / "lake")
    answer = json.loads(packages_host.run(PROGRAM, lake, code_of(3, 77)))
    (ui,) = answer.pop("ui")
    assert answer == {
        "rows": 1,
        "read": 1,
        "scanned": 1,
        "by_rows": 1,
        "native": 1,
        "pages": 1,
        "files": 1,
        "processes": 2,
    }
    assert ui == [FILES - 1, FILES * ROWS - 1, 1]
