"""Schedules of the product: two actors on one table that take turns at the storage, call by call.

A turn ends after a number of calls to the storage, or where the actor makes none for a while, because it
waits for the other one. What follows moves the timeline past all that the two did: readers count files that
are as old as the archive as committed, so that one which nobody deleted shows.

`python -m tests.model.schedules --seed 3 --seconds 600` goes on for a time, and prints what is wrong.
"""

from __future__ import annotations

import argparse
import itertools
import random
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

import hoodie
from hoodie.errors import CommitUnknown, HoodieError
from hoodie.storage.local import LocalStorage
from hoodie.timeline.active import Timeline
from tests.model.forcing import (
    AT_ONCE,
    CLUSTER_NOW,
    COMPACT_NOW,
    COW,
    GIVING_WAY,
    MOR,
    NEWEST_ONLY,
    PATIENCE_S,
    TYPE,
    Actor,
    keys,
    reset,
    table,
)
from tests.support.metadata import disagreements
from tests.support.storages import registered

#: (actor, calls to the storage): None for as many as it makes
Turn = tuple[str, int | None]
#: values by key
Rows = dict[str, str]
ACTORS = ("A", "B")
#: silence after which an actor counts as one that waits for the other
_SILENT_S, _LOOK_S = 0.5, 0.02
#: about what an upsert makes
_MOST_CALLS = 140

VERSION = "hoodie.write.table.version"
SERVICES = {"hoodie.clustering.plan.strategy.sort.columns": "w", **CLUSTER_NOW, **COMPACT_NOW}
SHORT = {
    "hoodie.cleaner.commits.retained": "1",
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
}


# ------------------------------------------------------------------------------------------------
# turns at the storage


class Turns:
    """Whose turn it is. Threads that are not actors are never stopped."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._left: dict[str, float] = {}
        self.calls: dict[str, int] = {}

    def call(self) -> None:
        """The thread is about to ask the storage something."""
        name = threading.current_thread().name
        with self._changed:
            if name not in self._left:
                return
            while self._left.get(name, 1) <= 0:
                self._changed.notify_all()
                self._changed.wait()
            if name in self._left:
                self._left[name] -= 1
                self.calls[name] += 1

    def run(self, functions: Mapping[str, Callable[[], object]], turns: Sequence[Turn]) -> dict[str, Any]:
        """What each actor answers; see Actor. After the turns they go on at once."""
        self._left = dict.fromkeys(functions, 0.0)
        self.calls = dict.fromkeys(functions, 0)
        actors = {name: Actor(name, function) for name, function in functions.items()}
        for name, calls in turns:
            self._turn(name, actors[name], calls)
        with self._changed:
            self._left = {}
            self._changed.notify_all()
        return {name: actor.answer() for name, actor in actors.items()}

    def _turn(self, name: str, actor: Actor, calls: int | None) -> None:
        with self._changed:
            self._left[name] = float("inf") if calls is None else float(calls)
            self._changed.notify_all()
            made, since, begun = self.calls[name], time.monotonic(), time.monotonic()
            while self._left[name] > 0 and not actor.done.is_set():
                self._changed.wait(_LOOK_S)
                if self.calls[name] != made:
                    made, since = self.calls[name], time.monotonic()
                elif time.monotonic() - since > _SILENT_S:
                    break
                assert time.monotonic() - begun < PATIENCE_S, f"{name} does not end"
            self._left[name] = 0.0


TURNS = Turns()


class TurnedFiles(LocalStorage):
    """Each call waits for its actor's turn."""


def _turned(name: str) -> Callable[..., Any]:
    real = getattr(LocalStorage, name)

    def call(self: TurnedFiles, *arguments: Any, **named: Any) -> Any:
        TURNS.call()
        return real(self, *arguments, **named)

    return call


for _name in ("list", "names", "tree", "exists", "info", "read", "create", "write", "delete", "output"):
    setattr(TurnedFiles, _name, _turned(_name))


# ------------------------------------------------------------------------------------------------
# what actors do


@dataclass(frozen=True)
class Work:
    """`run` gets the path, the settings and a value of its own. `effect`: what it makes of the rows."""

    run: Callable[[str, dict[str, str], str], object]
    effect: Callable[[Rows, str], Rows] = lambda rows, value: rows


