"""Joda-Time date patterns: formatting and parsing, English texts.

Letters for output: y Y x w e E D M d a H k K h m s S Z; for input: y Y M d D E a H k K h m s S Z. Other
letters (era, century, zone names) are refused rather than guessed. Source of the rules: Joda-Time 2.12
DateTimeFormat, with its limits on digits and its two-digit-year pivot. Years are ISO proleptic, any number.
"""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass
from typing import NamedTuple

from hoodie.errors import ConfigError
from hoodie.keygen._zones import UTC, Zone

_DAY = 86_400_000
_MONTHS = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]
_WEEKDAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
_NUMERIC = frozenset("cCxyYdhHmsSeDFwWkK")
_DIGITS = {"M": 2, "d": 2, "D": 3, "H": 2, "k": 2, "K": 2, "h": 2, "m": 2, "s": 2}
_UNIT = {"S": 1, "s": 1000, "m": 60_000}  # what a letter needs at least; hours: 3600000, else whole days
_HOURS = frozenset("aHkKh")
_OFFSET = re.compile(r"(?P<h>[0-9]{2})(?:(?P<colon>:)?(?P<m>[0-9]{2})(?:(?(colon):)(?P<s>[0-9]{2}))?)?")


class Token(NamedTuple):
    """A literal (`letter` == "'") or `size` times a pattern letter."""

    letter: str
    size: int
    text: str = ""
    number_follows: bool = False


class Parsed(NamedTuple):
    """Milliseconds since 1970 UTC; `offset` is the one written in the text, if any."""

    instant: int
    offset: int | None


class Bad(ValueError):
    """The text doesn't fit the pattern."""


class BadValue(Bad):
    """The text has the pattern's form, but there is no such date or time."""


@dataclass(frozen=True)
class Pattern:
    """One compiled pattern."""

    text: str
    tokens: tuple[Token, ...]

    @classmethod
    def for_output(cls, text: str) -> Pattern:
        return cls._of(text, "yYxweEDMdaHkKhmsSZ", "an output")

    @classmethod
    def for_input(cls, text: str) -> Pattern:
        pattern = cls._of(text, "yYMdDEaHkKhmsSZ", "an input")
        if any(token.letter == "Z" and token.size > 2 for token in pattern.tokens):
            raise ConfigError(
                f"time zone names (ZZZ) in an input format are not supported: {text!r}.", value=text
            )
        return pattern

    @classmethod
    def _of(cls, text: str, letters: str, what: str) -> Pattern:
        tokens = _tokens(text)
        for token in tokens:
            if token.letter != "'" and token.letter not in letters:
                raise ConfigError(
                    f"pattern letter {token.letter * token.size!r} in {text!r} is not supported in {what} "
                    f"format; known are {' '.join(letters)}, and text in single quotes.",
                    value=text,
                )
        if not tokens:
            raise ConfigError(
                "an empty date format; give a Joda-Time pattern such as yyyy/MM/dd.", value=text
            )
        return cls(text, tokens)

    @property
    def grain(self) -> int:
        """Milliseconds within which all local times of a block format the same."""
        letters = {token.letter for token in self.tokens}
        fine = [_UNIT[letter] for letter in letters & _UNIT.keys()]
        return min([*fine, 3_600_000 if letters & _HOURS else _DAY])

    @property
    def shows_zone(self) -> bool:
        return any(token.letter == "Z" for token in self.tokens)

    def format(self, local: int, offset: int = 0, zone: str = "UTC") -> str:
        """`local` is milliseconds since 1970 on the wall clock, `offset` and `zone` what Z and ZZZ print."""
        moment = _Moment(local, offset, zone)
        return "".join(
            token.text if token.letter == "'" else moment.field(*token[:2]) for token in self.tokens
        )

    def parse(self, text: str, zone: Zone | None) -> Parsed:
        """Raises Bad. Without `zone` a text without offset is in UTC."""
        reader = _Reader(text, zone)
        for token in self.tokens:
            reader.take(token)
        if reader.at != len(text):
            raise Bad(f"text left over: {text[reader.at :]!r}")
        try:
            return reader.result()
        except ValueError as error:
            raise BadValue(str(error)) from None


