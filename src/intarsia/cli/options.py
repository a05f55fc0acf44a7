"""Options of the subcommands, and the parsing of their values.

A command lists its options in its docstring, as this docstring does for those of several commands. The types
of its parameters are the types of the values. See `describe`.

Options:
    PATH: Files, folders or globs; local paths or URLs. The prefix delta+ selects a Delta table.
    --where -w SQL: Select rows, for example "user = 42 AND city LIKE 'Ber%'". Repeatable: rows must match
        all.
    --columns -c A,B: Columns of the result; all by default.
    --limit -n N: Maximum number of rows; reading stops early.
    --order-by COLUMNS: The first rows in an order, such as 'amount DESC, day'; needs --limit. Only pages that
        might contain them are read.
    --aggregate -a SQL: One row of aggregates instead of the rows: count(*), or count, sum, min, max, avg of
        columns, in query also approx_distinct; from indexes where possible. Repeatable.
    --timeout SECONDS: Maximum time of the query, including all its requests; no limit by default.
    --storage-option NAME=VALUE: An option of the store of a URL, such as deadline_seconds=20 or
        aws_region=eu-central-1; repeatable. Keep secrets in the environment.
    --spark [MASTER]: Run as a Spark job, on a master such as local[4], yarn or sc://host; by default on the
        master of spark-submit, or on all cores of this machine. PATH can then be the name of a table.
    --json: Print JSON.
    --add KIND(COL, NAME=VALUE): Add an index of any kind (see intarsia index --list), such as
        'distinct(dest, max_values=500)'; repeatable.
    --distinct COL[:GRANULARITY]: Add the distinct values of a column per page (default), row_group, file or
        number of rows; repeatable.
    --bloom COL[:FPP]: Add Parquet's Bloom filters of a column with the false-positive rate FPP (default
        0.01); repeatable.
"""

from __future__ import annotations

import csv
import inspect
import math
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin

import click

from intarsia.cli.terminal import UsageError

if TYPE_CHECKING:
    from intarsia.embed import Bloom
    from intarsia.indexes.distinct import Distinct
    from intarsia.predicate import Predicate

# --- combinations ----------------------------------------------------------------------------------------

_ALL_ROWS = "it uses all rows"
_STORE = "set the variables of the store in the environment of the driver and the executors"

_ONE_ROW = {
    "--limit": "the result is one row",
    "--order-by": "the result is one row",
    "--columns": "the aggregates name their columns",
}

#: The options of each command that exclude others, with the reasons.
_CONFLICTS: dict[str, dict[str, dict[str, str]]] = {
    "query": {
        "--value-counts": {
            "--order-by": "the most frequent values are first",
            "--columns": "its columns are value and count",
            "--aggregate": "it prints a row for each value",
        },
        "--aggregate": _ONE_ROW,
        "--skip-bad-files": {"--order-by": "the first rows might be in a bad file"},
        "--sample": dict.fromkeys(
            ("--where", "--limit", "--order-by", "--aggregate", "--value-counts", "--skip-bad-files"),
            _ALL_ROWS,
        ),
    },
    "map": {"--aggregate": _ONE_ROW},
    "verify": {"--quick": {"--sample": "it reads no data pages"}, "--storage-option": {"--spark": _STORE}},
    "index": {"--storage-option": {"--spark": _STORE}},
    "detach": {"--storage-option": {"--spark": _STORE}},
    "advise": {"--storage-option": {"--spark": _STORE}},
    "optimize": {"--no-partitions": {"--partition-by": "it writes no folders"}},
    "lake-index": {"--remove": {"--beside": "it deletes the lake index in the cache and in the lake"}},
    "clear": {"--gone": {"LAKE": "it selects the lakes"}},
}

#: The options of each command that need another one, with an example.
_NEEDS = {
    "query": {"--seed": ("--sample", "--sample 1000"), "--order-by": ("--limit", "--limit 10")},
    "map": {"--order-by": ("--limit", "--limit 10")},
    "verify": {"--seed": ("--sample", "--sample 10")},
    "index": dict.fromkeys(
        ("--only-new", "--min-file-size", "--older-than", "--register"), ("--spark", "--spark")
    ),
}


