"""The command ``intarsia``; the only place that imports typer and rich."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        arguments: What follows the command's name; None for this process' own.

    Returns:
        The exit code: 0, 1 (a file is bad or missing), 2 (the command was used wrongly), 130 (interrupted).
    """
    from intarsia.cli.app import run

    return run(arguments)
