"""A page map as one small SVG: for documents, notebooks and viewers of images.

It has the colours of both themes and follows that of the reader, has no script, and requests nothing. Cells
that are narrower than a pixel are joined, so its size depends on the picture and not on the file.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from itertools import groupby
from typing import NamedTuple

from intarsia.amounts import count, cut, size
from intarsia.picture.facts import (
    FILE_READ,
    PROVEN,
    READ,
    READ_IN_VAIN,
    FilePages,
    LakeFacts,
    Lane,
    Look,
    QueryFacts,
    Step,
)

WIDTH = 960
_LEFT = 128
_LANE, _GAP = 13, 4
_MAX_LANES, _MAX_LABEL = 16, 16
_MARGIN = 14

#: The class of each look.
_CLASSES: dict[Look, str] = {
    "read": "r",
    "vain": "r",
    "proven": "a",
    "unneeded": "l",
    "statistics": "s",
    "page_index": "p",
    "bloom": "b",
    "dictionary": "d",
    "embedded": "e",
    "partition": "t",
    "footer": "m",
    "data": "u",
}

# Read and proven differ from each other and from all others for every kind of colour vision; the pale tints
# do not, so each has its own hatching.
_STYLE = """
.bg{fill:#fcfbf9}.i{fill:#1c1e22}.m{fill:#5d626b}.r{fill:#c8420a}.a{fill:#1d5fa7}.l{fill:url(#ia-l)}
.u{fill:#e6e3dc}.s{fill:#dad5ca}.t{fill:#c9c9c9}.p{fill:url(#ia-p)}.b{fill:url(#ia-b)}.d{fill:url(#ia-d)}
.e{fill:url(#ia-e)}.pb{fill:#bccbd9}.bb{fill:#d8cae4}.eb{fill:#ead69a}.db{fill:#c6dccb}.lb{fill:#fcfbf9}
.h{stroke:#1c1e22;stroke-opacity:.26}
text{font:12px ui-sans-serif,system-ui,"Segoe UI","Liberation Sans",sans-serif;fill:#1c1e22}
.c{font-family:ui-monospace,Menlo,Consolas,"Liberation Mono",monospace}
@media (prefers-color-scheme:dark){.bg{fill:#141619}.i{fill:#ece9e3}text{fill:#ece9e3}.m{fill:#a3a8b0}
.r{fill:#ff8746}.a{fill:#62a8ff}.u{fill:#2a2d32}.s{fill:#34363b}.t{fill:#4a4a4a}.db{fill:#2c4636}
.pb{fill:#2f4254}.bb{fill:#443552}.eb{fill:#57491f}.lb{fill:#141619}.h{stroke:#fff;stroke-opacity:.24}}
"""
# an SVG in a page shares its style sheet with the page
_SCOPED = re.sub(r"(^|[}{\n])(\.[a-z]+|text)(?=\{)", r"\1.ia-map \2", _STYLE.strip()).replace("\n", "")


def _pattern(name: str, base: str, path: str, width: int = 6, stroke: float = 0.8) -> str:
    return (
        f'<pattern id="ia-{name}" width="{width}" height="6" patternUnits="userSpaceOnUse">'
        f'<rect class="{base}" width="{width}" height="6"/>'
        f'<path class="h" stroke-width="{stroke}" d="{path}"/></pattern>'
    )


_DEFS = "".join(
    (
        "<defs>",
        _pattern("p", "pb", "M-1 1l2-2M0 6l6-6M5 7l2-2"),
        _pattern("e", "eb", "M-1 5l2 2M0 0l6 6M5-1l2 2"),
        _pattern("b", "bb", "M1 2h1.3M4 5h1.3", stroke=1.3),
        _pattern("d", "db", "M1.5 0v6", width=3),
        _pattern("l", "lb", "M1.5 0v6", width=3),
        "</defs>",
    )
)


def draw_query(facts: QueryFacts) -> str:
    """Draw a query: the bytes that it read, the files of a lake, and the pages of its first file."""
    canvas = _Canvas()
    y = 20.0
    canvas.text(0, y, facts.where or "all rows", "c", 'style="font-size:17px;font-weight:700"')
    read, total = size(facts.num_read), size(facts.num_bytes)
    canvas.text(0, y + 32, f"{read} of {total}", "r", 'style="font-size:27px;font-weight:700"')
    canvas.text(0, y + 52, f"{sentence(facts)}. Result: {facts.result}.", "m")
    y = 92
    if facts.lake is not None:
        y = _files(canvas, y, facts.lake)
    if facts.files:
        y = _pages(canvas, y, facts.files[0], is_lake=facts.lake is not None)
        y = _bytes(canvas, y, facts.files[0])
    return canvas.document(y, f"Page map of {facts.where or 'all rows'}: {read} of {total} read")


def sentence(facts: QueryFacts) -> str:
    """Return in one line how much of the table was read."""
    least = f"; {size(facts.least_bytes)} have the result" if facts.least_bytes else ""
    part = share(facts.num_read, facts.num_bytes)
    if facts.is_plan:
        return f"to read from {facts.title}: {part}"
    requests = count(facts.num_requests, "request")
    return f"read from {facts.title}: {part}, in {requests}{least}"


def share(num_read: int, num_bytes: int) -> str:
    """Return a part of bytes in words.

    Example:
        >>> share(10, 1000), share(300, 1000), share(0, 0)
        ('1 byte in 100', '30.0% of the bytes', 'no byte')
    """
    if not num_read or not num_bytes:
        return "no byte"
    ratio = num_bytes / num_read
    return f"1 byte in {ratio:,.0f}" if ratio >= 20 else f"{100 / ratio:.1f}% of the bytes"


def draw_bars(title: str, subtitle: str, bars: Iterable[Bar]) -> str:
    """Draw bars on one linear scale, at most 16.

    Example:
        >>> draw_bars("t.parquet", "2 columns", [Bar("a", 1.0, "data", "8 kB")]).count("8 kB")
        1
    """
    canvas = _Canvas()
    canvas.text(0, 20, title, "c", 'style="font-size:17px;font-weight:700"')
    canvas.text(0, 42, subtitle, "m")
    y, full = 60.0, WIDTH - _LEFT - 230
    listed = list(bars)
    for label, filled, look, words in listed[:_MAX_LANES]:
        canvas.text(_LEFT - 10, y + 10.5, cut(label, _MAX_LABEL), "c", 'text-anchor="end"')
        canvas.box(_LEFT, y, full, _LANE, "u")
        if filled > 0:
            canvas.box(_LEFT, y, max(2.0, full * min(filled, 1.0)), _LANE, _CLASSES[look])
        canvas.text(_LEFT + full + 10, y + 10.5, words, "m")
        y += _LANE + _GAP
    if len(listed) > _MAX_LANES:
        canvas.text(_LEFT, y + 10, f"and {len(listed) - _MAX_LANES:,} more", "m")
        y += 16
    return canvas.document(y + 6, f"{title}: {subtitle}")


def in_notebook(picture: str) -> str:
    """Return a picture as HTML, not wider than its natural width."""
    return f'<div style="max-width:{WIDTH}px">{picture}</div>'


class Bar(NamedTuple):
    """A bar of a chart.

    Attributes:
        label: Its name.
        filled: The filled part, from 0 to 1.
        look: The look of that part.
        words: The text beside it.
    """

    label: str
    filled: float
    look: Look
    words: str


class _Canvas:
    """Shapes with the classes of the style sheet."""

    def __init__(self) -> None:
        self._shapes: list[str] = []

    def text(self, x: float, y: float, words: str, css: str = "", more: str = "") -> None:
        css = f' class="{css}"' if css else ""
        self._shapes.append(f'<text x="{x:g}" y="{y:g}"{css} {more}>{escape(words)}</text>')

    def box(self, x: float, y: float, width: float, height: float, css: str, title: str = "") -> None:
        end = f"><title>{escape(title)}</title></rect>" if title else "/>"
        self._shapes.append(
            f'<rect x="{x:.1f}" y="{y:g}" width="{width:.1f}" height="{height:g}" class="{css}"{end}'
        )

    def document(self, height: float, label: str) -> str:
        box = f"{-_MARGIN} -6 {WIDTH + 2 * _MARGIN} {height + 8:g}"
        background = (
            f'<rect class="bg" x="{-_MARGIN}" y="-6" width="{WIDTH + 2 * _MARGIN}" height="{height + 8:g}"/>'
        )
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="ia-map" viewBox="{box}" role="img" '
            f'aria-label="{escape(label, quote=True)}"><style>{_SCOPED}</style>{_DEFS}{background}'
            f"{''.join(self._shapes)}</svg>"
        )


def _legend(canvas: _Canvas, y: float, entries: Iterable[tuple[Look, str]]) -> float:
    x = 0.0
    for look, words in entries:
        width = 26 + 6.3 * len(words)
        if x and x + width > WIDTH:
            x, y = 0.0, y + 18
        canvas.box(x, y - 9, 18, 10, _CLASSES[look])
        if look == "vain":
            canvas.box(x + 2, y - 7, 14, 6, "bg")
        canvas.text(x + 24, y, words)
        x += width + 16
    return y + 10


# --- files ----------------------------------------------------------------------------------------------


def _files(canvas: _Canvas, y: float, lake: LakeFacts) -> float:
    states = lake.state
    css = [_CLASSES[state.look] for state in lake.states]
    counts = {state: states.count(state) for state in sorted(set(states))}
    entries = [(lake.states[at], count(n, "file")) for at, n in counts.items()]
    y = _legend(canvas, y + 4, ((state.look, f"{state.text}: {words}") for state, words in entries))
    cell = max(2.0, min(12.0, math.sqrt(WIDTH * 100 / len(states)) // 0.5 * 0.5))
    across = max(1, int(WIDTH // cell))
    bright = (FILE_READ, READ_IN_VAIN)
    # one rectangle for the files of one state in a row of cells
    for (row, state), run in groupby(range(len(states)), lambda at: (at // across, states[at])):
        if state not in bright:
            at, *others = run
            canvas.box(at % across * cell, y + row * cell, (1 + len(others)) * cell - 1, cell - 1, css[state])
    side = max(3.0, cell - 1)
    for at, state in enumerate(states):
        if state in bright:
            left, top = at % across * cell, y + at // across * cell
            canvas.box(left, top, side, side, "r", lake.names[at] or "")
            if state == READ_IN_VAIN and side > 5:
                canvas.box(left + 2, top + 2, side - 4, side - 4, "bg")
    return y + -(-len(states) // across) * cell + 20


# --- pages ----------------------------------------------------------------------------------------------


def _pages(canvas: _Canvas, y: float, file: FilePages, *, is_lake: bool) -> float:
    lanes = sorted(
        (lane for lane in file.lanes if lane.cells is not None), key=lambda one: one.role != "where"
    )
    css = [_CLASSES[state.look] for state in file.states]
    if is_lake:
        canvas.text(0, y + 4, f"Pages of {file.path}", "c")
        y += 20
    counts = [sum(lane.by_state[at] for lane in lanes) for at in range(len(css))]
    named = [(state, count(n, "page")) for state, n in zip(file.states, counts, strict=True) if n]
    entries: list[tuple[Look, str]] = [(state.look, f"{state.text}: {words}") for state, words in named]
    others = len(file.lanes) - len(lanes)
    if others:
        entries.append(("data", f"not in the query: {count(others, 'column')}"))
    y = _legend(canvas, y + 4, entries) + 4
    scale = (WIDTH - _LEFT) / max(1, file.num_rows)
    for step in file.steps:
        _funnel(canvas, y, step, scale)
        y += 14
    if file.matches:
        last = -9.0
        for row in file.matches:
            x = _LEFT + (row + 0.5) * scale
            if x - last > 2:
                canvas.box(x - 0.75, y + 1, 1.5, 7, "i")
                last = x
        canvas.text(_LEFT - 10, y + 9, f"{file.num_matches:,} matching", "m", 'text-anchor="end"')
        y += 12
    for lane in lanes[:_MAX_LANES]:
        bold = ' style="font-weight:700"' if lane.role == "where" else ""
        canvas.text(_LEFT - 10, y + 10.5, cut(lane.name, _MAX_LABEL), "c", f'text-anchor="end"{bold}')
        _lane(canvas, y, lane, css, file.num_rows, scale)
        y += _LANE + _GAP
    if len(lanes) > _MAX_LANES:
        canvas.text(_LEFT, y + 10, f"and {len(lanes) - _MAX_LANES} more columns", "m")
        y += 16
    canvas.text(_LEFT, y + 10, "row 0", "m")
    canvas.text(WIDTH, y + 10, f"{file.num_rows:,}", "m", 'text-anchor="end"')
    groups = count(len(file.edges) - 1, "row group")
    canvas.text(_LEFT + (WIDTH - _LEFT) / 2, y + 10, groups, "m", 'text-anchor="middle"')
    return y + 26


def _funnel(canvas: _Canvas, y: float, step: Step, scale: float) -> None:
    """Draw the rows that an index excluded, and write how many it left."""
    long = ' textLength="118" lengthAdjust="spacingAndGlyphs"' if len(step.label) > 18 else ""
    canvas.text(_LEFT - 10, y + 10, step.label, "m", f'text-anchor="end"{long}')
    widest = (0.0, 0.0)
    for start, stop in _joined(step.rows, 1.5 / scale):
        left, width = _LEFT + start * scale, max(0.6, (stop - start) * scale)
        canvas.box(left, y, width, 11, _CLASSES[step.look])
        widest = max(widest, (width, left))
    words = f"leaves {count(step.num_left, 'row')}"
    length, (width, left) = 7 * len(words), widest
    if width > length:
        canvas.text(left + 6, y + 10, words)
    elif left + width + length < WIDTH:
        canvas.text(left + width + 6, y + 10, words)


def _lane(canvas: _Canvas, y: float, lane: Lane, css: Sequence[str], num_rows: int, scale: float) -> None:
    cells = lane.cells
    assert cells is not None
    spans: dict[int, list[int]] = {}
    for start, stop, state in zip(cells.start, [*cells.start[1:], num_rows], cells.state, strict=True):
        spans.setdefault(state, []).extend((start, stop))
    for state in sorted(spans, key=lambda one: (one in (READ, PROVEN), one == READ)):
        for start, stop in _joined(spans[state], 0.8 / scale):
            left, width = _LEFT + start * scale, (stop - start) * scale
            if state in (READ, PROVEN) and width < 3:  # one page of thousands has to be seen
                left, width = max(_LEFT, min(WIDTH - 3.0, left + width / 2 - 1.5)), 3.0
            canvas.box(left, y, width, _LANE, css[state])


def _joined(ranges: Sequence[int], gap: float) -> Iterator[tuple[int, int]]:
    """Yield ranges of a flat list; those that are closer than a gap are one."""
    found: list[tuple[int, int]] = []
    for start, stop in zip(ranges[::2], ranges[1::2], strict=True):
        if found and start - found[-1][1] < gap:
            found[-1] = found[-1][0], stop
        else:
            found.append((start, stop))
    yield from found


# --- bytes ----------------------------------------------------------------------------------------------


def _bytes(canvas: _Canvas, y: float, file: FilePages) -> float:
    scale = WIDTH / file.num_bytes
    canvas.text(
        0, y + 10, f"Bytes of the file, to scale: {size(file.num_read)} of {size(file.num_bytes)} read", "m"
    )
    y += 26
    canvas.box(0, y, WIDTH, 14, "u")
    for part in file.parts:
        width = (part.stop - part.start) * scale
        if width > 0.3:
            canvas.box(part.start * scale, y, width, 14, _CLASSES[part.look], part.label)
    for start, stop in _joined(file.reads, 1 / scale):
        left, width = min(WIDTH - 2, start * scale), max(2.0, (stop - start) * scale)
        canvas.box(left, y - 6, width, 5, "r")
        canvas.box(left, y, width, 14, "r")
    if file.original_bytes is not None:
        left = min(WIDTH - 1.5, file.original_bytes * scale)
        canvas.box(left, y - 3, 1.5, 20, "i", "the original file ends here")
    return y + 24
