"""Instants and their file names (table version 6, timeline layout 1; format.md section 2)."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass


class Action(str, enum.Enum):
    COMMIT = "commit"
    DELTACOMMIT = "deltacommit"
    REPLACECOMMIT = "replacecommit"
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


#: actions whose completed file stands under another action's name
COMPLETES_AS = {Action.COMPACTION: Action.COMMIT, Action.LOGCOMPACTION: Action.DELTACOMMIT}

#: completed actions that change which rows a reader sees
COMMIT_ACTIONS = frozenset({Action.COMMIT, Action.DELTACOMMIT, Action.REPLACECOMMIT})

#: actions that a writer of rows starts (rolled back when they fail)
WRITE_ACTIONS = COMMIT_ACTIONS

_NAME = re.compile(r"^(\d+)\.([a-z]+)(?:\.([a-z]+))?$")


@dataclass(frozen=True, order=True)
class Instant:
    """One action at one time. Times are compared as texts, never as dates."""

    time: str
    action: Action
    state: State

    @property
    def completed(self) -> bool:
        return self.state is State.COMPLETED

    @property
    def comparable_action(self) -> Action:
        """compaction counts as commit, log compaction as deltacommit."""
        return COMPLETES_AS.get(self.action, self.action)

    def with_state(self, state: State) -> Instant:
        action = self.comparable_action if state is State.COMPLETED else self.action
        return Instant(self.time, action, state)

    @property
    def file_name(self) -> str:
        if self.state is State.COMPLETED:
            return f"{self.time}.{self.comparable_action.value}"
        if self.state is State.INFLIGHT and self.action is Action.COMMIT:
            return f"{self.time}.inflight"
        return f"{self.time}.{self.action.value}.{self.state.name.lower()}"

    @classmethod
    def parse(cls, name: str) -> Instant | None:
        """File name -> Instant; None for anything that is not an instant file."""
        match = _NAME.match(name)
        if not match:
            return None
        time, first, second = match.groups()
        if first == "inflight" and second is None:
            return cls(time, Action.COMMIT, State.INFLIGHT)
        try:
            action = Action(first)
        except ValueError:
            return None
        if second is None:
            return cls(time, action, State.COMPLETED)
        try:
            return cls(time, action, State[second.upper()])
        except KeyError:
            return None

    def __str__(self) -> str:
        return f"{self.time} {self.action.value} {self.state.name.lower()}"