def _upsert(*names: str, **more: str) -> Work:
    def run(path: str, how: dict[str, str], value: str) -> object:
        return hoodie.write_table(table(*names, w=value), path, options={**how, **more})

    return Work(run, lambda rows, value: {**rows, **dict.fromkeys(names, value)})


def _delete(path: str, how: dict[str, str], value: str) -> object:
    return hoodie.write_table(keys("a"), path, operation="delete", options=how)


def _overwrite(path: str, how: dict[str, str], value: str) -> object:
    return hoodie.write_table(table("o", w=value), path, operation="insert_overwrite", options=how)


def _cancel(path: str, how: dict[str, str], value: str) -> object:
    return [hoodie.cancel_plan(path, item.time, options=how) for item in Timeline.load(path).pending()]


def _service(function: Callable[..., object], settings: Mapping[str, str], **more: str) -> Work:
    return Work(lambda path, how, value: function(path, options={**how, **settings}, **more))


WORKS = {
    "upsert": _upsert("a"),
    "upsert that rolls back": _upsert("a", **GIVING_WAY),
    "new key": _upsert("n"),
    "new key and update": _upsert("n", "b"),
    "delete": Work(_delete, lambda rows, value: {key: row for key, row in rows.items() if key != "a"}),
    "overwrite": Work(_overwrite, lambda rows, value: {"o": value}),
    "drop": Work(
        lambda path, how, value: hoodie.delete_partitions(path, ["p0"], options=how),
        lambda rows, value: {},
    ),
    "cluster": _service(hoodie.cluster_table, SERVICES),
    "execute": _service(hoodie.cluster_table, SERVICES, mode="execute"),
    "compact": _service(hoodie.compact_table, SERVICES),
    "clean": _service(hoodie.clean_table, NEWEST_ONLY),
    "archive": _service(hoodie.archive_table, SHORT),
    "cancel": Work(_cancel),
}
PAIRS = (
    *itertools.combinations_with_replacement(("upsert", "new key", "new key and update", "overwrite"), 2),
    *itertools.product(("upsert", "delete", "drop"), ("new key", "cluster", "compact")),
    *itertools.product(("upsert that rolls back", "cancel"), ("cluster", "execute", "compact")),
    *itertools.product(("clean", "archive"), ("upsert", "cluster", "compact")),
    ("cluster", "cluster"),
    ("compact", "compact"),
    ("upsert that rolls back", "upsert that rolls back"),
    ("clean", "archive"),
)


# ------------------------------------------------------------------------------------------------
# one table, two actors


@dataclass(frozen=True)
class Case:
    """Two works, on a table of a kind. `pending`: the service of which a plan is there, "" for none."""

    pair: tuple[str, str]
    version: str
    merge_on_read: bool
    metadata: bool
    pending: str = ""
    strict: bool = True

    @classmethod
    def drawn(cls, random_: random.Random, pair: tuple[str, str]) -> Case:
        pending = "cluster" if "execute" in pair else random_.choice(["", "", "", "cluster"])
        return cls(
            pair=pair,
            version=random_.choice(["6", "9"]),
            merge_on_read="compact" in pair or random_.random() < 0.4,
            metadata=random_.random() < 0.5,
            pending="compact" if pair == ("cancel", "compact") else pending,
            strict=random_.random() < 0.5,
        )

    @property
    def how(self) -> dict[str, str]:
        return {
            **AT_ONCE,
            "hoodie.write.num.retries.on.conflict.failures": "5",
            "hoodie.clean.automatic": "false",
            "hoodie.metadata.enable": str(self.metadata).lower(),
            "hoodie.clustering.updates.strategy": "reject" if self.strict else "allow",
            VERSION: self.version,
            TYPE: MOR if self.merge_on_read else COW,
        }


def drawn_turns(random_: random.Random) -> list[Turn]:
    """Turns that change once, twice or three times, at any calls."""
    first, second = random_.sample(ACTORS, 2)
    return [
        (first, random_.randint(1, _MOST_CALLS)),
        (second, random_.choice([None, random_.randint(1, _MOST_CALLS)])),
        (first, random_.choice([None, random_.randint(1, 60)])),
    ]


