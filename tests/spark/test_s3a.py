"""Enabled sessions on s3a://: the planner reads with the settings and the credentials of Spark."""

import json
import time
from collections import Counter

import pyarrow as pa
import pytest
from pyspark.sql import functions as F  # noqa: N812

import intarsia as ia
import intarsia.spark as ias
from intarsia.spark.skipping import SkippingPlanner
from tests.effort import examples
from tests.lake.index.lakes import write
from tests.object_stores.s3_server import REGION, SECRET, S3Server, s3a_settings
from tests.object_stores.store_server import BUCKET, Fault
from tests.spark.comparing import settings
from tests.spark.object_lakes import (
    check_needle,
    check_partition_columns,
    check_random,
    check_replaced_object,
    lake_files,
    put_lake,
    replacement,
)
from tests.spark.skipping import FILES, ROWS, SWITCH, code_of, compare, rows_of_file, user_of

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

MANY = 1_000

#: Names whose characters have a meaning in URLs.
NAMES = ("a b", "100%", "%41", "1+1", "x=1", "ü", "a#b", "a&b")


@pytest.fixture
def asked(store, enabled):
    """The requests to the planner; `spoil` is a function that changes each before it is answered."""

    class Asked:
        def __init__(self):
            self.requests = []
            self.spoil = None
            self._planner = SkippingPlanner()

        def __call__(self, text):
            request = json.loads(text)
            self.requests.append(request)
            if self.spoil is not None:
                self.spoil(request)
            return self._planner.answer(json.dumps(request))

    found = Asked()
    ias.enable(enabled, planner=found)
    yield found
    ias.enable(enabled)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return lake_files(tmp_path_factory.mktemp("lake"))


@pytest.fixture
def lake(store, files):
    """A lake whose keys have characters with a meaning in URLs."""
    put_lake(store, NAMES, files)
    return f"s3a://{BUCKET}/lake"


def key_of(ordinal):
    return f"lake/{NAMES[ordinal]}.parquet"


# --- files and rows are skipped


@pytest.mark.parametrize("ordinal", range(FILES))
def test_files_and_rows_are_skipped(enabled, lake, ordinal):
    check_needle(enabled, lake, ordinal)


def test_random_queries(store, enabled, tmp_path):
    numbers = examples(100, deep=2_000), examples(0, deep=300)
    check_random(enabled, store, f"s3a://{BUCKET}", tmp_path, *numbers)


def test_partition_columns(store, enabled, files):
    check_partition_columns(enabled, store, f"s3a://{BUCKET}", files)


def test_a_stream(store, enabled, lake):
    schema = enabled.read.parquet(lake).schema
    frame = enabled.readStream.schema(schema).parquet(lake).where(f"code = '{code_of(3, 5)}'")
    query = frame.writeStream.format("memory").queryName("needle").trigger(availableNow=True).start()
    query.awaitTermination()
    assert enabled.table("needle").count() == 1


def test_reads_in_native_mode(enabled, lake):
    where = f"code = '{code_of(3, 5)}'"
    frame = ias.read(enabled, lake, where, mode="native")
    assert frame.collect() == enabled.read.parquet(lake).where(where).collect()
    choice = ias.last_read(enabled)
    assert (choice.mode, choice.reason) == ("native", None)
    assert (choice.report["files"]["read"], choice.report["rows"]["candidates"]) == (1, 1)


# --- jobs


def test_jobs_have_the_settings_of_spark(store, enabled, tmp_path):
    names = NAMES[:2]
    for ordinal, name in enumerate(names):
        path = tmp_path / f"{ordinal}.parquet"
        write(path, rows_of_file(ordinal))
        store.put(f"lake/{name}.parquet", path.read_bytes())
    lake = f"s3a://{BUCKET}/lake"
    report = ias.index(enabled, lake, [ia.RowMap("code"), ia.PageIndex()], lake_index="beside")
    assert (report.files_indexed, report.lake_index.files_added) == (2, 2)
    assert ias.describe(enabled, lake).where("size(indexes) = 1 AND error IS NULL").count() == 2
    assert ias.verify(enabled, lake).ok
    assert ias.aggregate(enabled, lake, "count(*)")["*"]["count"] == 2 * ROWS
    found = compare(enabled, lambda: enabled.read.parquet(lake).where(f"code = '{code_of(1, 5)}'"))
    assert (len(found.rows), found.files) == (1, 1)
    shown = enabled.sql(f"CALL intarsia.show_indexes('{lake}')").collect()
    assert {row["files"] for row in shown} == {2}
    assert ias.detach(enabled, lake).files_detached == 2


