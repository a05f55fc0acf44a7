"""Print errors and warnings as one line on stderr, and map errors to exit codes."""

from __future__ import annotations

import os
import select
import sys
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from intarsia.cli.terminal import dim, printable, red
from intarsia.errors import ColumnNotFoundError, IntarsiaError, IntarsiaWarning, PredicateError

#: Exit codes. The last two are those of programs that a signal ends: SIGINT and SIGPIPE.
BAD_FILE, USAGE, SKIPPED_FILES, INTERRUPTED, CLOSED_PIPE = 1, 2, 3, 130, 141

#: The base class of typer's errors about arguments; its module depends on typer's version.
ArgumentError: type[Exception] = next(
    cls for cls in typer.BadParameter.__mro__ if cls.__name__ == "ClickException"
)


#: Phrases of typer and of pydantic, which some versions of typer use, and their replacements.
_ARGUMENT_WORDS = (
    ("Value error, ", ""),
    ("Input should be ", "must be "),
    (", unable to parse string as an integer", ""),
    (", unable to parse string as a number", ""),
    (". Did you mean ", "; did you mean "),
    (" (Possible options: ", " (similar options: "),
)


class UsageError(IntarsiaError):
    """Wrong usage of the command that typer does not detect."""


def exit_code(error: BaseException) -> int | None:
    """Return the exit code of an expected error; None for a defect of Intarsia."""
    if isinstance(error, (KeyboardInterrupt, typer.Abort)):
        return INTERRUPTED
    if isinstance(error, (ArgumentError, UsageError, PredicateError, ColumnNotFoundError)):
        return USAGE
    arrow = sys.modules.get("pyarrow")
    files = (IntarsiaError, OSError, arrow.ArrowException) if arrow else (IntarsiaError, OSError)
    return BAD_FILE if isinstance(error, files) else None


def report_error(error: BaseException, command: str = "intarsia", *, debug: bool = False) -> int | None:
    """Print an error on stderr.

    Args:
        error: The error.
        command: The command and subcommand, for hints.
        debug: Whether to print the traceback as well.

    Returns:
        The exit code, or None if the caller should raise the error again.
    """
    code = exit_code(error)
    if code is None:
        return None
    if debug:
        traceback.print_exception(error)
    say("interrupted" if code == INTERRUPTED else one_line(error, command), red)
    return code


def one_line(error: BaseException, command: str = "intarsia") -> str:
    """Return an error in one line."""
    if isinstance(error, ArgumentError):
        text = error.format_message()  # type: ignore[attr-defined]  # ClickException, see above
        text = text[:1].lower() + text[1:].removesuffix(".")
        for theirs, ours in _ARGUMENT_WORDS:
            text = text.replace(theirs, ours)
        return printable(" ".join([*text.split(), f"(see: {command} --help)"]))
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return printable(f"{error.filename}: {error.strerror[:1].lower()}{error.strerror[1:]}")
    text = " ".join(str(error).split())
    return printable(text) or type(error).__name__


def say(text: str, style: object = None) -> None:
    """Print one line on stderr, prefixed with the command's name."""
    prefix = style("intarsia:", sys.stderr) if callable(style) else "intarsia:"
    print(f"{prefix} {text}", file=sys.stderr)


@contextmanager
def quiet_if_closed() -> Iterator[None]:
    """End the command without a message if the reader of stdout has closed it, as ``head`` does.

    Raises:
        typer.Exit: If it has.
    """
    try:
        yield
    except BrokenPipeError:
        if not _is_closed():
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what is left in the buffer
        raise typer.Exit(CLOSED_PIPE) from None


def _is_closed() -> bool:
    """Return whether stdout is a pipe that nobody reads; other pipes can be broken as well."""
    poller = select.poll()
    poller.register(sys.stdout.fileno(), 0)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poller.poll(0))


@contextmanager
def dim_warnings() -> Iterator[None]:
    """Show each `IntarsiaWarning` as one dim line on stderr."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", IntarsiaWarning)
        show_other = warnings.showwarning

        def show(message, category, filename, lineno, file=None, line=None):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
            if issubclass(category, IntarsiaWarning):
                text = printable(" ".join(str(message).split()))
                print(dim(f"intarsia: warning: {text}", sys.stderr), file=sys.stderr)
            else:
                show_other(message, category, filename, lineno, file, line)

        warnings.showwarning = show
        yield
