"""Instants and their file names (table version 6, timeline layout 1; format.md section 2)."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from hoodie.format.names import LONGEST_INSTANT


class Action(str, enum.Enum):
    __hash__ = str.__hash__  # Enum's is a Python function: a fifth of the time to read a long timeline

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

#: times of what a bootstrap wrote: skeletons, which have meta columns only, and whole base files
METADATA_BOOTSTRAP, FULL_BOOTSTRAP = BOOTSTRAPS = ("00000000000001", "00000000000002")


def is_time(text: str) -> bool:
    """Whether a text is an instant's time: ASCII digits, and not more of them than any writer makes."""
    return text.isdigit() and text.isascii() and len(text) <= LONGEST_INSTANT


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
        return f"{self.time}.{_SUFFIX_OF[self.action, self.state]}"

    @classmethod
    def parse(cls, name: str) -> Instant | None:
        """File name -> Instant; None for anything that is not an instant file."""
        time, _, suffix = name.partition(".")
        kind = SUFFIXES.get(suffix)
        if kind is None or not is_time(time):
            return None
        return cls(time, *kind)

    def __str__(self) -> str:
        return f"{self.time} {self.action.value} {self.state.name.lower()}"


#: what stands behind the time in a file's name -> action and state
SUFFIXES = {
    "inflight": (Action.COMMIT, State.INFLIGHT),
    **{action.value: (action, State.COMPLETED) for action in Action},
    **{
        f"{action.value}.{state.name.lower()}": (action, state)
        for action in Action
        for state in (State.REQUESTED, State.INFLIGHT)
    },
}

_SUFFIX_OF = {
    **{kind: suffix for suffix, kind in reversed(SUFFIXES.items())},
    **{(service, State.COMPLETED): action.value for service, action in COMPLETES_AS.items()},
}
