"""Output of the timings: a table with ratios, or JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchmarks.extension import NATIVE
from benchmarks.measure import Case


def reading_document(cases: Sequence[Case]) -> list[dict[str, Any]]:
    """Return the figures for JSON."""
    return [_document(case) for case in cases]


def _document(case: Case) -> dict[str, Any]:
    medians = {engine: timing.median_ms() for engine, timing in case.timings.items()}
    base = medians["intarsia"]
    return {
        "file": case.file.name,
        "about": case.file.about,
        "file_bytes": case.file.size_bytes,
        "query": case.name,
        "rows": case.rows,
        "intarsia_bytes_read": case.bytes_read,
        "intarsia_bytes_index": case.bytes_index,
        "intarsia_requests": case.requests,
        "least_bytes": None if case.least is None else case.least.num_bytes,
        "least_ms": None if case.least is None else round(case.least.ms, 3),
        "failures": case.failures,
        "of_best_peer": _rounded(case.ratios(case.peers)),
        "native_of_best_peer": _rounded(case.ratios(case.peers, NATIVE)),
        "of_datafusion": _rounded(case.ratios(["datafusion"])),
        "ms": {
            engine: {
                "cold": round(cold, 3),
                "warm": round(warm, 3),
                "cold_ratio": round(cold / base[0], 3),
                "warm_ratio": round(warm / base[1], 3),
                "repetitions": len(case.timings[engine].cold),
            }
            for engine, (cold, warm) in medians.items()
        },
    }


def print_reading(cases: Sequence[Case], engines: Sequence[str]) -> None:
    """Print the figures as a table."""
    print(
        "Median ms with a new object (cold) and with the same object again (warm). In parentheses: relative"
    )
    print("to Intarsia. All readers returned the same results. Below each query: Intarsia's time relative to")
    print("the fastest other reader and to DataFusion, and the bytes that Intarsia read, cold.")
    file = None
    for case in cases:
        if case.file != file:
            file = case.file
            print(f"\n{file.name}: {file.size_bytes / 1e6:.0f} MB, {file.about}")
            print(f"{'':<28}" + "".join(f"{engine:>17}" for engine in engines))
        base = case.timings["intarsia"].median_ms()
        for ordinal, label in enumerate(("cold", "warm")):
            cells = [
                _cell(case.timings[engine].median_ms()[ordinal], base[ordinal])
                if engine in case.timings
                else "fails"
                for engine in engines
            ]
            name = case.name if label == "cold" else ""
            print(f"  {name:<21} {label}" + "".join(f"{cell:>17}" for cell in cells))
        notes = [
            f"vs. {label}: {ratios[0]:.2f}x cold, {ratios[1]:.2f}x warm"
            for label, peers, own in (
                ("the fastest", case.peers, "intarsia"),
                ("DataFusion", ["datafusion"], "intarsia"),
                ("the fastest with the extension", case.peers, NATIVE),
            )
            if (ratios := case.ratios(peers, own)) is not None
        ]
        least = ""
        if case.least is not None:
            least = (
                f"; the least is {case.least.num_bytes / 1e6:.2f} MB, decompressed in {case.least.ms:.1f} ms"
            )
        index = f", {case.bytes_index / 1e6:.2f} MB of them indexes,"
        notes.append(f"read {case.bytes_read / 1e6:.2f} MB{index} in {case.requests} requests{least}")
        print(f"  {'':<16}({'; '.join(notes)})")
        for engine, why in case.failures.items():
            print(f"  {'':<16}({engine} fails: {why[:80]})")


def _rounded(ratios: tuple[float, float] | None) -> dict[str, float] | None:
    return None if ratios is None else {"cold": round(ratios[0], 3), "warm": round(ratios[1], 3)}


def _cell(ms: float, base: float) -> str:
    shown = f"{ms:.1f}" if ms < 100 else f"{ms:,.0f}"
    ratio = ms / base
    return f"{shown} ({ratio:.0f}x)" if ratio >= 9.95 else f"{shown} ({ratio:.1f}x)"
