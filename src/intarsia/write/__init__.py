"""Writing Parquet files together with their indexes."""

from intarsia.write.output import WriteReport
from intarsia.write.writer import Writer, write_table

__all__ = ["WriteReport", "Writer", "write_table"]
