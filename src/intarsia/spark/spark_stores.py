"""The stores of the objects that an enabled session reads, with the settings and the credentials of Spark.

They come with each request of the JVM. Secrets are kept only in the open stores; messages do not contain
them.
"""

from __future__ import annotations

import json
import os
import threading
from collections import OrderedDict
from collections.abc import Hashable, Mapping
from datetime import datetime, timezone
from hashlib import blake2b
from typing import Any, Final

from intarsia.spark.listing import python_path
from intarsia.storage import StorageOptions, find_store, split_url

#: Number of stores that are kept open, with their connections.
_STORES: Final = 8


class Credentials:
    """A provider of credentials for obstore that can be sent to executors, and has no ``repr`` of them."""

    def __init__(self, found: Mapping[str, Any]) -> None:
        self._found = dict(found)

    def __call__(self) -> dict[str, Any]:
        """Return a key with its secret, or a token, and when it expires."""
        expires_ms = self._found.get("expires_at_ms")
        found = {name: value for name, value in self._found.items() if name != "expires_at_ms"}
        expires = None if expires_ms is None else datetime.fromtimestamp(expires_ms / 1000, timezone.utc)
        return {**found, "expires_at": expires}


def storage_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of `intarsia.open` for those of ``StoreSettings.java``."""
    settings = dict(options)
    credentials = settings.pop("credentials")
    # not as settings, which the environment would complete with its own
    if credentials:
        return {**settings, "credential_provider": Credentials(credentials)}
    return {**settings, "skip_signature": True}


def options_of_store(url: str, settings: str) -> dict[str, StorageOptions]:
    """Return the options of the store of an object, by the URL of the store.

    Args:
        url: The URL of the object, or its path.
        settings: The answer of ``StoreSettings.json``; empty for a file. Without options, there are none.
    """
    found = json.loads(settings or "{}").get("options")
    return {} if found is None else {split_url(url)[0]: storage_options(found)}


class SparkStores:
    """The open stores, by a digest of the settings of Spark."""

    def __init__(self) -> None:
        self._salt = os.urandom(16)
        self._lock = threading.Lock()
        self._stores: OrderedDict[Hashable, Any] = OrderedDict()

    def find(self, name: str, options: Mapping[str, Any], timeout_ms: int) -> tuple[Any, bytes]:
        """Return a store, and a digest of its name and its options.

        Args:
            name: The URL of the bucket.
            options: Options of `intarsia.open`, and ``credentials``, which are empty for anonymous access.
            timeout_ms: The time limit of a plan; 0 for none.
        """
        text = json.dumps([name, options, timeout_ms], sort_keys=True)
        digest = blake2b(text.encode(), key=self._salt, digest_size=16).digest()
        with self._lock:
            store = self._stores.get(digest)
            if store is None:
                settings = dict(options)
                if timeout_ms:
                    settings["deadline_seconds"] = timeout_ms / 1000
                store, _ = find_store(name, storage_options(settings))
            self._stores[digest] = store
            self._stores.move_to_end(digest)
            while len(self._stores) > _STORES:
                self._stores.popitem(last=False)
        return store, digest


class SparkObjects:
    """The stores of the objects of a request.

    Args:
        request: The request.
        known: The open stores.

    Attributes:
        stores: By the URL of the bucket, with a slash at its end: the store, and a digest of how it is read.
        unplannable: Why the objects of a store cannot be planned; None if there are none.
    """

    def __init__(self, request: Mapping[str, Any], known: SparkStores) -> None:
        self.stores: dict[str, tuple[Any, bytes]] = {}
        self.unplannable: str | None = None
        for name, found in request.get("stores", {}).items():
            if "reason" in found:
                self.unplannable = found["reason"]
            else:
                url = python_path(f"{name}/", decode=False)
                self.stores[url] = known.find(
                    url.rstrip("/"), found["options"], request["settings"]["timeout_ms"]
                )

    def store_of(self, path: str) -> Any | None:
        """Return the store of an object or a folder; None if it has none that can be planned."""
        return next((store for url, (store, _) in self.stores.items() if path.startswith(url)), None)

    @property
    def digests(self) -> tuple[bytes, ...]:
        """The digests of all stores."""
        return tuple(digest for _, digest in self.stores.values())
