"""Shared by all tests: the corpora, the profile of Hypothesis, workers for Spark."""

import atexit
import gc
import itertools
import os
import shutil
import sys
import tempfile
from pathlib import Path

import pytest

from tests import effort  # noqa: F401  # loads the profile of Hypothesis

CORPUS = Path(__file__).parent / "corpus"
SHARED = Path(__file__).resolve().parents[2] / "shared"


# A JVM that lives for a minute spends most of its time in its optimizing compiler, and a quarter of its
# start verifying bytecode. Without the optimizing compiler, it has only 48 MB for compiled methods, which
# the tests of Spark exceed, so that it would drop methods and compile them again. Spark's launcher passes
# these options on.
os.environ.setdefault(
    "SPARK_SUBMIT_OPTS",
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
    " -XX:ReservedCodeCacheSize=240m -XX:MetaspaceSize=256m -Xms768m -Xmn256m",
)


def _folder_of_this_process(variable, prefix):
    """Name a new folder in the environment, which child processes inherit."""
    os.environ[variable] = folder = tempfile.mkdtemp(prefix=prefix)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


# Lake indexes of tests are not kept in the user's cache.
_folder_of_this_process("INTARSIA_CACHE_DIR", "intarsia-cache-")


def _replace_hadoop_defaults(folder):
    """Write files that replace the defaults of Hadoop, because Spark puts this folder before its jars.

    Spark copies these settings for every scan and sends them, compressed one by one, with its tasks, which is
    a third of the work of a small query. Nearly all of them are about services that the tests do not use, or
    have the same value in Hadoop's code.
    """
    kept = {
        "fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.LocalFs",  # for streams and Delta
        "hadoop.tmp.dir": str(folder / "tmp"),  # for what S3A writes before it uploads it
    }
    needed = "".join(
        f"<property><name>{name}</name><value>{value}</value></property>" for name, value in kept.items()
    )
    for service in ("core", "hdfs", "mapred", "yarn"):
        settings = needed if service == "core" else ""
        (folder / f"{service}-default.xml").write_text(f"<configuration>{settings}</configuration>")


_SPARK_SETTINGS = _folder_of_this_process("SPARK_CONF_DIR", "intarsia-spark-")
_replace_hadoop_defaults(_SPARK_SETTINGS)

# Spark starts Python workers for each session, again when they were idle for a minute, and when they died.
(_SPARK_SETTINGS / "spark-defaults.conf").write_text("spark.python.daemon.module tests.spark.daemon\n")
os.environ["PYTHONPATH"] = os.pathsep.join(
    filter(None, [str(Path(__file__).resolve().parents[1]), os.environ.get("PYTHONPATH")])
)


#: Modules whose tests take more than about two seconds together, so that `make test-fast` leaves them out.
SLOW_MODULES = (
    "advice/test_advise.py",
    "advice/test_twenty_tables.py",
    "answers/test_answers.py",
    "arrow/test_owned_rows.py",
    "authoring/test_hosts.py",
    "cli/test_aggregate.py",
    "cli/test_demo.py",
    "cli/test_errors.py",
    "cli/test_interrupts.py",
    "cli/test_lake_index.py",
    "cli/test_process.py",
    "clients/test_browser.py",
    "clients/test_js.py",
    "clients/test_public_files.py",
    "docs/test_code_blocks.py",
    "docs/test_examples.py",
    "docs/test_site.py",
    "embed/test_corpus.py",
    "embed/test_lake_index.py",
    "embed/test_memory.py",
    "embed/test_parts.py",
    "embed/test_replace.py",
    "format/test_thrift.py",
    "indexes/test_bloom_granule.py",
    "indexes/test_contract.py",
    "indexes/test_contract_finds.py",
    "indexes/test_datafusion_form.py",
    "indexes/test_dictionary.py",
    "indexes/test_failing.py",
    "indexes/test_hll.py",
    "indexes/test_ngram.py",
    "indexes/test_parameters_in_a_file.py",
    "indexes/test_registry.py",
    "indexes/test_rowmap_sure.py",
    "intarsia/testing/__init__.py",
    "lake/index/test_cost.py",
    "lake/index/test_hostile.py",
    "lake/index/test_states.py",
    "lake/test_bad_files.py",
    "lake/test_dataset.py",
    "lake/test_deleted_rows.py",
    "lake/test_delta.py",
    "lake/test_iceberg.py",
    "lake/test_iceberg_histories.py",
    "lake/test_joined_files.py",
    "lake/test_limit.py",
    "lake/test_log_statistics.py",
    "lake/test_order_by.py",
    "lake/test_page_states.py",
    "lake/test_plan.py",
    "lake/test_pushdown.py",
    "lake/test_pushdown_engines.py",
    "lake/test_query_timeout.py",
    "lake/test_reading_together.py",
    "lake/test_report_reads.py",
    "lake/test_requests.py",
    "lake/test_schema_of_many_files.py",
    "lake/test_shared_aggregate.py",
    "lake/test_top_together.py",
    "object_stores/test_faults.py",
    "object_stores/test_google_and_azure.py",
    "object_stores/test_index_beside.py",
    "object_stores/test_planned_together.py",
    "object_stores/test_replacing.py",
    "object_stores/test_report_requests.py",
    "object_stores/test_round_trips.py",
    "object_stores/test_same_as_local.py",
    "object_stores/test_storage_options.py",
    "polars/test_scan.py",
    "predicate/test_evaluate.py",
    "predicate/test_expressions.py",
    "predicate/test_linear.py",
    "predicate/test_lists.py",
    "predicate/test_required.py",
    "reading/test_aggregate.py",
    "reading/test_ahead.py",
    "reading/test_approximate.py",
    "reading/test_cheapest_proof.py",
    "reading/test_condition_order.py",
    "reading/test_corpus.py",
    "reading/test_counting_structures.py",
    "reading/test_damaged_file.py",
    "reading/test_damaged_index.py",
    "reading/test_dictionary_pruning.py",
    "reading/test_float_orders.py",
    "reading/test_growth.py",
    "reading/test_hint.py",
    "reading/test_index_bombs.py",
    "reading/test_little_memory.py",
    "reading/test_row_groups_at_once.py",
    "reading/test_small_row_groups.py",
    "reading/test_tables.py",
    "reading/test_value_counts.py",
    "reading/test_warnings.py",
    "reading/test_writers_truth.py",
    "rows/test_ordering.py",
    "spark/test_jar.py",
    "spark/test_killed_writes.py",
    "test_benchmarks.py",
    "test_dist.py",
    "verify/test_damage.py",
    "verify/test_damaged_anywhere.py",
    "verify/test_embedded_kinds.py",
    "verify/test_good_files.py",
    "verify/test_page_damage.py",
    "verify/test_reading_once.py",
    "verify/test_scope.py",
    "write/test_in_place.py",
    "write/test_write_table.py",
)


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items):
    """Mark slow modules, and divide the tests into groups, each of which runs in one worker.

    Tests with the Spark session are a group, and so are those that start a JVM. Any other group is a module,
    whose fixtures are thus made once. The longest groups come first, so that the workers end together.
    """
    order = {}
    is_slow = {path: path.as_posix().endswith(SLOW_MODULES) for path in {item.path for item in items}}
    for item in items:
        if is_slow[item.path]:
            item.add_marker("slow")
        shares_session = "spark" in getattr(item, "fixturenames", ())
        if shares_session:
            item.add_marker("spark")
        if shares_session:
            order[item] = (0, "spark")
        elif item.get_closest_marker("spark"):
            order[item] = (1, "jvm")
        else:
            order[item] = (
                2 if is_slow[item.path] else 3,
                f"{item.path.parent.name}/{item.path.stem}",
            )
        if not item.get_closest_marker("xdist_group"):
            item.add_marker(pytest.mark.xdist_group(order[item][1]))
    items.sort(key=lambda item: order[item][0])


