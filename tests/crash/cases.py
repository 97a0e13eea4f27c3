"""Which failures of a scenario are tried: one of each class, and in the full tier all others.

A disk that is dead after a change leaves what one leaves that is dead before the next, and a kill leaves what
a dead disk leaves, but for the process: few are tried. Of steps that are alike (markers, data files, deletes
of files of one kind) the last stands for all, of instants the first as well. What a scenario does just as
another one does (beginning a write, publishing it, ending it) is tried there. Half a publishing leaves what
none leaves, and a temporary beside it: of scenarios that are like others it stands for both.
"""

from __future__ import annotations

import enum
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from tests.support.faults import Change, Faults, Phase

_UNIQUE = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}|[0-9a-f]{64}|\d+")
_PUBLISHED = re.compile(r"create \.hoodie/(timeline/)?#(_#)?\.(?!inflight)[a-z]+( |$)")
#: instants, heartbeats, properties
_STATE = re.compile(
    r"[a-z_]+ \.hoodie/((\.heartbeat|timeline)/)?(#(_#)?(\.[a-z.]+)?|hoodie\.properties(\.backup)?)( |$)"
)
#: files of a participant in commits, of metadata tables, and hash rings
_PARTICIPANT = re.compile(r"[a-z_]+ \.hoodie/(\.ledger|metadata|bucket_index)/")

#: done twice they do no more than once, so that it does not matter whether an error was one
_REPEATABLE = ("delete", "sweep", "make_dirs", "open_output")


class Kind(enum.Enum):
    DEAD_DISK = "dead disk"
    """From then on nothing can be changed."""
    HICCUP = "hiccup"
    """One call fails."""
    KILL = "kill"


#: what a failure at a change may be; of thorough scenarios, in the full tier
PHASES = {
    Kind.DEAD_DISK: (Phase.BEFORE, Phase.DURING),
    Kind.HICCUP: (Phase.AFTER,),
    Kind.KILL: (Phase.BEFORE, Phase.DURING),
}
THOROUGH = {**PHASES, Kind.DEAD_DISK: tuple(Phase), Kind.HICCUP: tuple(Phase)}


@dataclass(frozen=True)
class Case:
    kind: Kind
    phase: Phase
    number: int
    change: Change

    def __str__(self) -> str:
        return f"{self.kind.value} {self.phase.value} change {self.number}: {self.change}"

    def faults(self) -> Faults:
        return Faults(at=self.number, phase=self.phase, once=self.kind is Kind.HICCUP)


def every(changes: Sequence[Change], kind: Kind, thorough: bool) -> Iterator[Case]:
    phases = (THOROUGH if thorough else PHASES)[kind]
    for number, change in enumerate(changes, 1):
        for phase in phases:
            if phase is not Phase.DURING or change.splits:
                yield Case(kind, phase, number, change)


def chosen(steps: Sequence[str], known: Sequence[Sequence[str]], kind: Kind) -> set[tuple[int, Phase]]:
    """Numbers of changes, and phases, that stand for all of `steps`, but for those that `known` ones have."""
    places: dict[str, list[int]] = {}
    for number in _new(steps, known):
        places.setdefault(steps[number - 1], []).append(number)
    halves = {_half(text) for others in known for text in others}
    found: set[tuple[int, Phase]] = set()
    for text, numbers in places.items():
        first, last = numbers[0], numbers[-1]
        if kind is Kind.DEAD_DISK:
            found |= {(number, Phase.BEFORE) for number in ((first, last) if _STATE.match(text) else (last,))}
            if _PUBLISHED.match(text) or _half(text) not in halves:
                found.add((first, Phase.DURING))
                halves.add(_half(text))
        elif kind is Kind.HICCUP and not text.startswith(_REPEATABLE):
            found.add((first, Phase.AFTER))
        elif kind is Kind.KILL and _STATE.match(text) and not text.startswith("delete"):
            found.add((first, Phase.BEFORE))
        if kind is Kind.KILL and _PARTICIPANT.match(text):
            found |= {(first, Phase.BEFORE), (last, Phase.BEFORE)}
            found |= {(first, Phase.DURING)} if " in parts" in text else set()
        if kind is Kind.KILL and (_PUBLISHED.match(text) or text.startswith("close_output")):
            found.add((first, Phase.DURING))
        if known and _PUBLISHED.match(text) and (first, Phase.DURING) in found and text.endswith(" in parts"):
            found.discard((first, Phase.BEFORE))
    return found or {(len(steps), Phase.AFTER if kind is Kind.HICCUP else Phase.BEFORE)}


def _half(text: str) -> str:
    """Half of a file that is created as a whole is a temporary: which one depends on the folder alone."""
    return text.rpartition("/")[0] if text.startswith("create") else text


def step(change: Change, table: str) -> str:
    """What the change does, without what is another one in each run: instants, ids, partitions."""
    relative = os.path.relpath(change.path, table)
    folder, name = os.path.split(relative)
    if not relative.startswith(".hoodie"):
        folder, name = "", name if folder else "partition"
    place = "/".join([*folder.split("/")[:2], _UNIQUE.sub("#", name)])
    return f"{change.name} {_UNIQUE.sub('#', place)}{' in parts' * change.splits}"


def _new(steps: Sequence[str], known: Sequence[Sequence[str]]) -> list[int]:
    """Changes that none of the known makes after the same one, and the publishing."""
    pairs = {pair for others in known for pair in pairwise(["", *others])}
    found = {number for number, pair in enumerate(pairwise(["", *steps]), 1) if pair not in pairs}
    return sorted(found | {max(n for n, text in enumerate(steps, 1) if n == 1 or _PUBLISHED.match(text))})
