"""Indexes for files that exist: attached without touching a data byte, and detached without a trace."""

from intarsia.retrofit.attach import attach
from intarsia.retrofit.bloom import Bloom
from intarsia.retrofit.detach import detach
from intarsia.retrofit.page_index import PageIndex
from intarsia.retrofit.report import AttachReport, DetachReport, Skipped
from intarsia.retrofit.statistics import Statistics

__all__ = [
    "AttachReport",
    "Bloom",
    "DetachReport",
    "PageIndex",
    "Skipped",
    "Statistics",
    "attach",
    "detach",
]
