"""The answers that a predicate can have for rows of which only bounds of their values are known.

Never too few: what is not known widens the bounds. Nulls follow SQL's three values. NaN is greater than all
numbers and equals itself, and both zeros are equal, as in DuckDB and Spark; texts compare by code points, as
their UTF-8 bytes do.
"""

from __future__ import annotations

import datetime as dt
import re
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, TypeAlias

from hoodie.read.predicate import (
    FALSE,
    NULL,
    TRUE,
    And,
    Answers,
    Comparison,
    Computed,
    Constant,
    Expression,
    Field,
    In,
    IsNull,
    Literal,
    Node,
    Not,
    Opaque,
    Or,
    Step,
)

_EPOCH = dt.date(1970, 1, 1)
_MIDNIGHT = dt.datetime(1970, 1, 1)
_HALVES = (TRUE, FALSE, NULL)


@dataclass(frozen=True)
class Bounds:
    """What is known of a column's values in some rows. `low` and `high` are inclusive, None: unbounded.

    `values`: there may be some that are not null; `nulls`: there may be nulls; `nan`: there may be NaN, which
    lies in no bounds. Dates are days, points in time microseconds since 1970.
    """

    low: Any = None
    high: Any = None
    nulls: bool = True
    values: bool = True
    nan: bool = False

    @property
    def exact(self) -> bool:
        return self.low is not None and self.low == self.high and not self.nan

    @classmethod
    def of(cls, value: Any) -> Bounds:
        """Those of rows that all have this value, as Python has it."""
        if value is None:
            return NOTHING
        plain = comparable(value)
        return UNKNOWN if plain is None else cls(plain, plain, nulls=False)

    def joined(self, other: Bounds) -> Bounds:
        """Those of the rows of both."""
        nulls, nan = self.nulls or other.nulls, self.nan or other.nan
        if not (self.values and other.values):
            one = self if self.values else other
            return replace(one, nulls=nulls, nan=nan)
        low = None if self.low is None or other.low is None else min(self.low, other.low)
        high = None if self.high is None or other.high is None else max(self.high, other.high)
        return Bounds(low, high, nulls=nulls, nan=nan)


UNKNOWN = Bounds(nan=True)
NOTHING = Bounds(values=False)
#: of no rows
EMPTY = Bounds(nulls=False, values=False)
Lookup: TypeAlias = Callable[[tuple[str, ...]], Bounds]


def comparable(value: Any) -> Any:
    """A value as bounds have it; None for one that has no order here."""
    if isinstance(value, dt.datetime):
        moment = value.astimezone(dt.timezone.utc).replace(tzinfo=None) if value.tzinfo else value
        return (moment - _MIDNIGHT) // dt.timedelta(microseconds=1)
    if isinstance(value, dt.date):
        return (value - _EPOCH).days
    if isinstance(value, float) and value != value:
        return None
    return value if isinstance(value, (str, bool, int, float)) or hasattr(value, "as_tuple") else None


def may_be_true(node: Node, lookup: Lookup) -> bool:
    return bool(outcomes(node, lookup) & TRUE)


def outcomes(node: Node, lookup: Lookup) -> int:
    """The answers of a bound tree for rows whose columns `lookup` bounds."""
    if isinstance(node, Constant):
        return node.answers
    if isinstance(node, (And, Or)):
        table = _BOTH if isinstance(node, And) else _EITHER
        found = TRUE if isinstance(node, And) else FALSE
        for term in node.terms:
            found = table[found][outcomes(term, lookup)]
        return found
    if isinstance(node, Not):
        return _NEGATED[outcomes(node.term, lookup)]
    if isinstance(node, Answers):
        answers = outcomes(node.term, lookup)
        return (TRUE if answers & node.among else 0) | (FALSE if answers & ~node.among else 0)
    if isinstance(node, Opaque):
        return FALSE | NULL | (TRUE if node.may_hold(lookup) else 0)
    if isinstance(node, Comparison):
        return _compared(node.sign, bounds_of(node.left, lookup), bounds_of(node.right, lookup))
    value = bounds_of(node.value, lookup)
    if isinstance(node, IsNull):
        return (TRUE if value.nulls else 0) | (FALSE if value.values else 0)
    found = NULL if value.nulls else 0
    if value.values:
        found |= _among(node, value) if isinstance(node, In) else _like(node.pattern, value)
    return found


def bounds_of(value: Expression, lookup: Lookup) -> Bounds:
    if isinstance(value, Literal):
        return NOTHING if value.value is None else Bounds(value.value, value.value, nulls=False)
    if isinstance(value, Computed):
        return _computed(value.step, bounds_of(value.argument, lookup))
    if isinstance(value, Field):
        return _widened(lookup(value.path), value.slack)
    return UNKNOWN


