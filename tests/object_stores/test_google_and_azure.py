"""Google Cloud Storage and Azure by their protocols: reads, listings, conditional puts, refused requests."""

from __future__ import annotations

import io
import pickle

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from intarsia.embed.attach import attach_to
from intarsia.storage.object_target import ObjectTarget, UploadLimits
from intarsia.storage.objects import find_store
from tests.object_stores.cloud_servers import ACCOUNT, AzureServer, GoogleServer
from tests.object_stores.store_server import BUCKET, Fault

GOOGLE = f"gs://{BUCKET}"
AZURE = f"az://{BUCKET}"
DFS = f"abfss://{BUCKET}@{ACCOUNT}.dfs.core.windows.net"

NUM_OBJECTS = 7

#: Keys that servers decode, and that XML escapes.
FOLDER = "lake/größe & more"


@pytest.fixture(scope="module")
def servers():
    servers = {GOOGLE: GoogleServer(), AZURE: AzureServer()}
    yield servers
    for server in servers.values():
        server.close()


@pytest.fixture(params=[GOOGLE, AZURE], ids=["google", "azure"])
def url(request):
    return request.param


@pytest.fixture
def server(servers, url, monkeypatch, tmp_path):
    """A server with an empty bucket, which the environment names."""
    server = servers[GOOGLE if url == GOOGLE else AZURE]
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("INTARSIA_CACHE_DIR", str(tmp_path))
    yield server
    server.reset()


def parquet(values):
    sink = io.BytesIO()
    table = pa.table({"a": pa.array(values, pa.int64())})
    pq.write_table(table, sink, row_group_size=100, compression="none", use_dictionary=False)
    return sink.getvalue()


@pytest.fixture
def lake(server):
    for ordinal in range(NUM_OBJECTS):
        server.put(f"{FOLDER}/{ordinal}.parquet", parquet(range(ordinal * 10, ordinal * 10 + 10)))
    server.put(f"{FOLDER}/notes.txt", b"")
    server.put("lake/other.parquet", parquet([0]))
    return server


@pytest.mark.parametrize("url", [GOOGLE, AZURE, DFS, f"abfs://{BUCKET}"], indirect=True)
def test_one_request_lists_a_folder_and_one_reads_an_object(lake, url):
    with lake.recording() as recording:
        table = ia.open(f"{url}/{FOLDER}/")
        assert table.scan("a = 57").to_arrow()["a"].to_pylist() == [57]
    assert recording.methods == {"LIST": 1, "GET": NUM_OBJECTS}
    with lake.recording() as recording:
        assert ia.open(f"{url}/{FOLDER}/5.parquet").count("a = 57") == 1
    assert recording.methods == {"HEAD": 1, "GET": 1}
    assert all(one.stop - one.start <= 64 << 10 for one in recording.gets())


def test_a_listing_takes_several_requests(lake, url):
    lake.page_objects = 3
    with lake.recording() as recording:
        table = ia.open(f"{url}/{FOLDER}")
    assert [file.path for file in table.files] == [f"{url}/{FOLDER}/{n}.parquet" for n in range(NUM_OBJECTS)]
    assert recording.methods == {"HEAD": 1, "LIST": 3}


@pytest.mark.parametrize("url", [GOOGLE, AZURE, DFS], indirect=True)
def test_an_unchanged_object_is_not_read_again(lake, url):
    table = ia.open(f"{url}/{FOLDER}/")
    assert table.count("a >= 0") == 70
    with lake.recording() as recording:
        assert table.count("a >= 0") == 70
    assert recording.methods == {"HEAD": NUM_OBJECTS}
    lake.put(f"{FOLDER}/5.parquet", parquet(range(157, 167)))
    assert table.count("a >= 157") == 10
    splits = pickle.loads(pickle.dumps(ia.open(f"{url}/{FOLDER}/").plan("a = 160")))
    assert [split.to_arrow()["a"].to_pylist() for split in splits] == [[160]]


def test_an_object_that_is_replaced_while_it_is_read(lake, url):
    numbers = np.random.default_rng(0).integers(100, 1 << 60, 20_000)  # more than is read with the footer
    lake.put(f"{FOLDER}/5.parquet", parquet([57, *numbers]))
    scan = ia.open(f"{url}/{FOLDER}/").scan("a = 57")
    lake.put(f"{FOLDER}/5.parquet", parquet(range(57, 67)))
    with pytest.raises(ia.ReplacedWhileReadError) as caught:
        scan.to_arrow()
    assert (caught.value.reason, caught.value.path) == ("object-replaced", f"{url}/{FOLDER}/5.parquet")


