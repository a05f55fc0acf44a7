"""The terminal: styles, widths, progress, amounts; errors and warnings in one line, and their exit codes."""

from __future__ import annotations

import os
import select
import sys
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TextIO

import click

from intarsia.errors import ColumnNotFoundError, IntarsiaError, IntarsiaWarning, PredicateError

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table
    from rich.text import Text

#: Width without a terminal, so that lines are not wrapped in a pipe.
PIPE_WIDTH = 1000

#: Reports the number of units done so far.
ShowDone = Callable[[float], None]


def red(text: str, stream: TextIO) -> str:
    """Return the text in red, if the stream is a terminal."""
    return _styled(text, "31", stream)


def dim(text: str, stream: TextIO) -> str:
    """Return the text dimmed, if the stream is a terminal."""
    return _styled(text, "2", stream)


def _styled(text: str, code: str, stream: TextIO) -> str:
    if not stream.isatty() or os.environ.get("NO_COLOR"):
        return text
    return f"\x1b[{code}m{text}\x1b[0m"


def is_piped(stream: TextIO) -> bool:
    """Return whether lines have no given width, so that they are not wrapped."""
    return not (stream.isatty() or "COLUMNS" in os.environ)


def console(stream: TextIO | None = None) -> Console:
    """Return a console on stdout or another stream; without a terminal, lines are not wrapped."""
    from rich.console import Console

    stream = stream or sys.stdout
    return Console(
        file=stream,
        width=PIPE_WIDTH if is_piped(stream) else None,
        highlight=False,
        emoji=False,
        markup=False,
    )


def show(parts: Iterable[RenderableType]) -> None:
    """Print tables and texts on stdout, without trailing spaces."""
    out = console()
    for part in parts:
        with out.capture() as captured:
            out.print(part, soft_wrap=getattr(part, "no_wrap", None) is True)
        print("\n".join(line.rstrip() for line in captured.get().splitlines()))