@pytest.hookimpl(wrapper=True)
def pytest_collect_file():
    """Do not look for examples in the docstrings of tests, which have none."""
    return [collector for collector in (yield) if type(collector) is pytest.Module]


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Do not look for garbage during the collection, which creates only objects that stay."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish():
    """Keep modules and test items out of garbage collections, which would look at them again and again."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure():
    """Let modules be collected again, whose extensions complain of leaks otherwise."""
    gc.unfreeze()


_ordinals = itertools.count()


@pytest.fixture
def tmp_path(request, tmp_path_factory):
    """An empty folder. To find a number, pytest's own fixture lists the folders of all earlier tests."""
    name = f"{request.function.__name__[:40]}-{next(_ordinals)}"
    folder = tmp_path_factory.getbasetemp() / "tests" / name
    folder.mkdir(parents=True)
    return folder


def _shared_folder(name):
    folder = SHARED / name
    if not folder.is_dir():
        pytest.skip(f"needs ../shared/{name} beside the repository")
    return folder


@pytest.fixture(scope="session")
def corpus():
    """The folder of small Parquet files by many writers, valid and damaged."""
    return CORPUS


@pytest.fixture(scope="session")
def large_corpus():
    """The folder that also has the larger files of the same writers."""
    return _shared_folder("corpus")


@pytest.fixture(scope="session")
def fixtures_dir():
    """Golden cases taken from other implementations."""
    return _shared_folder("fixtures")


@pytest.fixture(scope="session")
def data_dir():
    """Real data of some size."""
    return _shared_folder("data")


@pytest.fixture
def announce(tmp_path_factory, monkeypatch):
    """Install a package that registers index classes by their entry points, for the duration of a test."""

    def announce(entry_points):
        folder = tmp_path_factory.mktemp("site")
        info = folder / "announced-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: announced\nVersion: 1.0\n")
        lines = [f"{kind} = {value}" for kind, value in entry_points.items()]
        (info / "entry_points.txt").write_text("\n".join(["[intarsia.indexes]", *lines]) + "\n")
        monkeypatch.syspath_prepend(folder)

    return announce


@pytest.fixture
def announce_class(announce, monkeypatch):
    """Announce a class that a test defines, whose entry point is an attribute of this module."""

    def announce_class(cls):
        name = f"{cls.__name__}_{id(cls)}"
        monkeypatch.setattr(sys.modules[__name__], name, cls, raising=False)
        announce({cls.kind: f"{__name__}:{name}"})

    return announce_class


@pytest.fixture
def put_behind_urls(monkeypatch):
    """Put a store of a test behind every URL."""

    def put_behind_urls(store):
        monkeypatch.setattr("obstore.store.from_url", lambda *_, **__: store)

    return put_behind_urls


@pytest.fixture(scope="session")
def s3_server():
    """One S3 server for all tests."""
    from tests.object_stores.s3_server import S3Server

    server = S3Server()
    yield server
    server.close()


@pytest.fixture
def s3(s3_server, monkeypatch):
    """The S3 server with an empty bucket, which the environment names."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    s3_server.reset()
    yield s3_server
    s3_server.reset()