def test_a_lake_index_beside_the_objects(lake, url):
    folder = f"{url}/{FOLDER}/"
    assert ia.open(folder).build_lake_index("beside").files_added == NUM_OBJECTS
    scan = ia.open(folder).scan("a = 57")
    with lake.recording() as recording:
        assert scan.count() == 1
    assert scan.report.files_opened == 1
    assert {one.key.rpartition("/")[2] for one in recording.gets()} == {"5.parquet"}
    lake.put(f"{FOLDER}/2.parquet", parquet([1000]))
    assert ia.open(folder).count("a = 1000") == 1
    ia.open(folder).remove_lake_index()
    assert not [key for key in lake.list_keys() if "_intarsia" in key]


# --- replacing -------------------------------------------------------------------------------------


def test_attach_and_detach(lake, url):
    original = lake.content(f"{FOLDER}/5.parquet")
    one = f"{url}/{FOLDER}/5.parquet"
    with lake.recording() as recording:
        assert ia.attach(one, ia.Distinct("a")).changed
    assert recording.methods["PUT"] == 1
    assert lake.content(f"{FOLDER}/5.parquet").startswith(original)
    assert ia.attach(f"{url}/{FOLDER}", ia.Bloom("a")).files_indexed == NUM_OBJECTS
    assert ia.open(f"{url}/{FOLDER}").count("a = 57") == 1
    assert ia.detach(f"{url}/{FOLDER}").files_detached == NUM_OBJECTS
    assert lake.content(f"{FOLDER}/5.parquet") == original


def test_write_table(lake, url):
    ia.write_table(pa.table({"a": [1, 2]}), f"{url}/new folder/x.parquet")
    assert lake.list_keys()[-1] == "new folder/x.parquet"
    assert ia.open(f"{url}/new folder/").count() == 2


WAYS = {
    "one put": UploadLimits(),
    "multipart": UploadLimits(memory_bytes=0, put_bytes=0, part_bytes=50_000),
}


@pytest.mark.parametrize("limits", WAYS.values(), ids=WAYS)
def test_an_object_that_changes_before_the_upload(server, url, limits):
    """The other process's object stays, even if its content, and so Google's ETag, is the same."""
    data = parquet(range(20_000))
    server.put("x.parquet", data)
    found = ObjectTarget(
        *find_store(f"{url}/x.parquet"), f"{url}/x.parquet", overwrite="last-writer-wins", limits=limits
    )
    is_one_put = bool(limits.put_bytes)
    another = data if is_one_put else b"of another process"
    server.faults = [
        Fault("call", "PUT" if is_one_put else "HEAD", action=lambda: server.put("x.parquet", another))
    ]
    with pytest.raises(ia.ChangedMeanwhileError) as caught:
        attach_to(found, [ia.PageIndex()])
    assert (caught.value.reason, caught.value.path) == ("changed-meanwhile", f"{url}/x.parquet")
    assert server.content("x.parquet") == another


def test_a_put_whose_response_is_lost(lake, url):
    """The repeated put is refused, because the first one has replaced the object."""
    lake.faults = [Fault("lose", "PUT")]
    with lake.recording() as recording:
        report = ia.attach(f"{url}/{FOLDER}/5.parquet", ia.Distinct("a"))
    assert recording.methods["PUT"] == 2
    assert report.built == ("distinct(a):page",)
    lake.faults = [Fault("lose", "PUT")]
    assert ia.detach(f"{url}/{FOLDER}/5.parquet").detached
    assert ia.inspect(f"{url}/{FOLDER}/5.parquet").directory is None


def test_a_multipart_upload(server, url, tmp_path):
    data = parquet(range(20_000))
    server.put("x.parquet", data)
    store, key = find_store(f"{url}/x.parquet")
    limits = WAYS["multipart"]
    with server.recording() as recording:
        attach_to(
            ObjectTarget(store, key, url, overwrite="last-writer-wins", limits=limits), [ia.PageIndex()]
        )
    (tmp_path / "x.parquet").write_bytes(data)
    ia.attach(tmp_path / "x.parquet", ia.PageIndex())
    assert server.content("x.parquet") == (tmp_path / "x.parquet").read_bytes()
    assert recording.methods["PUT"] >= len(data) // limits.part_bytes
    assert not server.unfinished_uploads()


# --- failures --------------------------------------------------------------------------------------

UNAVAILABLE = {GOOGLE: "ServiceUnavailable", AZURE: "ServerBusy"}


