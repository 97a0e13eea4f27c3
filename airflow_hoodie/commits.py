"""What a table's timeline says about its commits: read by sensors, triggers, watchers and operators.

Neither pyspark nor pyarrow is imported, and Airflow is not either.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from hoodie.storage import normalize, storage_for
from hoodie.timeline.active import Timeline, instant_path
from hoodie.timeline.commit import SCHEMA_KEY
from hoodie.timeline.instant import COMPLETES_AS, Instant, State

#: operation types of table services: they rewrite files and change no row
SERVICE_OPERATIONS = frozenset({"COMPACT", "LOG_COMPACT", "CLUSTER", "INDEX"})

#: what a commit counts; the names are those of a write's result
COUNTS = ("num_inserts", "num_updates", "num_deletes", "num_writes", "num_files", "bytes_written")
_STAT_KEYS = {
    "num_inserts": "numInserts",
    "num_updates": "numUpdateWrites",
    "num_deletes": "numDeletes",
    "num_writes": "numWrites",
    "bytes_written": "totalWriteBytes",
}


@dataclass(frozen=True)
class CommitDetails:
    """The part of a commit's metadata that conditions and events look at.

    `operation` is upper case, "" where the commit names none. `partitions` are sorted partition paths as in
    the table, those whose files were replaced included; "" is the one of a table without partitions.
    """

    operation: str = ""
    partitions: tuple[str, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    extra_metadata: Mapping[str, str | None] = field(default_factory=dict)

    @property
    def is_service(self) -> bool:
        return self.operation in SERVICE_OPERATIONS

    @classmethod
    def parse(cls, data: bytes) -> CommitDetails | None:
        """A completed commit's file -> what it says; None while it is empty or torn.

        Reads the keys of hoodie.timeline.commit.CommitMetadata that are wanted here, and no others: a sensor
        may have to open a thousand commits of a thousand files each.
        """
        try:
            value = json.loads(data)
            stats = value.get("partitionToWriteStats") or {}
            written = [stat for group in stats.values() for stat in group]
            counts = {name: sum(stat.get(key) or 0 for stat in written) for name, key in _STAT_KEYS.items()}
            counts["num_files"] = sum(stat.get("path") is not None for stat in written)
            operation = str(value.get("operationType") or "").upper()
            extra = dict(value.get("extraMetadata") or {})
            extra.pop(SCHEMA_KEY, None)
            return cls(
                operation="" if operation == "UNKNOWN" else operation,
                partitions=tuple(sorted({*stats, *(value.get("partitionToReplaceFileIds") or ())})),
                counts={name: counts[name] for name in COUNTS},
                extra_metadata=extra,
            )
        except (ValueError, TypeError, AttributeError):
            return None


@dataclass(frozen=True)
class CommitHit:
    """A completed commit that a condition found. `completed_ms` is epoch milliseconds."""

    base_path: str
    instant: Instant
    completed_ms: int

    def to_dict(self) -> dict[str, Any]:
        """JSON-able form, the XCom of a sensor; the completion time is ISO 8601 in UTC."""
        moment = datetime.fromtimestamp(self.completed_ms / 1000, tz=timezone.utc)
        return {
            "base_path": self.base_path,
            "instant": self.instant.time,
            "action": self.instant.action.value,
            "completion_time": moment.isoformat(timespec="milliseconds"),
        }

    def to_event(self, details: CommitDetails | None) -> dict[str, Any]:
        """`to_dict` and what the commit wrote, the payload of an asset event; counts are None if unknown."""
        known = details or CommitDetails()
        return {
            **self.to_dict(),
            "operation": known.operation or None,
            "partitions": list(known.partitions),
            **{name: known.counts.get(name) for name in COUNTS},
        }


class TableReader:
    """Reads one table's timeline again and again, and opens a completed commit once.

    Every method blocks: in an event loop, call it in a thread; several threads may.
    """

    def __init__(self, path: str) -> None:
        """Raises StorageError for a scheme that has no storage."""
        self.base_path = normalize(path)
        self.storage = storage_for(self.base_path)
        self._opened: dict[Instant, CommitDetails] = {}
        self._last: Timeline | None = None

    def poll(self) -> Timeline:
        """The timeline as it is now, the same object while it does not change. Raises TableNotFound."""
        timeline = Timeline.load(self.base_path, self.storage, self._last)
        if self._opened and timeline is not self._last:
            active = set(timeline.instants)
            self._opened = {instant: found for instant, found in self._opened.items() if instant in active}
        self._last = timeline
        return timeline

    def details(self, instant: Instant) -> CommitDetails | None:
        """What a completed commit says; None while its file can't be read (being written, or gone)."""
        found = self._opened.get(instant)
        if found is None:
            try:
                found = CommitDetails.parse(self.storage.read(instant_path(self.base_path, instant)))
            except FileNotFoundError:
                return None
            if found is not None:
                self._opened[instant] = found
        return found


def completed_at(timeline: Timeline, instant: Instant) -> int:
    """When an instant was completed, in epoch milliseconds; 0 if its file has gone since the listing."""
    return timeline.mtimes.get(instant.file_name, 0)


def is_compaction(timeline: Timeline, instant: Instant) -> bool:
    """Is a completed commit a compaction's or a log compaction's, told by the listing alone?"""
    plan = _PLANS.get(instant.action)
    return plan is not None and f"{instant.time}.{plan}" in timeline.mtimes


_PLANS = {
    action: Instant("", service, State.REQUESTED).file_name.removeprefix(".")
    for service, action in COMPLETES_AS.items()
}
