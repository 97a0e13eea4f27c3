"""When a compaction is due, counted as Apache Hudi 0.15.0 does (ScheduleCompactionActionExecutor)."""

from __future__ import annotations

from dataclasses import dataclass

from hoodie.config.key import Config
from hoodie.services.compaction.settings import MAX_DELTA_COMMITS, MAX_DELTA_SECONDS, TRIGGER, Trigger
from hoodie.timeline.active import Timeline
from hoodie.timeline.clock import parse_instant
from hoodie.timeline.instant import Action, Instant
from hoodie.timeline.time import InstantTime


@dataclass(frozen=True)
class Due:
    """Whether a compaction is due, and the numbers behind the answer, for people."""

    due: bool
    reason: str


@dataclass(frozen=True)
class Since:
    """What happened since the last compaction. `instant` is that one, or the first delta commit."""

    commits: int
    instant: InstantTime

    @classmethod
    def last_compaction(cls, timeline: Timeline, or_request: bool = False) -> Since | None:
        """None for a table without commits. Completed commits of a merge-on-read table are compactions."""
        deltas = timeline.filter([Action.DELTACOMMIT])
        compactions = timeline.filter([Action.COMMIT], completed=True)
        requested = timeline.filter([Action.COMPACTION], completed=False) if or_request else []
        last: list[Instant] = requested or compactions
        if last:
            start = last[-1].time
            return cls(len(timeline.after(start, deltas)), start)
        return cls(len(deltas), deltas[0].time) if deltas else None


def due(timeline: Timeline, config: Config, now: InstantTime) -> Due:
    """Whether a compaction is due at the instant `now`."""
    trigger: Trigger = config[TRIGGER]
    since = Since.last_compaction(timeline, trigger is Trigger.NUM_COMMITS_AFTER_LAST_REQUEST)
    if since is None:
        return Due(False, "the table has no delta commits")
    wanted, seconds = config[MAX_DELTA_COMMITS], config[MAX_DELTA_SECONDS]
    elapsed = int(parse_instant(now).timestamp()) - int(parse_instant(since.instant).timestamp())
    enough, late = since.commits >= wanted, elapsed >= seconds
    commits = f"{since.commits} of {wanted} delta commits since {since.instant} ({MAX_DELTA_COMMITS.name})"
    time = f"{elapsed} of {seconds} s since {since.instant} ({MAX_DELTA_SECONDS.name})"
    if trigger is Trigger.TIME_ELAPSED:
        return Due(late, time)
    if trigger is Trigger.NUM_AND_TIME:
        return Due(enough and late, f"{commits} and {time}")
    if trigger is Trigger.NUM_OR_TIME:
        return Due(enough or late, f"{commits} or {time}")
    return Due(enough, commits)
