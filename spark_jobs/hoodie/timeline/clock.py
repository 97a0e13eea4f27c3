"""New instant times: 17 digits `yyyyMMddHHmmssSSS`, in the table's timeline time zone."""

from __future__ import annotations

import time
from datetime import datetime, timedelta, timezone

from hoodie.errors import TableError
from hoodie.timeline.instant import BOOTSTRAPS
from hoodie.timeline.time import InstantTime

FORMAT_DIGITS = 17
#: years of instants that are times: in any zone they are a moment, with one after it
_FIRST_YEAR, _END_YEAR = 1970, 9999


class NoTime(TableError, ValueError):
    """An instant whose digits are no time."""


def format_millis(epoch_ms: int, utc: bool) -> InstantTime:
    zone = timezone.utc if utc else None
    moment = datetime.fromtimestamp(epoch_ms / 1000, tz=zone)
    return InstantTime(moment.strftime("%Y%m%d%H%M%S") + f"{epoch_ms % 1000:03d}")


def parse_instant(text: str) -> datetime:
    """Naive datetime of a 14- or 17-digit instant, in the timeline's own zone; a bootstrap's is long ago.

    Raises NoTime for other digits.
    """
    if text in BOOTSTRAPS:
        return datetime(1970, 1, 1) + timedelta(milliseconds=int(text))
    try:
        moment = datetime.strptime(text[:14], "%Y%m%d%H%M%S")
        if not _FIRST_YEAR <= moment.year < _END_YEAR:
            raise ValueError(text)
    except ValueError:
        raise NoTime(
            f"instant {text} on the timeline is no time yyyyMMddHHmmss[SSS]; if no commit of yours has it, "
            f"take the files {text}.* out of .hoodie",
            instant=text,
        ) from None
    millis = int(text[14:17]) if len(text) >= FORMAT_DIGITS else 0
    return moment + timedelta(milliseconds=millis)


def instant_millis(text: str, utc: bool) -> int:
    """Epoch milliseconds of an instant."""
    moment = parse_instant(text)
    return int((moment.replace(tzinfo=timezone.utc) if utc else moment.astimezone()).timestamp() * 1000)


def wall_millis(time: InstantTime) -> int | None:
    """The wall clock of an instant, as milliseconds since 1970 in its own zone; None where it is no time."""
    try:
        return int(parse_instant(time).replace(tzinfo=timezone.utc).timestamp() * 1000)
    except ValueError:
        return None  # such as 00000000000000010 of the metadata table


def new_instant_time(after: InstantTime | None, utc: bool = False) -> InstantTime:
    """A time of a request later than `after`, and than every such time given out by this process.

    A clock behind the table's newest instant is not an error: the newest instant plus one millisecond is
    taken, so that order on the timeline stays order of writing. Other tables keep to the clock then.
    """
    now = str(format_millis(int(time.time() * 1000), utc))
    newest = None if after is None else str(after)
    kind = (utc, newest if newest is not None and newest > now else None)
    floor = max(newest or "", _last.get(kind, ""))
    if now <= floor:
        moment = parse_instant(floor) + timedelta(milliseconds=1)
        now = moment.strftime("%Y%m%d%H%M%S") + f"{moment.microsecond // 1000:03d}"
    if len(_last) > _REMEMBERED:
        _last.pop(next(known for known in list(_last) if known[1] is not None), None)
    _last[kind] = now
    return InstantTime(now)


_REMEMBERED = 64
#: the last time given out, by zone, and apart for each newest instant that is ahead of the clock
_last: dict[tuple[bool, str | None], str] = {}
