"""The processes at work on a table, and the pending instants that no process works on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from hoodie.services.service_table import ServiceTable
from hoodie.table.heartbeat import HeartbeatFile, read_heartbeats
from hoodie.table.settings import INTERVAL_MS, TOLERABLE_MISSES
from hoodie.timeline.active import Timeline
from hoodie.timeline.instant import WRITE_ACTIONS, Action, Instant, Kind, State
from hoodie.timeline.time import InstantTime


@dataclass(frozen=True)
class Pending:
    """An instant that is not completed.

    state: requested or inflight. verdict: `running` (its process lives), `stuck` (begun, without a live
    heartbeat; cleans have no heartbeat, but running one twice is safe) or `waiting` (not begun). age_s: since
    its newest file was written. owner: the process that is, or was, at work on it, "" when unknown.
    """

    instant: InstantTime
    action: str
    state: str
    verdict: str
    age_s: int
    owner: str

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Activity:
    """The heartbeats of a table at one moment, `now_ms` by the storage's clock, and its timeline, which was
    read after them.
    """

    timeline: Timeline
    live: Mapping[InstantTime, HeartbeatFile]
    dead: Mapping[InstantTime, HeartbeatFile]
    plans: frozenset[InstantTime]
    now_ms: int

    @classmethod
    def of(cls, target: ServiceTable) -> Activity:
        interval, misses = target.config[INTERVAL_MS], target.config[TOLERABLE_MISSES]
        beats = read_heartbeats(target.table)
        live = {beat.instant: beat for beat in beats if beat.alive(interval, misses)}
        dead = {beat.instant: beat for beat in beats if beat.instant not in live}
        timeline = target.timeline()
        plans = frozenset(item.time for item in timeline.pending() if _is_plan(timeline, target, item))
        return cls(timeline, live, dead, plans, target.storage.now_ms())

    @property
    def writers(self) -> list[HeartbeatFile]:
        """Live writers: while one is at work nothing can be planned or repaired."""
        return [beat for beat in self.live.values() if not beat.service and beat.instant not in self.plans]

    def pending(self, actions: frozenset[Action]) -> list[Pending]:
        """Pending instants of these actions, oldest first; of replacecommits the clusterings only."""
        return [
            self._of(instant)
            for instant in self.timeline.filter(actions, completed=False)
            if instant.time in self.plans or instant.action not in WRITE_ACTIONS
        ]

    def _of(self, instant: Instant) -> Pending:
        written = self.timeline.changed_ms(instant)
        age = max(0, self.now_ms - written) if written is not None else 0
        beat = self.live.get(instant.time) or self.dead.get(instant.time)
        verdict = "waiting"
        if instant.time in self.live:
            verdict = "running"
        elif instant.state is State.INFLIGHT:
            verdict = "stuck"
        return Pending(
            instant.time,
            instant.action.value,
            instant.state.name.lower(),
            verdict,
            age // 1000,
            beat.owner if beat else "",
        )


def _is_plan(timeline: Timeline, target: ServiceTable, instant: Instant) -> bool:
    """Whether the pending instant has a plan: then it is a service's, and no failed write."""
    return timeline.kind(instant, target.storage) is not Kind.WRITE
