"""An open Parquet file: its footer, its schema, its page index, and its pages decoded by pyarrow."""

from intarsia.file.parquet_file import REMOTE_TAIL_BYTES, ChunkKey, Ignored, ParquetInput

__all__ = ["REMOTE_TAIL_BYTES", "ChunkKey", "Ignored", "ParquetInput"]
