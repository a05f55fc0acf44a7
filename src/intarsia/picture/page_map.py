"""The page map of a query, as an object: facts, a picture, and a page."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from intarsia.amounts import size
from intarsia.picture.facts import QueryFacts
from intarsia.picture.html import write_page
from intarsia.picture.svg import draw_query, in_notebook, sentence


@dataclass(frozen=True)
class PageMap:
    """A picture of one query: which pages were read, and which index skipped the others.

    A notebook shows it as an SVG. `Scan.map` returns one.

    Attributes:
        facts: The numbers in the picture.

    Example:
        >>> import intarsia as ia, pyarrow as pa, pyarrow.parquet as pq, tempfile, os
        >>> folder = tempfile.mkdtemp()
        >>> path = os.path.join(folder, "t.parquet")
        >>> pq.write_table(pa.table({"x": range(1000)}), path, row_group_size=500)
        >>> found = ia.open(path).scan("x < 3").map()
        >>> found.facts.result
        '3 rows'
        >>> found.save(os.path.join(folder, "map.html"))
        >>> found.svg().startswith("<svg")
        True
    """

    facts: QueryFacts

    def svg(self) -> str:
        """Return the picture as an SVG with the colours of both themes and no script."""
        return draw_query(self.facts)

    def html(self) -> str:
        """Return a page with the picture, its facts and the same numbers as tables; it requests nothing."""
        return write_page(self.facts)

    def to_dict(self) -> dict[str, Any]:
        """Return the facts as a JSON object; keys do not change, but more may be added."""
        return self.facts.to_dict()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page, or for a name that ends in ``.svg`` the picture.

        Args:
            path: The file, which is replaced if it exists.

        Raises:
            OSError: If it cannot be written.
        """
        target = Path(path)
        text = self.svg() if target.suffix.lower() == ".svg" else self.html()
        target.write_text(text, encoding="utf-8")

    @property
    def summary(self) -> str:
        """The answer in one line."""
        facts = self.facts
        return f"{size(facts.num_read)} of {size(facts.num_bytes)} {sentence(facts)}; {facts.result}"

    def __repr__(self) -> str:
        return f"<PageMap of {self.facts.where or 'all rows'!r}: {self.summary}>"

    def _repr_html_(self) -> str:
        return in_notebook(self.svg())
