"""Parameters in SQL text: ``?`` and ``:name``, whose values are passed beside the text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from intarsia.errors import PredicateError, near_matches
from intarsia.predicate.sql_dialect import short

Parameters: TypeAlias = "Sequence[object] | Mapping[str, object]"
"""The values of ``?`` in the order of the text, or those of ``:name`` by name."""

#: The name under which the value of a parameter is kept in the node that sqlglot parsed.
_VALUE: Final = "value of a parameter"


def attach_parameters(tree: Any, parameters: Parameters, text: str) -> None:
    """Attach the values of parameters to the nodes that sqlglot parsed.

    Args:
        tree: The parsed text, which is changed.
        parameters: The values.
        text: The text, for messages.

    Raises:
        PredicateError: If the text has other parameters.
    """
    # depth first, which is the order of the text
    nodes = [node for node in tree.dfs() if type(node).__name__ == "Placeholder"]
    values = _by_name(nodes, parameters) if isinstance(parameters, Mapping) else _in_order(nodes, parameters)
    for node, value in zip(nodes, values, strict=True):
        node.meta[_VALUE] = value
    if not nodes:
        raise PredicateError(
            f"the predicate {short(text)} has no parameters; write ? or :name in place of a literal",
            reason="no-parameters-in-text",
        )


def _in_order(nodes: Sequence[Any], parameters: Any) -> Sequence[object]:
    if isinstance(parameters, (str, bytes)) or not isinstance(parameters, Iterable):
        raise PredicateError(
            f"parameters is {parameters!r:.80}; pass a list for ?, or a dict for :name",
            reason="not-a-list-of-parameters",
        )
    values = list(parameters)
    if named := [node.this for node in nodes if node.this]:
        raise PredicateError(
            f"the parameter :{named[0]} is named; pass a dict, such as {{{named[0]!r}: …}}",
            reason="named-parameter-without-name",
        )
    if len(values) != len(nodes):
        raise PredicateError(
            f"the number of parameters in the predicate is {len(nodes)}, but that of values is {len(values)}",
            reason="wrong-number-of-parameters",
        )
    return values


def _by_name(nodes: Sequence[Any], parameters: Mapping[str, object]) -> Sequence[object]:
    names = [node.this for node in nodes]
    if None in names:
        raise PredicateError(
            "the parameter ? has no name; pass a list, or write :name", reason="parameter-without-name"
        )
    for name in names:
        if name not in parameters:
            near = near_matches(name, list(parameters))
            hint = f"; did you mean {near[0]!r}?" if near else f"; pass {{{name!r}: …}}"
            raise PredicateError(f"the parameter :{name} has no value{hint}", reason="missing-parameter")
    unused = [name for name in parameters if name not in names]
    if nodes and unused:
        raise PredicateError(
            f"the predicate has no parameter :{unused[0]}; remove it from parameters",
            reason="unused-parameter",
        )
    return [parameters[name] for name in names]


def attached_value(node: Any) -> object:
    """Return the value of a parameter that stands for a literal.

    Raises:
        PredicateError: If it has none, or is a list.
    """
    value = _attached(node)
    if isinstance(value, (list, tuple, set, frozenset)):
        raise PredicateError(
            f"the parameter {_shown(node)} is a list; write IN {_shown(node)}, without parentheses",
            reason="parameter-is-a-list",
        )
    return value


def attached_list(node: Any) -> tuple[object, ...] | None:
    """Return the values of a parameter that stands for a whole list, as in ``IN ?``.

    Returns:
        The values; None if the node is not a parameter.

    Raises:
        PredicateError: If it has no value, or is not a list.
    """
    if type(node).__name__ != "Placeholder":
        return None
    values = _attached(node)
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise PredicateError(
            f"IN {_shown(node)} needs a list of values, not {values!r:.80}", reason="not-a-list"
        )
    return tuple(values)


def _attached(node: Any) -> object:
    if _VALUE not in node.meta:
        raise PredicateError(
            f"the parameter {_shown(node)} has no value; pass parameters=[…] for ?, or a dict for :name",
            reason="missing-parameter",
        )
    return node.meta[_VALUE]


def _shown(node: Any) -> str:
    return f":{node.this}" if node.this else "?"
