"""Measure the size of the house: ``make house``, or ``python -m tools.house [--json]``.

They show its growth: functions, files and frames of one cold query, Python calls of one lookup, import
circles inside packages, and lines of code per package and of the native extension.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import os
import sys
import tempfile
import threading
import time
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "intarsia"
EXTENSION = ROOT / "native" / "src"

ROWS = 100_000

_DEFINITIONS = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
_SPACE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


class Calls:
    """The calls of Python functions in this thread and in those that start while calls are recorded."""

    def __init__(self) -> None:
        self._depths: Counter[int] = Counter()
        self.restart()

    def restart(self) -> None:
        """Forget the calls so far. Threads of a pool that they started are still recorded."""
        self.total = 0
        self.functions: set[tuple[str, str, int]] = set()
        self.deepest = 0

    def __enter__(self) -> Calls:
        threading.setprofile(self._record)
        sys.setprofile(self._record)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)

    def _record(self, frame: Any, event: str, _: object) -> None:
        if event not in ("call", "return"):
            return
        code, thread = frame.f_code, threading.get_ident()
        self.total += event == "call"
        if not code.co_filename.startswith(str(PACKAGE)):
            return
        if event == "return":
            self._depths[thread] = max(0, self._depths[thread] - 1)
            return
        self._depths[thread] += 1
        self.deepest = max(self.deepest, self._depths[thread])
        self.functions.add((code.co_filename, code.co_name, code.co_firstlineno))


def measure_queries(rows: int = ROWS) -> dict[str, int]:
    """Count the functions of a cold query, and the calls of a lookup with a new and with a used table."""
    import intarsia as ia

    def query(path: str) -> None:
        assert ia.open(path).scan("x = 777 AND y = '7'").to_arrow().num_rows == 1

    def look_up(table: Any, key: int) -> None:
        found = table.scan(f"x = {key}").to_arrow()
        assert (found.num_rows, found.num_columns) == (1, 7)

    with tempfile.TemporaryDirectory() as folder, Calls() as calls:
        first, second = (write_file(f"{folder}/{name}.parquet", rows) for name in ("first", "second"))
        query(first)  # loads the modules
        calls.restart()
        query(second)
        functions, frames = set(calls.functions), calls.deepest
        table = ia.open(second)
        look_up(table, 776)
        calls.restart()
        look_up(ia.open(second), 778)
        with_new_table = calls.total
        calls.restart()
        look_up(table, 777)
        return {
            "functions": len(functions),
            "files": len({path for path, _, _ in functions}),
            "frames": frames,
            "lookup_calls_new_table": with_new_table,
            "lookup_calls": calls.total,
        }


def write_file(path: str, rows: int) -> str:
    """Write a file of 7 columns in 10 row groups, with a page index."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    numbers = range(rows)
    table = pa.table({"x": numbers, "y": [str(number % 10) for number in numbers]})
    for ordinal in range(5):
        table = table.append_column(f"z{ordinal}", pa.array(numbers, pa.float64()))
    pq.write_table(table, path, row_group_size=rows // 10, write_page_index=True, max_rows_per_page=200)
    an_hour_ago = time.time() - 3600
    os.utime(path, (an_hour_ago, an_hour_ago))  # files that were just written are not cached
    return path


def measure_source() -> dict[str, Any]:
    """Count lines, definitions and import circles, in total and per package."""
    packages: dict[str, Counter[str]] = defaultdict(Counter)
    imports: dict[str, set[str]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        nodes = list(ast.walk(ast.parse(text)))
        name = module_name(path)
        imports[name] = {found for node in nodes for found in imported(node)}
        package = path.relative_to(PACKAGE).parts[0] if path.parent != PACKAGE else "intarsia"
        packages[package] += Counter(
            code_lines=len(code_lines(text, nodes)),
            lines=text.count("\n"),
            files=1,
            functions=sum(isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) for node in nodes),
            classes=sum(isinstance(node, ast.ClassDef) for node in nodes),
        )
    found: dict[str, list[list[str]]] = defaultdict(list)
    for circle in circles({name: inside(name, others, imports) for name, others in imports.items()}):
        found[circle[0].split(".")[1]].append(circle)
    rust = [path.read_text(encoding="utf-8").splitlines() for path in EXTENSION.glob("*.rs")]
    code = [line for lines in rust for line in lines if line.strip() and not line.strip().startswith("//")]
    return {
        "native": {"code_lines": len(code), "lines": sum(map(len, rust)), "files": len(rust)},
        "total": dict(sum(packages.values(), Counter())),
        "packages": {name: dict(counts) for name, counts in sorted(packages.items())},
        "circles": dict(found),
    }


def code_lines(text: str, nodes: list[ast.AST]) -> set[int]:
    """Return the lines that contain code: no docstrings, imports, blank lines and comments."""
    others: set[int] = set()
    for node in nodes:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            others.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        if isinstance(node, _DEFINITIONS) and ast.get_docstring(node, clean=False) is not None:
            others.update(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _SPACE:
            lines.update(range(token.start[0], token.end[0] + 1))
    return lines - others


def module_name(path: Path) -> str:
    """Return the dotted name of a module; that of a package for its ``__init__``."""
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")


def imported(node: ast.AST) -> Iterator[str]:
    """Yield the names that an import may load, in functions and for types as well; all are absolute."""
    if isinstance(node, ast.Import):
        yield from (name.name for name in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module:
        yield from (f"{node.module}.{name.name}" for name in node.names)


def inside(name: str, imports: set[str], modules: dict[str, set[str]]) -> set[str]:
    """Return the modules of the same package that a module imports."""
    package = ".".join(name.split(".")[:2])
    found = {other if other in modules else other.rpartition(".")[0] for other in imports}
    return {other for other in found if other in modules and f"{other}.".startswith(f"{package}.")} - {name}


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Return the strongly connected components of more than one module."""
    reached = {name: reachable(name, graph) for name in graph}
    components = {tuple(sorted(other for other in reached[name] if name in reached[other])) for name in graph}
    return [list(component) for component in sorted(components) if len(component) > 1]


def reachable(start: str, graph: dict[str, set[str]]) -> set[str]:
    """Return the modules that a module imports, directly or not."""
    found: set[str] = set()
    waiting = [start]
    while waiting:
        for other in graph[waiting.pop()] - found:
            found.add(other)
            waiting.append(other)
    return found


def describe(figures: dict[str, Any]) -> str:
    """Format the figures as text."""
    query, source = figures["query"], figures["source"]
    total = source["total"]
    rings = [f"{len(ring)} files of {name}" for name, found in source["circles"].items() for ring in found]
    calls = f"{query['lookup_calls_new_table']:,} with a new table, {query['lookup_calls']:,} with a used one"
    size = ", ".join(f"{total[name]:,} {name.replace('_', ' ')}" for name in total)
    lines = [
        f"cold query: {query['functions']} functions, {query['files']} files, {query['frames']} frames",
        f"Python calls of a warm lookup of 7 columns: {calls}",
        f"import circles: {', '.join(rings) or 'none'}",
        f"source: {size}",
    ]
    for name, counts in {**source["packages"], "native": source["native"]}.items():
        lines.append(f"  {name:10} {counts['code_lines']:7,} {counts['lines']:7,} {counts['files']:4}")
    return "\n".join(lines)


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description="Measure the size of the house.")
    parser.add_argument("--json", action="store_true", help="print JSON")
    figures = {"query": measure_queries(), "source": measure_source()}
    print(json.dumps(figures, indent=2) if parser.parse_args().json else describe(figures))


if __name__ == "__main__":
    main()
