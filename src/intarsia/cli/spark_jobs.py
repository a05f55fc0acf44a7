"""Run a subcommand as a Spark job."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, TypeVar

import typer

from intarsia.cli.failures import UsageError

T = TypeVar("T")

Master = Annotated[
    str | None,
    typer.Option(
        "--spark",
        metavar="[MASTER]",
        help="Run as a Spark job, on a master such as local[4], yarn or sc://host; by default on the "
        "master of spark-submit, or on all cores of this machine. PATH can then be the name of a table.",
    ),
]


def refuse_storage_options(options: Mapping[str, object] | None, master: str | None) -> None:
    """Raise an error if options of a store are combined with a Spark job, whose workers do not have them.

    Raises:
        UsageError: If both are given.
    """
    if options and master is not None:
        raise UsageError(
            "--storage-option cannot be combined with --spark; set the variables of the store in the "
            "environment of the driver and the executors",
            reason="conflicting-options",
        )


def run_job(master: str | None, job: Callable[[Any], T]) -> T:
    """Run a job in a session of its own.

    Args:
        master: The value of ``--spark``; empty or None for the default.
        job: Gets the session.

    Raises:
        UsageError: If PySpark is not installed, or an argument is invalid.
    """
    from intarsia.errors import IndexBuildError, IntarsiaError

    try:
        from intarsia.spark.local import command_session

        with command_session(master or None) as session:
            return job(session)
    except ModuleNotFoundError as error:
        if error.name != "pyspark":
            raise
        raise UsageError(
            "Spark jobs need PySpark; install it: pip install 'intarsia[spark]'", reason="missing-pyspark"
        ) from None
    except IndexBuildError as error:
        raise UsageError(str(error), reason=error.reason, column=error.column) from None
    except ValueError as error:
        if isinstance(error, IntarsiaError):
            raise
        raise UsageError(str(error), reason="invalid-argument") from None
    except Exception as error:
        if type(error).__name__ == "AnalysisException":  # Spark cannot find or read the source
            raise UsageError(str(error).splitlines()[0], reason="spark-analysis") from None
        raise
