"""Check a chunk's Bloom filter against its values."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc
import xxhash

from intarsia.check.inspection import human_value
from intarsia.check.inspection.values import shown
from intarsia.check.verification.chunk import CheckedChunk
from intarsia.check.verification.findings import Findings
from intarsia.errors import FormatError
from intarsia.file import ParquetInput
from intarsia.format.bloom import FilterLocation, might_contain
from intarsia.format.enums import Type
from intarsia.format.structs import ColumnMetaData
from intarsia.storage import ByteRange

_BLOOM_FILTER = "BloomFilter"


def check_bloom_filter(file: ParquetInput, chunk: CheckedChunk, findings: Findings) -> None:
    """Look up every distinct value of a chunk in its Bloom filter."""
    bits = _read_bits(file, chunk.meta, findings)
    if bits is None:
        return
    values = _plain_values(chunk)
    if values is None:
        message = "its values cannot be decoded, or their hashed form is undefined"
        findings.add("unchecked", message, index=_BLOOM_FILTER)
        return
    findings.count_checked("bloom_filters")
    hashes = np.fromiter(map(xxhash.xxh64_intdigest, values), dtype=np.uint64, count=len(values))
    excluded = np.flatnonzero(~might_contain(bits, hashes))
    if len(excluded):
        example = shown(human_value(chunk.leaf, values[int(excluded[0])]))
        message = f"it excludes {len(excluded)} of {len(values)} present distinct values, such as {example}"
        findings.add("bloom-filter-excludes-values", message, index=_BLOOM_FILTER)


def _read_bits(file: ParquetInput, meta: ColumnMetaData, findings: Findings) -> bytes | None:
    bits = locate_bits(file, meta, findings)
    return None if bits is None else file.source.read(*bits)


def locate_bits(file: ParquetInput, meta: ColumnMetaData, findings: Findings) -> ByteRange | None:
    """Return the location of a filter's bits, by its header; None, and a finding, if it cannot be read."""
    body_stop = file.footer.start
    try:
        location = FilterLocation.of(meta, body_stop)
        by_header = FilterLocation(location.start, body_stop)
        start, stop = by_header.bits(file.source.read(*by_header.head))
    except FormatError as error:
        findings.add("bloom-filter-unreadable", error.message, index=_BLOOM_FILTER)
        return None
    try:
        location.check_length(stop)
    except FormatError as error:  # readers that do not compare the lengths use the bits
        findings.add("bloom-filter-length", error.message, index=_BLOOM_FILTER)
    return ByteRange(start, stop)


def _plain_values(chunk: CheckedChunk) -> list[bytes] | None:
    """Return the distinct values in their hashed form; None if that is uncertain."""
    ordering = chunk.ordering
    if chunk.values is None or chunk.leaf.type == Type.BOOLEAN:
        return None
    is_decimal = ordering is not None and ordering.decimal
    if chunk.leaf.type == Type.INT96 or (is_decimal and chunk.leaf.type == Type.BYTE_ARRAY):
        stored: list[bytes] = pc.unique(chunk.stored_values).to_pylist()
        return stored
    if ordering is None:
        return None
    if ordering.wire is not None:
        numbers: npt.NDArray[Any] = chunk.numbers
        if ordering.is_float:  # by bits, because the zeros have different hashes; NaN is not looked up
            numbers = _distinct(numbers[~np.isnan(numbers)].view(np.int64)).view(np.float64)
        else:
            numbers = _distinct(numbers)
        raw, width = numbers.astype(ordering.wire).tobytes(), ordering.wire.itemsize
        return [raw[start : start + width] for start in range(0, len(raw), width)]
    distinct = pc.unique(chunk.values)
    if ordering.decimal:
        return [ordering.encode(key) for key in ordering.keys(distinct)]
    return list(ordering.keys(distinct))


def _distinct(numbers: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the distinct numbers in order, by sorting, which is faster than NumPy's hashes."""
    ordered = np.sort(numbers)
    is_new = np.ones(len(ordered), dtype=bool)
    np.not_equal(ordered[1:], ordered[:-1], out=is_new[1:])
    return ordered[is_new]
