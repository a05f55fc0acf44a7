"""Attach indexes to existing files without changing a data byte, and detach them again."""

from intarsia.embed.chunk_statistics import Bloom as Bloom
from intarsia.embed.chunk_statistics import Statistics as Statistics
from intarsia.embed.many import attach as attach
from intarsia.embed.many import detach as detach
from intarsia.embed.page_index import PageIndex as PageIndex
from intarsia.embed.report import AttachReport as AttachReport
from intarsia.embed.report import DetachReport as DetachReport
from intarsia.embed.report import IndexedFile as IndexedFile
from intarsia.embed.report import IndexReport as IndexReport
from intarsia.embed.report import Note as Note
from intarsia.embed.report import RestoreReport as RestoreReport
