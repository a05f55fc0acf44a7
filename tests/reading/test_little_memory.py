"""A sound file is not called corrupt if it cannot be read because there is too little memory."""

from __future__ import annotations

import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.child import run

#: Prints the error of each action in a process that can allocate only 32 MiB more than before.
PROGRAM = """
import resource, sys
import pyarrow as pa
import intarsia as ia
from intarsia.file.claims import decompress
from intarsia.format.enums import CompressionCodec

pa.set_memory_pool(pa.system_memory_pool())  # other pools have reserved more than they use
path = sys.argv[1]
body = pa.compress(bytes(128 << 20), codec="zstd", asbytes=True)
with open("/proc/self/statm") as statm:
    used_bytes = int(statm.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used_bytes + (32 << 20),) * 2)
for act in (
    lambda: ia.open(path).scan("x >= 0").to_arrow(),
    lambda: ia.attach(path, ia.Bloom("x")),
    lambda: ia.verify(path),
    lambda: decompress(body, CompressionCodec.ZSTD, 128 << 20),
):
    try:
        act()
    except Exception as error:
        # that of Python or of pyarrow: which of them allocates first differs from process to process
        print("MemoryError" if isinstance(error, MemoryError) else type(error).__name__)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not limit the memory of a process")
def test_too_little_memory_is_not_a_defect_of_the_file(tmp_path):
    path = tmp_path / "large.parquet"
    rows = pa.table({"x": np.zeros(1 << 24, np.int64)})
    pq.write_table(rows, path, compression="zstd", use_dictionary=False, row_group_size=1 << 24)
    assert run(PROGRAM, path).split() == ["MemoryError"] * 4
