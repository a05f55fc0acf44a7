"""Indexes as text, such as ``page_index, distinct(dest, granularity="file")``, for the shell and for SQL."""

from __future__ import annotations

import ast
import inspect
from typing import Any

from intarsia.embed.structures import STANDARD, Attachable
from intarsia.errors import IndexBuildError, IntarsiaError, code_of, near_matches
from intarsia.indexes.registry import find_index_class, known_kinds, why_unknown

#: Constants in the notation of JSON and SQL; Python's constants are literals.
_CONSTANTS = {"true": True, "false": False, "null": None}

#: The kinds that Parquet defines; they are not embedded, so the registry does not contain them.
STANDARD_KINDS: dict[str, type[Any]] = {cls.kind: cls for cls in STANDARD}


def parse_index(text: str) -> Attachable:
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
        IndexBuildError: If the text cannot be parsed, or the kind or a parameter is unknown.
    """
    return _index_of(_parsed(text))


def parse_indexes(text: str) -> list[Attachable]:
    """Parse a list of indexes, separated by commas; see `parse_index`.

    Example:
        >>> parse_indexes("page_index, bloom(user)")
        [PageIndex(int96=None), Bloom(column='user', fpp=0.01)]

    Raises:
        IndexBuildError: As for `parse_index`.
    """
    node = _parsed(f"[{text}\n]", text)
    return [_index_of(item) for item in node.elts] if isinstance(node, ast.List) else [_index_of(node)]


def index_kinds() -> list[tuple[str, str]]:
    """Return each known kind with the first line of its class's docstring, or why it cannot be loaded."""
    found = []
    for kind in dict.fromkeys([*STANDARD_KINDS, *known_kinds()]):
        cls = STANDARD_KINDS.get(kind) or find_index_class(kind)
        line = (inspect.getdoc(cls) or "").partition("\n")[0].replace("``", "")
        found.append((kind, line if cls is not None else why_unknown(kind)))
    return found


def _parsed(text: str, shown: str | None = None) -> ast.expr:
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise _unparsable(text if shown is None else shown) from None


def _unparsable(text: str) -> IndexBuildError:
    return IndexBuildError(
        f"{text[:200]!r} cannot be parsed; write a kind with columns and parameters, such as "
        "'distinct(dest, granularity=\"row_group\")', and quote columns whose names are not plain words",
        reason="invalid-index",
    )


def _index_of(node: ast.expr) -> Attachable:
    kind, arguments, named = _call_of(node)
    cls = _class_of(kind)
    signature = inspect.signature(cls)
    form = ", ".join(
        name if parameter.default is inspect.Parameter.empty else f"{name}={parameter.default!r}"
        for name, parameter in signature.parameters.items()
    )
    for name in named:
        if name not in signature.parameters:
            near = near_matches(name, signature.parameters)
            hint = f"did you mean {near[0]}? The form is" if near else "the form is"
            raise IndexBuildError(
                f"{kind} has no parameter {name!r}; {hint} {kind}({form})", reason="unknown-parameter"
            )
    try:
        signature.bind(*arguments, **named)
    except TypeError as error:
        raise IndexBuildError(f"{error}; the form is {kind}({form})", reason="invalid-parameters") from None
    try:
        found: Attachable = cls(*arguments, **named)
    except (IntarsiaError, TypeError, ValueError) as error:
        raise IndexBuildError(str(error), reason=code_of(error, "invalid-parameters")) from None
    return found


def _class_of(kind: str) -> type[Any]:
    cls = STANDARD_KINDS.get(kind) or find_index_class(kind)
    if cls is not None:
        return cls
    if kind in known_kinds():
        raise IndexBuildError(why_unknown(kind), reason="unknown-kind")
    kinds = sorted({*STANDARD_KINDS, *known_kinds()})
    near = near_matches(kind, kinds)
    hint = f"did you mean {near[0]}?" if near else f"the kinds are {', '.join(kinds)}"
    raise IndexBuildError(f"unknown kind of index {kind!r}; {hint}", reason="unknown-kind")


def _call_of(node: ast.expr) -> tuple[str, list[Any], dict[str, Any]]:
    """Return the kind, the columns and the parameters."""
    try:
        if isinstance(node, ast.Name):
            return node.id, [], {}
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            named = {item.arg: _parameter(item.value) for item in node.keywords if item.arg is not None}
            if len(named) == len(node.keywords):
                return node.func.id, [_value(item) for item in node.args], named
    except (ValueError, RecursionError):
        pass
    raise _unparsable(ast.unparse(node))


def _parameter(node: ast.expr) -> Any:
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
