"""A page map as one page: the facts, and a script that draws them and shows those under the pointer.

The modules of the script are joined, because a page that requests nothing cannot import them.
"""

from __future__ import annotations

import base64
import json
import re
import zlib
from functools import cache
from html import escape
from importlib.resources import files

from intarsia.amounts import size
from intarsia.picture.facts import QueryFacts
from intarsia.picture.svg import sentence


def write_page(facts: QueryFacts) -> str:
    """Return a page that needs no network, and that its own policy forbids to use one.

    The facts are deflated JSON in base64; browsers inflate it since 2023.
    """
    text = json.dumps(facts.to_dict(), separators=(",", ":"), default=str, ensure_ascii=False)
    packed = base64.b64encode(zlib.compress(text.encode(), 9, wbits=-15)).decode()
    condition = facts.where or "all rows"
    verb = "are" if facts.is_plan else "were"
    read = f"{size(facts.num_read)} of {size(facts.num_bytes)} {verb} {sentence(facts)}"
    answer = f"{read}. {facts.result}."
    values = {
        "title": escape(f"{facts.title}: {condition}"),
        "condition": escape(condition),
        "answer": escape(answer),
        "style": _template("page.css"),
        "script": _script(),
        "facts": packed,
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda match: values[match[1]], _template("page.html"))


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
