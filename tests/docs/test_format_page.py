"""``docs/format.md`` specifies the payload of every built-in kind."""

from pathlib import Path

import intarsia as ia

PAGE = Path(__file__).parents[2] / "docs" / "format.md"


def test_every_embedded_kind_has_a_section():
    headings = {line for line in PAGE.read_text().splitlines() if line.startswith("### ")}
    public = [getattr(ia, name) for name in ia.__all__]
    classes = [value for value in public if hasattr(value, "kind") and hasattr(value, "build")]
    assert ia.Histogram in classes
    missing = {f"### `{index.kind}`, version {index.version}" for index in classes} - headings
    assert not missing
