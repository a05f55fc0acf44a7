"""Files that are written with their indexes: all of it is inlaid before anyone sees them."""

from intarsia.write.report import WriteReport
from intarsia.write.writer import Writer, write_table

__all__ = ["WriteReport", "Writer", "write_table"]
