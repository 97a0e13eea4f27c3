"""Time zones by the names Java and Joda-Time take (Joda-Time DateTimeZone.forTimeZone), offsets in bulk.

Instants are int64 milliseconds since 1970 UTC of any year; offsets are milliseconds east of UTC.
"""

from __future__ import annotations

import datetime as dt
import re
import zoneinfo
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from hoodie.codec.arrays import Ints, array
from hoodie.errors import ConfigError

_SHORT_IDS = {
    "GMT": "UTC",
    "ECT": "CET",
    "MIT": "Pacific/Apia",
    "HST": "Pacific/Honolulu",
    "AST": "America/Anchorage",
    "PST": "America/Los_Angeles",
    "MST": "America/Denver",
    "PNT": "America/Phoenix",
    "CST": "America/Chicago",
    "EST": "America/New_York",
    "IET": "America/Indiana/Indianapolis",
    "PRT": "America/Puerto_Rico",
    "CNT": "America/St_Johns",
    "AGT": "America/Argentina/Buenos_Aires",
    "BET": "America/Sao_Paulo",
    "ART": "Africa/Cairo",
    "CAT": "Africa/Harare",
    "EAT": "Africa/Addis_Ababa",
    "NET": "Asia/Yerevan",
    "PLT": "Asia/Karachi",
    "IST": "Asia/Kolkata",
    "BST": "Asia/Dhaka",
    "VST": "Asia/Ho_Chi_Minh",
    "CTT": "Asia/Shanghai",
    "JST": "Asia/Tokyo",
    "ACT": "Australia/Darwin",
    "AET": "Australia/Sydney",
    "SST": "Pacific/Guadalcanal",
    "NST": "Pacific/Auckland",
}
_FIXED = re.compile(r"GMT([+-])(\d{1,2})(?::?([0-5]\d))?")
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
_CYCLE = 146_097 * 86_400_000  # 400 years, after which the calendar repeats
_FIRST, _LAST = -62_000_000_000_000, 253_000_000_000_000  # well inside the years 1 to 9999
_DAY, _QUARTER = 86_400_000, 900_000


@dataclass(frozen=True)
class Zone:
    """`fixed` is the offset of a zone without rules, None for a zone of the tz database."""

    name: str
    fixed: int | None = 0

    @classmethod
    def of(cls, text: str) -> Zone:
        """Raises ConfigError for a name Java doesn't know (Java itself would silently take GMT)."""
        name = _SHORT_IDS.get(text, text)
        if name == "UTC":
            return UTC
        match = _FIXED.fullmatch(name)
        if match and int(match[2]) < 24:
            offset = (int(match[2]) * 60 + int(match[3] or 0)) * 60_000
            return cls.of_offset(-offset if match[1] == "-" else offset)
        try:
            _rules(name)
        except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
            raise ConfigError(
                f"unknown time zone {text!r}; use a tz database name such as Europe/Paris, UTC, or GMT+08:00 "
                "(on a system without a tz database install the package tzdata).",
                value=text,
            ) from None
        return cls(name, None)

    @classmethod
    def of_offset(cls, offset: int) -> Zone:
        """A zone without rules, named as Joda-Time does: `+05:30`."""
        minutes, seconds = divmod(abs(offset) // 1000, 60)
        name = f"{'-' if offset < 0 else '+'}{minutes // 60:02d}:{minutes % 60:02d}"
        return cls(name + (f":{seconds:02d}" if seconds else ""), offset) if offset else UTC

    def offset(self, instant: int) -> int:
        """Offset at an instant."""
        if self.fixed is not None:
            return self.fixed
        if not _FIRST <= instant <= _LAST:
            instant = instant % _CYCLE + (4 * _CYCLE if instant > _LAST else -4 * _CYCLE)
        moment = _EPOCH + dt.timedelta(milliseconds=instant)
        delta = moment.astimezone(_rules(self.name)).utcoffset()
        return 0 if delta is None else delta // dt.timedelta(milliseconds=1)

    def offsets(self, instants: Ints) -> Ints:
        """Offset at each instant; looks rules up once a distinct day, more finely where it changes."""
        if self.fixed is not None:
            return np.full(len(instants), self.fixed, np.int64)
        return self._by_blocks(instants, (_DAY, _QUARTER, 1))

    def instant(self, local: int) -> int | None:
        """The instant of a local time, the earlier of two; None in a gap of daylight saving."""
        for guess in sorted({self.offset(local - _DAY), self.offset(local + _DAY)}, reverse=True):
            if self.offset(local - guess) == guess:
                return local - guess
        return None

    def _by_blocks(self, instants: Ints, sizes: tuple[int, ...]) -> Ints:
        size, *finer = sizes
        coded = array(instants // size).dictionary_encode()
        blocks = coded.dictionary.to_numpy() * size
        first = np.array([self.offset(block) for block in blocks.tolist()], np.int64)
        codes = coded.indices.to_numpy()
        found: Ints = first[codes]
        if finer and len(blocks):
            last = np.array([self.offset(block + size - 1) for block in blocks.tolist()], np.int64)
            mixed = (first != last)[codes]
            if mixed.any():
                found[mixed] = self._by_blocks(instants[mixed], tuple(finer))
        return found


UTC = Zone("UTC", 0)


@lru_cache(maxsize=64)
def _rules(name: str) -> zoneinfo.ZoneInfo:
    return zoneinfo.ZoneInfo(name)
