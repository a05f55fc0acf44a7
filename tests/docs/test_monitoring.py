"""``docs/monitoring.md`` sets attributes of the current span, in types that OpenTelemetry accepts."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia

PAGE = Path(__file__).resolve().parents[2] / "docs" / "monitoring.md"


@pytest.fixture
def span(monkeypatch):
    """The attributes of a span, which a package with the interface of OpenTelemetry sets."""
    attributes = {}
    package = ModuleType("opentelemetry")
    package.trace = SimpleNamespace(
        get_current_span=lambda: SimpleNamespace(set_attributes=attributes.update)
    )
    monkeypatch.setitem(sys.modules, "opentelemetry", package)
    return attributes


def test_attributes(span, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("lake").mkdir()
    for day in range(2):
        pq.write_table(pa.table({"x": range(1000 * day, 1000 * day + 1000)}), f"lake/{day}.parquet")
    (code,) = re.findall(r"^```py\n(.*?)^```", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    names = {}
    exec(compile(code, str(PAGE), "exec"), names)
    scan = names["table"].scan("x < 3")
    scan.to_arrow()
    assert all(type(value) in (str, bool, int, float) for value in span.values())
    assert span["db.response.returned_rows"] == 3
    assert (span["intarsia.files.total"], span["intarsia.files.read"]) == (2, 1)
    assert span["intarsia.bytes.read"] == scan.report.bytes_read
    assert "error.type" not in span
    Path("lake/0.parquet").write_bytes(b"no Parquet file")
    with pytest.raises(ia.CorruptFileError):
        ia.open("lake/", on_report=names["to_span"]).count("x < 3")
    assert span["error.type"] == "CorruptFileError"