def _tokens(text: str) -> tuple[Token, ...]:
    """Letter runs and literals: a quote starts or ends text, two quotes are one."""
    made: list[Token] = []
    at = 0
    while at < len(text):
        char = text[at]
        if char.isascii() and char.isalpha():
            end = at
            while end < len(text) and text[end] == char:
                end += 1
            made.append(Token(char, end - at))
            at = end
            continue
        literal, quoted = "", False
        while at < len(text):
            char = text[at]
            if char == "'" and text[at + 1 : at + 2] == "'":
                literal += "'"
                at += 1
            elif char == "'":
                quoted = not quoted
            elif not quoted and char.isascii() and char.isalpha():
                break
            else:
                literal += char
            at += 1
        made.append(Token("'", 0, literal))
    following = [*made[1:], Token("'", 0)]
    return tuple(
        token._replace(number_follows=_is_number(after)) for token, after in zip(made, following, strict=True)
    )


def _is_number(token: Token) -> bool:
    return token.letter in _NUMERIC or (token.letter == "M" and token.size <= 2)


def days_from_civil(year: int, month: int, day: int) -> int:
    """Days since 1970-01-01 in the proleptic Gregorian calendar, any year."""
    cycles, year_of_cycle = divmod(year, 400)
    return dt.date(2000 + year_of_cycle, month, day).toordinal() - 719_163 + (cycles - 5) * 146_097


def civil_from_days(days: int) -> tuple[int, int, int]:
    """Inverse of `days_from_civil`."""
    cycles, rest = divmod(days - 10_957, 146_097)  # 10957: 2000-01-01
    date = dt.date.fromordinal(730_120 + rest)
    return date.year + cycles * 400, date.month, date.day


