"""Pictures of queries and files: facts as plain values, an SVG of them, and a page that explores them.

The page of a query has the facts, and a script that draws them and shows those under the pointer. The modules
of the script are joined, because a page that requests nothing cannot import them.
"""

from __future__ import annotations

import base64
import json
import os
import re
import zlib
from functools import cache
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from intarsia.amounts import size
from intarsia.picture.facts import QueryFacts
from intarsia.picture.svg import Bar, draw_bars, draw_query, in_notebook, sentence
from intarsia.records import dataclass

__all__ = ["Bar", "PageMap", "draw_bars", "in_notebook"]


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
        """Return a page with the picture, its facts and the same numbers as tables.

        It needs no network, and its own policy forbids it to use one.
        """
        facts, condition = self.facts, self.facts.where or "all rows"
        text = json.dumps(facts.to_dict(), separators=(",", ":"), default=str)
        verb = "are" if facts.is_plan else "were"
        read = f"{size(facts.num_read)} of {size(facts.num_bytes)} {verb} {sentence(facts)}"
        deflate = zlib.compressobj(9, wbits=-15)  # zlib.compress takes wbits from Python 3.11 on
        values = {
            "title": escape(f"{facts.title}: {condition}"),
            "condition": escape(condition),
            "answer": escape(f"{read}. {facts.result}."),
            "style": _template("page.css"),
            "script": _script(),
            # browsers inflate deflated JSON in base64 since 2023
            "facts": base64.b64encode(deflate.compress(text.encode()) + deflate.flush()).decode(),
        }
        return re.sub(r"\{\{(\w+)\}\}", lambda match: values[match[1]], _template("page.html"))

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
        # names of files may have no UTF-8 form
        target.write_text(text, encoding="utf-8", errors="backslashreplace")

    @property
    def summary(self) -> str:
        """The answer in one line."""
        facts = self.facts
        return f"{size(facts.num_read)} of {size(facts.num_bytes)} {sentence(facts)}; {facts.result}"

    def __repr__(self) -> str:
        return f"<PageMap of {self.facts.where or 'all rows'!r}: {self.summary}>"

    def _repr_html_(self) -> str:
        return in_notebook(self.svg())


#: The modules of the script, each after those that it imports.
_MODULES = (
    *("words", "states", "elements", "canvas", "answer", "files"),
    *("chart", "bytes", "tables", "pages", "map", "start"),
)


@cache
def _script() -> str:
    """Return the modules as one script, without their imports, exports and types."""
    text = "\n".join(_template(f"{name}.js") for name in _MODULES)
    text = re.sub(r"/\*\*.*?\*/\s*", "", text, flags=re.DOTALL)
    text = re.sub(r"^(//|import ).*\n", "", text, flags=re.MULTILINE)
    return '"use strict";\n' + re.sub(r"^export ", "", text, flags=re.MULTILINE)


@cache
def _template(name: str) -> str:
    return files("intarsia.picture").joinpath("page", name).read_text("utf-8")