def test_the_report_is_not_lost_if_the_lake_index_is_refused(store, spark, tmp_path):
    for ordinal in range(2):
        path = tmp_path / f"{ordinal}.parquet"
        write(path, rows_of_file(ordinal))
        store.put(f"lake/{path.name}", path.read_bytes())
    store.faults = [
        Fault(method="PUT", key="*_intarsia*", times=None, status="403 Forbidden", code="AccessDenied")
    ]
    with pytest.raises(ia.FilesFailedError) as caught:
        ias.index(spark, f"s3a://{BUCKET}/lake", [ia.RowMap("code")], lake_index="beside", progress=False)
    report = caught.value.report
    assert (report.files_indexed, report.files_failed, report.lake_index) == (2, 0, None)
    ((place, error),) = caught.value.errors.items()
    assert (place, error.reason) == (f"s3://{BUCKET}/lake/_intarsia", "access-denied")


def test_a_job_gives_other_code_no_credentials(store, enabled, lake):
    ias.describe(enabled, lake)
    with pytest.raises(ia.ObjectStoreError):
        ia.open(lake.replace("s3a", "s3"), storage_options={"max_retries": 0, "deadline_seconds": 0.5})


# --- writes

FACTORY = "mapreduce.outputcommitter.factory.scheme.s3a"


@pytest.fixture
def committer(request, enabled, tmp_path):
    """The name of a committer; the default of Spark if it is empty."""
    # file systems that other tests opened have the settings of those
    values = {"fs.s3a.buffer.dir": str(tmp_path / "buffer"), "fs.s3a.impl.disable.cache": "true"}
    if request.param:
        values["fs.s3a.committer.name"] = request.param
        values["fs.s3a.committer.staging.tmp.path"] = f"file:{tmp_path}/staging"
        values[FACTORY] = "org.apache.hadoop.fs.s3a.commit.S3ACommitterFactory"
    for key, value in values.items():
        enabled.conf.set(key, value)
    ias.enable_writes(enabled, [ia.RowMap("code"), ia.PageIndex()])
    yield request.param
    ias.disable_writes(enabled)
    for key in values:
        enabled.conf.unset(key)


@pytest.mark.parametrize("committer", ["", "directory", "partitioned", "magic"], indirect=True)
def test_writes(store, enabled, lake, committer):
    out = f"s3a://{BUCKET}/out"
    frame = enabled.read.parquet(lake).withColumn("part", F.concat(F.lit("a:b %"), F.col("user") % 2))
    frame.coalesce(1).write.partitionBy("part").parquet(out)
    written = [key for key in store.list_keys() if key.startswith("out/") and key.endswith(".parquet")]
    assert len(written) == 2
    assert not [key for key in store.list_keys() if "_temporary" in key or "__magic" in key]
    assert not store.unfinished_uploads()
    assert sorted(map(str, enabled.read.parquet(out).select(frame.columns).collect())) == sorted(
        map(str, frame.collect())
    )
    report = ias.last_write(enabled)
    indexes = ias.describe(enabled, out).selectExpr("sum(size(indexes))").first()[0]
    if committer == "magic":  # its files are hidden until the job commits
        assert {one.code for one in report.per_file} == {"not-indexed"}
        assert all("hides the file" in one.error for one in report.per_file)
        assert indexes == 0
    else:
        assert (report.files_indexed, indexes) == (2, 2)
    assert SECRET not in repr(report)


# --- requests


def test_requests_without_a_lake_index(store, enabled, asked, lake):
    frame = enabled.read.parquet(lake).where(f"code = '{code_of(3, 5)}'")
    with store.recording() as found:
        frame.collect()
    excluded = [one for one in found.requests if one.key and one.key != key_of(3)]
    assert len(excluded) == FILES - 1  # none by Spark, neither to open nor to compare it
    assert all(one.method == "GET" for one in excluded)


