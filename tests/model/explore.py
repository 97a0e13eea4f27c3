"""Every interleaving of the actors of a scenario, and what has to hold in each state and at each end.

In each state the rows equal a replay of the completed writes in the order of completion, and an actor can go
on. At each end every acknowledged commit is there, a follower has seen each commit once, and somebody got on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from types import GeneratorType
from typing import NamedTuple

from tests.model.actors import follow
from tests.model.protocol import PRODUCT, Answer, Row, Rules, Step, Steps, Table, View, replay

#: actor, and "step" or a fault
Choice = tuple[str, str]
Path = tuple[Choice, ...]
FAULTS = {"expire": "its lock expires", "silence": "no heartbeat", "kill": "killed"}
#: names of local variables that are equal in all states, or part of the table
_SHARED = {"table", "actor", "op", "rules"}
#: what a reader or a writer got on by
_PROGRESS = {"committed", "cleaned", "cancelled"}


@dataclass(frozen=True)
class Scenario:
    """`make` gives a table and its actors, by name. `expire`, `silence`, `kill`: the lock of one of these
    actors expires while it has it, its heartbeat is silent for too long, it is killed; each once, between any
    two steps.
    """

    name: str
    make: Callable[[Rules], tuple[Table, dict[str, Steps]]]
    rules: Rules = PRODUCT
    expire: tuple[str, ...] = ()
    silence: tuple[str, ...] = ()
    kill: tuple[str, ...] = ()
    #: what a zombie publishes, and withdraws, is wrong, too
    transient: bool = True

    def __str__(self) -> str:
        return self.name


class Run:
    """A scenario after some choices."""

    def __init__(self, scenario: Scenario, path: Path = ()) -> None:
        self.scenario = scenario
        self.table, self.actors = scenario.make(scenario.rules)
        self.next: dict[str, Step] = {}
        self.answers: dict[str, Answer] = {}
        self.spent: list[Choice] = []
        self.trace: list[str] = []
        for name in self.actors:
            self._advance(name)
        for choice in path:
            self.do(choice)

    def _advance(self, name: str) -> None:
        try:
            self.next[name] = next(self.actors[name])
        except StopIteration as end:
            self.next.pop(name, None)
            self.answers[name] = end.value

    def do(self, choice: Choice) -> None:
        name, what = choice
        table = self.table
        if what == "step":
            self.trace.append(f"{name} {self.next[name].text}")
            if table.heartbeats.get(name) is False:
                table.heartbeats[name] = True  # it is awake again
            self._advance(name)
            return
        self.spent.append(choice)
        self.trace.append(f"({name}: {FAULTS[what]})")
        if what in ("expire", "kill") and table.lock == name:
            table.lock = ""
        if what in ("silence", "kill") and name in table.heartbeats:
            table.heartbeats[name] = False
        if what == "kill":
            self.next.pop(name)
            self.answers[name] = "killed"

    def choices(self) -> list[Choice]:
        scenario, table = self.scenario, self.table
        ready = [name for name, step in self.next.items() if step.ready is None or step.ready()]
        faults = [
            *((name, "expire") for name in scenario.expire if table.lock == name),
            *((name, "silence") for name in scenario.silence if table.heartbeats.get(name)),
            *((name, "kill") for name in scenario.kill if name in table.heartbeats),
        ]
        possible = [fault for fault in faults if fault[0] in self.next and fault not in self.spent]
        return [*((name, "step") for name in ready), *possible]

    def key(self) -> int:
        """Equal for equal states."""
        frames = [frame for name in self.next for frame in _frames(name, self.actors[name])]
        answers = sorted(self.answers.items(), key=repr)
        return hash((self.table.key(), tuple(frames), repr(answers), tuple(sorted(self.spent))))

    def wrong(self, ended: bool) -> str:
        """What does not hold, or nothing. `ended`: there are no choices."""
        table = self.table
        if ended and not all(step.idle for step in self.next.values()):
            return "nobody can go on"
        if ended or self.scenario.transient:
            found, expected = View(table).rows(table.files), replay(table.commits())
            if found != expected:
                return f"rows are {shown(found)}; by the order of completion they are {shown(expected)}"
        return self._wrong_end() if ended else ""

    def _wrong_end(self) -> str:
        table = self.table
        if lost := [time for time in table.acknowledged if time not in table.instants]:
            return f"commits {lost} were acknowledged and are not there"
        words = {answer for answer in self.answers.values() if isinstance(answer, str)}
        for name, answer in self.answers.items():
            if isinstance(answer, tuple) and (text := self._missed(*answer)):
                return f"{name} {text}"
            if isinstance(answer, str) and answer.startswith("read "):
                return f"{name} {answer}"
        if not _PROGRESS & words and "killed" not in words and not self.spent:
            return f"nobody got on: {self.answers}"
        view = View(table)
        if "conflict" in words and view.clustering - set(view.slices(table.files)):
            return "a clustering can't be executed"
        return ""

    def _missed(self, last: int, seen: tuple[int, ...]) -> str:
        _, found = follow(self.table, last, list(seen))
        there = [each.time for each in self.table.commits()]
        twice = len(set(found)) < len(found) or (self.scenario.transient and len(found) > len(there))
        return f"saw commits {found}, there are {sorted(there)}" if twice or set(there) - set(found) else ""


def _frames(name: str, actor: Steps) -> Iterator[tuple[str, int, str]]:
    at: object = actor
    while isinstance(at, GeneratorType) and at.gi_frame is not None:
        values = sorted(at.gi_frame.f_locals.items())
        local = [(each, _plain(value)) for each, value in values if each not in _SHARED]
        yield name, at.gi_frame.f_lasti, repr(local)
        at = at.gi_yieldfrom


def _plain(value: object) -> object:
    if isinstance(value, (set, frozenset)):
        return sorted(value, key=repr)
    return None if callable(value) or isinstance(value, Iterator) else value


def shown(rows: list[Row]) -> str:
    return ", ".join(f"{partition}/{key}={value}" for partition, key, value in rows) or "none"


class Result(NamedTuple):
    """`wrong`: the first violation, or nothing; `trace`: the shortest way to it. `complete`: all states were
    seen.
    """

    states: int
    wrong: str
    trace: tuple[str, ...]
    complete: bool
    #: how it may end
    outcomes: frozenset[str]

    def __str__(self) -> str:
        lines = [
            self.wrong or ("holds" if self.complete else "not all states were seen"),
            f"{self.states} states",
        ]
        return "\n".join([*lines, *(f"{number:2} {line}" for number, line in enumerate(self.trace, 1))])


def explore(scenario: Scenario, limit: int = 400_000) -> Result:
    """Breadth first, of paths of one length those with fewer changes of the actor first. Ends at the first
    violation, or when all states, or `limit` of them, were seen.
    """
    first = Run(scenario)
    layer: list[tuple[Path, Run]] = [((), first)]
    seen, outcomes = {first.key()}, set()
    while layer:
        below: list[tuple[Path, Run]] = []
        for path, run in sorted(layer, key=lambda each: _changes(each[0])):
            choices = run.choices()
            if not choices:
                words = {name: answer for name, answer in run.answers.items() if isinstance(answer, str)}
                outcomes.add(", ".join(f"{name} {answer}" for name, answer in sorted(words.items())))
            for choice in choices:
                after = run if choice == choices[-1] else Run(scenario, path)
                after.do(choice)
                if (key := after.key()) in seen:
                    continue
                seen.add(key)
                if wrong := after.wrong(not after.choices()):
                    return Result(len(seen), wrong, tuple(after.trace), False, frozenset(outcomes))
                if len(seen) >= limit:
                    return Result(len(seen), "", (), False, frozenset(outcomes))
                below.append(((*path, choice), after))
        layer = below
    return Result(len(seen), "", (), True, frozenset(outcomes))


def _changes(path: Path) -> int:
    return sum(one[0] != other[0] for one, other in pairwise(path))
