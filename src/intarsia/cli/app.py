"""The command with its subcommands."""

from __future__ import annotations

import copy
import os
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from intarsia.cli import (
    advise_command,
    cache_command,
    demo_command,
    explain_command,
    index_command,
    inspect_command,
    lake_index_command,
    optimize_command,
    query_command,
    verify_command,
)
from intarsia.cli.failures import INTERRUPTED, dim_warnings, quiet_if_closed, report_error, say
from intarsia.cli.terminal import red


@dataclass
class CommandState:
    """The state that all subcommands share."""

    debug: bool = False


#: The option whose value may be omitted, and its values: URLs of masters and of Connect servers.
_SPARK = "--spark"
_MASTER = re.compile(r"local(\[.*\])?|yarn|(spark|k8s|sc)://.*")


class _Command(TyperCommand):
    """A command whose epilog is a list of examples, shown verbatim; Ctrl-C ends it with one line."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        following = [*args, ""][1:]
        args = [
            f"{_SPARK}=" if arg == _SPARK and not _MASTER.fullmatch(after) else arg
            for arg, after in zip(args, following, strict=True)
        ]
        try:
            parsed: list[str] = super().parse_args(ctx, args)
        except typer.BadParameter as error:
            if getattr(error.param, "nargs", 1) != -1:
                raise
            # typer assigns paths from the right, and reports the list as missing, not the last argument
            arguments: list[Any] = [param for param in self.params if param.param_type_name == "argument"]
            raise type(error)("", ctx, arguments[-1]) from None
        return parsed

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as stop:  # typer would exit without a message
            say(str(stop) or "interrupted", red)
            raise typer.Exit(INTERRUPTED) from None

    def format_epilog(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002
        if self.epilog:
            with formatter.section("Examples"):
                for line in self.epilog.strip().splitlines():
                    formatter.write(f"{'':{formatter.current_indent}}{line}\n")


class _Group(TyperGroup):
    """The command with its subcommands; it ends quietly if the reader of stdout has closed it."""

    def make_context(self, *args: Any, **extra: Any) -> Any:
        with quiet_if_closed():  # prints the help
            return super().make_context(*args, **extra)

    def invoke(self, ctx: Any) -> Any:
        with quiet_if_closed():
            return super().invoke(ctx)


app = typer.Typer(
    cls=_Group,
    rich_markup_mode=None,  # plain help is fast and works in pipes
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
for _function, _short, _examples in (
    (inspect_command.inspect, "Show the structure of files.", inspect_command.EXAMPLES),
    (explain_command.explain, "Show what a query would read, and why.", explain_command.EXAMPLES),
    (query_command.query, "Print the rows that match.", query_command.EXAMPLES),
    (advise_command.advise, "Measure which indexes would help.", advise_command.EXAMPLES),
    (index_command.index, "Add indexes to existing files.", index_command.INDEX_EXAMPLES),
    (
        lake_index_command.lake_index,
        "Build or update the lake index of a lake.",
        lake_index_command.EXAMPLES,
    ),
    (index_command.detach, "Remove attached indexes.", index_command.DETACH_EXAMPLES),
    (verify_command.verify, "Check indexes against the data.", verify_command.EXAMPLES),
    (optimize_command.optimize, "Rewrite a lake, sorted and indexed, with Spark.", optimize_command.EXAMPLES),
    (demo_command.demo, "Try Intarsia on real data.", demo_command.EXAMPLES),
):
    app.command(cls=_Command, epilog=_examples, short_help=_short)(_function)

_cache = typer.Typer(
    rich_markup_mode=None,
    no_args_is_help=True,
    help="List and delete the lake indexes in the user's cache folder.",
    short_help="List and delete cached lake indexes.",
)
_cache.command("list", cls=_Command, epilog=cache_command.LIST_EXAMPLES)(cache_command.list_cache)
_cache.command("clear", cls=_Command, epilog=cache_command.CLEAR_EXAMPLES)(cache_command.clear_cache)
app.add_typer(_cache, name="cache")


def _print_version(requested: bool) -> None:
    if requested:
        from importlib.metadata import PackageNotFoundError, version

        try:
            number = version("intarsia")
        except PackageNotFoundError:  # run from a checkout without installation
            number = "(not installed)"
        print(f"intarsia {number}")
        raise typer.Exit


def _set_debug(ctx: typer.Context, requested: bool) -> None:
    ctx.find_root().obj.debug |= requested


@app.callback(invoke_without_command=True)
def _root(
    ctx: typer.Context,
    version: Annotated[  # noqa: ARG001
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
    debug: Annotated[  # noqa: ARG001
        bool,
        typer.Option(
            "--debug",
            callback=_set_debug,
            help="Show tracebacks; INTARSIA_DEBUG=1 does the same.",
        ),
    ] = False,
) -> None:
    """Index existing Parquet files, and read only the pages that can match."""
    if ctx.invoked_subcommand is None:
        print(ctx.get_help())


def build() -> Any:
    """Build the command; ``--debug`` is allowed before and after the name of a subcommand."""
    root: Any = typer.main.get_command(app)
    debug = next(option for option in root.params if option.name == "debug")
    for command in _leaves(root):
        option = copy.copy(debug)
        option.expose_value = False
        option.hidden = True
        command.params.append(option)
    return root


def _leaves(group: Any) -> Iterator[Any]:
    """Yield the commands that are not groups of commands."""
    for command in group.commands.values():
        if hasattr(command, "commands"):
            yield from _leaves(command)
        else:
            yield command


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command; see `intarsia.cli.main`."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    state = CommandState(debug=os.environ.get("INTARSIA_DEBUG", "") not in ("", "0"))
    root = build()
    try:
        with dim_warnings():
            code = root.main(arguments, prog_name="intarsia", standalone_mode=False, obj=state)
        with quiet_if_closed():
            sys.stdout.flush()
    except typer.Exit as end:
        code = end.exit_code
    except Exception as error:
        code = report_error(error, _name(root, arguments), debug=state.debug)
        if code is None:
            raise
    except KeyboardInterrupt as error:
        code = report_error(error)
    if code == INTERRUPTED:
        # CPython records an interrupt that arrived in `exec` or `eval` of text, as in an import of a module
        # with dataclasses, and ends the process by the signal, not with this code. The next `eval` clears it.
        eval("0")  # noqa: S307
    return int(code or 0)


def _name(root: Any, arguments: Sequence[str]) -> str:
    """Return the name of the command, with that of the subcommand if it exists."""
    return " ".join(["intarsia", *[word for word in arguments if word in root.commands][:1]])
