"""A random sample of the file's rows, with all columns.

The payload is an Arrow IPC stream with Zstandard-compressed buffers. The first column has the row ordinals in
the file, int64, ascending. The others are the columns of the file, in its order, with the types from
``pyarrow.parquet.read_table``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from intarsia.arrow.comparison import comparison_array, comparison_type
from intarsia.arrow.nested import field_type, field_values
from intarsia.arrow.owned_rows import with_short_dictionaries
from intarsia.errors import IndexBuildError
from intarsia.format.arrow_stream import check_expanded
from intarsia.indexes.base import Index, OpenIndex
from intarsia.indexes.granules import batch_to_bytes, damaged_payload, open_stream, other_rows
from intarsia.indexes.layout import ColumnData, Layout, check_integer
from intarsia.predicate.bound import Condition
from intarsia.predicate.evaluate import condition_mask
from intarsia.rows.selection import Rows

_ORDINAL = "ordinal"


@dataclass(frozen=True)
class Sample(Index):
    """A uniform sample of the file's rows, drawn without replacement.

    `Table.sample` merges the samples of files without reading data. A sample can estimate the matching rows
    of any condition, including those that a histogram cannot. It does not skip rows.

    Args:
        n: The number of rows. A file with fewer rows is sampled as a whole.
        seed: The same seed draws the same rows of a file, as long as NumPy's ``default_rng`` does not change.

    Example:
        >>> import intarsia as ia
        >>> ia.Sample(1000)
        Sample(n=1000, seed=0)
    """

    kind: ClassVar[str] = "sample"
    version: ClassVar[int] = 1
    purpose: ClassVar[str] = "draw random rows, and estimate numbers of matching rows"

    n: int
    seed: int = 0

    def __post_init__(self) -> None:
        """Check the parameters, which are used before a payload is read."""
        for name in ("n", "seed"):
            check_integer(self, name, 0)

    @property
    def columns(self) -> tuple[str, ...]:
        """Empty, because a sample contains whole rows."""
        return ()

    def can_estimate(self, condition: Condition) -> bool:
        """Return True: a sample has every column."""
        return True

    def num_sampled(self, num_rows: int) -> int:
        """Return the size of the sample: ``n``, or all rows."""
        return min(self.n, num_rows)

    def build(self, chunk: ColumnData) -> bytes:
        """Draw rows at random, and store them with their ordinals."""
        ordinals = draw(chunk.layout.num_rows, self.n, np.random.default_rng(self.seed))
        found = chunk.rows(ordinals)
        try:
            rows = with_short_dictionaries(found.combine_chunks())
            fields = [pa.field(_ORDINAL, pa.int64(), nullable=False), *rows.schema]
            table = pa.Table.from_arrays([pa.array(ordinals), *rows.columns], schema=pa.schema(fields))
            table.validate(full=True)  # as `open` does: text may not be UTF-8
            payload = batch_to_bytes(table, "zstd")
            check_expanded(payload)
            kept = open_stream(payload).schema
        except (pa.ArrowException, ValueError) as error:
            raise IndexBuildError(
                f"Sample: rows of these types cannot be stored: {error}", reason="type-not-storable"
            ) from error
        changed = [field.name for field, there in zip(fields, kept, strict=True) if field.type != there.type]
        if changed:
            raise IndexBuildError(
                f"Sample: Arrow IPC does not preserve the types of {', '.join(changed)}; omit the index",
                reason="type-not-storable",
                column=changed[0],
            )
        return payload

    def open(self, payload: bytes, layout: Layout) -> OpenSample:
        """Open the sampled rows."""
        try:
            check_expanded(payload)
            with open_stream(payload) as reader:
                table = reader.read_all()
            table.validate(full=True)
            is_ordinal = table.num_columns > 0 and table.schema.field(0).type == pa.int64()
            if not is_ordinal or table.column(0).null_count:
                raise ValueError("its first column is not row ordinals")
        except (pa.ArrowException, ValueError, OSError) as error:
            raise damaged_payload("Sample", error) from error
        ordinals = table.column(0).to_numpy()
        is_ascending = bool((np.diff(ordinals) > 0).all())
        is_inside = not len(ordinals) or (ordinals[0] >= 0 and ordinals[-1] < layout.num_rows)
        if not is_ascending or not is_inside or len(ordinals) != min(self.n, layout.num_rows):
            raise other_rows("Sample")
        return OpenSample(layout.num_rows, ordinals, table.remove_column(0))


@dataclass(frozen=True)
class OpenSample(OpenIndex):
    """A sample of the rows of a file.

    Attributes:
        ordinals: The ordinals of the sampled rows, ascending.
        rows: The sampled rows, with all columns.
    """

    num_rows: int
    ordinals: Rows
    rows: pa.Table

    def estimated_rows(self, condition: Condition) -> float | None:
        """Estimate the number of rows of the file that match a condition, or None if the column is missing.

        If ``k`` of the ``n`` sampled rows match, the estimated share of matches among the other rows is
        ``(k + 1) / (n + 2)`` (Laplace's rule of succession). So rare values are not estimated to be absent.
        """
        path, ordinals = condition.path, self.rows.schema.get_all_field_indices(condition.path[0])
        column = self.rows.column(ordinals[0]) if len(ordinals) == 1 else None
        if column is None or field_type(column.type, path[1:]) is None:
            return None
        values = field_values(column, path[1:])
        plain = comparison_array(values, comparison_type(values.type))
        try:
            compared = plain if plain.type == condition.type else plain.cast(condition.type)
        except pa.ArrowException:  # the column has another type in other files of the table
            return None
        hits = sum(condition_mask(condition, chunk).true_count for chunk in compared.chunks)
        unseen = self.num_rows - len(self.ordinals)
        return float(hits + unseen * (hits + 1) / (len(self.ordinals) + 2))


def draw(num_rows: int, n: int, rng: np.random.Generator) -> Rows:
    """Draw ``n`` row ordinals, or all, uniformly and without replacement, in ascending order.

    Example:
        >>> draw(3, 5, np.random.default_rng(0))
        array([0, 1, 2])
    """
    if n >= num_rows:
        return np.arange(num_rows, dtype=np.int64)
    return np.sort(rng.choice(num_rows, n, replace=False, shuffle=False)).astype(np.int64)
