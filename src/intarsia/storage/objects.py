"""Objects behind URLs, read through obstore."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from intarsia.errors import ReplacedWhileReadError
from intarsia.storage.object_errors import is_range_refused, object_errors
from intarsia.storage.ranges import ByteRange

#: Requests to an object store that are under way at once, for one `ByteSource.read_ranges`.
MAX_CONCURRENT_REQUESTS = 16


class ObjectIdentity(NamedTuple):
    """What a store says of an object when it is listed, or asked about.

    Attributes:
        size_bytes: Its length.
        e_tag: Changes whenever the object does; None if the store has none.
        modified: When it was written last, in seconds since 1970; None if the store does not say.
    """

    size_bytes: int
    e_tag: str | None
    modified: float | None

    @classmethod
    def of(cls, meta: Mapping[str, Any]) -> ObjectIdentity:
        """What obstore says of an object."""
        modified = meta.get("last_modified")
        return cls(
            int(meta["size"]), meta.get("e_tag"), None if modified is None else float(modified.timestamp())
        )

    @property
    def is_conclusive(self) -> bool:
        """Whether an object that has the same identity has the same bytes."""
        return self.e_tag is not None


class ObjectStoreFile:
    """An object behind a URL (``s3://``, ``gs://``, ``az://``, ``https://``), read through obstore.

    Args:
        store: An obstore store (or any object with obstore's interface).
        key: The object's path within the store.
        path: The name to show in messages; the URL it came from.
        known: What a listing said of it; None to ask the store.

    The object is read as it was when it was opened: should it be replaced meanwhile, a read fails, since the
    footer of one object says nothing about the bytes of another.
    """

    #: As obstore does by itself; doing it here keeps the count honest.
    coalesce_bytes = 1 << 20

    def __init__(self, store: Any, key: str, path: str, known: ObjectIdentity | None = None) -> None:
        self.path = path
        self._store = store
        self._key = key
        found = known or ask_identity(store, key, path)
        self._size = found.size_bytes
        self.e_tag = found.e_tag
        self.identity = found if found.is_conclusive else None

    def size(self) -> int:
        """Length of the object in bytes, when it was opened."""
        return self._size

    def read_ranges(self, ranges: Sequence[ByteRange]) -> list[bytes]:
        """The bytes of each range, fetched concurrently.

        Raises:
            ReplacedWhileReadError: If the object is no longer the one that was opened.
            FileNotFoundError: If there is none any more.
            ObjectStoreError: If the store cannot be reached, or refuses.
        """
        if len(ranges) < 2:
            return [self._read(place) for place in ranges]
        with ThreadPoolExecutor(min(len(ranges), MAX_CONCURRENT_REQUESTS)) as pool:
            return list(pool.map(self._read, ranges))

    def _read(self, place: ByteRange) -> bytes:
        import obstore
        from obstore.exceptions import GenericError

        with object_errors(self.path):
            try:
                result = obstore.get(self._store, self._key, options={"range": (place.start, place.stop)})
                data = bytes(result.bytes())
            except GenericError as error:
                # a range of the object that was opened can only lie outside of another one
                if is_range_refused(error) and self._is_another(obstore.head(self._store, self._key)):
                    raise self._replaced() from None
                raise
        # compared here: a weak ETag cannot be sent as a condition, and some servers do not know conditions
        if self._is_another(result.meta):
            raise self._replaced()
        return data

    def _is_another(self, meta: Any) -> bool:
        """Whether what a store says of the object is not what it said when it was opened."""
        found = meta.get("e_tag")
        is_other_version = self.e_tag is not None and found is not None and found != self.e_tag
        return is_other_version or int(meta["size"]) != self._size

    def _replaced(self) -> ReplacedWhileReadError:
        return ReplacedWhileReadError(
            f"{self.path}: the object was replaced while it was read; open it again"
        )

    def close(self) -> None:
        """Nothing is held between requests."""


def ask_identity(store: Any, key: str, path: str) -> ObjectIdentity:
    """What a store says of an object; one request.

    Raises:
        ObjectStoreError: If the store cannot be reached, or refuses.
    """
    import obstore

    with object_errors(path):
        return ObjectIdentity.of(obstore.head(store, key))


def find_store(url: str) -> tuple[Any, str]:
    """The obstore store that the URL of an object or a folder of them means, and the path within it.

    Raises:
        ObjectStoreError: If obstore knows no such store, or it needs what the environment does not say.
    """
    from obstore.store import from_url

    scheme, separator, rest = url.partition("://")
    bucket, _, key = rest.partition("/")
    plain: Any = {"client_options": {"allow_http": True}} if scheme.lower() == "http" else {}
    with object_errors(url):
        return from_url(f"{scheme}{separator}{bucket}", **plain), key
