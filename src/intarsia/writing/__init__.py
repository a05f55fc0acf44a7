"""Files that are written with their indexes: all of it is inlaid before anyone sees them."""

from intarsia.writing.report import WriteReport
from intarsia.writing.writer import Writer, write_table

__all__ = ["WriteReport", "Writer", "write_table"]
