"""Byte-level input and output: byte ranges, local files, object stores, atomic replacement."""

from intarsia.storage.local import CLOCK_TICK_SECONDS, LocalFile, identity_of, local_path
from intarsia.storage.objects import (
    MAX_CONCURRENT_REQUESTS,
    ObjectIdentity,
    ObjectStoreFile,
    StorageOptions,
    Stores,
    current_options,
    find_store,
    offered_options,
    split_url,
)
from intarsia.storage.ranges import ByteRange, CachedRanges, SparseBytes, coalesce, joined
from intarsia.storage.running_query import (
    QueryReads,
    ReadRange,
    counting,
    current_reads,
    reading_indexes,
)
from intarsia.storage.source import (
    BufferedSource,
    ByteSource,
    CountedSource,
    IoCounts,
    MemorySource,
)

__all__ = [
    "CLOCK_TICK_SECONDS",
    "MAX_CONCURRENT_REQUESTS",
    "BufferedSource",
    "ByteRange",
    "ByteSource",
    "CachedRanges",
    "CountedSource",
    "IoCounts",
    "LocalFile",
    "MemorySource",
    "ObjectIdentity",
    "ObjectStoreFile",
    "QueryReads",
    "ReadRange",
    "SparseBytes",
    "StorageOptions",
    "Stores",
    "coalesce",
    "counting",
    "current_options",
    "current_reads",
    "find_store",
    "identity_of",
    "joined",
    "local_path",
    "offered_options",
    "reading_indexes",
    "split_url",
]
