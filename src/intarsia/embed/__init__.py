"""Attach indexes to existing files without changing a data byte, and detach them again."""

from intarsia.embed.chunk_statistics import Bloom, Statistics
from intarsia.embed.many import attach, detach
from intarsia.embed.page_index import PageIndex
from intarsia.embed.report import AttachReport, DetachReport, IndexedFile, IndexReport, Note, RestoreReport

__all__ = [
    "AttachReport",
    "Bloom",
    "DetachReport",
    "IndexReport",
    "IndexedFile",
    "Note",
    "PageIndex",
    "RestoreReport",
    "Statistics",
    "attach",
    "detach",
]
