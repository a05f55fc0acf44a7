"""Run an action on many files, here or as a Spark job, and print its report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, cast

import click

from intarsia.cli.terminal import ShowDone, UsageError, print_json, printable, progress, say

if TYPE_CHECKING:
    from intarsia.lake.data_file import FileFailure, FileResults
    from intarsia.lake.discovery import FoundFiles
    from intarsia.storage import StorageOptions

T = TypeVar("T")


def find(paths: Sequence[str], storage_options: StorageOptions | None = None) -> FoundFiles:
    """Find the files of the arguments.

    Raises:
        FileNotFoundError: If there are none.
    """
    from intarsia.lake.discovery import find_files

    return find_files(list(paths), storage_options)


def one_or_all(paths: list[str]) -> str | list[str]:
    """Return the arguments as a source; the name of a table is a single one."""
    return paths[0] if len(paths) == 1 else paths


def for_each(label: str, paths: Sequence[str], act: Callable[[str, ShowDone], T]) -> FileResults[T]:
    """Run an action on each file, with a progress bar.

    Args:
        label: Name of the action.
        paths: The files.
        act: Called with a file, and with a function to report the fraction done.
    """
    from intarsia.lake.data_file import for_each_file

    with progress(label, len(paths)) as show:
        return for_each_file(paths, act, show)


def until_interrupted(run: Callable[[], T]) -> tuple[T, KeyboardInterrupt | None]:
    """Run over many files; after Ctrl-C, return the report of those that are done, and the interruption."""
    from intarsia.errors import RunInterrupted

    try:
        return run(), None
    except RunInterrupted as stop:
        return cast(T, stop.report), stop


@contextmanager
def usage_errors(reason: str) -> Iterator[None]:
    """Translate errors of arguments within the block to those of wrong usage.

    Args:
        reason: The code of errors that have none.
    """
    from intarsia.errors import IndexBuildError, IntarsiaError

    try:
        yield
    except IndexBuildError as error:
        raise UsageError(str(error), reason=error.reason, column=error.column) from None
    except ValueError as error:
        if isinstance(error, IntarsiaError):
            raise
        raise UsageError(str(error), reason=reason) from None


def run_job(master: str | None, name: str, *arguments: Any, **options: Any) -> Any:
    """Call a function of `intarsia.spark` with a session of its own.

    Args:
        master: The value of ``--spark``; empty or None for the default.
        name: The function.
        arguments: Its arguments after the session.
        options: Its options.

    Raises:
        UsageError: If PySpark is not installed, or an argument is invalid.
        IntarsiaError: If Spark fails, such as for folders with other partition columns.
    """
    from intarsia.errors import IntarsiaError

    try:
        from intarsia import spark
        from intarsia.spark.sessions import command_session

        with usage_errors("invalid-argument"), command_session(master or None) as session:
            return getattr(spark, name)(session, *arguments, **options)
    except ModuleNotFoundError as error:
        if error.name != "pyspark":
            raise
        raise UsageError(
            "Spark jobs need PySpark; install it in a checkout of Intarsia: pip install '.[spark]'",
            reason="missing-pyspark",
        ) from None
    except Exception as error:
        names = {one.__name__ for one in type(error).__mro__}
        lines = str(error).strip().splitlines()
        # Spark cannot find or read the source, or cannot parse the condition
        if "AnalysisException" in names:
            raise UsageError(lines[0], reason="spark-analysis") from None
        if names.isdisjoint({"PySparkException", "Py4JJavaError"}):
            raise
        # the first line of an error of Py4J names only the call; --debug prints all
        first = next((line[2:] for line in lines if line.startswith(": ")), lines[0])
        raise IntarsiaError(f"Spark failed: {first}", reason="spark-failed") from error


def show_failures(failed: Mapping[str, str]) -> None:
    """Print one line on stderr for each file that failed, with the reason."""
    for path, reason in failed.items():
        say(printable(f"{path}: {reason}"))


def reasons(failed: Iterable[FileFailure]) -> dict[str, str]:
    """Return the reason of each failure by path."""
    return {failure.path: failure.reason for failure in failed}


def finish(
    document: Mapping[str, Any],
    text: str,
    failed: Mapping[str, str],
    *,
    as_json: bool,
    stop: KeyboardInterrupt | None = None,
    code: int = 0,
) -> NoReturn:
    """Print the report of a run over many files, and end the command.

    Args:
        document: The report as JSON.
        text: The report as text, whose control characters are escaped.
        failed: The files that failed, with the reasons, which are printed before the text.
        as_json: Print the JSON.
        stop: The interruption of the run; it is raised afterwards.
        code: The exit code if no file failed.
    """
    if as_json:
        print_json({**document, **({"interrupted": True} if stop else {})})
    else:
        show_failures(failed)
        print(text)
    if stop:
        raise stop
    raise click.exceptions.Exit(1 if failed else code)
