"""A predicate's tree from the tokens of Spark SQL.

Spark shows its own tree to Java only, so that the text is taken apart here, at OR, AND and NOT; what remains
is known, word by word, or ANY. Texts with escapes, or beside one another, differ by version and
setting: ANY. A keyword may be a column too: the tree holds for tables without such columns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from itertools import pairwise
from typing import TypeAlias

from hoodie.read.functions import date_of_text, moment_of_text
from hoodie.read.predicate import (
    ANY,
    DEPTH,
    FALSE,
    NULL,
    TRUE,
    And,
    Answers,
    Call,
    Column,
    Expression,
    Function,
    IsNull,
    Like,
    Literal,
    LiteralKind,
    Node,
    Not,
    between,
    comparison,
    condition,
    disjunction,
    membership,
)


@dataclass(frozen=True)
class Token:
    """`text` is a name in lower case, a quoted name without quotes, or a mark; `raw` is what was written."""

    kind: str
    text: str
    raw: str
    start: int

    @property
    def end(self) -> int:
        return self.start + len(self.raw)

    def is_word(self, *words: str) -> bool:
        return self.kind == "name" and self.text in words


Tokens: TypeAlias = Sequence[Token]

#: words that decide how a predicate is taken apart
_KEYWORDS = """
    and or not between case end in is null true false unknown like rlike regexp ilike distinct from as
