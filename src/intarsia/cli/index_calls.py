"""Indexes as they are written on the command line: ``kind(column, name=value)``."""

from __future__ import annotations

import ast
import inspect
from typing import Any

from intarsia.cli.failures import UsageError
from intarsia.errors import IntarsiaError, near_matches

#: As JSON and SQL write them; Python's own are literals.
_CONSTANTS = {"true": True, "false": False, "null": None}


def parse_index(text: str) -> Any:
    """The index that a text asks for; nothing of it is evaluated.

    Args:
        text: A kind, or a kind with columns and parameters in parentheses: columns and words may stand bare,
            other values are Python literals. As a parameter's value, ``true``, ``false`` and ``null`` are
            what they are in JSON and SQL, in any case.

    Example:
        >>> parse_index("bloom(user, fpp=0.001)")
        Bloom(column='user', fpp=0.001)
        >>> parse_index("page_index(int96='order')")
        PageIndex(int96='order')

    Raises:
        UsageError: If the text cannot be read, or there is no such kind or parameter.
    """
    kind, arguments, named = _parse_call(text)
    cls = _class_of(kind)
    signature = inspect.signature(cls)
    shown = f"{kind}({', '.join(_shown(parameter) for parameter in signature.parameters.values())})"
    for name in named:
        if name not in signature.parameters:
            near = near_matches(name, signature.parameters)
            hint = f"did you mean {near[0]}? It is {shown}" if near else f"it is {shown}"
            raise UsageError(f"--add {text}: {kind} has no parameter {name!r}; {hint}")
    try:
        signature.bind(*arguments, **named)
    except TypeError as error:
        raise UsageError(f"--add {text}: {error}; it is {shown}") from None
    try:
        return cls(*arguments, **named)
    except (IntarsiaError, TypeError, ValueError) as error:
        raise UsageError(f"--add {text}: {error}") from None


def index_kinds() -> list[tuple[str, str]]:
    """Each kind that is known, and the first line of what its class says of itself, or why it has none."""
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
    """What Parquet itself has; these are no embedded indexes, so the registry has them not."""
    from intarsia.embed import Bloom, PageIndex, Statistics

    return {cls.kind: cls for cls in (PageIndex, Statistics, Bloom)}


def _class_of(kind: str) -> type[Any]:
    from intarsia.indexes.registry import find_index_class, known_kinds, why_unknown

    standard = _standard_kinds()
    cls = standard.get(kind) or find_index_class(kind)
    if cls is not None:
        return cls
    if kind in known_kinds():
        raise UsageError(why_unknown(kind))
    kinds = sorted({*standard, *known_kinds()})
    near = near_matches(kind, kinds)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(kinds)}"
    raise UsageError(f"there is no index of kind {kind!r}; {hint}")


def _parse_call(text: str) -> tuple[str, list[Any], dict[str, Any]]:
    """Kind, columns and parameters."""
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
        f"--add {text[:200]}: write a kind, its columns and its parameters, such as "
        "'distinct(dest, granularity=\"row_group\")'; quote a column whose name is not a plain word"
    )


def _parameter(node: ast.expr) -> Any:
    """What a parameter is set to."""
    word = node.id.lower() if isinstance(node, ast.Name) else None
    return _CONSTANTS[word] if word in _CONSTANTS else _value(node)


def _value(node: ast.expr) -> Any:
    """A literal; or a bare word, dotted perhaps, as text.

    Raises:
        ValueError: If it is neither.
    """
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{_value(node.value)}.{node.attr}"  # what is no literal fails there
    if isinstance(node, ast.List | ast.Tuple):
        return tuple(_value(item) for item in node.elts)
    return ast.literal_eval(node)


def _shown(parameter: inspect.Parameter) -> str:
    if parameter.default is inspect.Parameter.empty:
        return parameter.name
    return f"{parameter.name}={parameter.default!r}"
