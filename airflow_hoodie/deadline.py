"""The time that a trigger has until Airflow ends the deferral of its task."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone


def seconds_left(end: datetime | None, before: timedelta) -> float | None:
    """Until `before` the end, which is UTC where it has no time zone; negative afterwards. None: no end."""
    if end is None:
        return None
    end = end if end.tzinfo else end.replace(tzinfo=timezone.utc)
    return (end - before - datetime.now(timezone.utc)).total_seconds()