class _Moment:
    """A local time taken apart for printing."""

    def __init__(self, local: int, offset: int, zone: str) -> None:
        self.days, self.millis = divmod(local, _DAY)
        self.year, self.month, self.day = civil_from_days(self.days)
        self.offset, self.zone = offset, zone

    def field(self, letter: str, count: int) -> str:
        if letter in "yYx":
            return self._year(letter, count)
        if letter == "M" and count > 2:
            name = _MONTHS[self.month - 1]
            return name if count > 3 else name[:3]
        if letter == "E":
            name = _WEEKDAYS[(self.days + 3) % 7]
            return name if count > 3 else name[:3]
        if letter == "a":
            return "PM" if self.millis >= _DAY // 2 else "AM"
        if letter == "S":
            return f"{self.millis % 1000:03d}".ljust(count, "0")[:count]
        if letter == "Z":
            return self._zone(count)
        return _padded(self._number(letter), count)

    def _number(self, letter: str) -> int:
        hour = self.millis // 3_600_000
        if letter in "we":
            return self._week()[1] if letter == "w" else (self.days + 3) % 7 + 1
        if letter == "D":
            return self.days - days_from_civil(self.year, 1, 1) + 1
        return {
            "M": self.month,
            "d": self.day,
            "H": hour,
            "k": hour or 24,
            "K": hour % 12,
            "h": hour % 12 or 12,
            "m": self.millis // 60_000 % 60,
            "s": self.millis // 1000 % 60,
        }[letter]

    def _year(self, letter: str, count: int) -> str:
        year = self._week()[0] if letter == "x" else self.year
        if letter == "Y" and count != 2 and year <= 0:
            year = 1 - year  # counted in its era
        return f"{abs(year) % 100:02d}" if count == 2 else _padded(year, count)

    def _week(self) -> tuple[int, int]:
        thursday = self.days - (self.days + 3) % 7 + 3
        year = civil_from_days(thursday)[0]
        return year, (thursday - days_from_civil(year, 1, 1)) // 7 + 1

    def _zone(self, count: int) -> str:
        if count > 2:
            return self.zone
        hours, minutes = divmod(abs(self.offset) // 60_000, 60)
        return f"{'-' if self.offset < 0 else '+'}{hours:02d}{':' if count == 2 else ''}{minutes:02d}"


def _padded(value: int, count: int) -> str:
    return f"-{-value:0{count}d}" if value < 0 else f"{value:0{count}d}"


class _Reader:
    """Consumes a text token by token, as greedily as Joda-Time does: no backtracking."""

    def __init__(self, text: str, zone: Zone | None) -> None:
        self.text, self.zone, self.at = text, zone, 0
        self.values: dict[str, int] = {}
        self.offset: int | None = None

    def take(self, token: Token) -> None:
        letter, count = token.letter, token.size
        if letter == "'":
            self._literal(token.text)
        elif letter in "yY":
            self._year(token)
        elif letter == "M" and count > 2:
            self.values["M"] = self._name(_MONTHS) + 1
        elif letter == "E":
            self.values["E"] = self._name(_WEEKDAYS)
        elif letter == "a":
            self.values["a"] = self._name(["AM", "PM"])
        elif letter == "S":
            self.values["S"] = int(self._digits(count)[:3].ljust(3, "0"))
        elif letter == "Z":
            self._zone()
        else:
            self.values[letter] = int(self._digits(_DIGITS[letter]))

    def result(self) -> Parsed:
        local = self._date() * _DAY + self._time()
        if self.offset is not None:
            return Parsed(local - self.offset, self.offset)
        instant = (self.zone or UTC).instant(local)
        if instant is None:
            raise Bad("no such local time: the clock was set forward over it")
        return Parsed(instant, None)

    def _literal(self, literal: str) -> None:
        found = self.text[self.at : self.at + len(literal)]
        if found.lower() != literal.lower():
            raise Bad(f"{literal!r} expected at position {self.at}")
        self.at += len(literal)

    def _digits(self, most: int, *, least: int = 1) -> str:
        end = self.at
        while end < len(self.text) and end - self.at < most and "0" <= self.text[end] <= "9":
            end += 1
        if end - self.at < least:
            raise Bad(f"a number expected at position {self.at}")
        digits, self.at = self.text[self.at : end], end
        return digits

    def _year(self, token: Token) -> None:
        start = self.at
        if token.size == 2 and token.number_follows:
            year = _pivoted(int(self._digits(2, least=2)))
        else:
            sign = 1
            if self.text[self.at : self.at + 1] in ("-", "+"):
                sign = -1 if self.text[self.at] == "-" else 1
                self.at += 1
            year = sign * int(self._digits(token.size if token.number_follows else 9))
            if token.size == 2 and self.at - start == 2 and self.text[start].isdigit():
                year = _pivoted(year)
        self.values["y"] = year

    def _name(self, names: list[str]) -> int:
        """Index of the longest name or three-letter short name here; as is, lower or upper case."""
        for size in range(len(self.text) - self.at, 0, -1):
            found = self.text[self.at : self.at + size]
            for index, name in enumerate(names):
                if any(found in (form, form.lower(), form.upper()) for form in (name, name[:3])):
                    self.at += size
                    return index
        raise Bad(f"one of {', '.join(names)} expected at position {self.at}")

    def _zone(self) -> None:
        sign = self.text[self.at : self.at + 1]
        if sign in ("Z", "z"):
            self.at, self.offset = self.at + 1, 0
            return
        if sign not in ("+", "-"):
            raise Bad(f"an offset such as +0100 expected at position {self.at}")
        match = _OFFSET.match(self.text, self.at + 1)
        if match is None:
            raise Bad(f"an offset such as +0100 expected at position {self.at}")
        self.at = match.end()
        hours, minutes, seconds = (int(part or 0) for part in match.group("h", "m", "s"))
        if hours > 23 or minutes > 59 or seconds > 59:
            raise Bad("offset out of range")
        millis = ((hours * 60 + minutes) * 60 + seconds) * 1000
        self.offset = -millis if sign == "-" else millis

    def _date(self) -> int:
        """Days since 1970. Missing fields: the first; missing year: 1970, or 2000 where a date is given."""
        values = self.values
        dated = values.keys() & {"M", "d", "D", "E"}
        year = values.get("y", 2000 if dated else 1970)
        try:
            if "D" in values:
                days = days_from_civil(year, 1, 1) + values["D"] - 1
                if not 1 <= values["D"] <= 365 + (civil_from_days(days)[0] == year):
                    raise Bad(f"no day {values['D']} in the year {year}")
            else:
                days = days_from_civil(year, values.get("M", 1), values.get("d", 1))
        except ValueError as error:
            raise Bad(str(error)) from None
        if "E" in values and (days + 3) % 7 != values["E"]:
            raise Bad(f"that day is no {_WEEKDAYS[values['E']]}")
        return days

    def _time(self) -> int:
        get = self.values.get
        limits = {"H": (0, 23), "k": (1, 24), "K": (0, 11), "h": (1, 12), "m": (0, 59), "s": (0, 59)}
        for letter, (low, high) in limits.items():
            if not low <= get(letter, low) <= high:
                raise Bad(f"{letter} = {get(letter)} is not in {low}..{high}")
        hour = get("H", get("k", 12 * get("a", 0))) % 24
        if "K" in self.values or "h" in self.values:
            hour = hour // 12 * 12 + get("K", get("h", 0)) % 12
        return ((hour * 60 + get("m", 0)) * 60 + get("s", 0)) * 1000 + get("S", 0)


def _pivoted(year: int) -> int:
    """Two digits as a year of the hundred years around thirty years ago."""
    low = dt.date.today().year - 30 - 50
    return year + (low // 100 + (year < low % 100)) * 100
