"""Partitions that a predicate rules out, so that they are not even listed.

Looked at are the terms of an AND that compare a partition column with literals: `=`, `<>`, `<`, `<=`, `>`,
`>=`, IN and BETWEEN. Whatever else a predicate has is left to the engine, which is given all of it. What is
read here means the same in Spark SQL and DuckDB; where it might not, nothing is ruled out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from hoodie.errors import ConfigError
from hoodie.read.partition_values import PathColumns

_TOKEN = re.compile(
    r"""\s*(?:
        (?P<text>'(?:[^'\\]|'')*') | (?P<number>\d+(?:\.\d+)?(?!\w)) |
        (?P<name>[A-Za-z_]\w*(?:\.\w+)*|`[^`.]+`) | (?P<sign><=|>=|<>|!=|=|<|>) | (?P<mark>[(),])
    )""",
    re.VERBOSE,
)
#: words that join terms in another way than AND
_OTHER_JOINS = frozenset({"or", "case"})
_SIGNS: dict[str, Callable[[Literal, Literal], bool]] = {
    "=": lambda value, literal: value == literal,
    "<>": lambda value, literal: value != literal,
    "!=": lambda value, literal: value != literal,
    "<": lambda value, literal: value < literal,  # type: ignore[operator]  # both of the column's type
    "<=": lambda value, literal: value <= literal,  # type: ignore[operator]
    ">": lambda value, literal: value > literal,  # type: ignore[operator]
    ">=": lambda value, literal: value >= literal,  # type: ignore[operator]
}
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}

Literal: TypeAlias = str | int
_Token: TypeAlias = tuple[str, str]


@dataclass(frozen=True)
class Term:
    """A comparison of one column; true for a value that all of `tests` (any, for `any_of`) accept."""

    column: str
    tests: tuple[tuple[str, Literal], ...]
    any_of: bool = False

    def accepts(self, value: Any) -> bool:
        """Also for a value of another type than the literals: nothing is known of it. Not for a null."""
        if value is None:
            return False
        if any(type(literal) is not type(value) for _, literal in self.tests):
            return True
        found = (_SIGNS[sign](value, literal) for sign, literal in self.tests)
        return any(found) if self.any_of else all(found)


def checked_text(where: str) -> str:
    """Raises ConfigError for a predicate that is no text."""
    if not isinstance(where, str):
        raise ConfigError(f"where is {where!r}; give a predicate as a text, or leave it out for all rows")
    return where


def possible(where: str | None, path_columns: PathColumns, partitions: Sequence[str]) -> list[str]:
    """The partition paths among these that may have rows for which `where` is true.

    Only columns whose rows have the path's value count, so that no matching row is left out.
    """
    names = {name.lower(): name for name in path_columns.types}
    text = checked_text(where or "")
    found = [term for term in terms(text) if term.column in names] if names else []
    if not found:
        return list(partitions)

    def ruled_out(partition: str) -> bool:
        values = path_columns.values(partition)
        for term in found:
            name = names[term.column]
            if name in values and not term.accepts(values[name]):
                return True
        return False

    return [partition for partition in partitions if not ruled_out(partition)]


def terms(where: str) -> list[Term]:
    """The terms of a predicate that are understood, each of which must hold; column names in lower case."""
    tokens: list[_Token] = []
    end, stop = 0, len(where.rstrip())
    while end < stop:
        match = _TOKEN.match(where, end)
        if match is None:
            return []
        kind = str(match.lastgroup)
        text = match[kind]
        tokens.append((kind, text.strip("`").lower() if kind == "name" else text))
        end = match.end()
    return list(_terms(tokens))


def _terms(tokens: list[_Token]) -> Iterator[Term]:
    if _wrapped(tokens):
        yield from _terms(tokens[1:-1])
        return
    parts = _split(tokens)
    for part in parts:
        if len(parts) > 1 and _wrapped(part):
            yield from _terms(part)
        elif term := _term(part):
            yield term


def _split(tokens: list[_Token]) -> list[list[_Token]]:
    """At every AND outside of parentheses and BETWEEN; nothing where terms are joined in other ways."""
    parts: list[list[_Token]] = [[]]
    depth, between = 0, False
    for token in tokens:
        kind, text = token
        depth += (text == "(") - (text == ")") if kind == "mark" else 0
        word = text if kind == "name" and not depth else ""
        if word in _OTHER_JOINS:
            return []
        if word == "and" and not between:
            parts.append([])
            continue
        between = word == "between" or (between and word != "and")
        parts[-1].append(token)
    return parts


def _wrapped(tokens: list[_Token]) -> bool:
    """Does one pair of parentheses hold all of it."""
    if len(tokens) < 2 or tokens[0] != ("mark", "("):
        return False
    depth = 0
    for place, (kind, text) in enumerate(tokens):
        depth += (text == "(") - (text == ")") if kind == "mark" else 0
        if depth == 0:
            return place == len(tokens) - 1
    return False


def _term(tokens: list[_Token]) -> Term | None:
    kinds = [kind for kind, _ in tokens]
    texts = [text for _, text in tokens]
    literals = [_literal(token) for token in tokens]
    if kinds[:1] != ["name"]:
        if len(tokens) == 3 and kinds[1:] == ["sign", "name"] and literals[0] is not None:
            return Term(texts[2], ((_TURNED.get(texts[1], texts[1]), literals[0]),))
        return None
    if len(tokens) == 3 and kinds[1] == "sign" and literals[2] is not None:
        return Term(texts[0], ((texts[1], literals[2]),))
    low, high = literals[2:3], literals[4:5]
    if len(tokens) == 5 and texts[1] == "between" and texts[3] == "and" and low[0] is not None:
        return None if high[0] is None else Term(texts[0], ((">=", low[0]), ("<=", high[0])))
    if texts[1:3] == ["in", "("] and texts[-1] == ")":
        values = literals[3:-1:2]
        commas = texts[4:-1:2]
        if values and set(commas) <= {","} and len(values) == len(commas) + 1:
            known = [value for value in values if value is not None]
            if len(known) == len(values):
                return Term(texts[0], tuple(("=", value) for value in known), any_of=True)
    return None


def _literal(token: _Token) -> Literal | None:
    kind, text = token
    if kind == "text":
        return text[1:-1].replace("''", "'")
    return int(text) if kind == "number" and text.isdigit() else None