def check_combinations(command: str, given: Mapping[str, object]) -> None:
    """Raise an error if options are combined that exclude each other, or if one lacks another.

    Args:
        command: The name of the subcommand.
        given: The values of its parameters.
    """

    def is_given(option: str) -> bool:
        value = given[option.removeprefix("--").replace("-", "_").lower()]
        return value is not None and value is not False and value not in ((), [])

    for option, others in _CONFLICTS.get(command, {}).items():
        for other, reason in others.items():
            if is_given(option) and is_given(other):
                message = f"{option} cannot be combined with {other}: {reason}"
                raise UsageError(message, reason="conflicting-options")
    for option, (other, example) in _NEEDS.get(command, {}).items():
        if is_given(option) and not is_given(other):
            raise UsageError(f"{option} needs {other}; add {example}", reason="missing-option")


def describe(function: Callable[..., None]) -> dict[str, Any]:
    """Return the help of a command, its examples as the epilog, and its parameters.

    Its docstring, or that of this module, lists them. An entry is the names of an option and the placeholder
    of its value, as the help shows them, a colon, and the help. Without names, it is an argument. The type of
    a parameter may be `Annotated` with ``min``, with ``parser``, or with further arguments of `click.Option`.
    """
    text = inspect.getdoc(function) or ""
    listed = _entries(__doc__ or "") | _entries(text)
    hints = inspect.get_annotations(function, eval_str=True)
    params: list[click.Parameter] = [
        _parameter(name, hints[name], parameter.default, *listed[name])
        for name, parameter in inspect.signature(function).parameters.items()
        if name in listed
    ]
    summary, _, examples = text.partition("\n\nExamples:\n")
    return {
        "help": summary.partition("\n\nOptions:\n")[0],
        "epilog": textwrap.dedent(examples),
        "params": params,
    }


def _parameter(
    name: str, hint: Any, default: Any, names: list[str], metavar: str | None, description: str
) -> click.Parameter:
    """Declare a parameter of a function as an option, or as an argument if there are no names."""
    base, details = get_args(hint) if hasattr(hint, "__metadata__") else (hint, {})
    details = dict(details)
    if get_origin(base) in (Union, UnionType):
        (base,) = (one for one in get_args(base) if one is not NoneType)
    is_list = get_origin(base) is list
    (value_type,) = get_args(base) if is_list else (base,)
    parser, least = details.pop("parser", None), details.pop("min", None)
    if value_type is not bool:
        details["type"] = parser or _type_of(value_type, least, metavar)
    if is_list:
        details.setdefault("callback", lambda _ctx, _param, value: list(value) or None)
    if default is inspect.Parameter.empty:
        details["required"] = True
    else:
        details["default"] = default
    if not names:
        return Argument([name], description, metavar or name.upper(), is_list=is_list, **details)
    shows_default = default not in (None, False, "")
    kind = {"is_flag": True} if value_type is bool else {"multiple": is_list, "show_default": shows_default}
    return click.Option([*names, name], metavar=metavar, help=description, **kind | details)


def _type_of(value_type: type, least: Any, metavar: str | None) -> Any:
    if get_origin(value_type) is Literal:
        return click.Choice(get_args(value_type))
    if least is not None:
        return _Number(min=least) if value_type is float else click.IntRange(min=least)
    # shells complete paths
    return click.Path() if value_type is str and metavar in _FILES else value_type