def test_a_request_is_repeated_after_503(lake, url):
    for method in ("HEAD", "GET", "PUT"):
        fault = Fault(method=method, status="503 Unavailable", code=UNAVAILABLE[url])
        lake.faults.append(fault)
        with lake.recording() as recording:
            ia.attach(f"{url}/{FOLDER}/5.parquet", ia.Distinct("a", granularity=len(lake.faults)))
        assert recording.methods[method] >= 2
        assert fault.times == 0
    lake.faults = [Fault(query="prefix", status="503 Unavailable", code=UNAVAILABLE[url])]
    assert len(ia.open(f"{url}/{FOLDER}/").files) == NUM_OBJECTS


@pytest.mark.parametrize(
    ("status", "code", "reason"),
    [
        ("503 Service Unavailable", None, None),
        ("429 Too Many Requests", "TooManyRequests", "throttled"),
        ("403 Forbidden", "AccessDenied", "access-denied"),
        ("401 Unauthorized", "NoAuthenticationInformation", "access-denied"),
    ],
)
def test_the_error_names_the_object_and_the_remedy(lake, url, status, code, reason):
    path = f"{url}/{FOLDER}/5.parquet"
    table = ia.open(path, storage_options={"deadline_seconds": 2, "max_retries": 1})
    lake.faults = [Fault(method="GET", times=None, status=status, code=code or UNAVAILABLE[url])]
    with lake.recording() as recording, pytest.raises(ia.ObjectStoreError) as caught:
        table.count("a = 57")
    if reason is None:
        reason = "throttled" if url == AZURE else "server-failed"
    assert (caught.value.reason, caught.value.path) == (reason, path)
    assert len(str(caught.value).splitlines()) == 1
    variable = {GOOGLE: "GOOGLE_APPLICATION_CREDENTIALS", AZURE: "AZURE_STORAGE_ACCOUNT_KEY"}[url]
    assert (variable if reason == "access-denied" else "deadline_seconds") in str(caught.value)
    assert recording.methods["GET"] == (1 if reason == "access-denied" else 2)


def test_a_missing_object_or_bucket(server, url):
    with pytest.raises(FileNotFoundError, match=f"{url}/x.parquet"):
        ia.open(f"{url}/x.parquet")
    with pytest.raises(FileNotFoundError, match=f"{url}/lake/"):
        ia.open(f"{url}/lake/")
    other = url.replace(BUCKET, "elsewhere")
    with pytest.raises(ia.ObjectStoreError) as caught:
        ia.open(f"{other}/lake/")
    assert (caught.value.reason, caught.value.path) == ("no-such-bucket", f"{other}/lake/")


def test_an_object_that_is_deleted_after_the_listing(lake, url):
    table = ia.open(f"{url}/{FOLDER}/")
    del lake.objects[f"{FOLDER}/5.parquet"]
    with pytest.raises(FileNotFoundError, match=r"5\.parquet"):
        table.count("a = 57")
    assert ia.open(f"{url}/{FOLDER}/").count("a = 57") == 0


# --- Azure -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("url", [AZURE, DFS], indirect=True)
def test_folders_of_a_hierarchical_namespace(lake, url):
    """Each folder has an empty object, also one whose name looks like that of a file."""
    lake.put_folder("lake")
    lake.put_folder(FOLDER)
    lake.put_folder("spark.parquet")
    lake.put("spark.parquet/part-0.parquet", parquet([1, 2, 3]))
    lake.put("spark.parquet/_SUCCESS", b"")
    assert ia.open(f"{url}/{FOLDER}").count("a = 57") == 1
    assert ia.open(f"{url}/spark.parquet").count() == 3
    assert ia.open(f"{url}/").count() == NUM_OBJECTS * 10 + 1 + 3
    assert ia.attach(f"{url}/spark.parquet", ia.PageIndex()).files_indexed == 1
    assert ia.detach(f"{url}/spark.parquet").files_detached == 1


@pytest.mark.parametrize("url", [AZURE], indirect=True)
def test_web_addresses_of_containers(lake):
    address = f"https://{ACCOUNT}.blob.core.windows.net/{BUCKET}/{FOLDER}"
    table = ia.open(f"{address}/")
    assert table.files[0].path == f"{address}/0.parquet"
    assert table.count("a = 57") == 1
    assert ia.open(f"{address}/5.parquet").count("a = 57") == 1


def test_empty_objects(server, url):
    """An error that names it, also if the user may not list the bucket."""
    server.put("lake/x.parquet", b"")
    for server.faults in [], [Fault(query="prefix", status="403 Forbidden", code="Refused", times=None)]:
        for act in (lambda path: ia.open(path).schema, lambda path: ia.attach(path, ia.PageIndex())):
            with pytest.raises(ia.CorruptFileError) as caught:
                act(f"{url}/lake/x.parquet")
            assert (caught.value.reason, caught.value.path) == ("empty-file", f"{url}/lake/x.parquet")
