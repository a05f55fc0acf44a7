"""Counts and sizes in the texts of reports."""

from __future__ import annotations


def count(number: int, noun: str) -> str:
    """Format a number with its noun, which is in the singular.

    Example:
        >>> count(1, "file"), count(1200, "row group")
        ('1 file', '1,200 row groups')
    """
    return f"{number:,} {noun if number == 1 else noun + 's'}"


def size(num_bytes: int) -> str:
    """Format a number of bytes, which may be negative.

    Example:
        >>> size(999), size(-12_345), size(226_000_000)
        ('999 B', '-12.3 kB', '226.0 MB')
    """
    amount = float(num_bytes)
    for unit in ("B", "kB", "MB", "GB"):
        if abs(amount) < 1000:
            return f"{amount:.0f} B" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} TB"
