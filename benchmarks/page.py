"""The benchmarks as a page with a plot, from the document that ``--json`` prints."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.extension import NATIVE

_INTRODUCTION = """\
# Benchmarks

Written by `{command}`.

{cpus} CPUs, Python {python}; {versions}.
`from intarsia import open` takes {import_ms:.0f} ms of CPU time beyond pyarrow.
"""

_READERS = """
All readers run each query in turn, in one process, and return the same results. Times are medians in
milliseconds: *cold* with a new object for each query, *warm* with the same object again. The page cache of
the operating system is warm. The ratio is Intarsia's time divided by that of the fastest other reader of the
same query; below 1, Intarsia is faster. *Read* is what Intarsia reads for a cold query; *indexes* is the
part of it that decides what to read: page indexes, Bloom filters, dictionaries and embedded indexes.
*Least* is the size of the pages that contain the rows of the result, and of their dictionary pages, and the
time to decompress them in one thread. It is the minimum for readers that read whole pages. It is empty for
aggregates and for the first rows in an order. *Native* is Intarsia with the [native extension](native.md),
in a process of its own.

![Intarsia's time relative to the fastest other reader]({plot})
"""


def _head(has_native: bool) -> str:
    names = ["", "other", "ratio", *(("native", "native ratio") if has_native else ())]
    columns = [f"{kind} {name}".rstrip() for kind in ("cold", "warm") for name in names]
    columns += ["read", "indexes", "least"]
    return f"| file | query | {' | '.join(columns)} |\n|---|---|{'---:|' * len(columns)}"


class Row(NamedTuple):
    """One query on one file.

    Attributes:
        benchmark: The name of the benchmark.
        file: The file or lake.
        query: The query.
        own: Milliseconds of Intarsia, cold and warm.
        native: Milliseconds of Intarsia with the native extension; None if it was not measured.
        best: The fastest other reader, and its milliseconds, cold and warm.
        num_bytes: Bytes that Intarsia read.
        index_bytes: The part of them that was indexes.
        requests: Requests that Intarsia made.
        least_bytes: The least bytes for the query; None for an aggregate.
        least_ms: Milliseconds to decompress them; None as well.
    """

    benchmark: str
    file: str
    query: str
    own: tuple[float, float]
    native: tuple[float, float] | None
    best: tuple[tuple[str, float], tuple[str, float]]
    num_bytes: int
    index_bytes: int
    requests: int
    least_bytes: int | None
    least_ms: float | None

    @property
    def ratios(self) -> tuple[float, float]:
        """Intarsia's time relative to the fastest other reader, cold and warm."""
        (_, cold), (_, warm) = self.best
        return self.own[0] / cold, self.own[1] / warm


def write_page(document: dict[str, Any], path: Path, command: str) -> None:
    """Write a page in Markdown, and its plot beside it as SVG.

    Args:
        document: The document that ``--json`` prints.
        path: The path of the page.
        command: The command that measured.
    """
    versions = ", ".join(f"{engine} {version}" for engine, version in document["versions"].items())
    text = _INTRODUCTION.format(
        command=command,
        versions=versions,
        **{key: document[key] for key in ("cpus", "python", "import_ms")},
    )
    rows = timed_rows(document)
    if rows:
        plot = path.with_suffix(".svg")
        draw(rows, plot)
        text += _READERS.format(plot=plot.name)
    for name in dict.fromkeys(row.benchmark for row in rows):
        about = {case["file"]: case["about"] for case in document[name]}
        files = "".join(f"- `{file}`: {written}\n" for file, written in about.items())
        of_this = [row for row in rows if row.benchmark == name]
        head = _head(any(row.native is not None for row in of_this))
        text += f"\n## {name}\n\n{files}\n{head}\n"
        text += "".join(_line(row) for row in of_this)
    for name, section in _SECTIONS.items():
        if name in document:
            text += f"\n## {name}\n\n{section(document[name])}\n"
    path.write_text(text, encoding="utf-8")


def timed_rows(document: dict[str, Any]) -> list[Row]:
    """Return the queries that at least one other reader supports."""
    rows = []
    for name, cases in document.items():
        if not isinstance(cases, list) or name in _SECTIONS:
            continue
        for case in cases:
            timings = dict(case["ms"])
            own, native = timings.pop("intarsia"), timings.pop(NATIVE, None)
            if timings:
                cold, warm = (
                    min(
                        ((engine, timing[kind]) for engine, timing in timings.items()),
                        key=lambda pair: pair[1],
                    )
                    for kind in ("cold", "warm")
                )
                amounts = ("bytes_read", "bytes_index", "requests")
                read = [case[f"intarsia_{amount}"] for amount in amounts]
                read += [case["least_bytes"], case["least_ms"]]
                pairs = [timing and (timing["cold"], timing["warm"]) for timing in (own, native)]
                rows.append(Row(name, case["file"], case["query"], *pairs, (cold, warm), *read))
    return rows


def _line(row: Row) -> str:
    cells = [row.file, row.query]
    for kind, (engine, other) in enumerate(row.best):
        cells += [_ms(row.own[kind]), f"{engine} {_ms(other)}", f"**{row.own[kind] / other:.2f}**"]
        if row.native is not None:
            cells += [_ms(row.native[kind]), f"**{row.native[kind] / other:.2f}**"]
    cells.append(f"{row.num_bytes / 1e6:,.2f} MB in {row.requests:,} request{'s' * (row.requests != 1)}")
    cells.append(f"{row.index_bytes / 1e3:,.0f} kB")
    least = "" if row.least_bytes is None else f"{row.least_bytes / 1e6:,.2f} MB, {_ms(row.least_ms)} ms"
    cells.append(least)
    return f"| {' | '.join(cells)} |\n"


def _memory(found: list[dict[str, Any]]) -> str:
    engines = list(found[0]["retained_bytes"])
    rows = [
        (one["query"], *(f"{size / one['rows_bytes']:.1f}" for size in one["retained_bytes"].values()))
        for one in found
    ]
    return (
        "Memory that a small result retains, relative to the size of its rows.\n\n"
        f"{_table(('query', *engines), rows)}"
    )


def _attach(found: dict[str, Any]) -> str:
    rows = [
        (
            one["name"],
            f"{one['cpu_seconds']:.2f}",
            f"{one['cpu_of_rewrite']:.2f}",
            f"{one['of_rewrite']:.2f}",
            f"{one['share_of_file']:.1%}",
        )
        for one in found["cases"]
    ]
    head = ("indexes", "CPU seconds", "CPU / rewrite", "time / rewrite", "growth of the file")
    return (
        f"Attaching indexes to a file of {found['file_bytes'] / 1e6:.0f} MB, relative to reading it and "
        "writing it again with pyarrow and a page index: minimum of all repetitions, until the file is "
        "synced.\n\n"
        f"{_table(head, rows)}"
    )


def _plan(found: dict[str, Any]) -> str:
    return (
        f"{found['files']:,} files with a lake index: listing takes {found['list_ms']:.0f} ms. Planning a "
        f"lookup then takes {found['cold_ms']:.0f} ms with a new table, and {found['warm_ms']:.0f} ms with "
        "the same table again."
    )


def _growth(found: list[dict[str, Any]]) -> str:
    rows = [(one["name"], _ms(one["cpu_ms"]), f"{one['peak_mb']:.0f}") for one in found]
    return (
        "Whole processes of `intarsia query` that look up one value, with all imports: minimum of all "
        f"runs.\n\n{_table(('process', 'CPU ms', 'peak MB'), rows)}"
    )


#: Benchmarks that do not time readers.
_SECTIONS: dict[str, Callable[[Any], str]] = {
    "memory": _memory,
    "attach": _attach,
    "plan": _plan,
    "growth": _growth,
}


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(cells)} |" for cells in (head, *rows)]
    lines.insert(1, f"|---|{'---:|' * (len(head) - 1)}")
    return "\n".join(lines)


