"""Parse indexes on the command line: ``kind(column, name=value)``."""

from __future__ import annotations

import ast
import inspect
from typing import Any

from intarsia.cli.failures import UsageError
from intarsia.errors import IntarsiaError, near_matches

#: Constants in the notation of JSON and SQL; Python's constants are literals.
_CONSTANTS = {"true": True, "false": False, "null": None}


def parse_index(text: str) -> Any:
    """Parse an index; the text is never evaluated as code.

    Args:
        text: A kind, or a kind with columns and parameters in parentheses. Columns and words need no quotes;
            other values are Python literals. Parameters may also be ``true``, ``false`` and ``null`` in any
            case, as in JSON and SQL.

    Example:
        >>> parse_index("bloom(user, fpp=0.001)")
        Bloom(column='user', fpp=0.001)
        >>> parse_index("page_index(int96='order')")
        PageIndex(int96='order')

    Raises:
        UsageError: If the text cannot be parsed, or the kind or a parameter is unknown.
    """
    kind, arguments, named = _parse_call(text)
    cls = _class_of(kind)
    signature = inspect.signature(cls)
    shown = f"{kind}({', '.join(_shown(parameter) for parameter in signature.parameters.values())})"
    for name in named:
        if name not in signature.parameters:
            near = near_matches(name, signature.parameters)
            hint = f"did you mean {near[0]}? The form is {shown}" if near else f"the form is {shown}"
            raise UsageError(
                f"--add {text}: {kind} has no parameter {name!r}; {hint}", reason="unknown-parameter"
            )
    try:
        signature.bind(*arguments, **named)
    except TypeError as error:
        raise UsageError(f"--add {text}: {error}; the form is {shown}", reason="invalid-parameters") from None
    try:
        return cls(*arguments, **named)
    except (IntarsiaError, TypeError, ValueError) as error:
        reason = error.reason if isinstance(error, IntarsiaError) else "invalid-parameters"
        raise UsageError(f"--add {text}: {error}", reason=reason) from None


def index_kinds() -> list[tuple[str, str]]:
    """Return each known kind with the first line of its class's docstring, or why it cannot be loaded."""
    from intarsia.indexes.registry import find_index_class, known_kinds, why_unknown

    standard = _standard_kinds()
    found = []
    for data_type in [*standard, *(data_type for data_type in known_kinds() if data_type not in standard)]:
        cls = standard.get(data_type) or find_index_class(data_type)
        text = (
            why_unknown(data_type)
            if cls is None
            else (inspect.getdoc(cls) or "").partition("\n")[0].replace("``", "")
        )
        found.append((data_type, text))
    return found


def _standard_kinds() -> dict[str, type[Any]]:
    """Return the kinds that Parquet defines; they are not embedded, so the registry does not contain them."""
    from intarsia.embed import Bloom, PageIndex, Statistics

    return {cls.kind: cls for cls in (PageIndex, Statistics, Bloom)}


def _class_of(kind: str) -> type[Any]:
    from intarsia.indexes.registry import find_index_class, known_kinds, why_unknown

    standard = _standard_kinds()
    cls = standard.get(kind) or find_index_class(kind)
    if cls is not None:
        return cls
    if kind in known_kinds():
        raise UsageError(why_unknown(kind), reason="unknown-kind")
    kinds = sorted({*standard, *known_kinds()})
    near = near_matches(kind, kinds)
    hint = f"did you mean {near[0]}?" if near else f"the kinds are {', '.join(kinds)}"
    raise UsageError(f"unknown kind of index {kind!r}; {hint}", reason="unknown-kind")


def _parse_call(text: str) -> tuple[str, list[Any], dict[str, Any]]:
    """Split the text into kind, columns and parameters."""
    try:
        node = ast.parse(text.strip(), mode="eval").body
        if isinstance(node, ast.Name):
            return node.id, [], {}
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            named = {item.arg: _parameter(item.value) for item in node.keywords if item.arg is not None}
            if len(named) == len(node.keywords):
                return node.func.id, [_value(item) for item in node.args], named
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        pass
    raise UsageError(
        f"--add {text[:200]}: cannot be parsed; write a kind with columns and parameters, such as "
        "'distinct(dest, granularity=\"row_group\")', and quote columns whose names are not plain words",
        reason="invalid-index",
    )


def _parameter(node: ast.expr) -> Any:
    """Return the value of a parameter."""
    word = node.id.lower() if isinstance(node, ast.Name) else None
    return _CONSTANTS[word] if word in _CONSTANTS else _value(node)


def _value(node: ast.expr) -> Any:
    """Return the value of a literal, or a word, which may be dotted, as a string.

    Raises:
        ValueError: If the node is neither.
    """
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{_value(node.value)}.{node.attr}"  # raises for other nodes
    if isinstance(node, ast.List | ast.Tuple):
        return tuple(_value(item) for item in node.elts)
    return ast.literal_eval(node)


def _shown(parameter: inspect.Parameter) -> str:
    if parameter.default is inspect.Parameter.empty:
        return parameter.name
    return f"{parameter.name}={parameter.default!r}"
