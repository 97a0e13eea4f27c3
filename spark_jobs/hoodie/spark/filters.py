"""Filters that Spark pushes into a data source, as a predicate that leaves out partitions, files and row
groups. Spark evaluates all of them on the rows that are left.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

from hoodie.engine.frame_plan import COMPARISONS
from hoodie.read.binding import Dialect, Where
from hoodie.read.predicate import (
    ANY,
    And,
    Column,
    IsNull,
    Like,
    Literal,
    LiteralKind,
    Node,
    Not,
    comparison,
    membership,
)

_EPOCH = dt.datetime(1970, 1, 1)
_MICROSECOND = dt.timedelta(microseconds=1)


def where(filters: Iterable[Any]) -> Where:
    """The rows for which all of the filters are true. What is not known of one rules nothing out."""
    terms = tuple(map(_node, filters))
    return Where("", And(terms) if terms else ANY, Dialect(moments_of_text=False), names=frozenset())


def _node(item: Any) -> Node:
    """Of one of the classes of `pyspark.sql.datasource`, which pyspark 4.0 has not."""
    kind = type(item).__name__
    if kind == "Not":
        return Not(_node(item.child))
    column = Column(tuple(item.attribute))
    if kind in ("IsNull", "IsNotNull"):
        return IsNull(column) if kind == "IsNull" else Not(IsNull(column))
    if kind == "In":
        known = [literal for literal in map(_literal, item.value) if literal is not None]
        return membership(column, known) if len(known) == len(item.value) else ANY
    value = _literal(item.value)
    if value is None:
        return ANY
    if kind in COMPARISONS:
        return comparison(COMPARISONS[kind], column, value)
    if kind == "StringStartsWith" and not set("%_\\") & set(str(value.value)):
        return Like(column, f"{value.value}%")
    return ANY


def _literal(value: Any) -> Literal | None:
    """A value of the column's type; None for one that is not compared here."""
    if value is None:
        return Literal(LiteralKind.NULL, None)
    if isinstance(value, bool):
        return Literal(LiteralKind.BOOLEAN, value)
    if isinstance(value, str):
        return Literal(LiteralKind.TEXT, value)
    if isinstance(value, (int, Decimal)):
        return Literal(LiteralKind.NUMBER, value)
    if isinstance(value, float):
        exact = Decimal(repr(value))
        return Literal(LiteralKind.NUMBER, exact) if exact.is_finite() else None
    if isinstance(value, dt.datetime):
        moment = value if value.tzinfo is None else value.astimezone(dt.timezone.utc).replace(tzinfo=None)
        return Literal(LiteralKind.MOMENT, (moment - _EPOCH) // _MICROSECOND)
    if isinstance(value, dt.date):
        return Literal(LiteralKind.DATE, (value - _EPOCH.date()).days)
    return None
