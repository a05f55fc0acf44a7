"""Objects in object stores, read through obstore."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

from intarsia.errors import ReplacedWhileReadError
from intarsia.storage.deadline import current_deadline, in_time
from intarsia.storage.object_errors import is_range_refused, object_errors
from intarsia.storage.query_reads import QueryReads, current_reads
from intarsia.storage.ranges import ByteRange
from intarsia.storage.store_options import StorageOptions, store_arguments

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

    Attributes:
        size_bytes: Its length.
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
        if self._deadline is None:
            return self._get(location, reads)
        data = self._deadline.wait_for(self.path, lambda: self._get(location, reads))
        self._deadline.count(self.path, len(data))
        return data

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
            f"{self.path}: the object was replaced while it was read; open it again",
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


def find_store(url: str, options: StorageOptions | None = None) -> tuple[Any, str]:
    """Return the obstore store for the URL of an object or a folder, and the path within the store.

    Args:
        url: The URL.
        options: Options of the store. Missing options are read from the environment.

    Raises:
        ObjectStoreError: If the store or an option is unknown, or a setting that the store needs is missing.
    """
    from obstore.store import from_url

    bucket, key = split_url(url)
    arguments = store_arguments(url, options)
    with object_errors(url):
        return from_url(bucket, **arguments), key


class Stores:
    """The stores of several URLs, one for each bucket, so that their requests share connections.

    Args:
        options: Options of the stores.

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
