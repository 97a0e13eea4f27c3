"""Which columns and rows of tables a query needs, as Spark's own plan says it.

The query is explained over stand-ins: files that are never read, whose columns have names with a mark of this
query alone. The scans of the plan name the columns that they read and the filters that reach them. Spark
writes values into filters without quotes; since no value has the mark, a filter's beginning is certain, and
one whose end is not is left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa

from hoodie.engine.frame_plan import COMPARISONS
from hoodie.read.binding import Dialect, Where
from hoodie.read.functions import date_of_text
from hoodie.read.predicate import (
    ANY,
    DEPTH,
    And,
    Column,
    IsNull,
    Like,
    Literal,
    LiteralKind,
    Node,
    Not,
    comparison,
    disjunction,
    membership,
)

#: of a value that is written without quotes: it ends where the filter does
_PLAIN = re.compile(r"[^(),\[\]\x00-\x1f]*")
_BEGIN = "== Physical Plan =="
_NODE = re.compile(r"^\(\d+\) ", re.MULTILINE)
_READ = re.compile(r"^ReadSchema: (.*)$", re.MULTILINE)
_PUSHED = re.compile(r"^PushedFilters: \[(.*)\]$", re.MULTILINE)


@dataclass(frozen=True)
class Stand:
    """A table's place in an explained query; its columns are `<mark>_<number>`."""

    mark: str
    schema: pa.Schema

    def names(self) -> list[str]:
        return [f"{self.mark}_{number}" for number in range(len(self.schema))]


@dataclass
class Needed:
    """What a query needs of a table: columns, and one predicate for each scan of it."""

    columns: set[str] = field(default_factory=set)
    scans: list[Node] = field(default_factory=list)

    def where(self) -> Where | None:
        """The rows that some scan needs; None: all, or not known."""
        if not self.scans or ANY in self.scans:
            return None
        return Where("", disjunction(self.scans), Dialect(moments_of_text=False), names=frozenset())


def needed(plan: str, stands: Mapping[str, Stand]) -> dict[str, Needed]:
    """By table, from EXPLAIN FORMATTED. Where the plan has another form, all is needed."""
    if not plan.startswith(_BEGIN):
        return {name: Needed(set(stand.schema.names)) for name, stand in stands.items()}
    found = {name: Needed() for name in stands}
    scans = [part for part in _NODE.split(plan) if _READ.search(part)]
    for scan in scans:
        read, pushed = " ".join(_READ.findall(scan)), _PUSHED.search(scan)
        filters = pushed.group(1) if pushed else ""
        whose = [name for name, stand in stands.items() if f"{stand.mark}_" in read + filters]
        for name in whose or stands:
            columns = re.findall(rf"\b{stands[name].mark}_(\d+)\b", read)
            found[name].columns.update(stands[name].schema.names[int(number)] for number in columns)
            found[name].scans.append(_Filters(stands[name]).all_of(filters) if whose else ANY)
    return found


class _Unknown(Exception):
    """A filter that can't be told from a part of a value."""


class _Filters:
    """Filters of Spark's sources, as their texts are."""

    def __init__(self, stand: Stand) -> None:
        self._stand = stand
        self._begin = re.compile(rf", (?=(?:(?:Not|And|Or)\()*[A-Za-z]+\({stand.mark}_\d)")

    def all_of(self, text: str) -> Node:
        terms = [term for term in map(self._term, self._begin.split(text)) if term != ANY]
        return And(tuple(terms)) if terms else ANY

    def _term(self, text: str) -> Node:
        try:
            node, rest = self._node(text, DEPTH)
        except (_Unknown, ValueError, KeyError, InvalidOperation):
            return ANY
        return ANY if rest else node

    def _node(self, text: str, depth: int) -> tuple[Node, str]:
        """The filter that a text begins with, and what follows it."""
        name, bracket, rest = text.partition("(")
        if not bracket or not depth:
            raise _Unknown
        if name == "Not":
            node, rest = self._node(rest, depth - 1)
            return Not(node), _after(rest, ")")
        if name in ("And", "Or"):
            left, rest = self._node(rest, depth - 1)
            right, rest = self._node(_after(rest, ","), depth - 1)
            both = And((left, right)) if name == "And" else disjunction((left, right))
            return both, _after(rest, ")")
        column, kind, rest = self._column(rest)
        if name in ("IsNull", "IsNotNull"):
            node = IsNull(column)
            return (node if name == "IsNull" else Not(node)), _after(rest, ")")
        rest = _after(rest, ",")
        if name == "In":
            texts, rest = _listed(_after(rest.lstrip(" "), "["))
            return membership(column, [_literal(value, kind) for value in texts]), _after(rest, ")")
        value, rest = _plain(rest)
        rest = _after(rest, ")")
        if name == "StringStartsWith":
            if "%" in value or "_" in value or not pa.types.is_string(kind):
                raise _Unknown
            return Like(column, value + "%"), rest
        return comparison(COMPARISONS[name], column, _literal(value, kind)), rest

    def _column(self, text: str) -> tuple[Column, Any, str]:
        match = re.match(rf"{self._stand.mark}_(\d+)(?=[,)])", text)
        if match is None:
            raise _Unknown
        column = self._stand.schema.field(int(match.group(1)))
        return Column((column.name,)), column.type, text[match.end() :]


def _after(text: str, mark: str) -> str:
    if not text.startswith(mark):
        raise _Unknown
    return text[len(mark) :]


def _plain(text: str) -> tuple[str, str]:
    match = _PLAIN.match(text)
    assert match is not None
    return match.group(), text[match.end() :]


def _listed(text: str) -> tuple[list[str], str]:
    values: list[str] = []
    while True:
        value, text = _plain(text)
        values.append(value)
        if text.startswith("]"):
            return values, text[1:]
        text = _after(text, ",")


def _literal(text: str, kind: Any) -> Literal:
    """A value of the column's type, as Scala writes it."""
    types = pa.types
    if text == "null":
        raise _Unknown  # or the text of these letters
    if types.is_string(kind):
        return Literal(LiteralKind.TEXT, text)
    if types.is_integer(kind):
        return Literal(LiteralKind.NUMBER, int(text))
    if types.is_boolean(kind):
        return Literal(LiteralKind.BOOLEAN, {"true": True, "false": False}[text])
    if types.is_date32(kind) and text >= "1900":
        return Literal(LiteralKind.DATE, date_of_text(text))
    if types.is_decimal(kind):
        return Literal(LiteralKind.NUMBER, Decimal(text))
    raise _Unknown
