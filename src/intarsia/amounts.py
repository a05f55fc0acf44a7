"""Counts and sizes as text, in reports and on the command line."""

from __future__ import annotations

from collections.abc import Sequence

#: The number of notes, findings or files in the text of a report.
_SHOWN = 10


def count(number: int | None, noun: str = "") -> str:
    """Format a number with its noun, which is in the singular; an unknown number is a question mark.

    Example:
        >>> count(1234), count(1, "file"), count(1200, "row group"), count(None, "page")
        ('1,234', '1 file', '1,200 row groups', '? pages')
    """
    shown = "?" if number is None else f"{number:,}"
    return f"{shown} {noun if number == 1 else noun + 's'}" if noun else shown


def first_lines(lines: Sequence[str], noun: str = "") -> list[str]:
    """Return the first ten lines of a report, and the number of the others.

    Example:
        >>> first_lines(["a", "b"]), first_lines(["a"] * 12, "note")[-1], first_lines(["a"] * 12)[-1]
        (['a', 'b'], '… and 2 more notes', '… and 2 more')
    """
    left = len(lines) - _SHOWN
    more = count(left, f"more {noun}") if noun else f"{left:,} more"
    return [*lines[:_SHOWN], f"… and {more}"] if left > 0 else [*lines]


def some(items: Sequence[str], most: int = 1, between: str = ", ") -> str:
    """Return the first of some items, and the number of the others.

    Example:
        >>> some(["a"]), some(["a", "b", "c"]), some(["a", "b", "c"], 2)
        ('a', 'a and 2 more', 'a, b and 1 more')
    """
    more = f" and {len(items) - most:,} more" if len(items) > most else ""
    return between.join(items[:most]) + more


def cut(text: str, most: int) -> str:
    """Return a text with at most a number of characters, of which the last one shows that it was cut.

    Example:
        >>> cut("abc", 3), cut("abcd", 3)
        ('abc', 'ab…')
    """
    return text if len(text) <= most else text[: most - 1] + "…"


def part(number: int, total: int | None, noun: str) -> str:
    """Format a number of all things of a kind.

    Example:
        >>> part(1, 1, "file"), part(0, 1200, "row group")
        ('1 of 1 file', '0 of 1,200 row groups')
    """
    return f"{number:,} of {count(total, noun)}"


def are(number: int, noun: str) -> str:
    """Format a number with its noun, which is in the singular, and the verb.

    Example:
        >>> are(1, "value"), are(2, "value")
        ('1 value is', '2 values are')
    """
    return f"{count(number, noun)} {'is' if number == 1 else 'are'}"


def size(num_bytes: float) -> str:
    """Format a number of bytes, which may be negative, in units of powers of 1,000.

    Example:
        >>> size(999), size(-12_345), size(226_000_000)
        ('999 B', '-12.3 kB', '226 MB')
    """
    amount = float(num_bytes)
    if abs(amount) < 1000:
        return f"{amount:.0f} B"
    for unit in ("kB", "MB", "GB"):
        amount /= 1000
        if abs(amount) < 999.5:
            return f"{amount:.{1 if abs(amount) < 99.95 else 0}f} {unit}"
    return f"{amount / 1000:,.1f} TB"


def others_ignored(others: int) -> str:
    """Return the end of a summary: the number of files in the folders that are not Parquet.

    Example:
        >>> others_ignored(2), others_ignored(0)
        ('; 2 other files ignored', '')
    """
    return f"; {count(others, 'other file')} ignored" if others else ""
