"""The JavaScript reader as a process, and the form of its questions."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa

CLIENT = Path(__file__).parents[2] / "clients" / "js"


def what_is_missing() -> str | None:
    """Return what the reader needs and the machine does not have, or None."""
    if shutil.which("node") is None:
        return "needs Node.js 20.11 or newer"
    if not (CLIENT / "node_modules" / "hyparquet").is_dir():
        return "needs the dependencies of clients/js; run `make js`"
    return None


def answers(questions: Iterable[dict]) -> list[dict]:
    """Ask the reader, in one process; see ``clients/js/test/answer.js``."""
    lines = "\n".join(json.dumps({**question, "where": exact(question["where"])}) for question in questions)
    program = ["node", str(CLIENT / "test" / "answer.js")]
    found = subprocess.run(program, input=lines, capture_output=True, text=True, timeout=300, check=True)
    return [json.loads(line) for line in found.stdout.splitlines()]


def exact(value: object) -> object:
    """Return JSON in which no integer loses digits in JavaScript."""
    if isinstance(value, list):
        return [exact(item) for item in value]
    return {"bigint": str(value)} if type(value) is int and abs(value) >= 1 << 53 else value


def literal(value: object, type_: pa.DataType) -> object:
    """Return a value of a column as in ``tests/conformance``."""
    if isinstance(value, datetime):
        fraction = "milliseconds" if type_.unit == "ms" and value.microsecond else "auto"
        return value.replace(tzinfo=None).isoformat(timespec=fraction) + ("Z" if type_.tz else "")
    if isinstance(value, np.float16):
        return float(value)
    return f"{value:f}" if isinstance(value, Decimal) else str(value) if isinstance(value, date) else value


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve a folder with range requests; return its address."""
    program = ["node", str(CLIENT / "test" / "server.js"), str(folder)]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as server:
        try:
            yield server.stdout.readline().strip()
        finally:
            server.terminate()
