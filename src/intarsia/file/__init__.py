"""An open Parquet file: footer, schema, page index, and decoding of pages with pyarrow."""

from intarsia.file.metadata import ChunkKey, FileMetadata, Ignored
from intarsia.file.parquet_file import ParquetInput, read_raw_footer
from intarsia.tuning import REMOTE_TAIL_BYTES

__all__ = ["REMOTE_TAIL_BYTES", "ChunkKey", "FileMetadata", "Ignored", "ParquetInput", "read_raw_footer"]