def printable(text: str) -> str:
    r"""Escape the control characters in a text from a file.

    Example:
        >>> printable("fine"), printable("red \x1b[31m")
        ('fine', 'red \\x1b[31m')
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def printable_lines(text: str) -> str:
    """Escape the control characters in each line of a text."""
    return "\n".join(map(printable, text.splitlines()))


def line(text: str = "", style: str = "", *, no_wrap: bool | None = None) -> Text:
    """Return a line for `show`."""
    from rich.text import Text

    return Text(printable(text), style=style, no_wrap=no_wrap)


def command_line(text: str, style: str = "") -> Text:
    """Return a command for `show`, which is not wrapped, so that it can be copied."""
    return line(text, style, no_wrap=True)


def plain_table(*columns: str) -> Table:
    """Return a table without borders. A column is aligned right if its name starts with ``>``."""
    from rich.table import Table

    class PrintableTable(Table):
        def add_row(self, *cells: RenderableType | None, **options: Any) -> None:
            shown = (printable(cell) if isinstance(cell, str) else cell for cell in cells)
            super().add_row(*shown, **options)

    table = PrintableTable(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
    for name in columns:
        table.add_column(
            name.removeprefix(">"), justify="right" if name.startswith(">") else "left", overflow="fold"
        )
    return table


@contextmanager
def progress(label: str, total: int, unit: str = "files") -> Iterator[ShowDone]:
    """Show a progress bar on stderr while the block runs, if stderr is a terminal.

    Args:
        label: Name of the action.
        total: Total number of units.
        unit: Name of the units.

    Yields:
        A function to call with the number of units done so far.
    """
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(unit),
        TimeElapsedColumn(),
        console=console(sys.stderr),
        transient=True,
    )
    with bar:
        task = bar.add_task(label, total=total)
        yield lambda done: bar.update(task, completed=done)


def duration(seconds: float) -> str:
    """Format a duration.

    Example:
        >>> duration(0.0123), duration(1.26)
        ('12 ms', '1.3 s')
    """
    if seconds < 0.0095:
        return f"{seconds * 1000:.1f} ms"
    return f"{seconds * 1000:.0f} ms" if seconds < 0.9995 else f"{seconds:.1f} s"


def print_report(report: object, shown: str | Iterable[RenderableType], *, as_json: bool) -> None:
    """Print a report on stdout.

    Args:
        report: The report as a JSON document.
        shown: The report as text, or as parts for `show`.
        as_json: Print the JSON.
    """
    if as_json:
        print_json(report)
    elif isinstance(shown, str):
        print(printable_lines(shown))
    else:
        show(shown)


def print_json(document: object) -> None:
    """Print a document as JSON on stdout."""
    print(json_text(document))


def print_json_list(documents: Iterable[object]) -> None:
    """Print a list of documents as JSON on stdout, one at a time; the list is closed if there is an error."""
    print("[", end="")
    separator = ""
    try:
        for document in documents:
            text = json_text(document).replace("\n", "\n  ")
            print(f"{separator}\n  {text}", end="")
            separator = ","
    finally:
        print("\n]" if separator else "]")


def json_text(document: object) -> str:
    """Return a document as JSON, with escapes if the encoding of stdout lacks a character."""
    import json

    dumps = partial(json.dumps, document, indent=2, allow_nan=False, default=str)
    text = dumps(ensure_ascii=False)
    try:
        text.encode(sys.stdout.encoding or "utf-8")  # that of a StringIO is None
    except UnicodeEncodeError:
        text = dumps()
    return text


#: Exit codes. The last two are those of programs that a signal ends: SIGINT and SIGPIPE.
BAD_FILE, USAGE, SKIPPED_FILES, INTERRUPTED, CLOSED_PIPE = 1, 2, 3, 130, 141

#: Phrases of click, and their replacements.
_ARGUMENT_WORDS = (
    (". Did you mean ", "; did you mean "),
    (" (Possible options: ", " (similar options: "),
)


class UsageError(IntarsiaError):
    """Wrong usage of the command that click does not detect."""


def exit_code(error: BaseException) -> int | None:
    """Return the exit code of an expected error; None for a defect of Intarsia."""
    if isinstance(error, (KeyboardInterrupt, click.Abort)):
        return INTERRUPTED
    if isinstance(error, (click.ClickException, UsageError, PredicateError, ColumnNotFoundError)):
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
    say("interrupted" if code == INTERRUPTED else one_line(error, command))
    return code


def one_line(error: BaseException, command: str = "intarsia") -> str:
    """Return an error in one line."""
    if isinstance(error, click.ClickException):
        text = error.format_message()
        text = text[:1].lower() + text[1:].removesuffix(".")
        for theirs, ours in _ARGUMENT_WORDS:
            text = text.replace(theirs, ours)
        return printable(" ".join([*text.split(), f"(see: {command} --help)"]))
    if isinstance(error, OSError) and error.strerror:
        place = "" if error.filename is None else f"{error.filename}: "
        return printable(f"{place}{error.strerror[:1].lower()}{error.strerror[1:]}")
    text = " ".join(str(error).split())
    return printable(text) or type(error).__name__


@contextmanager
def naming_output(path: str) -> Iterator[None]:
    """Add the path of an output to the errors of writing it, such as that of a full disk, which have none."""
    try:
        yield
    except OSError as error:
        if error.filename is not None or error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, path) from error


def say(text: str) -> None:
    """Print one line on stderr, prefixed with the command's name in red."""
    print(f"{red('intarsia:', sys.stderr)} {text}", file=sys.stderr)


@contextmanager
def quiet_if_closed() -> Iterator[None]:
    """End the command without a message if the reader of stdout has closed it, as ``head`` does.

    Raises:
        click.exceptions.Exit: If it has.
    """
    try:
        yield
    except BrokenPipeError:
        if not _is_closed():
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what is left in the buffer
        raise click.exceptions.Exit(CLOSED_PIPE) from None


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