"""
KEYWORDS = frozenset(_KEYWORDS.split())
_SIGNS = {"=": "=", "==": "=", "<>": "<>", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_SIGNS["<=>"] = "<=>"
_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "integer": 32, "bigint": 64}
_PARTS = {
    "year": Function.YEAR,
    "quarter": Function.QUARTER,
    "month": Function.MONTH,
    "day": Function.DAY,
    "dayofmonth": Function.DAY,
}
_UNITS = {
    **dict.fromkeys(("year", "yyyy", "yy"), "year"),
    **dict.fromkeys(("month", "mon", "mm"), "month"),
    **{unit: unit for unit in ("quarter", "week")},
}


class _Unknown(Exception):
    """An expression that has no place in a tree."""


@dataclass
class Parsed:
    """A tree, and the functions that are called in it, which a session may have replaced."""

    tree: Node = ANY
    functions: set[str] = field(default_factory=set)


def parsed(tokens: Tokens) -> Parsed:
    reader = _Reader()
    return Parsed(reader.node(_with_signs(tokens), DEPTH), reader.functions)


def _with_signs(tokens: Tokens) -> list[Token]:
    """Signs of several characters are one token."""
    found: list[Token] = []
    for token in tokens:
        last = found[-1] if found else None
        if last and token.kind == last.kind == "mark" and token.start == last.end:
            joined = last.raw + token.raw
            if joined in _SIGNS:
                found[-1] = Token("mark", joined, joined, last.start)
                continue
        found.append(token)
    return found


class _Reader:
    def __init__(self) -> None:
        self.functions: set[str] = set()

    def node(self, tokens: Tokens, depth: int) -> Node:
        if depth == 0:
            return ANY
        try:
            return self._joined(tokens, depth - 1)
        except (_Unknown, ValueError, KeyError, ArithmeticError, TypeError):
            return ANY

    def _joined(self, tokens: Tokens, depth: int) -> Node:
        alternatives = _split(tokens, "or")
        if len(alternatives) > 1:
            return disjunction(self.node(part, depth) for part in alternatives)
        terms = _split(tokens, "and")
        if len(terms) > 1:
            return And(tuple(self.node(part, depth) for part in terms))
        if not tokens:
            raise _Unknown
        if tokens[0].is_word("not"):
            return Not(self.node(tokens[1:], depth))
        if _wrapped(tokens):
            return self.node(tokens[1:-1], depth)
        return self._term(tokens, depth)

    def _term(self, tokens: Tokens, depth: int) -> Node:
        place = next((place for place in _outer(tokens) if _decides(tokens[place])), None)
        if place is None or place == 0:
            return condition(self._value(depth, tokens))
        token, left, right = tokens[place], tokens[:place], tokens[place + 1 :]
        if token.kind == "mark":
            return comparison(_SIGNS[token.text], self._value(depth, left), self._value(depth, right))
        if token.text == "is":
            return self._is(left, right, depth)
        if left[-1].is_word("not"):
            return Not(self._word(token.text, left[:-1], right, depth))
        return self._word(token.text, left, right, depth)

    def _word(self, word: str, left: Tokens, right: Tokens, depth: int) -> Node:
        value = self._value(depth, left)
        if word == "between":
            low, high = _split(right, "and")
            return between(value, self._value(depth, low), self._value(depth, high))
        if word == "in":
            if not _wrapped(right):
                raise _Unknown
            return membership(value, [self._value(depth, part) for part in _split(right[1:-1], ",")])
        if word != "like" or len(right) != 1:
            raise _Unknown
        return Like(value, _plain(right[0]))

    def _is(self, left: Tokens, right: Tokens, depth: int) -> Node:
        negated = bool(right) and right[0].is_word("not")
        words = [token.text for token in right[negated:] if token.kind == "name"]
        if words[:2] == ["distinct", "from"] and len(right) > negated + 2:
            same = comparison("<=>", self._value(depth, left), self._value(depth, right[negated + 2 :]))
            return same if negated else Not(same)
        if len(words) != 1 or len(right) != negated + 1:
            raise _Unknown
        found: Node
        if words[0] == "null":
            try:
                found = IsNull(self._value(depth, left))
            except (_Unknown, KeyError):
                found = Answers(self.node(left, depth), NULL)
        else:
            among = {"true": TRUE, "false": FALSE, "unknown": NULL}[words[0]]
            found = Answers(self.node(left, depth), among)
        return Not(found) if negated else found

    def _value(self, depth: int, tokens: Tokens) -> Expression:
        if not tokens or not depth:
            raise _Unknown
        depth -= 1
        if _wrapped(tokens):
            return self._value(depth, tokens[1:-1])
        first = tokens[0]
        literal = _literal(tokens)
        if literal is not None:
            return literal
        if len(tokens) > 2 and first.kind == "name" and _wrapped(tokens[1:]):
            return self._call(first.text, tokens[2:-1], depth)
        return _column(tokens)

    def _call(self, name: str, inner: Tokens, depth: int) -> Expression:
        if name in ("cast", "try_cast"):
            value, kind = _split(inner, "as")
            if len(kind) != 1 or kind[0].kind != "name":
                raise _Unknown
            return _cast(self._value(depth, value), kind[0].text)
        if name == "extract":
            self.functions.add(name)
            part, value = _split(inner, "from")
            if len(part) != 1:
                raise _Unknown
            return Call(_PARTS[part[0].text], self._value(depth, value))
        if name not in _FUNCTIONS:
            raise _Unknown
        self.functions.add(name)
        return _FUNCTIONS[name](*[self._value(depth, part) for part in _split(inner, ",")])


def _decides(token: Token) -> bool:
    if token.kind == "mark":
        return token.text in _SIGNS
    return token.is_word("is", "between", "in", "like", "rlike", "regexp", "ilike")


def _outer(tokens: Tokens) -> list[int]:
    """Places outside of parentheses, brackets and CASE. Raises _Unknown where they don't match."""
    found, open_ = [], 0
    for place, token in enumerate(tokens):
        opens = token.is_word("case") or (token.kind == "mark" and token.text in "([{")
        closes = token.is_word("end") or (token.kind == "mark" and token.text in ")]}")
        if closes:
            open_ -= 1
            if open_ < 0:
                raise _Unknown
        elif opens:
            open_ += 1
        elif not open_:
            found.append(place)
    if open_:
        raise _Unknown
    return found


def _split(tokens: Tokens, separator: str) -> list[Tokens]:
    """At the separators outside of parentheses; not at the AND of a BETWEEN, unless it comes first."""
    parts, start, between_ = [], 0, 0
    for place in _outer(tokens):
        token = tokens[place]
        between_ += token.is_word("between")
        if token.kind == "mark" and token.text == separator == ",":
            pass
        elif not token.is_word(separator):
            continue
        elif separator == "and" and between_:
            between_ -= 1
            continue
        parts.append(tokens[start:place])
        start = place + 1
    return [*parts, tokens[start:]]


def _wrapped(tokens: Tokens) -> bool:
    """Is all of it in one pair of parentheses?"""
    if len(tokens) < 2 or tokens[0].raw != "(" or tokens[-1].raw != ")":
        return False
    depth = 0
    for place, token in enumerate(tokens):
        depth += (token.raw == "(") - (token.raw == ")")
        if depth == 0:
            return place == len(tokens) - 1
    return False


