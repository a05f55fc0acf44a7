"""The stores of objects that jobs and enabled sessions read, with the settings and the credentials of Spark.

Those of enabled sessions come with each request of the JVM. Secrets are kept only in the open stores;
messages do not contain them.
"""

from __future__ import annotations

import functools
import inspect
import json
import os
import threading
import warnings
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from datetime import datetime, timezone
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar

from intarsia.errors import IntarsiaWarning
from intarsia.spark.listing import Source, location_of, paths_of, python_path
from intarsia.spark.rules import RuleLoader
from intarsia.spark.sessions import is_connect
from intarsia.storage import StorageOptions, find_store, offered_options, split_url

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Number of stores that are kept open, with their connections.
_STORES: Final = 8


def keep(cache: OrderedDict[Hashable, Any], key: Hashable, value: Any, most: int) -> None:
    """Set the value of a key, and forget those of the keys that were set first, if there are too many."""
    cache[key] = value
    cache.move_to_end(key)
    while len(cache) > most:
        cache.popitem(last=False)


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
            keep(self._stores, digest, store, _STORES)
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


#: The schemes of objects in Hadoop.
_SCHEMES = ("s3a://", "s3://", "abfs://", "abfss://", "gs://")


def options_of_spark(spark: SparkSession, source: Source) -> dict[str, StorageOptions]:
    """Return the options of the stores of some paths or tables, by their URLs.

    Args:
        spark: The session. A client of Connect has no options, nor has one without the store's file system.
        source: The paths and tables.
    """
    found: dict[str, StorageOptions] = {}
    if is_connect(spark):
        return found
    for name in paths_of(source):
        location = location_of(spark, name)
        if not location.startswith(_SCHEMES):
            continue
        conf = spark._jsparkSession.sessionState().newHadoopConf()
        loader = RuleLoader(spark, needs_executors=False)
        settings = str(loader.call("intarsia.spark.StoreSettings", "json", location, conf))
        found |= options_of_store(python_path(location, decode=False), settings)
        if (reason := json.loads(settings).get("reason")) is not None:
            warnings.warn(
                f"{location}: the job has the settings of the environment, not those of Spark: {reason}",
                IntarsiaWarning,
                stacklevel=4,
            )
    return found


_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


def with_stores_of_spark(job: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
    """Let a job on a lake, and its tasks, access objects with the settings and the credentials of Spark.

    Args:
        job: A function of a session, ``spark``, and of the lake, ``path``.
    """
    signature = inspect.signature(job)

    @functools.wraps(job)
    def run(*arguments: _Arguments.args, **named: _Arguments.kwargs) -> _Result:
        called = signature.bind(*arguments, **named).arguments
        with offered_options(options_of_spark(called["spark"], called["path"])):
            return job(*arguments, **named)

    return run
