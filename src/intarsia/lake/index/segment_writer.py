"""Write a segment; `intarsia.lake.index.segment` describes and reads it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import xxhash

from intarsia.errors import IntarsiaError
from intarsia.file.schema import FileSchema
from intarsia.indexes.calling import call_index
from intarsia.indexes.filter_matrix import gather_filters
from intarsia.indexes.gathering import GatheredPart
from intarsia.indexes.streams import batch_to_bytes
from intarsia.lake.index.bounds import serialize_bounds
from intarsia.lake.index.facts import FileFacts
from intarsia.lake.index.gathered_key import GatheredKey, index_of
from intarsia.lake.index.segment import (
    BLOOM_KIND,
    FILE_COLUMNS,
    MAX_FAMILIES,
    SEGMENT_VERSION,
)
from intarsia.read.report import warn_caller
from intarsia.storage.sections import MAX_READ_BYTES, Section, serialize_sections


def serialize_segment(facts: Mapping[str, FileFacts]) -> bytes:
    """Serialize the facts of files.

    Args:
        facts: The facts of each file, by its path relative to the root of the lake.
    """
    families: dict[bytes, list[tuple[str, FileFacts]]] = {}
    for path, found in facts.items():
        key = _family_key(found.file.schema)
        if key in families or len(families) < MAX_FAMILIES:
            families.setdefault(key, []).append((path, found))
    rows, footers, offset = [], [], 0
    sections: list[Section] = []
    about: list[dict[str, Any]] = []
    for ordinal, files in enumerate(families.values()):
        for path, found in files:
            footer = found.file.footer
            raw = footer.raw
            rows.append(
                (path, *found.stamp[:3], found.stamp.e_tag, ordinal, footer.num_rows)
                + (
                    len(footer.metadata.row_groups),
                    footer.start,
                    offset,
                    len(raw),
                    xxhash.xxh3_64_intdigest(raw),
                )
            )
            footers.append(raw)
            offset += len(raw)
        gathered, parts = _gathered_sections(ordinal, [found for _, found in files])
        sections += [*_bounds_sections(ordinal, [found for _, found in files]), *parts]
        about.append({"gathered": gathered})
    columns = [
        pa.array(column, field.type)
        for column, field in zip(zip(*rows, strict=True), FILE_COLUMNS, strict=True)
    ]
    batch = pa.record_batch(columns, schema=FILE_COLUMNS)
    sections = [Section("files", batch_to_bytes(batch)), Section("footers", b"".join(footers)), *sections]
    return serialize_sections(sections, {"segment_version": SEGMENT_VERSION, "families": about})


def _family_key(schema: FileSchema) -> bytes:
    """Return bytes that are equal for schemas in which a predicate has the same meaning."""
    elements = repr([(leaf.path, leaf.element, leaf.logical) for leaf in schema.leaves]).encode()
    return elements + bytes(schema.arrow.remove_metadata().serialize())


def _bounds_sections(family: int, files: Sequence[FileFacts]) -> Iterator[Section]:
    schema = files[0].file.schema
    for ordinal in files[0].columns:
        ordering = schema.ordering(schema.leaves[ordinal])
        data = serialize_bounds([found.columns[ordinal] for found in files], ordering)
        yield Section(f"{family}/bounds/{ordinal}", data)


def _gathered_sections(family: int, files: Sequence[FileFacts]) -> tuple[list[dict[str, Any]], list[Section]]:
    about: list[dict[str, Any]] = []
    sections: list[Section] = []

    def add(entry: dict[str, Any], ordinals: Sequence[int], parts: Iterable[GatheredPart]) -> None:
        prefix = f"{family}/gathered/{len(about)}"
        sections.append(Section(prefix, np.array(ordinals, dtype="<u4").tobytes()))
        sections.extend(Section(f"{prefix}/{name}", data, piece) for name, data, piece in parts)
        about.append(entry)

    leaves = files[0].file.schema.leaves
    for ordinal in sorted({ordinal for found in files for ordinal in found.filters}):
        positions = [position for position, found in enumerate(files) if ordinal in found.filters]
        filters = [
            (at, bits) for at, position in enumerate(positions) for bits in files[position].filters[ordinal]
        ]
        add({"kind": BLOOM_KIND, "columns": [list(leaves[ordinal].path)]}, positions, gather_filters(filters))
    for key in sorted({key for found in files for key in found.digests}):
        positions = [position for position, found in enumerate(files) if key in found.digests]
        parts = _gather(key, [files[position].digests[key] for position in positions])
        if parts is not None:
            add({**key._asdict(), "parameters": json.loads(key.parameters)}, positions, parts)
    return about, sections


def _gather(key: GatheredKey, digests: Sequence[bytes]) -> Sequence[GatheredPart] | None:
    """Gather digests; None, with a warning, if the class fails, which may come from any package."""
    index = index_of(key)
    if index is None:
        return None

    def gather() -> Sequence[GatheredPart] | None:
        parts = index.gather(digests)
        if parts is not None:
            found = [Section(*part) for part in parts]
            num_bytes = len(serialize_sections(found, {}))  # checks the parts
            if num_bytes > MAX_READ_BYTES:
                raise ValueError(f"its structure has {num_bytes:,} bytes; the limit is {MAX_READ_BYTES:,}")
        return parts

    try:
        return call_index(gather)
    except (IntarsiaError, OSError) as error:
        warn_caller(f"{key.name} is left out of the lake index: {error}; results are still correct")
        return None
