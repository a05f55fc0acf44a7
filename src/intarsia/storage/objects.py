"""Objects in object stores, read through obstore, and the options of a store."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

from intarsia.errors import ObjectStoreError, ReplacedWhileReadError
from intarsia.storage.object_errors import current_options, is_range_refused, object_errors, store_kind
from intarsia.storage.ranges import ByteRange
from intarsia.storage.running_query import (
    LONGEST_SECONDS,
    QueryReads,
    current_deadline,
    current_reads,
    in_time,
)

#: Options by name; see `intarsia.open`.
StorageOptions: TypeAlias = Mapping[str, Any]

#: What happens to an object that is too large for a conditional put: an error, or it is replaced even if
#: another process has just replaced it.
Overwrite: TypeAlias = Literal["never", "last-writer-wins"]

#: obstore's defaults: the limit on one attempt, and on the pause between two attempts.
ATTEMPT_SECONDS = 30.0
PAUSE_SECONDS = 15.0

#: How often a folder is listed again if a response is incomplete.
_LIST_RETRIES = 2

#: More is the same as no limit. Systems have no times far beyond, and obstore has no such integers.
_MOST_RETRIES = 10**9

#: The parts of a deadline that one attempt and one pause may take.
_ATTEMPT_PART = 0.3
_PAUSE_PART = 0.1

#: Settings of the HTTP client, which obstore takes separately from those of the store.
_CLIENT_SETTINGS = frozenset(
    {
        "allow_http",
        "allow_invalid_certificates",
        "connect_timeout",
        "http1_only",
        "http2_only",
        "pool_idle_timeout",
        "pool_max_idle_per_host",
        "proxy_ca_certificate",
        "proxy_excludes",
        "proxy_url",
        "randomize_addresses",
        "read_timeout",
        "root_certificate",
        "timeout",
        "user_agent",
    }
)

#: Arguments of `obstore.store.from_url` that are passed on as they are.
_PASSED_ON = ("credential_provider", "retry_config")


def store_arguments(url: str, options: StorageOptions | None) -> dict[str, Any]:
    """Return the arguments with which obstore opens the store of a URL.

    Args:
        url: The URL of an object or a folder.
        options: The options of the caller; None to read all settings from the environment.

    Raises:
        ObjectStoreError: If an option has no such value.

    Example:
        >>> arguments = store_arguments("s3://bucket/x", {"aws_region": "eu-west-1", "deadline_seconds": 20})
        >>> arguments["config"], arguments["client_options"]
        ({'aws_region': 'eu-west-1'}, {'timeout': datetime.timedelta(seconds=6)})
        >>> arguments["retry_config"]["retry_timeout"]
        datetime.timedelta(seconds=12)
        >>> store_arguments("s3://bucket/x", None)
        {}
    """
    scheme = url.partition("://")[0].lower()
    prefix = store_kind(url).prefix
    left = {str(name).lower(): value for name, value in (options or {}).items()}
    overwrite_of(url, {"overwrite": left.pop("overwrite", "never")})
    client = dict(left.pop("client_options", {}))
    arguments = {name: left.pop(name) for name in _PASSED_ON if name in left}
    deadline = _seconds(url, left, "deadline_seconds")
    timeout = _seconds(url, left, "timeout_seconds")
    retries = left.pop("max_retries", None)
    if retries is not None and (isinstance(retries, bool) or not isinstance(retries, int) or retries < 0):
        raise _refused(url, f"max_retries is {retries!r}; it must be an integer of 0 or more")
    retries = None if retries is None else min(retries, _MOST_RETRIES)
    for name in list(left):
        plain = name.removeprefix(prefix)
        if plain in _CLIENT_SETTINGS:
            client[plain] = left.pop(name)
    if deadline is not None:
        timeout = min(timeout or ATTEMPT_SECONDS, deadline * _ATTEMPT_PART)
    if timeout is not None:
        client["timeout"] = timedelta(seconds=timeout)
    if scheme == "http":
        client.setdefault("allow_http", True)
    if client:
        # obstore ignores the client's settings in the environment if it is passed others
        from_environment = {name: os.environ.get(f"{prefix}{name}".upper()) for name in _CLIENT_SETTINGS}
        client = {name: value for name, value in from_environment.items() if value and prefix} | client
        arguments["client_options"] = client
    if "retry_config" not in arguments and (deadline is not None or retries is not None):
        arguments["retry_config"] = _retries(deadline, timeout or ATTEMPT_SECONDS, retries)
    if left:
        if not prefix and scheme in ("http", "https"):
            raise _refused(url, f"web servers have no option {next(iter(left))!r}", "unknown-option")
        arguments["config"] = {
            name: value if isinstance(value, (bool, str)) else str(value) for name, value in left.items()
        }
    return arguments


def overwrite_of(url: str, options: StorageOptions | None) -> Overwrite:
    """Return what happens to objects that are too large for a conditional put.

    Raises:
        ObjectStoreError: If the option has no such value.
    """
    found: Overwrite = (options or {}).get("overwrite", "never")
    if found not in get_args(Overwrite):
        raise _refused(url, f"overwrite is {found!r}; it must be 'never' or 'last-writer-wins'")
    return found


def _retries(deadline: float | None, timeout: float, retries: int | None) -> dict[str, Any]:
    """Return obstore's settings with which the last attempt ends before the deadline.

    An attempt starts at most one pause after ``retry_timeout``, and takes at most ``timeout`` seconds.
    """
    config: dict[str, Any] = {} if retries is None else {"max_retries": retries}
    if deadline is not None:
        pause = min(PAUSE_SECONDS, deadline * _PAUSE_PART)
        config["retry_timeout"] = timedelta(seconds=max(0.0, deadline - timeout - pause))
        config["backoff"] = {
            "init_backoff": timedelta(seconds=min(0.1, pause)),
            "max_backoff": timedelta(seconds=pause),
            "base": 2,
        }
    return config


def _seconds(url: str, options: dict[str, Any], name: str) -> float | None:
    value = options.pop(name, None)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < float("inf"):
        raise _refused(url, f"{name} is {value!r}; it must be a positive number of seconds")
    return float(min(value, LONGEST_SECONDS))


def _refused(url: str, message: str, reason: str = "invalid-option") -> ObjectStoreError:
    return ObjectStoreError(message, reason=reason, path=url)


#: Concurrent requests to an object store for one `ByteSource.read_ranges`.
MAX_CONCURRENT_REQUESTS = 16

#: Stores whose web addresses have the bucket in the path, not in the host.
_BUCKET_IN_PATH = re.compile(
    r"https?://([^/]+\.(blob|dfs)\.(core\.windows\.net|fabric\.microsoft\.com)"
    r"|s3\.[^./]+\.amazonaws\.com|[^/]+\.r2\.cloudflarestorage\.com)/[^/]+",
    re.IGNORECASE,
)


class ObjectIdentity(NamedTuple):
    """The metadata of an object, from a listing or a HEAD request.

    Those with an ETag are compared without their times, which some stores list in milliseconds, and otherwise
    return in whole seconds.

    Attributes:
        e_tag: Its ETag in quotes, which changes whenever the object changes; None if the store has no ETags.
        modified: When it was last written, in seconds since 1970; None if unknown.
    """

    size_bytes: int
    e_tag: str | None
    modified: float | None

    @classmethod
    def of(cls, meta: Mapping[str, Any]) -> ObjectIdentity:
        """Convert the metadata that obstore returns."""
        modified = meta.get("last_modified")
        return cls(
            int(meta["size"]),
            quoted(meta.get("e_tag")),
            None if modified is None else float(modified.timestamp()),
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ObjectIdentity):
            return False
        return self[:2] == other[:2] and (self.is_conclusive or self.modified == other.modified)

    def __ne__(self, other: object) -> bool:  # else, that of tuples
        return not self == other

    def __hash__(self) -> int:
        return hash(self[:2])

    @property
    def is_conclusive(self) -> bool:
        """Whether equal identities prove equal bytes."""
        return self.e_tag is not None


class ObjectStoreFile:
    """An object with a URL (``s3://``, ``gs://``, ``az://``, ``https://``), read through obstore.

    If the object is replaced after it was opened, reads fail, because the footer of one object does not
    describe the bytes of another.

    Args:
        store: An obstore store (or any object with obstore's interface).
        key: The object's path within the store.
        path: The name in messages: the URL.
        known: Its metadata from a listing; None to request it from the store.
    """

    #: The bytes that one connection to a store in the same region transfers while a request waits for its
    #: response: 20 ms at 50 MB/s. So reading a gap of this size takes no longer than another request, and
    #: requests are what stores charge for. Coalescing here, not in obstore, makes the request count exact.
    coalesce_bytes = 1 << 20

    def __init__(self, store: Any, key: str, path: str, known: ObjectIdentity | None = None) -> None:
        self.path = path
        self._store = store
        self._key = key
        found = known or fetch_identity(store, key, path)
        self._size = found.size_bytes
        self.e_tag = quoted(found.e_tag)
        self.identity = found if found.is_conclusive else None
        self._deadline = current_deadline()
        self._reads = current_reads()

    def size(self) -> int:
        """Length of the object in bytes when it was opened."""
        return self._size

    def read_ranges(self, ranges: Sequence[ByteRange]) -> list[bytes]:
        """Fetch the bytes of each range concurrently.

        Raises:
            ReplacedWhileReadError: If the object was replaced after it was opened.
            FileNotFoundError: If the object was deleted after it was opened.
            ObjectStoreError: If the store is unreachable or refuses access.
            QueryTimeoutError: If the deadline of the query in which it was opened passes.
        """
        read = partial(self._read, reads=current_reads() or self._reads or QueryReads())
        if len(ranges) < 2:
            return [read(location) for location in ranges]
        with ThreadPoolExecutor(min(len(ranges), MAX_CONCURRENT_REQUESTS)) as pool:
            return list(pool.map(read, ranges))

    def _read(self, location: ByteRange, reads: QueryReads) -> bytes:
        get = partial(self._get, location, reads)
        return get() if self._deadline is None else self._deadline.wait_for(self.path, get, len)

    def _get(self, location: ByteRange, reads: QueryReads) -> bytes:
        import obstore
        from obstore.exceptions import GenericError

        reads.add(requests=1)
        with object_errors(self.path):
            try:
                result = obstore.get(
                    self._store, self._key, options={"range": (location.start, location.stop)}
                )
                data = bytes(result.bytes())
            except GenericError as error:
                # a range within the opened object is out of range only if the object was replaced
                if is_range_refused(error):
                    reads.add(requests=1)
                    if self._is_another(obstore.head(self._store, self._key)):
                        raise self._replaced() from None
                raise
        reads.add(num_bytes=len(data))
        reads.record(self.path, location.start, len(data))
        # compared here, because a weak ETag cannot be sent as a condition and some servers have no conditions
        if self._is_another(result.meta):
            raise self._replaced()
        return data

    def _is_another(self, meta: Any) -> bool:
        """Return whether the metadata differs from that of the object when it was opened."""
        found = quoted(meta.get("e_tag"))
        is_other_version = self.e_tag is not None and found is not None and found != self.e_tag
        return is_other_version or int(meta["size"]) != self._size

    def _replaced(self) -> ReplacedWhileReadError:
        return ReplacedWhileReadError(
            "the object was replaced while it was read; open it again",
            reason="object-replaced",
            path=self.path,
        )

    def close(self) -> None:
        """Do nothing: there are no resources to release."""


def quoted(e_tag: str | None) -> str | None:
    """Return an ETag in quotes: Azure omits them in listings, but not in other responses.

    Example:
        >>> quoted("0x8DC2DFC9E520378"), quoted('W/"1"')
        ('"0x8DC2DFC9E520378"', 'W/"1"')
    """
    return e_tag if e_tag is None or e_tag.endswith('"') else f'"{e_tag}"'


def fetch_identity(store: Any, key: str, path: str) -> ObjectIdentity:
    """Request the metadata of an object.

    Raises:
        FileNotFoundError: If there is no such object.
        ObjectStoreError: If the store is unreachable or refuses access.
    """
    import obstore

    if (reads := current_reads()) is not None:
        reads.add(requests=1)
    with object_errors(path):
        return ObjectIdentity.of(in_time(path, lambda: obstore.head(store, key)))


def objects_below(store: Any, prefix: str | None) -> list[Any]:
    """Return the objects below a prefix."""
    import obstore

    return _repeated(lambda: [item for page in obstore.list(store, prefix=prefix) for item in page])


def objects_in(store: Any, folder: str) -> list[Any]:
    """Return the objects in a folder, without those in folders of it."""
    import obstore

    return _repeated(lambda: list(obstore.list_with_delimiter(store, folder)["objects"]))


def _repeated(list_all: Callable[[], list[Any]]) -> list[Any]:
    """List again if a response is incomplete, which obstore does not repeat."""
    from obstore.exceptions import BaseError

    for _ in range(_LIST_RETRIES):
        try:
            return list_all()
        except BaseError as error:  # noqa: PERF203  the loop is the retry
            if "list response body" not in str(error):
                raise
    return list_all()


def find_store(url: str, options: StorageOptions | None = None) -> tuple[Any, str]:
    """Return the obstore store for the URL of an object or a folder, and the path within the store.

    Args:
        options: Options of the store. Missing options are read from the environment.

    Raises:
        ObjectStoreError: If the store or an option is unknown, or a setting that the store needs is missing.
    """
    from obstore.store import from_url

    bucket, key = split_url(url)
    offered = current_options().get(bucket)
    arguments = store_arguments(url, options if offered is None else {**offered, **(options or {})})
    with object_errors(url):
        return from_url(bucket, **arguments), key


class Stores:
    """The stores of several URLs, one for each bucket, so that their requests share connections.

    Example:
        >>> stores = Stores({"skip_signature": True})
        >>> stores.find("s3://bucket/a")[0] is stores.find("s3://bucket/lake/b")[0]
        True
    """

    def __init__(self, options: StorageOptions | None = None) -> None:
        self._options = options
        self._stores: dict[str, Any] = {}
        self._lock = threading.Lock()

    def find(self, url: str) -> tuple[Any, str]:
        """Return the store for a URL, and the path within the store; see `find_store`."""
        bucket, key = split_url(url)
        with self._lock:
            if bucket not in self._stores:
                self._stores[bucket], _ = find_store(url, self._options)
            return self._stores[bucket], key


def split_url(url: str) -> tuple[str, str]:
    """Split the URL of an object or a folder into the URL of its store and the path within it.

    Example:
        >>> split_url("s3://bucket/lake/x.parquet")
        ('s3://bucket', 'lake/x.parquet')
        >>> split_url("https://account.blob.core.windows.net/container/lake/x.parquet")
        ('https://account.blob.core.windows.net/container', 'lake/x.parquet')
    """
    if (match := _BUCKET_IN_PATH.match(url)) is not None:
        return match[0], url[match.end() + 1 :]
    scheme, separator, rest = url.partition("://")
    bucket, _, key = rest.partition("/")
    return f"{scheme}{separator}{bucket}", key
