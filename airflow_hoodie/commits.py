"""What a table's timeline says about its commits: read by sensors, triggers, watchers and operators.

Neither pyspark nor pyarrow is imported, and Airflow is not either.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from threading import Lock
from typing import Any

from hoodie.config.key import Config
from hoodie.table.handle import Table, TableRef
from hoodie.timeline.active import Timeline
from hoodie.timeline.commit_details import COUNTS, CommitDetails
from hoodie.timeline.instant import Action, Instant

#: filters whose refused commits a reader remembers, and commits of each
_FILTERS, _COMMITS = 16, 50_000


@dataclass(frozen=True)
class CommitHit:
    """A completed commit that a condition found. `completed_ms` is epoch milliseconds."""

    base_path: str
    instant: Instant
    completed_ms: int

    def to_dict(self) -> dict[str, Any]:
        """JSON-able form, the XCom of a sensor; the completion time is ISO 8601 in UTC. `completion` is
        what `begin` and `end` of queries take: of table versions 8 and 9 the same time in the form of an
        instant, else the instant.
        """
        moment = datetime.fromtimestamp(self.completed_ms / 1000, tz=timezone.utc)
        return {
            "base_path": self.base_path,
            "instant": str(self.instant.time),
            "action": self.instant.action.value,
            "completion_time": moment.isoformat(timespec="milliseconds"),
            "completion": str(self.instant.incremental_time),
        }

    def to_event(self, details: CommitDetails | None) -> dict[str, Any]:
        """`to_dict` and what the commit wrote, the payload of an asset event; counts are None if unknown. The
        operation is in lower case, as in results.
        """
        known = details or CommitDetails()
        return {
            **self.to_dict(),
            "operation": known.operation.lower() or None,
            "partitions": list(known.partitions),
            **{name: known.counts.get(name) for name in COUNTS},
        }


class TableReader:
    """Reads one table's timeline again and again, and opens a completed commit once.

    Every method blocks: in an event loop, call it in a thread; several threads may.
    """

    def __init__(self, path: str, options: Mapping[str, str] | None = None) -> None:
        """`options`: settings of its storage. Raises ConfigError for a scheme that has no storage."""
        self._table = Table(TableRef.of(path, Config.of(options or {})))
        self.base_path = self._table.base_path
        self.storage = self._table.storage
        self._opened: dict[Instant, CommitDetails] = {}
        self._opening = Lock()
        self._refused: dict[Hashable, dict[str, Action]] = {}
        #: the timeline of the last poll, None where that found no table
        self.last: Timeline | None = None

    def poll(self) -> Timeline:
        """The timeline as it is now, the same object while it does not change. Raises TableNotFound."""
        before, self.last = self.last, None
        timeline = self._table.refresh()
        if self._opened and timeline is not before:
            active = set(timeline.instants)
            for instant in list(self._opened):  # a copy, and no new dict: threads open commits meanwhile
                if instant not in active:
                    self._opened.pop(instant, None)
        self.last = timeline
        return timeline

    def refused(self, which: Hashable) -> dict[str, Action]:
        """Times and actions of completed commits that are known not to be of those that `which` names: the
        caller notes them, and looks at none of them again, since completed commits don't change.
        """
        known = self._refused.get(which)
        if known is None or len(known) > _COMMITS:
            known = {}
            if len(self._refused) < _FILTERS or which in self._refused:
                self._refused[which] = known
        return known

    def details(self, instant: Instant) -> CommitDetails | None:
        """What a completed commit says; None while its file can't be read (being written, or gone)."""
        with self._opening:
            found = self._opened.get(instant)
            if found is None:
                try:
                    found = self._table.timeline.details(instant, self.storage)
                except FileNotFoundError:
                    return None
                if found is not None:
                    self._opened[instant] = found
            return found


def completed_at(timeline: Timeline, instant: Instant) -> int:
    """When an instant was completed, in epoch milliseconds; 0 if its file has gone since the listing."""
    return timeline.completion_of(instant) or 0
