"""Predicates that Spark evaluates: expressions of its SQL without subqueries and without a way out of Spark.

Spark parses a predicate as one expression. Before that, its tokens are checked. Refused are subqueries,
script transformations, comments, variables (`${env:HOME}`), and functions that call Java or open files. An
option may open a file too (a schema's address, an XSD's path). All other functions are Spark's and the
session's own, the registered ones included. Some return facts about the session (`current_user`), or fail the
query (`raise_error`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

from hoodie.errors import ConfigError
from hoodie.read import spark_tree
from hoodie.read.binding import Dialect, Where, checked_text, folded
from hoodie.read.predicate import ANY
from hoodie.read.spark_tree import Token

_TOKEN = re.compile(
    r"""\s+ | (?P<text>[rR]'[^']*' | [rR]"[^"]*" | '(?:[^'\\]|\\.|'')*') |
    (?P<quoted>`(?:[^`]|``)*` | "(?:[^"\\]|\\.|"")*") | (?P<comment>--|/\*) | (?P<name>\w+) | (?P<mark>.)
    """,
    re.VERBOSE | re.DOTALL,
)
#: words that begin a query behind a parenthesis, and those that none but a query has
_QUERIES = frozenset({"select", "from", "with", "values", "table"})
_WORDS = {"select": "a subquery", "using": "a script transformation"}
#: behind these, VALUES and TABLE are columns
_OPERATORS = frozenset(",)=<>/%&|[")
_FUNCTIONS = frozenset(
    {
        *("reflect", "try_reflect", "java_method", "identifier"),
        *("from_protobuf", "to_protobuf", "from_avro", "schema_of_avro", "from_xml", "schema_of_xml"),
    }
)
#: levels that a predicate may nest
_LEVELS = 200
#: names of UTC that sessions have
_UTC = frozenset({"UTC", "Etc/UTC", "GMT", "Z"})
#: where Spark's own functions are
_EXPRESSIONS = "org.apache.spark.sql.catalyst.expressions."


def parsed(where: str, session: Any) -> Where:
    """The predicate as a tree, read as the Spark session reads it. Raises ConfigError, as `check` does."""
    tokens = check(where)
    found = spark_tree.parsed(tokens)
    utc = session.conf.get("spark.sql.session.timeZone") in _UTC
    texts = str(session.conf.get("spark.sql.legacy.typeCoercion.datetimeToString.enabled", "false"))
    words = frozenset(token.text for token in tokens if token.kind == "name") & spark_tree.KEYWORDS
    tree = found.tree if _of_spark(session, found.functions) else ANY
    return Where(
        where, tree, Dialect(utc, texts.lower() != "true", in_as_texts=True), words, names_in(tokens)
    )


def names_in(tokens: Sequence[Token]) -> frozenset[str] | None:
    """The names in a predicate; None where a star stands for all columns."""
    for before, token in pairwise(tokens):
        if token.raw == "*" and before.raw in ("(", ",", "."):
            return None
    quoted = (token.raw for token in tokens if token.kind == "quoted")
    unquoted = (raw[1:-1].replace(raw[0] * 2, raw[0]) for raw in quoted)
    return frozenset([*map(folded, unquoted), *(token.text for token in tokens if token.kind == "name")])


def _of_spark(session: Any, functions: Iterable[str]) -> bool:
    """Are they Spark's own? A session may register others under their names."""
    try:
        classes = [str(session.catalog.getFunction(name).className) for name in sorted(functions)]
    except Exception:  # noqa: BLE001  Spark says what is wrong when it evaluates the predicate
        return False
    return all(name.startswith(_EXPRESSIONS) for name in classes)


def check(where: str) -> list[Token]:
    """The predicate's tokens. Raises ConfigError for one with something that is not allowed."""
    if not checked_text(where).strip():
        raise ConfigError("where is empty; leave it out for all rows", where=where)
    if "${" in where:
        raise _refused(where, "a variable (${…})")
    found = _tokens(where)
    # the two before, at and after the token looked at; a quoted name loses its quotes, a text its content
    tokens = [("", ""), ("", ""), *((token.kind, token.text) for token in found), ("", "")]
    around = zip(tokens, tokens[1:], tokens[2:], tokens[3:], strict=False)
    for (kind_first, first), (_, before), (kind, text), (_, after) in around:
        if kind == "comment" or text in (";", "$"):
            raise _refused(where, "a comment" if kind == "comment" else repr(text))
        if after == "(" and kind in ("name", "quoted") and text in _FUNCTIONS:
            raise _refused(where, f"the function {text}")
        field = before == "." and not (kind_first == "name" and first.isdigit())  # `1.` is a number
        if kind != "name" or field:
            continue
        if text in _WORDS:
            raise _refused(where, _WORDS[text])
        if before == "(" and text in _QUERIES and after not in _OPERATORS:
            raise _refused(where, "a subquery")
    if _nesting(found) > _LEVELS:
        raise ConfigError(
            f"where nests more than {_LEVELS} levels, which Spark may not parse; write it flatter, such as "
            "with IN, or with terms that OR joins without parentheses",
            where=where[:200],
        )
    return found


def _nesting(tokens: Iterable[Token]) -> int:
    """The most levels of parentheses, brackets, CASE and signs before a value."""
    most = level = run = 0
    for token in tokens:
        run = run + 1 if token.is_word("not") or token.raw in ("-", "~", "+", "!") else 0
        level += (token.raw in ("(", "[") or token.is_word("case")) - (
            token.raw in (")", "]") or token.is_word("end")
        )
        most = max(most, level + run)
    return most


def _tokens(where: str) -> list[Token]:
    found = []
    for match in _TOKEN.finditer(where):
        kind = match.lastgroup
        if kind is not None:
            raw = match[kind]
            # as Spark's parser takes words: the upper case of the long s is an S
            text = raw.upper().lower()
            plain = "''" if kind == "text" else text.strip('`"') if kind == "quoted" else text
            found.append(Token(kind, plain, raw, match.start(kind)))
    return found


def _refused(where: str, what: str) -> ConfigError:
    return ConfigError(
        f"where {where!r} has {what}, which is not allowed: it takes one predicate on a row's columns, as "
        "after WHERE; a column of that name is written in backticks, other tables are joined to the "
        "DataFrame that is read",
        where=where,
    )
