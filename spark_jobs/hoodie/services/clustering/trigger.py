"""When a clustering is due, counted as Apache Hudi 0.15.0 does (ClusteringPlanActionExecutor)."""

from __future__ import annotations

from dataclasses import dataclass

from hoodie.config.key import Config
from hoodie.errors import ConfigError
from hoodie.services.clustering.settings import (
    ASYNC,
    ASYNC_MAX_COMMITS,
    INLINE,
    INLINE_MAX_COMMITS,
    SCHEDULE_INLINE,
)
from hoodie.storage import Storage
from hoodie.timeline.active import Timeline
from hoodie.timeline.instant import Action, Instant, Kind


@dataclass(frozen=True)
class Due:
    """Whether a clustering is due, and the numbers behind the answer, for people."""

    due: bool
    reason: str


def check(config: Config) -> None:
    """Raises ConfigError where the settings ask a write to schedule only, and to run what it schedules."""
    if config[INLINE] and config[SCHEDULE_INLINE]:
        raise ConfigError(
            f"{INLINE.name} and {SCHEDULE_INLINE.name} are both true: the first runs what is scheduled, the "
            "second leaves that to another job. Set one of them to false",
            **{INLINE.name: True, SCHEDULE_INLINE.name: True},
        )


def due(timeline: Timeline, storage: Storage, config: Config) -> Due:
    """Whether a clustering is due. Only inline and async ones wait for commits, and those whose settings have
    a number of them.
    """
    last = last_clustering(timeline, storage)
    since = last.time if last else ""
    commits = len(timeline.after(since, timeline.commits()))
    for switch, wanted in ((INLINE, INLINE_MAX_COMMITS), (ASYNC, ASYNC_MAX_COMMITS)):
        if (config[switch] or config.given(wanted)) and commits < config[wanted]:
            after = f"since {since}" if since else "so far"
            return Due(False, f"{commits} of {config[wanted]} commits {after} ({wanted.name})")
    if not commits and not since:
        return Due(False, "the table has no commits")
    return Due(True, f"{commits} commits since {since}" if since else f"{commits} commits, never clustered")


def last_clustering(timeline: Timeline, storage: Storage) -> Instant | None:
    """The newest clustering, in whatever state."""
    for instant in reversed(timeline.filter([Action.REPLACECOMMIT])):
        if timeline.kind(instant, storage) is Kind.CLUSTERING:
            return instant
    return None
