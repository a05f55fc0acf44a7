"""The procedures of SQL, such as ``CALL intarsia.index(table => 't')``: the jobs of this package.

``Procedures.java`` declares them, and asks the Python program of the JVM to run them, or a process that
`connected` connects to the JVM. A request has the ``procedure``, its ``arguments``, a ``call`` by which the
session is found, and ``properties`` of the thread that called. The answer has the ``schema`` as DDL and the
``rows``, or an ``error``.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from inspect import signature
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from intarsia.check.inspection import inspect
from intarsia.embed import Bloom, PageIndex, Statistics
from intarsia.embed.index_text import parse_indexes
from intarsia.embed.report import no_progress
from intarsia.embed.structures import Attachable
from intarsia.errors import IndexBuildError
from intarsia.indexes.distinct import Distinct
from intarsia.records import dataclass
from intarsia.spark.advising import advise
from intarsia.spark.deleting import delete
from intarsia.spark.indexing import index
from intarsia.spark.job import act_on_files
from intarsia.spark.lake_files import list_lake
from intarsia.spark.lake_jobs import OUTCOMES, build_lake_index, detach, verify
from intarsia.spark.listing import location_of
from intarsia.spark.optimize import optimize
from intarsia.spark.rules import (
    Callback,
    RuleLoader,
    call_static,
    class_for_name,
    java_class,
    last_skips,
    load_jar,
)
from intarsia.spark.sessions import setting
from intarsia.spark.shipping import INDEXES_OPTION, indexes_from_text
from intarsia.spark.spark_stores import options_of_spark
from intarsia.storage import offered_options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: The setting with the class of the catalog.
CATALOG_KEY: Final = "spark.sql.catalog.intarsia"

#: The class of the catalog.
CATALOG: Final = "intarsia.spark.Procedures"

#: The setting that keeps `intarsia.spark.enable` from offering the procedures.
_SWITCH: Final = "spark.intarsia.procedures"

Row: TypeAlias = "Mapping[str, Any]"


@dataclass(frozen=True)
class Procedure:
    """A procedure, run with a session and the arguments of the call.

    Attributes:
        run: Returns the rows of the result; further values of a row are ignored.
        schema: The columns of the result, as DDL.
    """

    run: Callable[..., Iterable[Row]]
    schema: str


def _index(
    spark: SparkSession,
    table: str,
    page_index: bool = False,
    statistics: bool = False,
    bloom: Sequence[str] = (),
    distinct: Sequence[str] = (),
    indexes: str = "",
    **options: Any,
) -> Iterable[Row]:
    wanted: list[Attachable] = [PageIndex()] if page_index else []
    wanted += [Statistics()] if statistics else []
    wanted += [*map(Bloom, bloom), *map(Distinct, distinct), *parse_indexes(indexes)]
    report = index(spark, table, wanted or _indexes_of_table(spark, table), progress=False, **options)
    return [
        {**vars(file), "notes": [f"{note['index']}: {note['reason']}" for note in file.notes]}
        for file in report.per_file
    ]


def _indexes_of_table(spark: SparkSession, table: str) -> list[Attachable]:
    """Return the indexes that the properties or the options of a table name.

    Raises:
        IndexBuildError: If they name none.
    """
    text = _properties(spark, table).get(INDEXES_OPTION, "")
    if not text:
        raise IndexBuildError(
            f"no index to attach to {table}; name one, such as page_index => true or bloom => array('user'), "
            f"or set the table's property {INDEXES_OPTION!r}, such as 'page_index, bloom(user)'",
            reason="no-index",
        )
    return indexes_from_text(text)


def _properties(spark: SparkSession, table: str) -> Mapping[str, str]:
    """Return the properties and options of a table; none of a path."""
    if "/" in table or location_of(spark, table) == table:
        return {}
    state = spark._jsparkSession.sessionState()
    found = {row[0]: row[1] for row in spark.sql(f"SHOW TBLPROPERTIES {table}").collect()}
    if spark.catalog.getTable(table).catalog == "spark_catalog":  # others have no options
        metadata = state.catalog().getTableMetadata(state.sqlParser().parseTableIdentifier(table))
        option = metadata.storage().properties().get(INDEXES_OPTION)
        if option.isDefined():  # of CREATE TABLE … OPTIONS, which writers follow
            found[INDEXES_OPTION] = option.get()
    return found


def _detach(spark: SparkSession, table: str) -> Iterable[Row]:
    report = detach(spark, table, progress=False)
    yield from map(vars, report.per_file)
    for failure in report.failed:
        yield {"path": failure.path, "detached": False, "removed": [], "error": failure.reason}


def _verify(
    spark: SparkSession, table: str, quick: bool = False, sample: int | None = None, seed: int = 0
) -> Iterable[Row]:
    report = verify(spark, table, quick=quick, sample=sample, seed=seed, progress=False)
    for found in report.findings:
        yield {**vars(found), "path": found.file}
    for failure in report.failed:
        yield {
            "path": failure.path,
            "severity": "error",
            "rule": failure.code,
            "message": failure.reason,
        }


def _show_indexes(spark: SparkSession, table: str) -> Iterable[Row]:
    with offered_options(options_of_spark(spark, table)):
        lake = list_lake(spark, table, with_snapshots=True)
        sizes = dict.fromkeys(lake.sizes, 1)  # footers are read, whatever the length
        done, failed = act_on_files(spark, sizes, _bytes_of_indexes, no_progress, "")
    num_files: Counter[tuple[str, str]] = Counter()
    num_bytes: Counter[tuple[str, str]] = Counter()
    for found in done.values():
        for column, name, size in found:
            num_files[column, name] += 1
            num_bytes[column, name] += size
    for (column, name), files in sorted(num_files.items()):
        yield {
            "column": column,
            "index": name,
            "files": files,
            "files_without": len(done) - files,
            "bytes": num_bytes[column, name],
        }
    for failure in failed:
        yield {"index": "error", "files": 1, "error": f"{failure.path}: {failure.reason}"}


def _bytes_of_indexes(path: str) -> list[tuple[str, str, int]]:
    """Return the column, the name and the size of each index of a file, on an executor."""
    inspection = inspect(path)
    found: Counter[tuple[str, str]] = Counter()
    for group in inspection.row_groups:
        for chunk in group.columns:
            if chunk.has_offset_index:
                found[chunk.column, PageIndex.kind] += chunk.column_index_bytes + chunk.offset_index_bytes
            if chunk.bloom_filter is not None:
                found[chunk.column, Bloom.kind] += chunk.bloom_filter.size_bytes
    directory = inspection.directory
    for entry in directory.entries if directory is not None and directory.is_trusted else ():
        found[", ".join(entry.columns), entry.name] += entry.size_bytes
    return [(column, name, size) for (column, name), size in found.items()]


def _lake_index(spark: SparkSession, table: str, location: Any = "cache") -> Iterable[Row]:
    with offered_options(options_of_spark(spark, table)):
        lake = list_lake(spark, table, with_snapshots=True)
        report = build_lake_index(spark, lake.names, location, root=lake.root)
    assert report is not None  # as there is a location
    yield {
        **vars(report),
        "files_failed": len(report.failed),
        "files_recent": len(report.files_recent),
        "bytes": report.num_bytes,
    }


def _optimize(
    spark: SparkSession, table: str, destination: str | None = None, indexes: str = "", **options: Any
) -> Iterable[Row]:
    wanted = parse_indexes(indexes) or None
    report = optimize(spark, table, destination, indexes=wanted, progress=False, **options)
    yield {
        **vars(report),
        "rows": report.num_rows,
        "files_after": report.files_after,
        "bytes_after": report.bytes_after,
        "built": report.built,
    }


def _delete(spark: SparkSession, table: str, where: str, dry_run: bool = False) -> Iterable[Row]:
    report = delete(spark, table, where, dry_run=dry_run, progress=False)
    yield from map(vars, report.per_file)
    if not report.per_file:  # also of Delta and Iceberg, whose own command chooses the files
        yield {"rows_deleted": report.rows_deleted, "seconds": report.seconds}


def _advise(spark: SparkSession, table: str, queries: Sequence[str], **options: Any) -> Iterable[Row]:
    advice = advise(spark, table, queries, progress=False, **options)
    for found in advice.arrangements:
        facts = found.to_dict()
        yield {
            **facts,
            "share_without": facts["bytes_without"] / max(facts["bytes_total"], 1),
            "command": advice.command if found.is_advised else None,
        }


def _skips(spark: SparkSession) -> Iterable[Row]:
    for scan in last_skips(spark):
        files, groups, rows = (scan.report.get(key, {}) for key in ("files", "row_groups", "rows"))
        yield {
            **vars(scan),
            "files_read": files.get("read"),
            "files_total": files.get("total"),
            "row_groups_read": groups.get("read"),
            "row_groups_total": groups.get("total"),
            "rows_read": rows.get("candidates"),
            "rows_total": rows.get("total"),
            "excluded_by": [
                f"{entry['index']} of {entry['column']}" for entry in scan.report.get("pruned_by", ())
            ],
        }


PROCEDURES: Final[Mapping[str, Procedure]] = {
    "index": Procedure(_index, OUTCOMES),
    "detach": Procedure(
        _detach,
        "path STRING, detached BOOLEAN, bytes_before BIGINT, bytes_after BIGINT, removed ARRAY<STRING>, "
        "error STRING",
    ),
    "verify": Procedure(
        _verify,
        "path STRING, severity STRING, rule STRING, row_group BIGINT, column STRING, page BIGINT, "
        "index STRING, message STRING, consequence STRING",
    ),
    "show_indexes": Procedure(
        _show_indexes,
        "column STRING, index STRING, files BIGINT, files_without BIGINT, bytes BIGINT, error STRING",
    ),
    "lake_index": Procedure(
        _lake_index,
        "folder STRING, files_total BIGINT, files_known BIGINT, files_added BIGINT, files_recent BIGINT, "
        "files_failed BIGINT, bytes BIGINT, seconds DOUBLE",
    ),
    "optimize": Procedure(
        _optimize,
        "destination STRING, rows BIGINT, files_before BIGINT, files_after BIGINT, bytes_before BIGINT, "
        "bytes_after BIGINT, built ARRAY<STRING>, verified ARRAY<STRING>, seconds DOUBLE",
    ),
    "delete": Procedure(
        _delete,
        "path STRING, is_removed BOOLEAN, rows_before BIGINT, rows_deleted BIGINT, bytes_before BIGINT, "
        "bytes_after BIGINT, built ARRAY<STRING>, seconds DOUBLE",
    ),
    "advise": Procedure(
        _advise,
        "is_advised BOOLEAN, sort_by ARRAY<STRING>, hilbert_by ARRAY<STRING>, rows_per_page BIGINT, "
        "indexes ARRAY<STRING>, share DOUBLE, share_without DOUBLE, command STRING",
    ),
    "skips": Procedure(
        _skips,
        "paths ARRAY<STRING>, condition STRING, reason STRING, advice STRING, files_read BIGINT, "
        "files_total BIGINT, row_groups_read BIGINT, row_groups_total BIGINT, rows_read BIGINT, "
        "rows_total BIGINT, excluded_by ARRAY<STRING>, planning_ms DOUBLE",
    ),
}


def procedure_server(context: Any, procedures: Any) -> Callable[[str], str]:
    """Return a function that answers the requests of ``Procedures.java``; several threads may call it.

    Args:
        context: The context of the JVM.
        procedures: The class of the catalog, an object of Java.
    """
    from pyspark.sql import SparkSession

    def answer(text: str) -> str:
        request = json.loads(text)
        try:
            procedure, arguments = PROCEDURES[request["procedure"]], request["arguments"]
            _, *parameters = signature(procedure.run).parameters.values()
            for one in parameters:
                if one.default is one.empty and one.kind is not one.VAR_KEYWORD and one.name not in arguments:
                    raise ValueError(f"{one.name} is NULL; pass a value")
            for key, value in arguments.items():
                if isinstance(value, list) and None in value:
                    raise ValueError(f"{key} has an element that is NULL; leave it out")
            for key, value in request["properties"].items():
                context.setLocalProperty(key, value)
            caller = call_static(context._jvm, procedures, "caller", request["call"])
            found = procedure.run(SparkSession(context, caller), **arguments)
            names = [field.split()[0] for field in procedure.schema.split(", ")]
            rows = [[row.get(name) for name in names] for row in found]
            return json.dumps({"schema": procedure.schema, "rows": rows})
        except Exception as error:  # noqa: BLE001  the JVM raises it
            return json.dumps({"error": f"{type(error).__name__}: {error}"})

    return answer


def offer_procedures(spark: SparkSession) -> None:
    """Make the catalog known to a session, unless a setting forbids it or another catalog has its name.

    Args:
        spark: A classic session of this process.
    """
    if setting(spark, _SWITCH).lower() == "false" or setting(spark, CATALOG_KEY) not in ("", CATALOG):
        return
    load_jar(spark)
    loader = RuleLoader(spark)
    answer = procedure_server(spark.sparkContext, loader.classes.loadClass(CATALOG))
    loader.call(CATALOG, "serveBy", loader.new("intarsia.spark.PythonCallback", Callback(answer)))
    spark.conf.set(CATALOG_KEY, CATALOG)


def connected() -> Callable[[str], str]:
    """Connect this process to the JVM that started it, and return what answers its requests.

    The port and the secret of the JVM are in the environment.
    """
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    gateway: Any = launch_gateway()
    jvm = gateway.jvm
    running = java_class(jvm, "org.apache.spark.SparkContext").getOrCreate()
    java_context = java_class(jvm, "org.apache.spark.api.java.JavaSparkContext").fromSparkContext(running)
    context = SparkContext(gateway=gateway, jsc=java_context, conf=SparkConf(_jvm=jvm, _jconf=running.conf()))
    return procedure_server(context, class_for_name(jvm, CATALOG))
