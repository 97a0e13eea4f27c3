"""Instants: one action at one time, in one state (format.md section 2). Their files: `timeline.layout`."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass, field

from hoodie.format.names import LONGEST_INSTANT
from hoodie.timeline.time import REQUESTED, InstantTime


class Action(str, enum.Enum):
    __hash__ = str.__hash__  # Enum's is a Python function: a fifth of the time to read a long timeline

    COMMIT = "commit"
    DELTACOMMIT = "deltacommit"
    REPLACECOMMIT = "replacecommit"
    CLUSTERING = "clustering"
    COMPACTION = "compaction"
    LOGCOMPACTION = "logcompaction"
    CLEAN = "clean"
    ROLLBACK = "rollback"
    RESTORE = "restore"
    SAVEPOINT = "savepoint"
    INDEXING = "indexing"


class State(enum.IntEnum):
    REQUESTED = 0
    INFLIGHT = 1
    COMPLETED = 2


class Kind(enum.Enum):
    """What an instant does, whatever the action that its files are named for."""

    WRITE = "write"
    COMPACTION = "compaction"
    LOG_COMPACTION = "log compaction"
    CLUSTERING = "clustering"
    CLEAN = "clean"
    ROLLBACK = "rollback"
    RESTORE = "restore"
    SAVEPOINT = "savepoint"
    INDEXING = "indexing"

    @property
    def rewrites(self) -> bool:
        """Whether it writes the rows of the table anew, without a change to them."""
        return self in (Kind.COMPACTION, Kind.LOG_COMPACTION, Kind.CLUSTERING)


#: actions whose completed file lies under another action's name
COMPLETES_AS = {
    Action.COMPACTION: Action.COMMIT,
    Action.LOGCOMPACTION: Action.DELTACOMMIT,
    Action.CLUSTERING: Action.REPLACECOMMIT,
}

#: completed actions that change which rows a reader sees
COMMIT_ACTIONS = frozenset({Action.COMMIT, Action.DELTACOMMIT, Action.REPLACECOMMIT})

#: actions whose requested file may be the plan of a service that rewrites file groups
PLAN_ACTIONS = frozenset({Action.REPLACECOMMIT, *COMPLETES_AS})

#: actions that a writer of rows starts (rolled back when they fail)
WRITE_ACTIONS = COMMIT_ACTIONS

#: times of what a bootstrap wrote: skeletons, which have meta columns only, and whole base files
METADATA_BOOTSTRAP, FULL_BOOTSTRAP = BOOTSTRAPS = (
    InstantTime("00000000000001"),
    InstantTime("00000000000002"),
)


def in_order(instants: Iterable[Instant]) -> list[Instant]:
    """By the time of the request."""
    return sorted(instants, key=lambda instant: instant.requested_order)


def is_time(text: str) -> bool:
    """Whether a text is an instant's time: ASCII digits, and not more of them than any writer makes."""
    return text.isdigit() and text.isascii() and len(text) <= LONGEST_INSTANT


@dataclass(frozen=True)
class Instant:
    """One action at one time: `time` is that of the request.

    `completion` is the time of the completion, where the name of the completed file has it.
    """

    time: InstantTime
    action: Action
    state: State
    completion: InstantTime | None = field(default=None, compare=False)

    @property
    def completed(self) -> bool:
        return self.state is State.COMPLETED

    @property
    def incremental_time(self) -> InstantTime:
        """What `begin` and `end` of an incremental query take for a completed instant: the time of its
        completion where names have it (layout two), else that of the request.
        """
        return self.completion or self.time

    @property
    def comparable_action(self) -> Action:
        """compaction counts as commit, log compaction as deltacommit, clustering as replacecommit."""
        return COMPLETES_AS.get(self.action, self.action)

    @property
    def replaces(self) -> bool:
        """Whether it replaces file groups, as a write or as a clustering."""
        return self.comparable_action is Action.REPLACECOMMIT

    @property
    def requested_order(self) -> tuple[str, Action, State]:
        """A key of sorting by the time of the request."""
        return REQUESTED.key(self.time), self.action, self.state

    def is_after(self, time: str | None) -> bool:
        """Whether it was requested later; every instant was requested later than None."""
        return time is None or REQUESTED.after(self.time, time)

    def is_before(self, time: str | None) -> bool:
        """Whether it was requested earlier; every instant was requested earlier than None."""
        return time is None or REQUESTED.before(self.time, time)

    def with_state(self, state: State) -> Instant:
        action = self.comparable_action if state is State.COMPLETED else self.action
        return Instant(self.time, action, state, self.completion)

    def completed_at(self, completion: InstantTime | None) -> Instant:
        """The same state; its completed file has this time in its name."""
        return Instant(self.time, self.action, self.state, completion)

    def __str__(self) -> str:
        return f"{self.time} {self.action.value} {self.state.name.lower()}"
