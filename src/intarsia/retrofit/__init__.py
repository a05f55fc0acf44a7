"""Indexes for files that exist: attached without touching a data byte, and detached without a trace."""

from intarsia.retrofit.attach import attach
from intarsia.retrofit.detach import detach
from intarsia.retrofit.page_index import PageIndex, Skipped
from intarsia.retrofit.report import AttachReport, DetachReport

__all__ = ["AttachReport", "DetachReport", "PageIndex", "Skipped", "attach", "detach"]
