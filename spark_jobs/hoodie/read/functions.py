"""Functions of a value, as bounds have values: where both engines compute the same, and nowhere else.

Dates are days, points in time microseconds since 1970.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

from hoodie.read.predicate import Step

DAY = 86_400_000_000
_EPOCH = dt.date(1970, 1, 1).toordinal()
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_MOMENT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}( [0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?)?")
_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,17}")


def date_of_text(text: str) -> int:
    """Of yyyy-MM-dd only: the engines differ in what else is a date."""
    if not _DATE.fullmatch(text):
        raise ValueError(text)
    return dt.date.fromisoformat(text).toordinal() - _EPOCH


def moment_of_text(text: str) -> int:
    """Of a date with or without a time, and without a zone."""
    if not _MOMENT.fullmatch(text):
        raise ValueError(text)
    day, _, clock = text.partition(" ")
    whole, _, part = clock.partition(".")
    time = dt.time.fromisoformat(whole) if whole else dt.time()
    seconds = time.hour * 3600 + time.minute * 60 + time.second
    return date_of_text(day) * DAY + seconds * 1_000_000 + int(part.ljust(6, "0"))


def whole_of_text(text: str, bits: int = 64) -> int:
    """Of the one text that a whole number has, which is also what comparing as texts would say."""
    value = int(text) if _WHOLE.fullmatch(text) else None
    if value is None or not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
        raise ValueError(text)
    return value


def _date(days: int) -> dt.date:
    return dt.date.fromordinal(days + _EPOCH)


def _year(days: int) -> int:
    return _date(days).year


def _month(days: int) -> int:
    return _date(days).month


def _quarter(days: int) -> int:
    return (_date(days).month + 2) // 3


def _day(days: int) -> int:
    return _date(days).day


def _iso(days: int) -> str:
    return _date(days).isoformat()


def _truncated(unit: str, days: int) -> int:
    date = _date(days)
    if unit == "week":
        return days - date.weekday()
    if unit == "day":
        return days
    month = {"year": 1, "quarter": (date.month - 1) // 3 * 3 + 1, "month": date.month}[unit]
    return date.replace(month=month, day=1).toordinal() - _EPOCH


def _substring(start: int, length: int | None, text: str) -> str:
    return text[start - 1 :] if length is None else text[start - 1 : start - 1 + length]


def _ascii(change: Callable[[str], str], text: str) -> str:
    """Engines differ in the cases of other letters."""
    if not text.isascii():
        raise ValueError(text)
    return change(text)


def _text_of_boolean(value: bool) -> str:
    return "true" if value else "false"


def _whole(bits: int, value: int) -> int:
    if not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
        raise OverflowError(value)
    return value


def _moment(days: int) -> int:
    return days * DAY


def _day_of_moment(micros: int) -> int:
    return micros // DAY


DATE_OF_MOMENT = Step(_day_of_moment, monotone=True)
DATE_OF_TEXT = Step(date_of_text, fails=True)
TEXT_OF_DATE = Step(_iso, monotone=True)
TEXT_OF_WHOLE = Step(str)
TEXT_OF_BOOLEAN = Step(_text_of_boolean, monotone=True)
YEAR, QUARTER = Step(_year, monotone=True), Step(_quarter)
MONTH, DAY_OF_MONTH = Step(_month), Step(_day)
LOWER, UPPER = Step(partial(_ascii, str.lower)), Step(partial(_ascii, str.upper))
UNITS = frozenset({"year", "quarter", "month", "week", "day"})


def moment_of_date(slack: int) -> Step:
    return Step(_moment, monotone=True, slack=slack)


def truncation(unit: str) -> Step:
    return Step(partial(_truncated, unit), monotone=True)


def whole(bits: int) -> Step:
    return Step(partial(_whole, bits), monotone=True, fails=True)


def whole_of(bits: int) -> Step:
    return Step(partial(_text_as_whole, bits), fails=True)


def _text_as_whole(bits: int, text: Any) -> int:
    return whole_of_text(text, bits)


@lru_cache(maxsize=1024)
def substring(start: int, length: int | None) -> Step:
    return Step(partial(_substring, start, length), monotone=start == 1)
