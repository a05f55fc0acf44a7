"""Both readers return the same rows of public files, over HTTP."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.clients.compare import compare
from tests.clients.reader import what_is_missing

CORPUS = Path(__file__).parents[1] / "corpus"

#: Those of tests/corpus that both readers can read, and more than one column of which can be compared.
FILES = {
    "hyparquet": ("bloom_filter",),
    "impala": ("alltypes_invalid_pages", "decimals_1_10", "nested_decimals"),
    "parquet-testing/geospatial": ("geospatial",),
    "parquet-java": ("test-file-with-no-column-indexes-1",),
    "parquet-testing": (
        "ARROW-GH-43605",
        "binary_truncated_min_max",
        "byte_stream_split.zstd",
        "data_index_bloom_encoding_stats",
        "datapage_v1-uncompressed-checksum",
        "datapage_v2.snappy",
        "delta_byte_array",
        "fixed_length_decimal",
        "float16_nonzeros_and_nans",
        "int32_decimal",
        "int32_with_null_pages",
        "nested_lists.snappy",
        "nullable.impala",
        "sort_columns",
    ),
}

if missing := what_is_missing():
    pytest.skip(missing, allow_module_level=True)


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_the_same_rows(tmp_path):
    paths = [CORPUS / folder / f"{name}.parquet" for folder, names in FILES.items() for name in names]
    found = list(compare(paths, tmp_path))
    assert [one for one in found if not one.is_same] == []
    assert len({one.name for one in found}) == len(paths) == 20
    assert sum(one.rows > 0 for one in found) > 40