def _widened(value: Bounds, slack: int) -> Bounds:
    if not slack:
        return value
    low = None if value.low is None else value.low - slack
    return replace(value, low=low, high=None if value.high is None else value.high + slack)


def _pairs(joined: Callable[[int, int], int]) -> list[list[int]]:
    """For each two sets of answers the answers of both joined."""

    def both(left: int, right: int) -> int:
        found = 0
        for one in _HALVES:
            for other in _HALVES:
                if left & one and right & other:
                    found |= joined(one, other)
        return found

    return [[both(left, right) for right in range(8)] for left in range(8)]


_BOTH = _pairs(lambda one, other: FALSE if FALSE in (one, other) else NULL if NULL in (one, other) else TRUE)
_EITHER = _pairs(lambda one, other: TRUE if TRUE in (one, other) else NULL if NULL in (one, other) else FALSE)
_NEGATED = [
    (FALSE if found & TRUE else 0) | (TRUE if found & FALSE else 0) | found & NULL for found in range(8)
]
#: whether a sign is true of something less, equal, greater
_SIGNS = {
    "=": (False, True, False),
    "<=>": (False, True, False),
    "<>": (True, False, True),
    "<": (True, False, False),
    "<=": (True, True, False),
    ">": (False, False, True),
    ">=": (False, True, True),
}


def _compared(sign: str, left: Bounds, right: Bounds) -> int:
    found = 0
    if sign == "<=>":
        found |= TRUE if left.nulls and right.nulls else 0
        found |= FALSE if (left.nulls and right.values) or (left.values and right.nulls) else 0
    elif left.nulls or right.nulls:
        found |= NULL
    if not (left.values and right.values):
        return found
    less = _less(left, right) or right.nan
    greater = _less(right, left) or left.nan
    equal = not (_apart(left, right) or _apart(right, left)) or (left.nan and right.nan)
    for possible, answer in zip((less, equal, greater), _SIGNS[sign], strict=True):
        found |= (TRUE if answer else FALSE) if possible else 0
    return found


def _less(left: Bounds, right: Bounds) -> bool:
    """May a value of the left be less than one of the right?"""
    return left.low is None or right.high is None or bool(left.low < right.high)


def _apart(left: Bounds, right: Bounds) -> bool:
    """Is every value of the left less than all of the right?"""
    return left.high is not None and right.low is not None and bool(left.high < right.low)


def _among(node: In, value: Bounds) -> int:
    missed = NULL if node.null else FALSE
    if value.exact:
        return TRUE if value.low in node.members else missed
    first = 0 if value.low is None else bisect_left(node.sorted, value.low)
    there = first < len(node.sorted) and (value.high is None or node.sorted[first] <= value.high)
    return missed | (TRUE if there else 0)


def _like(pattern: str, value: Bounds) -> int:
    if value.exact:
        return TRUE if _matches(pattern, value.low) else FALSE
    prefix = re.split("[%_]", pattern, maxsplit=1)[0]
    # values with a prefix lie beside one another: none has it if all are before those, or behind them
    if value.high is not None and value.high < prefix:
        return FALSE
    if value.low is not None and value.low[: len(prefix)] > prefix:
        return FALSE
    ends = (value.low, value.high)
    if pattern == prefix + "%" and all(end is not None and end.startswith(prefix) for end in ends):
        return TRUE
    return TRUE | FALSE


def _matches(pattern: str, text: str) -> bool:
    """Each part between two % at its first place behind the last one's: linear in the text."""
    first, *others = pattern.split("%")
    if not others:
        return len(text) == len(first) and _fits(first, text)
    *middle, last = others
    start, end = len(first), len(text) - len(last)
    if end < start or not _fits(first, text[:start]) or not _fits(last, text[end:]):
        return False
    for part in middle:
        found = _part(part).search(text, start, end)
        if found is None:
            return False
        start = found.end()
    return True


def _fits(part: str, text: str) -> bool:
    return all(wanted in ("_", there) for wanted, there in zip(part, text, strict=True))


@lru_cache(maxsize=256)
def _part(part: str) -> re.Pattern[str]:
    return re.compile("".join("." if one == "_" else re.escape(one) for one in part), re.DOTALL)


def _computed(step: Step, value: Bounds) -> Bounds:
    """The function's values; unbounded where one is not known to be what the engine computes."""
    if not value.values:
        return value
    if value.exact or step.monotone:
        try:
            low = None if value.low is None else step.compute(value.low)
            high = low if value.exact else None if value.high is None else step.compute(value.high)
        except (ValueError, OverflowError):
            pass
        else:
            return _widened(Bounds(low, high, nulls=value.nulls), step.slack)
    return Bounds(nulls=value.nulls or step.fails)
