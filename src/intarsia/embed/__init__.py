"""Attach indexes to existing files without changing a data byte, and detach them again."""

from intarsia.embed.attach import attach
from intarsia.embed.bloom import Bloom
from intarsia.embed.detach import detach
from intarsia.embed.page_index import PageIndex
from intarsia.embed.report import AttachReport, DetachReport, Note
from intarsia.embed.statistics import Statistics

__all__ = [
    "AttachReport",
    "Bloom",
    "DetachReport",
    "Note",
    "PageIndex",
    "Statistics",
    "attach",
    "detach",
]
