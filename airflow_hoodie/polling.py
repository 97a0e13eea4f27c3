"""What tasks that wait in the triggerer share: how they pause, when their time ends."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

#: so many polls in a row may fail before the task does
MAX_FAILURES = 10
#: seconds: pauses are doubled while polls fail, up to this one, or the trigger's own where that is longer
LONGEST = 300.0
_SHORTEST = 0.05


def backoff(interval: float, failures: int) -> float:
    """Seconds until the next poll. interval: the trigger's own. failures: polls in a row that have failed."""
    wait = max(float(interval), _SHORTEST)
    return min(wait * float(2 ** min(failures, 30)), max(wait, LONGEST))


def pause(interval: float, failures: int, end: datetime | None, before: timedelta) -> float | None:
    """As backoff, but not beyond `before` the end of the task's time; None once that is over."""
    wait = backoff(interval, failures)
    left = seconds_left(end, before)
    if left is None:
        return wait
    return None if left <= 0 else min(wait, left)


def seconds_left(end: datetime | None, before: timedelta) -> float | None:
    """Until `before` the end, which is UTC where it has no time zone; negative afterwards. None: no end."""
    if end is None:
        return None
    end = end if end.tzinfo else end.replace(tzinfo=timezone.utc)
    return (end - before - datetime.now(timezone.utc)).total_seconds()