def test_requests_with_a_lake_index(store, enabled, asked, tmp_path, monkeypatch):
    others, *needles = ("others", "c0", "c1")
    data = {}
    for code in (others, *needles):
        path = tmp_path / f"{code}.parquet"
        write(path, pa.table({"code": ["a", code, "z"]}), [ia.Distinct("code")])
        data[code] = path.read_bytes()
    codes = {MANY // 3: "c0", MANY // 2: "c1"}
    for ordinal in range(MANY):
        store.put(f"lake/{ordinal:04}.parquet", data[codes.get(ordinal, others)])
    with monkeypatch.context() as patch:
        for name, value in store.environment.items():
            patch.setenv(name, value)
        ia.open(f"s3://{BUCKET}/lake").build_lake_index("beside")
    frame = enabled.read.parquet(f"s3a://{BUCKET}/lake")
    for code in needles:
        with store.recording() as found:
            assert len(frame.where(f"code = '{code}'").collect()) == 1
        (skip,) = ias.last_skips(enabled)
        assert skip.report["files"]["read"] == 1
        assert skip.report["requests"] <= 1  # the list of segments
        assert found.methods["HEAD"] == 1  # the file is opened once, and its status is not requested again
        assert found.methods["LIST"] <= 2  # the excluded objects are compared together
        assert found.methods["GET"] <= 5
    assert len(found.requests) <= 6  # of the second query


def test_requests_where_nothing_can_be_skipped(store, enabled, asked, lake):
    """After a plan that excludes nothing, they are those of plain Spark, as without a condition."""
    frame = enabled.read.parquet(lake)
    for conditions in (["id >= 0", "id >= -1"], ["true", "true"]):
        first, second = map(frame.where, conditions)
        first.collect()
        found = []
        for value in ("false", "true"):
            with settings(enabled, {SWITCH: value}), store.recording() as recording:
                assert len(second.collect()) == FILES * ROWS
            found.append(Counter((one.method, one.key, one.start, one.stop) for one in recording.requests))
        plain, skipping = found
        assert plain == skipping
    assert len(asked.requests) == 2


# --- objects that change


@pytest.mark.parametrize("ordinal", [3, 5])
@pytest.mark.parametrize("moment", ["listed", "planned", "run"])
def test_a_replaced_object(store, enabled, lake, files, tmp_path, ordinal, moment):
    new = replacement(files, ordinal, tmp_path)
    check_replaced_object(enabled, store, lake, key_of(ordinal), new, moment, is_excluded=ordinal != 3)


def test_an_object_that_is_another_one_only_while_it_is_planned(store, enabled, lake, files, tmp_path):
    """The plan is for the listed version, which Spark reads, and not for the other one."""
    frame = enabled.read.parquet(lake)
    key, new = key_of(1), replacement(files, 3, tmp_path)
    store.faults = [Fault("call", "GET", key=key, action=lambda: store.put(key, new))]
    narrow = frame.where(f"user = {user_of(1, 7)}")
    narrow._jdf.queryExecution().executedPlan()
    assert store.faults[0].times == 0
    store.put(key, files[1])
    assert len(narrow.collect()) == 1
    assert frame.where(f"user = {user_of(1, 7)}").count() == 1  # planned once


def test_folders_with_many_other_objects_between_them(store, enabled, files, tmp_path):
    for ordinal, data in enumerate(files):
        store.put(f"lake/{'az'[ordinal % 2]}/{ordinal}.parquet", data)
    for ordinal in range(4_100):
        store.put(f"lake/m/{ordinal}", b"")
    frame = enabled.read.parquet(*(f"s3a://{BUCKET}/lake/{name}" for name in "az"))
    narrow = frame.where(f"user = {user_of(3, 77)}")
    with store.recording() as found:
        assert len(narrow.collect()) == 1
    listed = [one.query.rpartition("prefix=")[2] for one in found.requests if one.is_listing]
    assert {"lake%2F", "lake%2Fz%2F"} <= set(listed)  # not all of the others, which are before those of z
    assert found.methods["HEAD"] == 1
    store.put("lake/z/5.parquet", replacement(files, 5, tmp_path))
    assert len(narrow.collect()) == ROWS + 1


def test_a_removed_object(store, enabled, lake):
    frame = enabled.read.parquet(lake).where(f"user = {user_of(3, 77)}")
    frame._jdf.queryExecution().executedPlan()
    store.backend.delete_object(BUCKET, key_of(5))
    with pytest.raises(Exception, match="FILE_NOT_EXIST"):
        frame.collect()


# --- settings and credentials


@pytest.mark.parametrize("way", ["option", "bucket"])
def test_settings_of_one_frame_or_one_bucket(server, enabled, asked, files, way):
    values = s3a_settings(server, "" if way == "option" else f"only-{way}")
    for key in s3a_settings(server):
        enabled.conf.unset(key)
    server.backend.create_bucket(f"only-{way}", REGION)
    server.backend.put_object(f"only-{way}", "lake/x.parquet", files[3])
    frame = enabled.read.options(**values).parquet(f"s3a://only-{way}/lake")
    found = compare(enabled, lambda: frame.where(f"code = '{code_of(3, 5)}'"))
    assert (len(found.rows), found.scanned) == (1, 1)
    options = asked.requests[-1]["stores"][f"s3a://only-{way}"]["options"]
    assert options["credentials"]["secret_access_key"] == SECRET


@pytest.mark.parametrize(
    ("provider", "expected"),
    [
        ("AnonymousAWSCredentialsProvider", {}),
        (
            "TemporaryAWSCredentialsProvider",
            {"access_key_id": "testing", "secret_access_key": SECRET, "token": "of a session"},
        ),
    ],
)
def test_credentials_of_other_providers(server, enabled, asked, files, provider, expected):
    from moto.s3.models import get_canned_acl

    bucket = provider.lower()
    server.backend.create_bucket(bucket, REGION)
    server.backend.put_object(bucket, "x.parquet", files[3]).set_acl(get_canned_acl("public-read"))
    server.backend.put_bucket_acl(bucket, get_canned_acl("public-read"))
    chosen = {
        f"fs.s3a.bucket.{bucket}.aws.credentials.provider": f"org.apache.hadoop.fs.s3a.{provider}",
        f"fs.s3a.bucket.{bucket}.session.token": "of a session",
    }
    frame = enabled.read.options(**chosen).parquet(f"s3a://{bucket}/")
    found = compare(enabled, lambda: frame.where(f"code = '{code_of(3, 5)}'"))
    assert (len(found.rows), found.scanned) == (1, 1)
    assert asked.requests[-1]["stores"][f"s3a://{bucket}"]["options"]["credentials"] == expected


@pytest.mark.parametrize(("setting", "value"), [("change.detection.mode", "none"), ("proxy.username", "me")])
def test_a_setting_that_the_planner_does_not_support(server, store, enabled, files, setting, value):
    bucket = setting.replace(".", "-")
    server.backend.create_bucket(bucket, REGION)
    server.backend.put_object(bucket, "x.parquet", files[3])
    frame = enabled.read.option(f"fs.s3a.bucket.{bucket}.{setting}", value).parquet(f"s3a://{bucket}/")
    found = compare(enabled, lambda: frame.where(f"code = '{code_of(3, 5)}'"))
    assert len(found.rows) == 1
    (skip,) = ias.last_skips(enabled)
    assert setting in skip.reason


@pytest.fixture
def refusing(server, asked):
    """The planner asks a server that refuses its keys."""
    server = S3Server()
    server.faults = [Fault(times=None, status="403 Forbidden", code="InvalidAccessKeyId")]

    def spoil(request):
        for store in request["stores"].values():
            store["options"]["aws_endpoint_url"] = server.url

    asked.spoil = spoil
    yield server
    server.close()


def test_other_settings_do_not_get_the_plan_of_the_first(enabled, lake, asked, refusing):
    frame = enabled.read.parquet(lake)
    condition = f"code = '{code_of(3, 5)}'"
    asked.spoil, refuse = None, asked.spoil
    assert compare(enabled, lambda: frame.where(condition)).files == 1
    asked.spoil = refuse
    assert compare(enabled, lambda: frame.where(condition), may_fail=True).files == FILES


def test_users_of_one_server(store, enabled, lake, asked):
    """Each user's requests have the user's own key, and a user without rights gets no plan of another."""
    users = {name: enabled.newSession() for name in ("alice", "bob")}
    for name, session in users.items():
        # Hadoop itself gives the file system of one user to the next one, unless its cache is off
        for key, value in {
            **s3a_settings(store),
            "fs.s3a.access.key": name,
            "fs.s3a.impl.disable.cache": "true",
            SWITCH: "true",
        }.items():
            session.conf.set(key, value)
        ias.enable(session, planner=asked)

    def rows_of(user, code):
        return users[user].read.parquet(lake).where(f"code = '{code}'").collect()

    for user in ("alice", "bob", "alice"):
        for code in (code_of(3, 5), code_of(3, 6)):
            with store.recording() as found:
                assert len(rows_of(user, code)) == 1
            assert {one.user for one in found.requests} == {user}
            assert ias.last_skips(users[user])[0].report["files"]["read"] == 1
    store.faults = [Fault(method="GET", key="lake/*", times=None, status="403 Forbidden", user="bob")]
    for code in (code_of(3, 5), code_of(3, 7)):
        with store.recording() as found, pytest.raises(Exception, match=r"403|Forbidden|Denied"):
            rows_of("bob", code)
        assert {one.user for one in found.requests} == {"bob"}
    with store.recording() as found:
        assert len(rows_of("alice", code_of(3, 5))) == 1
    assert {one.user for one in found.requests} == {"alice"}
    for session in users.values():
        ias.disable(session)


@pytest.mark.parametrize("fault", ["dead", "slow", "no answer", "another plan"])
def test_a_planner_that_fails(enabled, lake, fault):
    def answer(request):
        if fault == "dead":
            raise OSError("dead")
        if fault == "slow":
            time.sleep(2)
        return '{"files": 3, "kept": []}' if fault == "another plan" else "{"

    frame = enabled.read.parquet(lake)
    ias.enable(enabled, planner=answer, timeout_seconds=0.3)
    try:
        found = compare(enabled, lambda: frame.where(f"code = '{code_of(3, 5)}'"), may_fail=True)
        assert (len(found.rows), found.files) == (1, FILES)
        assert ias.last_skips(enabled)[-1].reason.startswith("failed")
    finally:
        ias.enable(enabled)
    assert compare(enabled, lambda: frame.where(f"code = '{code_of(3, 6)}'")).files == 1


@pytest.fixture
def logged(enabled):
    """What the JVM logs, from warnings on."""
    jvm = enabled.sparkContext._jvm
    writer = jvm.java.io.StringWriter()
    log4j = jvm.org.apache.logging.log4j
    appender = log4j.core.appender.WriterAppender.createAppender(None, None, writer, "test", False, True)
    appender.start()
    log4j.LogManager.getRootLogger().addAppender(appender)
    enabled.sparkContext.setLogLevel("WARN")
    yield writer
    enabled.sparkContext.setLogLevel("ERROR")
    log4j.LogManager.getRootLogger().removeAppender(appender)


def test_wrong_keys_of_the_planner_alone(enabled, lake, refusing, logged):
    frame = enabled.read.parquet(lake)
    found = [
        compare(enabled, lambda row=row: frame.where(f"user = {user_of(3, row)}"), may_fail=True)
        for row in (7, 77)
    ]
    plan = frame.where("user = 7")._jdf.queryExecution().toString()
    assert [(len(one.rows), one.files) for one in found] == [(1, FILES)] * 2
    skip = ias.last_skips(enabled)[-1]
    assert skip.reason.startswith("failed")
    assert "403" in skip.reason
    printed = logged.toString()
    assert printed.count("Intarsia cannot plan a scan") == 1
    assert SECRET not in printed + repr(skip) + plan


@pytest.mark.parametrize("answer", ["", "{}", '{"files": 8, "kept": [[99, 1]]}'])
def test_a_planner_that_answers_nonsense(enabled, lake, answer):
    ias.enable(enabled, planner=lambda text: answer)
    try:
        found = compare(
            enabled, lambda: enabled.read.parquet(lake).where(f"code = '{code_of(3, 5)}'"), may_fail=True
        )
    finally:
        ias.enable(enabled)
    assert (len(found.rows), found.files) == (1, FILES)


def test_secrets_are_not_kept_by_the_planner(enabled, lake, asked):
    planner = SkippingPlanner()
    assert compare(enabled, lambda: enabled.read.parquet(lake).where(f"code = '{code_of(3, 5)}'")).files == 1
    request = asked.requests[-1]
    assert SECRET in json.dumps(request)
    assert SECRET not in planner.answer(json.dumps(request)) + repr(vars(planner))
