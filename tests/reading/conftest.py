"""Files with known pages, for tests that count reads."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest

from tests.reading.pages import ROWS_PER_GROUP, layout_of, sorted_table


@pytest.fixture(scope="session", params=["1.0", "2.0"], ids=["v1", "v2"])
def sorted_file(request, tmp_path_factory):
    """A table sorted by ``key`` in three row groups, whose columns have pages of very different sizes."""
    table = sorted_table()
    path = tmp_path_factory.mktemp("counting") / "sorted.parquet"
    pq.write_table(
        table,
        path,
        row_group_size=ROWS_PER_GROUP,
        use_dictionary=["small"],
        write_page_index=True,
        data_page_size=1500,
        write_batch_size=50,
        data_page_version=request.param,
        compression="zstd",
    )
    layout = layout_of(path)
    heights = {column: len(pages) for column, pages in layout.pages.items()}
    assert heights["flag"] < heights["small"] < heights["key"] < heights["text"]
    return table, path, layout
