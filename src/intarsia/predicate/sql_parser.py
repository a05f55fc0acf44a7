"""Parse SQL text into trees: conditions, lists of expressions, and the parts of a SELECT.

A tree says how a text is read, not what it means: `intarsia.predicate.sql` converts trees to nodes, and
`intarsia.spark.sql_text` to conditions of Spark.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, NoReturn, TypeVar

from intarsia.errors import PredicateError
from intarsia.predicate.literals import parse_number
from intarsia.predicate.nodes import RESERVED, ColumnName

_T = TypeVar("_T")

#: The maximum number of tokens: names, keywords, literals and signs. Each takes a few hundred bytes.
MAX_SQL_TOKENS: Final = 250_000

TYPES: Final[dict[str, str]] = {
    name: names.split()[0]
    for names in (
        *("DATE", "TIME", "TIMESTAMP", "DATETIME", "TIMESTAMPTZ", "TIMESTAMPNTZ TIMESTAMP_NTZ"),
        *("TIMESTAMPLTZ TIMESTAMP_LTZ", "TEXT STRING STR CLOB LONGVARCHAR", "VARCHAR VARCHAR2", "UUID"),
        *("BINARY", "VARBINARY BLOB BYTEA", "BOOLEAN BOOL", "DOUBLE FLOAT8", "FLOAT REAL FLOAT4"),
        *("DECIMAL DEC NUMERIC NUMBER FIXED", "TINYINT BYTE INT1 INT8", "SMALLINT SHORT INT2 INT16"),
        *("INT INTEGER INT4 INT32", "BIGINT LONG INT64"),
    )
    for name in names.split()
}
"""The types of literals by their names and synonyms."""

_TOKEN: Final = re.compile(
    r"""\s*(?:
      (?P<hex> [xX]'[^']*' | 0[xX][0-9a-fA-F]+)
    | (?P<name> [^\W\d]\w*)
    | (?P<number> (?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+) (?:[eE][+-]?[0-9]+)? (?:(?:[bB][dD]|[sldfySLDFY])\b)?)
    | (?P<text> '[^']*(?:''[^']*)*')
    | (?P<quoted> "[^"]*(?:""[^"]*)*" | `[^`]*(?:``[^`]*)*`)
    | (?P<comment> --[^\n]* | /\*)
    | (?P<end> \Z)
    | (?P<parameter> \? | :\s*\w+)
    | (?P<sign> <=> | [<>]= | <> | != | == | :: | ~~\*? | ~\*? | .)
    )""",
    re.DOTALL | re.VERBOSE,
)
_COMMENT: Final = re.compile(r"/\*|\*/")

# digits are limited because Python refuses to convert thousands of them
_LISTED_NUMBER: Final = re.compile(r"\s*(-?\d{1,40}(?:\.\d{1,40})?)\s*([,)])", re.ASCII)
_LISTED_TEXT: Final = re.compile(r"\s*'([^']*(?:''[^']*)*)'\s*([,)])")

_COMPARISONS: Final = {op: op for op in ("=", "<>", "<", "<=", ">", ">=", "<=>")} | {"==": "=", "!=": "<>"}
_SEARCHES: Final = {
    **dict.fromkeys(("LIKE", "~~"), "like"),
    **dict.fromkeys(("ILIKE", "~~*"), "ilike"),
    **dict.fromkeys(("RLIKE", "REGEXP", "~"), "rlike"),
    "~*": "irlike",
}
#: Tests that NOT can precede.
_NEGATED: Final = frozenset(("IN", "BETWEEN", "GLOB", "SIMILAR", *_SEARCHES))
_TESTS: Final = _NEGATED.union(_COMPARISONS, ("IS", "NOT", "!", "ISNULL", "NOTNULL"))

#: How strongly operators bind their operands.
_POWERS: Final = {
    "OR": 1,
    "AND": 2,
    **dict.fromkeys(_TESTS, 4),
    **dict.fromkeys("+-", 5),
    **dict.fromkeys("*/%", 6),
    **dict.fromkeys(("::", "["), 8),
}
_OF_NOT, _OF_TEST, _OF_SIGN = 3, 4, 7

#: The words that cannot name a column without quotes, but in an interval.
_KEYWORDS: Final = frozenset(map(str.upper, RESERVED)) - {"INTERVAL"}
#: Tokens that can count the units of an interval.
_COUNTS: Final = ("text", "number", "parameter")
_CONSTANTS: Final = {"TRUE": True, "FALSE": False, "NULL": None}
#: Keywords that are functions without parentheses.
_SETTINGS: Final = frozenset(
    (f"CURRENT_{name}" for name in ("DATE", "TIME", "TIMESTAMP", "USER", "CATALOG")),
).union(("LOCALTIME", "LOCALTIMESTAMP", "SESSION_USER"))
#: Keywords that are functions if a parenthesis follows.
_FUNCTIONS: Final = frozenset(("ALL", "ANY", "CAST", "EXISTS", "GLOB", "ILIKE", "LIKE", "REGEXP", "RLIKE"))

#: A message shows this many characters of the text around the word.
_CONTEXT: Final = 30


class Token(NamedTuple):
    """A token of SQL text.

    Attributes:
        kind: ``hex``, ``text``, ``quoted``, ``number``, ``name``, ``parameter``, ``sign``, ``values`` or
            ``end``. ``values`` is a whole list of plain numbers or texts in parentheses.
        value: The text without quotes; the tuple of a list.
        word: A sign, or a name in upper case; empty for other tokens.
        start: Its offset in the text, in characters.
        stop: The offset behind it.
    """

    kind: str
    value: Any
    word: str
    start: int
    stop: int


class Tree(NamedTuple):
    """An expression.

    Attributes:
        kind: An operator or a form, such as ``and``, ``<=``, ``in``, ``call`` or ``column``.
        parts: Its operands, and other facts.
        start: Its offset in the text, in characters.
        stop: The offset behind it.
    """

    kind: str
    parts: tuple[Any, ...]
    start: int
    stop: int


class Parsed(NamedTuple):
    """A parsed condition.

    Attributes:
        tree: Its tree.
        names: The names of its parameters in the order of the text; None for ``?``.
    """

    tree: Tree
    names: Sequence[str | None]


def column_name(tree: Tree) -> ColumnName | None:
    """Return the column that an expression names, or None if it is not a column."""
    if tree.kind != "column":
        return None
    names, is_quoted = tree.parts
    return names if is_quoted and (len(names) > 1 or "." in names[0]) else ".".join(names)


def short(text: str) -> str:
    """Shorten text to one line of at most 80 characters."""
    text = " ".join(text.split())
    return f"{text[:79]}…" if len(text) > 80 else text


def parse_condition(text: str, *, spark: bool = False) -> Parsed:
    """Parse a condition.

    Args:
        text: The text.
        spark: Whether double quotes delimit texts, as in Spark SQL.

    Raises:
        PredicateError: If the text is not a condition.

    Example:
        >>> parsed = parse_condition("x = ? AND y")
        >>> parsed.tree.kind, [tree.kind for tree in parsed.tree.parts], parsed.names
        ('and', ['=', 'column'], (None,))
    """
    return parse_tokens(text, tokenize(text, spark=spark))


def parse_tokens(text: str, tokens: Sequence[Token]) -> Parsed:
    """Parse the condition that some tokens of a text are; the last token is the end."""
    parser = _Parser(text, tokens)
    return Parsed(parser.run(parser.condition), tuple(parser.names))


def parse_items(text: str) -> list[tuple[Tree, str | None]]:
    """Parse expressions as they could follow SELECT. Return each with its alias.

    Raises:
        PredicateError: If the text has another form.
    """
    parser = _Parser(text, tokenize(text))
    return parser.run(parser.items)


def tokenize(text: str, *, spark: bool = False) -> list[Token]:
    """Split a text into tokens; comments are left out.

    Args:
        text: The text.
        spark: Whether double quotes delimit texts, and lists are tokens of their literals.

    Raises:
        PredicateError: If the text is empty, a quote is not closed, or it has more than `MAX_SQL_TOKENS`
            tokens.
    """
    tokens: list[Token] = []
    position, kind = 0, ""
    while kind != "end":
        found = _TOKEN.match(text, position)
        assert found is not None  # a sign is any character
        kind = str(found.lastgroup)
        start, position = found.span(kind)
        value: Any = text[start:position]
        word = ""
        if kind == "name":
            word = value.upper()
        elif kind == "sign":
            word = value
            if word == "(" and tokens and tokens[-1].word == "IN" and not spark:
                values, stop = _read_list(text, position)
                if values:
                    kind, value, word, position = "values", values, "", stop
            elif word in "'\"`":
                what = f"the quote is not closed; write {word * 2} for a quote within quotes"
                raise _syntax_error(text, word, start, what)
        elif kind in ("text", "quoted"):
            kind = "text" if spark and value[0] == '"' else kind
            value = value[1:-1].replace(value[0] * 2, value[0])
        elif kind == "comment":
            position = _end_of_comment(text, position) if value == "/*" else position
            continue
        tokens.append(Token(kind, value, word, start, position))
        if len(tokens) > MAX_SQL_TOKENS:
            raise PredicateError(
                f"the predicate {short(text[:200])} has more than {MAX_SQL_TOKENS:,} tokens; "
                "pass a long list of values as intarsia.In(column, values), without SQL text",
                reason="predicate-too-long",
            )
    if len(tokens) == 1:
        raise PredicateError("the predicate is empty; omit it to select every row", reason="empty-predicate")
    return tokens


def _end_of_comment(text: str, position: int) -> int:
    depth = 1
    for mark in _COMMENT.finditer(text, position):
        depth += 1 if mark[0] == "/*" else -1
        if depth == 0:
            return mark.end()
    return len(text)


def _read_list(text: str, position: int) -> tuple[tuple[object, ...], int]:
    """Read a list of literals of one kind from behind its opening parenthesis.

    It can have many thousands, which would take 2 µs each as tokens and trees. A regular expression for the
    whole list would take 400 bytes of memory for each literal.

    Returns:
        The values, empty if it is another list, and the position behind the closing parenthesis.
    """
    start = position
    written: list[str] = []
    is_text = _LISTED_TEXT.match(text, position) is not None
    match_literal = (_LISTED_TEXT if is_text else _LISTED_NUMBER).match
    while found := match_literal(text, position):
        written.append(found[1])
        position = found.end()
        if found[2] == ")":
            if is_text:
                return tuple([text.replace("''", "'") for text in written]), position
            return tuple(map(parse_number if "." in text[start:position] else int, written)), position
    return (), position


class _Parser:
    """A parser by precedence of operators."""

    def __init__(self, text: str, tokens: Sequence[Token]) -> None:
        self.names: list[str | None] = []
        self._text = text
        self._tokens = tokens
        self._at = 0
        self._token = tokens[0]

    def run(self, read: Callable[[], _T]) -> _T:
        """Read all tokens.

        Raises:
            PredicateError: If they have another form.
        """
        try:
            found = read()
            while self._accept(";"):
                pass
            if self._token.kind != "end":
                self._fail("unexpected here; AND, OR or a quote may be missing before it")
            return found
        except RecursionError:
            raise PredicateError(
                f"the predicate {short(self._text)} is nested too deeply to parse; write it with fewer "
                "parentheses, or build it from ia.And and ia.Or",
                reason="nested-too-deeply",
            ) from None

    def condition(self, power: int = 0) -> Tree:
        """Read an expression, up to an operator that binds its operands no more than ``power``."""
        left = self._prefix()
        while _POWERS.get(self._token.word, 0) > power:
            left = self._infix(left)
        return left

    def items(self) -> list[tuple[Tree, str | None]]:
        """Read expressions with their aliases."""
        found = []
        while True:
            tree, alias = self.condition(), None
            if self._accept("AS") or self._token.kind in ("name", "quoted"):
                alias = str(self._next("name", "quoted", "text").value)
            found.append((tree, alias))
            if not self._accept(","):
                return found

    def _advance(self) -> Token:
        passed = self._token
        if passed.kind != "end":
            self._at += 1
            self._token = self._tokens[self._at]
        return passed

    def _accept(self, *words: str) -> bool:
        is_next = self._token.word in words
        if is_next:
            self._advance()
        return is_next

    def _expect(self, word: str) -> None:
        if not self._accept(word):
            self._fail(f"{word} is missing before it")

    def _next(self, *kinds: str) -> Token:
        if self._token.kind not in kinds:
            self._fail("a name is missing before it")
        return self._advance()

    def _tree(self, kind: str, start: int, *parts: Any) -> Tree:
        return Tree(kind, parts, start, self._tokens[self._at - 1].stop)

    def _infix(self, left: Tree) -> Tree:
        word, start = self._token.word, left.start
        power = _POWERS[word]
        if word in ("AND", "OR"):  # many thousands may follow
            children = [left]
            while self._accept(word):
                children.append(self.condition(power))
            return self._tree(word.lower(), start, *children)
        self._advance()
        if word in _COMPARISONS:
            return self._tree(_COMPARISONS[word], start, left, self.condition(power))
        if word == "::":
            return self._tree("cast", start, left, *self._type())
        if word == "[":
            self.condition()
            self._expect("]")
            return self._tree("unsupported", start)
        if power != _OF_TEST:
            return self._tree(word, start, left, self.condition(power))
        if word in ("NOT", "!"):
            word = self._token.word
            if word not in _NEGATED:
                self._fail("IN, LIKE or another test is missing before it")
            self._advance()
            return self._tree("not", start, self._test(word, left))
        return self._test(word, left)

    def _test(self, word: str, left: Tree) -> Tree:
        start = left.start
        if word in ("ISNULL", "NOTNULL"):
            found = self._tree("is", start, left, self._tree("constant", start, None))
            return found if word == "ISNULL" else self._tree("not", start, found)
        if word == "IS":
            negated = self._accept("NOT")
            if self._accept("DISTINCT"):
                self._expect("FROM")
                negated, kind = not negated, "<=>"
            else:
                kind = "is"
            found = self._tree(kind, start, left, self.condition(_OF_TEST))
            return self._tree("not", start, found) if negated else found
        if word == "IN":
            return self._tree("in", start, left, self._list())
        if word == "BETWEEN":
            kind = "unsupported" if self._accept("SYMMETRIC") else "between"
            low = self.condition(_OF_TEST)
            self._expect("AND")
            return self._tree(kind, start, left, low, self.condition(_OF_TEST))
        if word == "SIMILAR":
            self._expect("TO")
        pattern = self.condition(_OF_TEST)
        escape = (self.condition(_OF_TEST),) if self._accept("ESCAPE") else ()
        return self._tree(_SEARCHES.get(word, "unsupported"), start, left, pattern, *escape)

    def _list(self) -> Tree:
        token = self._token
        if token.kind == "parameter":
            return self._prefix()
        if token.kind == "values":
            self._advance()
            return self._tree("values", token.start, token.value)
        if token.word != "(":
            self._fail("a list in parentheses is missing before it, as in IN (1, 2)")
        return self._tree("list", token.start, *self._arguments())

    def _arguments(self) -> list[Tree]:
        """Read expressions in parentheses."""
        opened = self._advance()
        found: list[Tree] = []
        if self._token.word in ("SELECT", "WITH"):
            raise PredicateError(
                f"cannot use a subquery in a predicate (in: {self._around(opened.start)})",
                reason="unsupported-expression",
            )
        if self._accept(")"):
            return []
        while not found or self._accept(",", "FROM", "FOR"):
            start, is_distinct = self._token.start, self._accept("DISTINCT")
            item = self._tree("star", start) if self._accept("*") else self.condition()
            found.append(self._tree("distinct", start, item) if is_distinct else item)
        self._close(opened)
        return found

    def _close(self, opened: Token) -> None:
        if self._token.kind == "end":
            raise _syntax_error(self._text, "(", opened.start, "the parenthesis is not closed")
        if not self._accept(")"):
            self._fail("unexpected here; AND, OR or a quote may be missing before it")

    def _prefix(self) -> Tree:
        kind, value, word, start, _ = self._token
        if kind in ("name", "quoted"):
            return self._named(word, start)
        if kind in ("text", "number", "hex"):
            self._advance()
            return self._tree(kind, start, value)
        if kind == "parameter":
            self._advance()
            self.names.append(value[1:].strip() or None)
            return self._tree(kind, start, len(self.names) - 1, self.names[-1])
        if word == "(":
            inner = self._arguments()
            return self._tree("paren" if len(inner) == 1 else "unsupported", start, *inner)
        if word == "!":
            self._advance()
            return self._tree("not", start, self.condition(_OF_NOT))
        if word not in ("-", "+"):
            self._fail("a column, a value or a condition is missing before it")
        self._advance()
        operand = self.condition(_OF_SIGN)
        return operand if word == "+" else self._tree("negative", start, operand)

    def _named(self, word: str, start: int) -> Tree:
        """Read what starts with a name: a constant, a function, a typed literal, or a column."""
        following = self._tokens[self._at + 1]
        if following.word == "(" and word and (word not in _KEYWORDS or word in _FUNCTIONS):
            return self._call(word, start)
        first = self._advance()
        if word in _CONSTANTS:
            return self._tree("constant", start, _CONSTANTS[word])
        if word == "NOT":
            return self._tree("not", start, self.condition(_OF_NOT))
        if word in TYPES and following.kind == "text":
            return self._tree("cast", start, self._prefix(), TYPES[word], ())
        if word == "INTERVAL" and (following.kind in _COUNTS or following.word == "-"):
            count = self.condition(_OF_SIGN)
            has_unit = self._token.kind == "name" and self._token.word not in _POWERS
            return self._tree("interval", start, count, self._advance().word if has_unit else None)
        if word in _SETTINGS:
            return self._tree("unsupported", start)
        if word in _KEYWORDS:
            is_name = following.word in _TESTS
            self._fail(f'a keyword; quote it as "{first.value}"' if is_name else "unexpected here", first)
        names, is_quoted = [first.value], not word
        while self._accept("."):
            if self._accept("*"):
                return self._tree("unsupported", start)
            part = self._next("name", "quoted")
            names.append(part.value)
            is_quoted |= not part.word
        return self._tree("column", start, tuple(names), is_quoted)

    def _call(self, word: str, start: int) -> Tree:
        self._advance()
        if word not in ("CAST", "TRY_CAST"):
            arguments = self._arguments()
            if self._token.word not in ("OVER", "FILTER"):
                return self._tree("call", start, word.lower(), *arguments)
            while self._token.word != ")" and self._token.kind != "end":
                self._advance()
            self._expect(")")
            return self._tree("unsupported", start)
        opened = self._advance()
        inner = self.condition()
        self._expect("AS")
        name, sizes = self._type()
        self._close(opened)
        return self._tree(word.lower(), start, inner, name, sizes)

    def _type(self) -> tuple[str, tuple[int, ...]]:
        """Read the name of a type, and its precision and scale or its length."""
        word = self._next("name").word
        name = "VARCHAR" if self._accept("VARYING") else TYPES.get(word, word)
        self._accept("PRECISION")
        sizes: list[int] = []
        if self._token.word == "(":
            opened = self._advance()
            while self._token.kind == "number" and str(self._token.value).isdecimal():
                sizes.append(int(self._advance().value[:9]))
                self._accept(",")
            self._close(opened)
        if self._token.word in ("WITH", "WITHOUT"):
            is_aware = self._advance().word == "WITH"
            name += ("L" if self._accept("LOCAL") else "") + ("TZ" if is_aware else "")
            self._expect("TIME")
            self._expect("ZONE")
        return name, tuple(sizes)

    def _fail(self, what: str, wrong: Token | None = None) -> NoReturn:
        """Raise the error for a token, by default the next one."""
        token = wrong or self._token
        if token.kind == "end":
            token, what = self._tokens[self._at - 1], "a column, a value or a condition is missing after it"
        elif token.word == ")":
            words = [one.word for one in self._tokens[: self._at]]
            if words.count("(") == words.count(")"):
                what = "the parenthesis is not opened"
        raise _syntax_error(self._text, self._text[token.start : token.stop], token.start, what)

    def _around(self, position: int) -> str:
        return short(self._text[max(0, position - _CONTEXT) : position + _CONTEXT])


def _syntax_error(text: str, near: str, position: int, what: str) -> PredicateError:
    """Return the error for a word of a text; ``position`` is its offset, in characters."""
    line = text.count("\n", 0, position) + 1
    column = position - text.rfind("\n", 0, position)
    shown_at = f"line {line}, column {column}" if "\n" in text.strip() else f"column {column}"
    start, stop = max(0, position - _CONTEXT), position + len(near) + _CONTEXT
    shown = short(near).strip('"')
    return PredicateError(
        f'cannot parse the predicate near "{shown}" at {shown_at}: {what} (in: {short(text[start:stop])})',
        reason="syntax-error",
        near=near,
        position=position,
    )