@dataclass
class Schedules:
    """Runs of cases below a folder. A table is made once for all cases of its kind, and copied."""

    folder: Path
    _made: dict[tuple[object, ...], Path] = field(default_factory=dict)

    def run(self, case: Case, turns: Sequence[Turn]) -> list[str]:
        """What is wrong: rows that no order of the committed works gives, a metadata table that differs."""
        path = str(self.folder / "t")
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(self._seed(case), path)
        reset()
        works = {name: WORKS[work] for name, work in zip(ACTORS, case.pair, strict=True)}

        def of(name: str) -> Callable[[], object]:
            return lambda: works[name].run(path, case.how, name)

        with registered("file", TurnedFiles):
            answers = TURNS.run({name: of(name) for name in ACTORS}, turns)
        reset()
        expected = list(_expected(works, answers))
        said = {name: str(answer)[:200] for name, answer in answers.items()}
        return [f"{problem}; {said}" for problem in _problems(path, case, expected)]

    def _seed(self, case: Case) -> Path:
        kind = (case.version, case.merge_on_read, case.metadata, case.pending)
        if kind not in self._made:
            reset()
            path = self._made[kind] = self.folder / f"seed{len(self._made)}"
            for value in ("0", "1"):
                hoodie.write_table(table("a", "b", w=value), str(path), options=case.how)
            hoodie.write_table(table("c", w="0"), str(path), options=case.how)
            if case.pending:
                plan: Any = hoodie.cluster_table if case.pending == "cluster" else hoodie.compact_table
                made = plan(str(path), mode="schedule", options={**case.how, **SERVICES})
                assert made.status == "scheduled"
        return self._made[kind]


def _expected(works: Mapping[str, Work], answers: Mapping[str, Any]) -> Iterator[Rows]:
    """The rows of every order of what was committed; of what may be there, with it and without."""
    done = [name for name, answer in answers.items() if not isinstance(answer, HoodieError)]
    unknown = [name for name, answer in answers.items() if isinstance(answer, CommitUnknown)]
    for count in range(len(unknown) + 1):
        for more in itertools.combinations(unknown, count):
            for order in itertools.permutations([*done, *more]):
                rows = {"a": "1", "b": "1", "c": "0"}
                for name in order:
                    rows = works[name].effect(rows, name)
                yield rows


def _problems(path: str, case: Case, expected: Sequence[Rows]) -> Iterator[str]:
    yield from _differences(path, case, expected, {}, "at once")
    how = {**case.how, **SHORT}
    for value in ("0", "1"):
        _later(path, how, value)
    hoodie.clean_table(path, options=how)
    for value in ("2", "3", "4", "5"):
        _later(path, how, value)
    yield from _differences(path, case, expected, {"z": "5"}, "later")
    if case.merge_on_read:
        hoodie.compact_table(path, options={**how, **SERVICES})
    hoodie.clean_table(path, options=how)
    hoodie.archive_table(path, options=how)
    yield from _differences(path, case, expected, {"z": "5"}, "archived")


def _later(path: str, how: dict[str, str], value: str) -> None:
    hoodie.write_table(table("z", p="p9", w=value), path, options=how)


def _differences(path: str, case: Case, expected: Sequence[Rows], more: Rows, when: str) -> Iterator[str]:
    found: pa.Table = hoodie.read_table(path, meta=False)
    rows = dict(zip(found["id"].to_pylist(), found["w"].to_pylist(), strict=True))
    if len(rows) < found.num_rows or rows not in [{**each, **more} for each in expected]:
        yield f"{when}: {found.to_pylist()}, expected one of {expected}"
    if case.metadata and (wrong := disagreements(path)):
        yield f"{when}: the metadata table: {wrong}"


def main() -> int:
    """Exit status 1 where something was wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.model.schedules", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=600)
    args = parser.parse_args()
    random_, ends, runs, wrong = random.Random(args.seed), time.monotonic() + args.seconds, 0, 0
    with tempfile.TemporaryDirectory(prefix="hoodie-schedules-") as folder:
        schedules = Schedules(Path(folder))
        while time.monotonic() < ends:
            case = Case.drawn(random_, random_.choice(PAIRS))
            turns = drawn_turns(random_)
            problems = schedules.run(case, turns)
            runs, wrong = runs + 1, wrong + bool(problems)
            for problem in problems:
                print(case, turns, problem, flush=True)
    print(f"{runs} schedules, {wrong} of them wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
