"""How far a watcher of commits has come: enough to miss none and to name none twice.

Commits complete in another order than they begin, their files get their times before they become visible,
and clocks of writers differ. So a watcher keeps no single newest commit but, beside a lower bound, the
instants above it that it has dealt with.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from airflow_hoodie.commits import CommitHit, TableReader, completed_at
from airflow_hoodie.conditions import CommitFilter, Since
from hoodie.timeline.active import Timeline
from hoodie.timeline.instant import COMMIT_ACTIONS
from hoodie.timeline.time import REQUESTED

log = logging.getLogger(__name__)

#: so many of the newest instants are always kept by name: how far the clocks of writers may be apart
KEPT = 100
#: a commit that can't be read is taken as it is when it is so old; a writer takes milliseconds
_TORN_MS = 60_000


@dataclass(frozen=True)
class WatchOffset:
    """Dealt with: every commit whose instant is at most `low`, and those in `done`."""

    low: str = ""
    done: frozenset[str] = frozenset()

    @classmethod
    def start(cls, timeline: Timeline, first: str | Since) -> WatchOffset:
        """Before anything was seen. `first`: "latest" deals with what is completed now, "earliest" with
        nothing, a bound with what it does not admit."""
        if first == "earliest":
            return cls()
        commits = timeline.commits()
        if isinstance(first, Since):
            bound = first.on(timeline)
            low = bound.instant if bound.instant is not None and bound.completed_ms is None else ""
            past = [item for item in commits if not bound.admits(item, completed_at(timeline, item))]
            return cls(low).plus(item.time for item in past).compacted(timeline)
        return cls().plus(item.time for item in commits).compacted(timeline)

    @property
    def newest(self) -> str:
        """The greatest instant that was dealt with, "" if none."""
        return max(self.done, default=self.low, key=REQUESTED.key)

    def covers(self, instant: str) -> bool:
        return REQUESTED.until(instant, self.low) or instant in self.done

    def plus(self, instants: Iterable[str]) -> WatchOffset:
        return WatchOffset(
            self.low, self.done.union(str(item) for item in instants if REQUESTED.after(item, self.low))
        )

    def merged(self, other: WatchOffset) -> WatchOffset:
        """What either has dealt with."""
        return WatchOffset(max(self.low, other.low, key=REQUESTED.key)).plus(self.done | other.done)

    def compacted(self, timeline: Timeline) -> WatchOffset:
        """The same with a higher bound. It stays below what is pending, which may complete at any time."""
        pending = [item.time for item in timeline.pending() if item.comparable_action in COMMIT_ACTIONS]
        old = sorted(self.done, key=REQUESTED.key)[:-KEPT]
        bound = REQUESTED.first(pending)
        below = [instant for instant in old if bound is None or REQUESTED.before(instant, bound)]
        return WatchOffset(max([self.low, *below], key=REQUESTED.key)).plus(self.done)

    def to_dict(self) -> dict[str, Any]:
        """JSON-able form for the state store."""
        return {"low": self.low, "done": sorted(self.done, key=REQUESTED.key)}

    @classmethod
    def from_dict(cls, value: Any) -> WatchOffset | None:
        """None for what is not one."""
        if not isinstance(value, Mapping):
            return None
        low, done = value.get("low"), value.get("done")
        if not isinstance(low, str) or not isinstance(done, Collection) or isinstance(done, str):
            return None
        return cls(low, frozenset(str(instant) for instant in done))


@dataclass(frozen=True)
class NewCommits:
    """Commits that a watcher has not dealt with, in order of completion: all instants, and some as events."""

    instants: tuple[str, ...] = ()
    events: tuple[dict[str, Any], ...] = ()


def new_commits(
    reader: TableReader, timeline: Timeline, seen: WatchOffset, which: CommitFilter
) -> NewCommits:
    """What completed beyond `seen`; opens each of these commits. Blocks.

    A commit that can't be read yet holds itself and all later ones back until the next call; for a minute,
    then it becomes an event without its details.
    """
    fresh = [
        CommitHit(timeline.base_path, item, completed_at(timeline, item))
        for item in timeline.commits()
        if not seen.covers(item.time)
    ]
    fresh.sort(key=lambda hit: (hit.completed_ms, REQUESTED.key(hit.instant.time)))
    instants: list[str] = []
    events: list[dict[str, Any]] = []
    for hit in fresh:
        details = reader.details(hit.instant)
        if details is None and reader.storage.now_ms() - hit.completed_ms < _TORN_MS:
            break
        instants.append(str(hit.instant.time))
        if details is None:
            log.warning("The commit %s of %s can't be read", hit.instant.time, timeline.base_path)
        counts = which.admits(timeline, hit.instant, partial(reader.details, hit.instant)) is not False
        if counts and (details is None or which.admits_details(details)):
            events.append(hit.to_event(details))
    return NewCommits(tuple(instants), tuple(events))
