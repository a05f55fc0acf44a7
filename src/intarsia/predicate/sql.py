"""SQL text -> predicate nodes, by sqlglot (loaded when first used)."""

from __future__ import annotations

import datetime as dt
import functools
import operator
import struct
import uuid
from decimal import Decimal
from typing import TYPE_CHECKING, Any, ClassVar, Final

import pyarrow as pa

from intarsia.errors import PredicateError
from intarsia.predicate.literals import NS_PER_DAY, Temporal, parse_number, parse_time, parse_timestamp
from intarsia.predicate.nodes import (
    And,
    ColumnName,
    Comparison,
    Constant,
    In,
    IsNull,
    Like,
    Not,
    Op,
    Or,
    Predicate,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlglot.dialects.dialect import Dialect

_SUPPORTED: Final = (
    "supported are column = <> < <= > >= literal, IS [NOT] DISTINCT FROM, [NOT] IN (…), [NOT] BETWEEN, "
    "[NOT] LIKE, IS [NOT] NULL, IS [NOT] TRUE/FALSE, AND, OR, NOT"
)
_OPS: Final[dict[str, Op]] = {"EQ": "=", "NEQ": "<>", "LT": "<", "LTE": "<=", "GT": ">", "GTE": ">="}
_MIRRORED: Final[dict[Op, Op]] = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_FOLD: Final[dict[Op, Callable[[Any, Any], bool]]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_MICROSECONDS: Final = {
    "MICROSECOND": 1,
    "MILLISECOND": 1_000,
    "SECOND": 1_000_000,
    "MINUTE": 60_000_000,
    "HOUR": 3_600_000_000,
    "DAY": 86_400_000_000,
    "WEEK": 604_800_000_000,
}


def parse_sql(text: str) -> Predicate:
    """Reads what could stand after WHERE.

    Names are written plainly, in double quotes or in backticks, and dotted for fields of structs. Literals
    are numbers (with a point: exact decimals), 'text', TRUE, FALSE, NULL, DATE '…', TIME '…', TIMESTAMP
    '…', INTERVAL '1' HOUR, X'0aff', and CAST(literal AS type), which is how NaN is written: CAST('NaN' AS
    DOUBLE). A backslash in 'text' is a plain character; in a LIKE pattern it escapes unless ESCAPE says
    otherwise.

    Args:
        text: The predicate.

    Raises:
        PredicateError: The text is no predicate, or says something that is not supported.

    Example:
        >>> parse_sql("5 < delay")
        Comparison(column='delay', op='>', value=5)
        >>> str(parse_sql("dest in ('BOS', 'LAX') and not delay between 1 and 2"))
        "dest IN ('BOS', 'LAX') AND NOT (delay >= 1 AND delay <= 2)"
    """
    import sqlglot
    from sqlglot import exp
    from sqlglot.errors import ParseError, SqlglotError

    if not text.strip():
        raise PredicateError("the predicate is empty; leave it out to select every row")
    try:
        tree = sqlglot.parse_one(text, dialect=_dialect(), into=exp.Condition)
        return _predicate(tree)
    except ParseError as error:
        raise PredicateError(_syntax_message(text, error.errors)) from None
    except SqlglotError as error:
        raise PredicateError(f"cannot read the predicate {_short(text)}: {_one_line(str(error))}") from None
    except RecursionError:
        raise PredicateError(f"the predicate {_short(text)} is nested too deeply") from None


@functools.cache
def _dialect() -> type[Dialect]:
    """Sqlglot's neutral SQL, with backticks for names and X'…' for bytes."""
    from sqlglot.dialects.dialect import Dialect
    from sqlglot.tokens import Tokenizer as NeutralTokenizer

    class IntarsiaPredicate(Dialect):
        class Tokenizer(NeutralTokenizer):
            IDENTIFIERS: ClassVar = ['"', "`"]
            HEX_STRINGS: ClassVar = [("x'", "'"), ("X'", "'")]

    return IntarsiaPredicate


def _predicate(node: Any) -> Predicate:
    """A sqlglot expression as a predicate; expressions are told apart by their class names."""
    kind = type(node).__name__
    if kind == "Paren":
        return _predicate(node.this)
    if kind in ("And", "Or"):
        children = tuple(_predicate(child) for child in _chain(node, kind))
        return And(children) if kind == "And" else Or(children)
    if kind == "Not":
        return _negated(_predicate(node.this), bare=type(node.this).__name__ not in ("Paren", "Not"))
    if kind in _OPS:
        return _comparison(node, _OPS[kind])
    if kind in ("NullSafeEQ", "NullSafeNEQ"):
        column, op, value = _column_and_value(node, "=")
        same = (
            IsNull(column)
            if value is None
            else And((Comparison(column, op, value), IsNull(column, negated=True)))
        )
        return same if kind == "NullSafeEQ" else Not(same)
    if kind == "In":
        if set(node.args) - {"this", "expressions"} and any(
            node.args.get(k) for k in ("query", "unnest", "field")
        ):
            raise _unsupported(node)
        return In(_column(node.this), tuple(_literal(value) for value in node.expressions))
    if kind == "Between" and not node.args.get("symmetric"):
        column = _column(node.this)
        low, high = _literal(node.args["low"]), _literal(node.args["high"])
        return And((Comparison(column, ">=", low), Comparison(column, "<=", high)))
    if kind == "Is":
        return _is(node)
    if kind in ("Like", "Escape"):
        return _like(node)
    if kind == "Boolean":
        return Constant(bool(node.this))
    if kind == "Null":
        return Constant(None)
    if kind in ("Column", "Dot"):
        return Comparison(_column(node), "=", True)
    raise _unsupported(node)


def _chain(node: Any, kind: str) -> list[Any]:
    """The operands of a AND b AND c …, without recursion: there may be many thousands."""
    operands: list[Any] = []
    pending = [node]
    while pending:
        current = pending.pop()
        if type(current).__name__ == kind:
            pending += [current.expression, current.this]
        else:
            operands.append(current)
    return operands


def _negated(child: Predicate, *, bare: bool) -> Predicate:
    """NOT; ``x IS NOT NULL`` and ``x NOT IN (…)`` come as NOT around the test and become one node again."""
    if bare and isinstance(child, IsNull):
        return IsNull(child.column, negated=not child.negated)
    if bare and isinstance(child, In):
        return In(child.column, child.values, negated=not child.negated)
    return Not(child)


def _comparison(node: Any, op: Op) -> Predicate:
    left, right = _maybe_literal(node.this), _maybe_literal(node.expression)
    if left is None or right is None:
        return Comparison(*_column_and_value(node, op))
    (first,), (second,) = left, right
    if first is None or second is None:
        return Constant(None)
    numbers = (int, Decimal)
    comparable = type(first) is type(second) or (isinstance(first, numbers) and isinstance(second, numbers))
    if not comparable or isinstance(first, bool) is not isinstance(second, bool):
        raise _unsupported(node)
    return Constant(_FOLD[op](first, second))


def _column_and_value(node: Any, op: Op) -> tuple[ColumnName, Op, object]:
    value = _maybe_literal(node.expression)
    if value is not None:
        return _column(node.this), op, value[0]
    value = _maybe_literal(node.this)
    if value is not None:
        return _column(node.expression), _MIRRORED[op], value[0]
    raise _unsupported(node)


def _is(node: Any) -> Predicate:
    column = _column(node.this)
    kind = type(node.expression).__name__
    if kind == "Null":
        return IsNull(column)
    if kind == "Boolean":  # never NULL, unlike the comparison alone: so its negation is right, too
        return And((Comparison(column, "=", bool(node.expression.this)), IsNull(column, negated=True)))
    raise _unsupported(node)


def _like(node: Any) -> Predicate:
    escape = None
    like = node
    if type(node).__name__ == "Escape":
        like = node.this
        escape = _literal(node.expression)
    pattern = _literal(like.expression) if type(like).__name__ == "Like" else None
    if not isinstance(pattern, str) or not isinstance(escape, (str, type(None))):
        raise _unsupported(node)
    return Like(_column(like.this), pattern, bool(like.args.get("negate")), escape)


def _column(node: Any) -> ColumnName:
    while type(node).__name__ == "Paren":
        node = node.this
    if type(node).__name__ not in ("Column", "Dot"):
        raise _unsupported(node)
    parts = node.parts
    if any(type(part).__name__ != "Identifier" for part in parts):
        raise _unsupported(node)
    names = tuple(part.name for part in parts)
    quoted = any(part.args.get("quoted") for part in parts)
    if quoted and (len(names) > 1 or "." in names[0]):
        return names
    return ".".join(names)


def _literal(node: Any) -> object:
    value = _maybe_literal(node)
    if value is None:
        raise _unsupported(node)
    return value[0]


def _maybe_literal(node: Any) -> tuple[object] | None:
    """The value of a literal in a tuple (it may be NULL), or ``None`` if this is no literal."""
    kind = type(node).__name__
    if kind == "Paren":
        return _maybe_literal(node.this)
    if kind == "Neg":
        inner = _maybe_literal(node.this)
        if inner is None or isinstance(inner[0], bool) or not isinstance(inner[0], (int, float, Decimal)):
            return None
        return (inner[0].copy_negate() if isinstance(inner[0], Decimal) else -inner[0],)
    if kind == "Literal":
        return (node.this,) if node.is_string else (_parsed(node, parse_number, node.this),)
    if kind in ("Boolean", "Null"):
        return (bool(node.this) if kind == "Boolean" else None,)
    if kind == "HexString":
        return (_parsed(node, bytes.fromhex, node.this),)
    if kind == "Interval":
        return _interval(node)
    if kind == "Cast":
        inner = _maybe_literal(node.this)
        return None if inner is None else (_cast(node, inner[0]),)
    return None


def _interval(node: Any) -> tuple[object] | None:
    unit = node.args.get("unit")
    inner = _maybe_literal(node.this) if node.this is not None else None
    scale = _MICROSECONDS.get(str(unit.name).upper().removesuffix("S")) if unit is not None else None
    if inner is None or scale is None:
        return None
    count = parse_number(inner[0]) if isinstance(inner[0], str) else inner[0]
    if not isinstance(count, (int, Decimal)):
        return None
    micros = count * scale
    if micros != int(micros):
        return None
    return (dt.timedelta(microseconds=int(micros)),)


def _cast(node: Any, value: object) -> object:
    """CAST of a literal to a type, done here and now."""
    target = node.to.this.name
    if value is None:
        return None
    text = value if isinstance(value, str) else None
    number = value if isinstance(value, (int, float, Decimal)) and not isinstance(value, bool) else None
    if text is not None and target in ("DATE", "DATE32"):
        return _parsed(node, _date, text)
    if text is not None and target in (
        "TIMESTAMP",
        "DATETIME",
        "TIMESTAMPNTZ",
        "TIMESTAMPTZ",
        "TIMESTAMPLTZ",
    ):
        return _parsed(
            node,
            functools.partial(_timestamp, aware=target.endswith(("TZ", "LTZ")) and "N" not in target[9:]),
            text,
        )
    if text is not None and target == "TIME":
        return _parsed(node, _time, text)
    if text is not None and target in ("TEXT", "VARCHAR", "CHAR", "NVARCHAR"):
        return text
    if text is not None and target in ("BINARY", "VARBINARY", "BLOB"):
        return text.encode()
    if text is not None and target == "UUID":
        return _parsed(node, uuid.UUID, text)
    if text is not None and target == "BOOLEAN" and text.strip().lower() in ("true", "false"):
        return text.strip().lower() == "true"
    if isinstance(value, bool) and target == "BOOLEAN":
        return value
    if target in ("DOUBLE", "FLOAT") and (text is not None or number is not None):
        wide = _parsed(node, float, value)
        return _parsed(node, _single, wide) if target == "FLOAT" else wide
    if number is None and text is not None:
        number = _parsed(node, parse_number, text)
    if number is not None and target in ("DECIMAL", "BIGDECIMAL"):
        return _decimal(node, number)
    if number is not None and target in ("TINYINT", "SMALLINT", "INT", "BIGINT") and number == int(number):
        return int(number)
    raise _unsupported(node)


def _date(text: str) -> dt.date:
    moment = parse_timestamp(text)
    if moment.aware or moment.ns % NS_PER_DAY:
        raise ValueError(text)
    return dt.date(1970, 1, 1) + dt.timedelta(days=moment.ns // NS_PER_DAY)


def _timestamp(text: str, *, aware: bool) -> object:
    moment = parse_timestamp(text)
    zone = dt.timezone.utc if aware or moment.aware else None
    if moment.ns % 1_000 == 0:
        return dt.datetime(1970, 1, 1, tzinfo=zone) + dt.timedelta(microseconds=moment.ns // 1_000)
    return pa.scalar(moment.ns, pa.timestamp("ns", tz=None if zone is None else "UTC"))


def _time(text: str) -> object:
    moment: Temporal = parse_time(text)
    if moment.ns % 1_000 == 0:
        return (dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=moment.ns // 1_000)).time()
    return pa.scalar(moment.ns, pa.time64("ns"))


def _single(number: float) -> float:
    """Rounded to the nearest float of 32 bits, so that it can equal a value of a float32 column."""
    return float(struct.unpack("<f", struct.pack("<f", number))[0])


def _decimal(node: Any, number: int | float | Decimal) -> Decimal:
    value = Decimal(number) if isinstance(number, (int, Decimal)) else Decimal(repr(number))
    params = [int(param.this.this) for param in node.to.expressions]
    if params:
        scale = params[1] if len(params) > 1 else 0
        exponent = value.normalize().as_tuple().exponent
        if not isinstance(exponent, int) or exponent < -scale or value.adjusted() >= params[0] - scale:
            raise PredicateError(f"{value} does not fit {node.to.sql()} in {_fragment(node)}")
    return value


def _parsed(node: Any, parse: Callable[[Any], Any], value: object) -> Any:
    try:
        return parse(value)
    except (ValueError, OverflowError, pa.ArrowInvalid):
        raise PredicateError(f"{_short(str(value))} is not a valid literal in {_fragment(node)}") from None


def _unsupported(node: Any) -> PredicateError:
    kind = type(node).__name__
    if kind in ("EQ", "NEQ", "LT", "LTE", "GT", "GTE"):
        return PredicateError(
            f"cannot use {_fragment(node)}: a comparison needs one column and one literal; {_SUPPORTED}"
        )
    return PredicateError(f"cannot use {_fragment(node)} in a predicate; {_SUPPORTED}")


def _fragment(node: Any) -> str:
    try:
        return _short(node.sql())
    except Exception:  # noqa: BLE001  only for a message: whatever sqlglot cannot print is named instead
        return type(node).__name__


def _syntax_message(text: str, errors: list[dict[str, Any]]) -> str:
    if not errors:
        return f"cannot read the predicate {_short(text)}; {_SUPPORTED}"
    error = errors[0]
    place = f"{error.get('highlight') or ''}{error.get('end_context') or ''}".strip()
    description = (
        "it does not go on like this"
        if "Unexpected token" in str(error.get("description"))
        else (
            "a parenthesis is not closed"
            if str(error.get("description")).startswith("Expecting )")
            else "something is missing"
        )
    )
    return f"cannot read the predicate {_short(text)}: {description} at {_short(place)}; {_SUPPORTED}"


def _short(text: str) -> str:
    text = _one_line(text)
    return f"{text[:79]}…" if len(text) > 80 else text


def _one_line(text: str) -> str:
    return " ".join(text.split())
