"""The command ``intarsia``; only this package imports typer and rich."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        arguments: The arguments after the command's name; None for those of this process.

    Returns:
        The exit code: 0, 1 (a file is bad or missing), 2 (wrong usage), 130 (interrupted).
    """
    from intarsia.cli.app import run

    return run(arguments)
