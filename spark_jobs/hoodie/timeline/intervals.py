"""The data interval of a commit, by its token (timeline.tokens): `DAG/task/map index/start/end`.

The token of a run without a data interval ends with its logical date. Partition keys and run ids have no
order. Standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

_DAG_TASK_MAP = 3


@dataclass(frozen=True, order=True)
class Interval:
    """From `start` to `end`; both are one where a run has a logical date only."""

    start: datetime
    end: datetime

    def __str__(self) -> str:
        return f"{self.start.isoformat()}/{self.end.isoformat()}"


def interval_of(token: str) -> tuple[str, Interval] | None:
    """The task ("DAG/task") of a token, and its interval; None for a token without one."""
    parts = token.split("/")
    if len(parts) not in (_DAG_TASK_MAP + 1, _DAG_TASK_MAP + 2):
        return None
    try:
        start, end = datetime.fromisoformat(parts[_DAG_TASK_MAP]), datetime.fromisoformat(parts[-1])
    except ValueError:
        return None
    if (start.tzinfo is None) != (end.tzinfo is None):
        return None
    return "/".join(parts[:2]), Interval(start, end)