def _ms(value: float) -> str:
    return f"{value:.1f}" if value < 100 else f"{value:,.0f}"


def draw(rows: list[Row], path: Path) -> None:
    """Draw the ratios as bars on a logarithmic axis, as SVG."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "intarsia"  # the same file for the same figures
    # legible on a light and on a dark page
    for part in ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"):
        mpl.rcParams[part] = "#808080"
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(9, 0.8 + 0.34 * len(rows)), layout="constrained")
    ordinals = range(len(rows))
    for kind, shift, colour in ((0, -0.2, "#1b6ca8"), (1, 0.2, "#8cc0de")):
        ratios = [row.ratios[kind] for row in rows]
        spots = [ordinal + shift for ordinal in ordinals]
        axes.barh(
            spots, [ratio - 1 for ratio in ratios], 0.38, left=1, color=colour, label=("cold", "warm")[kind]
        )
    axes.set_xscale("log")
    axes.axvline(1, color="#808080", linewidth=0.8)
    axes.set_yticks(list(ordinals), [f"{row.file}: {row.query}" for row in rows])
    axes.invert_yaxis()
    axes.set_xlabel("time relative to the fastest other reader (to the left of 1, Intarsia is faster)")
    axes.legend(loc="lower right", framealpha=0)
    figure.savefig(path, format="svg", metadata={"Date": None}, transparent=True)
    plt.close(figure)