def _literal(tokens: Tokens) -> Literal | None:
    first = tokens[0]
    if len(tokens) == 1:
        if first.kind == "text":
            return Literal(LiteralKind.TEXT, _plain(first))
        if first.is_word("true", "false"):
            return Literal(LiteralKind.BOOLEAN, first.text == "true")
        if first.is_word("null"):
            return Literal(LiteralKind.NULL, None)
    if len(tokens) == 2 and tokens[1].kind == "text":
        if first.is_word("date"):
            return Literal(LiteralKind.DATE, date_of_text(_plain(tokens[1])))
        if first.is_word("timestamp"):
            return Literal(LiteralKind.MOMENT, moment_of_text(_plain(tokens[1])))
    negative = first.raw == "-"
    number = tokens[negative:]
    if any(left.end != right.start for left, right in pairwise(number)):
        return None
    raw = "".join(token.raw for token in number)
    if raw.isascii() and raw.replace(".", "", 1).isdigit() and raw != ".":
        value = Decimal(raw) if "." in raw else int(raw)
        return Literal(LiteralKind.NUMBER, -value if negative else value)
    return None


def _plain(token: Token) -> str:
    """The text of a literal without escapes."""
    inner = token.raw[1:-1]
    if token.kind != "text" or token.raw[0] != "'" or "'" in inner or "\\" in inner:
        raise _Unknown
    return inner


def _column(tokens: Tokens) -> Column:
    names, dots = tokens[::2], tokens[1::2]
    if len(names) != len(dots) + 1 or any(token.raw != "." for token in dots):
        raise _Unknown
    for token in names:
        number = token.kind == "name" and token.raw[0].isdigit()
        quoted = token.kind == "quoted" and token.raw[0] == "`" and "`" not in token.raw[1:-1]
        if number or not (quoted or token.kind == "name"):
            raise _Unknown
    return Column(tuple(token.raw.strip("`") for token in names))


def _cast(value: Expression, kind: str) -> Expression:
    if isinstance(value, Literal):
        if value.kind is LiteralKind.TEXT and kind == "string":
            return value
        if value.kind is LiteralKind.TEXT and kind == "date":
            return Literal(LiteralKind.DATE, date_of_text(str(value.value)))
        if value.kind is LiteralKind.TEXT and kind == "timestamp":
            return Literal(LiteralKind.MOMENT, moment_of_text(str(value.value)))
        raise _Unknown
    if kind == "date":
        return Call(Function.TO_DATE, value)
    if kind == "string":
        return Call(Function.TO_TEXT, value)
    return Call(Function.TO_INTEGER, value, (_BITS[kind],))


def _text(value: Expression) -> str:
    if not isinstance(value, Literal) or value.kind is not LiteralKind.TEXT:
        raise _Unknown
    return str(value.value)


def _count(value: Expression, least: int) -> int:
    if not isinstance(value, Literal) or not isinstance(value.value, int) or value.value < least:
        raise _Unknown
    return value.value


def _substring(value: Expression, start: Expression, length: Expression | None = None) -> Expression:
    size = None if length is None else _count(length, 0)
    return Call(Function.SUBSTRING, value, (_count(start, 1), size))


def _truncate(unit: Expression, value: Expression) -> Expression:
    name = _text(unit).lower()
    return Call(Function.TRUNCATE, value, ("day" if name in ("day", "dd") else _UNITS[name],))


_FUNCTIONS: Mapping[str, Callable[..., Expression]] = {
    **{name: partial(Call, part) for name, part in _PARTS.items()},
    "date_part": lambda part, value: Call(_PARTS[_text(part).lower()], value),
    "date_trunc": _truncate,
    "trunc": lambda value, unit: Call(
        Function.TRUNCATE, Call(Function.TO_DATE, value), (_UNITS[_text(unit).lower()],)
    ),
    **dict.fromkeys(("date", "to_date"), lambda value: _cast(value, "date")),
    "string": lambda value: _cast(value, "string"),
    "int": lambda value: _cast(value, "int"),
    "bigint": lambda value: _cast(value, "bigint"),
    **dict.fromkeys(("substring", "substr"), _substring),
    "left": lambda value, length: Call(Function.SUBSTRING, value, (1, _count(length, 0))),
    **dict.fromkeys(("lower", "lcase"), lambda value: Call(Function.LOWER, value)),
    **dict.fromkeys(("upper", "ucase"), lambda value: Call(Function.UPPER, value)),
}