class _Number(click.FloatRange):
    """A number with a minimum; NaN passes the comparison of click."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{number} is not a finite number", param, ctx)
        return number


#: Placeholders of values that are files or folders.
_FILES = ("DESTINATION", "DIR", "FILE", "LAKE", "PATH")


def wants_json(ctx: click.Context) -> bool:
    """Return whether the arguments contain --json, also if an option that prints a text precedes it."""
    return bool(getattr(ctx.command, "wants_json", False))


def printing(text: Callable[[click.Context, Any], str]) -> dict[str, Any]:
    """Return the details of an option that prints a text, which may depend on its value, and nothing else.

    The text may also depend on `wants_json`.
    """

    def callback(ctx: click.Context, _param: click.Parameter, value: Any) -> None:
        if value:
            print(text(ctx, value))
            ctx.exit()

    return {"callback": callback, "is_eager": True}


class Argument(click.Argument):
    """An argument with a help, which click itself has since version 8.5."""

    def __init__(
        self, names: list[str], description: str, metavar: str, *, is_list: bool, **extra: Any
    ) -> None:
        usage = (metavar if extra.get("required") else f"[{metavar}]") + ("..." if is_list else "")
        super().__init__(names, metavar=usage, nargs=-1 if is_list else 1, **extra)
        self.shown = metavar
        self.description = description


def _entries(text: str) -> dict[str, tuple[list[str], str | None, str]]:
    """Return the names, the placeholder and the help of each option by the name of its parameter."""
    section = textwrap.dedent(text.partition("\nOptions:\n")[2].partition("\n\n")[0])
    found = {}
    for entry in filter(None, re.split(r"\n(?=\S)", section)):
        declaration, _, description = " ".join(map(str.strip, entry.splitlines())).partition(": ")
        words = declaration.split()
        names = [word for word in words if word.startswith("-")]
        metavar = " ".join(words[len(names) :])
        parameter = (names[0] if names else metavar).strip("-[]…").replace("-", "_").lower()
        found[parameter] = names, metavar or None, description
    return found


# --- rows and files ---------------------------------------------------------------------------------------


def parse_where(given: Sequence[str] | None) -> str | Predicate | None:
    """Return the predicate of the values of ``--where``, joined by AND.

    Raises:
        PredicateError: If one of several cannot be parsed.
    """
    if not given or len(given) == 1:
        return given[0] if given else None
    from intarsia.predicate import And, parse_sql

    return And(tuple(map(parse_sql, given)))


def split_names(given: Sequence[str] | None, option: str = "--columns") -> list[str] | None:
    """Parse column names from repeated options like ``a,b``; ``"x,y"`` is a name with a comma.

    Args:
        given: The values of the option.
        option: Its name, for the error.

    Example:
        >>> split_names(["a,b", '"x,y"'])
        ['a', 'b', 'x,y']

    Raises:
        UsageError: If all names are empty, or a line break is not in quotes.
    """
    if not given:
        return None
    try:
        rows = list(csv.reader(given, skipinitialspace=True))
    except csv.Error:
        raise UsageError(
            f"{option}: a name contains a line break or is too long; put line breaks in double quotes",
            reason="invalid-column-name",
        ) from None
    names = [name.strip() for row in rows for name in row if name.strip()]
    if not names:
        raise UsageError(
            f"{option}: the name of a column is empty; name a column, or omit the option",
            reason="empty-column-name",
        )
    return names


def names_of(_ctx: click.Context, param: click.Parameter, value: Sequence[str]) -> list[str] | None:
    """Parse the column names of an option."""
    return split_names(value, param.opts[0])


def parse_storage_options(given: Sequence[str] | None) -> dict[str, str | float | int] | None:
    """Parse the values of ``--storage-option``; those of numeric options become numbers.

    Example:
        >>> parse_storage_options(["aws_region=eu-central-1", "max_retries=3"])
        {'aws_region': 'eu-central-1', 'max_retries': 3}

    Raises:
        UsageError: If an option has no name, is set twice, or is not a number where it has to be one.
    """

    def refuse(why: str) -> UsageError:
        return UsageError(f"--storage-option {text}: {why}", reason="invalid-storage-option")

    found: dict[str, str | float | int] = {}
    for text in given or ():
        name, equals, value = text.partition("=")
        name = name.strip().lower()
        if not name or not equals:
            raise refuse("it has no name or no value; write it as in max_retries=3")
        if name in found:
            raise refuse(f"{name} is set twice; omit one")
        try:
            found[name] = _NUMBERS[name](value) if name in _NUMBERS else value
        except ValueError:
            raise refuse(f"{value!r} is not a number") from None
    return found or None


#: Numeric options of stores.
_NUMBERS: dict[str, type[int] | type[float]] = {
    "deadline_seconds": float,
    "timeout_seconds": float,
    "max_retries": int,
}

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "ki": 1 << 10, "mi": 1 << 20, "gi": 1 << 30}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmg]i?|)b?", re.IGNORECASE)


def parse_size(text: str | int) -> int:
    """Parse a number of bytes.

    Example:
        >>> parse_size("8MB"), parse_size("1.5 gb"), parse_size("4096"), parse_size("2KiB")
        (8000000, 1500000000, 4096, 2048)

    Raises:
        click.BadParameter: If it is not a positive size.
    """
    match = _SIZE.fullmatch(str(text).strip())
    num_bytes = int(float(match[1]) * _UNITS[match[2].lower()]) if match else 0
    if num_bytes < 1:
        raise click.BadParameter(f"{text!r} is not a size, such as 64MB")
    return num_bytes


def parse_ordinals(given: Sequence[str] | None, option: str) -> list[int] | None:
    """Parse numbers and ranges.

    Example:
        >>> parse_ordinals(["0,5", "10-12"], "--row-groups")
        [0, 5, 10, 11, 12]

    Raises:
        UsageError: If the text has another form.
    """
    found: list[int] = []
    for text in split_names(given, option) or ():
        match = re.fullmatch(r"(\d{1,6})(?:-(\d{1,6}))?", text)
        numbers = match and range(int(match[1]), int(match[2] or match[1]) + 1)
        if not numbers:
            raise UsageError(
                f"{option}: {text!r} is not a number or a range, such as 0 or 10-20", reason="invalid-number"
            )
        found += numbers
    return found if given else None


ColumnNames = Annotated[list[str] | None, {"callback": names_of}]
Size = Annotated[int, {"parser": parse_size, "show_default": False}]
MinSize = Annotated[int | None, {"parser": parse_size}]
Count = Annotated[int | None, {"min": 0}]
Timeout = Annotated[float | None, {"min": 0.001}]

# --- indexes ----------------------------------------------------------------------------------------------

GRANULARITIES = ("page", "row_group", "file")


def parse_distinct(text: str) -> Distinct:
    """Parse a `Distinct` from ``COLUMN`` or ``COLUMN:GRANULARITY``.

    Example:
        >>> parse_distinct("dest:row_group")
        Distinct(column='dest', granularity='row_group', max_values=None, form='granules')

    Raises:
        UsageError: If the granularity is unknown.
    """
    from intarsia.errors import near_matches
    from intarsia.indexes.distinct import Distinct

    column, colon, granularity = text.rpartition(":")
    if not colon:
        return Distinct(text)
    if granularity in GRANULARITIES:
        return Distinct(column, granularity)
    if granularity.isdecimal() and int(granularity):
        return Distinct(column, int(granularity))
    near = near_matches(granularity, GRANULARITIES)
    hint = f"did you mean {near[0]}?" if near else "use page, row_group, file or a number of rows"
    raise UsageError(
        f"--distinct {text}: unknown granularity {granularity!r}; {hint}", reason="unknown-granularity"
    )


def parse_bloom(text: str) -> Bloom:
    """Parse a `Bloom` from ``COLUMN`` or ``COLUMN:FPP``.

    Example:
        >>> parse_bloom("user:0.001")
        Bloom(column='user', fpp=0.001)

    Raises:
        UsageError: If FPP is not a number between 0 and 1.
    """
    from intarsia.embed import Bloom
    from intarsia.errors import IndexBuildError

    column, colon, share = text.rpartition(":")
    if not colon:
        return Bloom(text)
    try:
        return Bloom(column, float(share))
    except (ValueError, IndexBuildError):
        raise UsageError(
            f"--bloom {text}: {share!r} is not a false-positive rate between 0 and 1, such as 0.01",
            reason="invalid-fpp",
        ) from None


def parse_index(text: str) -> Any:
    """Parse an index of ``--add``; see `intarsia.embed.index_text.parse_index`.

    Example:
        >>> parse_index("bloom(user, fpp=0.001)")
        Bloom(column='user', fpp=0.001)

    Raises:
        UsageError: If the text cannot be parsed, or the kind or a parameter is unknown.
    """
    from intarsia.embed.index_text import parse_index
    from intarsia.errors import IndexBuildError

    try:
        return parse_index(text)
    except IndexBuildError as error:
        raise UsageError(f"--add {text[:200]}: {error}", reason=error.reason) from None


IndexCalls = Annotated[list[Any] | None, {"parser": parse_index}]
DistinctColumns = Annotated[list[Any] | None, {"parser": parse_distinct}]
BloomColumns = Annotated[list[Any] | None, {"parser": parse_bloom}]
