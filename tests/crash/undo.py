"""Rollbacks, savepoints and restores, made to fail: what they begin with, and the states between."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import hoodie
from hoodie.services.planned import OutdatedPlan
from hoodie.table.handle import Table
from hoodie.timeline.active import Timeline
from hoodie.timeline.instant import COMMIT_ACTIONS, Action, State
from hoodie.timeline.layouts.one import ONE
from hoodie.timeline.store import begin_instant
from hoodie.timeline.time import InstantTime
from tests.crash.clustering import NO_PACKING, SECOND, cluster, many
from tests.crash.scenarios import (
    BASE,
    LOGGED,
    MOR_OPTIONS,
    NO_ROWS,
    OPTIONS,
    SCENARIOS,
    Kit,
    Row,
    Scenario,
    compact,
    in_region,
    run,
)
from tests.support.faults import Faults, injected
from tests.support.oracle import Model
from tests.support.tables import small_rows

MANUAL = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}
LATER = in_region(small_rows(range(0, 20, 3), 5), "eu") + in_region(small_rows(range(900, 904), 5), "mars")
#: names the plan that is cancelled
PLANNED = ".hoodie/.planned"
CHANGED = in_region(small_rows(range(300, 305), 9), "eu")
LAST = in_region(small_rows(range(1, 20, 4), 6), "eu")


def commits(path: str | Path) -> list[str]:
    return [str(instant.time) for instant in Timeline.load(str(path)).commits()]


def cow(kit: Kit, path: Path) -> None:
    """The second of its three commits has a savepoint."""
    write(path, BASE, OPTIONS)
    write(path, LOGGED, OPTIONS)
    hoodie.savepoint_table(str(path), user="me")
    write(path, LATER, OPTIONS)


def mor(kit: Kit, path: Path) -> None:
    """A savepoint, a compaction after it, a delta commit, a pending compaction, and a delta commit on top."""
    write(path, BASE, MOR_OPTIONS)
    write(path, LOGGED, MOR_OPTIONS)
    hoodie.savepoint_table(str(path), user="me")
    compact(path, "run")
    write(path, LATER, MOR_OPTIONS)
    compact(path, "schedule")
    write(path, LAST, MOR_OPTIONS)


def compacted(kit: Kit, path: Path) -> None:
    write(path, BASE, MOR_OPTIONS)
    write(path, LOGGED, MOR_OPTIONS)
    compact(path, "run")


def shared(kit: Kit, path: Path) -> None:
    """The newest delta commit's blocks stand in a file with others', as storages that append have it where
    writes share files.
    """
    write(path, BASE, MOR_OPTIONS)
    write(path, LOGGED, MOR_OPTIONS)
    write(path, LAST, MOR_OPTIONS)
    if Table.open(str(path)).layout is not ONE:
        return
    first, *others = sorted(path.glob("eu/.*.log.*"), key=lambda log: int(log.name.split(".log.")[1][0]))
    for log in others:
        whole = first.read_bytes() + log.read_bytes()
        first.unlink()
        log.unlink()
        first.write_bytes(whole)
        for commit in path.glob(".hoodie/*.deltacommit"):
            told = json.loads(commit.read_text())
            for stat in told["partitionToWriteStats"]["eu"]:
                if stat["path"] == f"eu/{log.name}":
                    stat |= {"path": f"eu/{first.name}", "fileSizeInBytes": len(whole)}
            commit.unlink()
            commit.write_text(json.dumps(told))


def planned_clustering(kit: Kit, path: Path) -> None:
    many(kit, path)
    cluster(path, "schedule")


def outdated_clustering(kit: Kit, path: Path) -> None:
    """Its file groups were changed by a write that did not see the plan."""
    many(kit, path)
    cluster(path, "schedule")
    (pending,) = Timeline.load(str(path)).pending()
    plan = Path(Table.open(str(path)).store.path(pending))
    content = plan.read_bytes()
    plan.unlink()
    write(path, CHANGED, NO_PACKING)
    plan.write_bytes(content)
    Path(path, PLANNED).write_text(plan.name.partition(".")[0])


def execute_outdated(path: str | Path) -> None:
    """Fails in any case: as the plan is outdated, and where it can't be cancelled."""
    with contextlib.suppress(OutdatedPlan):
        cluster(path, "execute")


def clustered(kit: Kit, path: Path) -> None:
    many(kit, path)
    cluster(path, "run")


def clustered_since(kit: Kit, path: Path) -> None:
    """After a savepoint, one clustering was completed and another one planned."""
    many(kit, path)
    hoodie.savepoint_table(str(path), user="me")
    cluster(path, "run")
    write(path, LATER, NO_PACKING)
    cluster(path, "schedule")


def write(path: Path, rows: list[Row], options: Mapping[str, str]) -> None:
    run(path, rows, options={**options, **MANUAL})


def rollback(path: str | Path) -> Any:
    """Of the newest write or service of the table as it was made; a later try names the same."""
    newest = Path(path, ".hoodie/.newest")
    if not newest.exists():
        writes = [item.time for item in Timeline.load(str(path)) if item.comparable_action in COMMIT_ACTIONS]
        newest.write_text(writes[-1])
    return hoodie.rollback_table(str(path), newest.read_text())


def planned_compaction(kit: Kit, path: Path) -> None:
    write(path, BASE, MOR_OPTIONS)
    write(path, LOGGED, MOR_OPTIONS)
    compact(path, "schedule")


def begun_compaction(kit: Kit, path: Path) -> None:
    """An attempt was killed after it had written a file."""
    planned_compaction(kit, path)
    [plan] = Timeline.load(str(path)).filter([Action.COMPACTION])
    begin_instant(Table.open(str(path)).store, plan.with_state(State.INFLIGHT))
    left = f"00000000-0000-0000-0000-000000000000-0_0-1-0_{plan.time}.parquet"
    (path / "eu" / left).write_bytes(b"half")


def cancel(path: str | Path) -> Any:
    """The plan of the table as it was made; a later try names the same."""
    planned = Path(path, PLANNED)
    if not planned.exists():
        [pending] = Timeline.load(str(path)).pending()
        planned.write_text(pending.time)
    return hoodie.cancel_plan(str(path), planned.read_text())


def execute_and_cancel(path: str | Path) -> None:
    """An execution leaves a cancellation that has begun to the next transaction."""
    execute_outdated(path)
    cancel(path)


def savepoint(path: str | Path) -> Any:
    return hoodie.savepoint_table(str(path), InstantTime(commits(path)[-1]))


def unsave(path: str | Path) -> Any:
    return hoodie.delete_savepoint(str(path), InstantTime(commits(path)[1]))


def restore(path: str | Path) -> Any:
    return hoodie.restore_table(str(path), InstantTime(commits(path)[1]))


@dataclass(frozen=True, eq=False)
class Undo(Scenario):
    """`states` are the rows that readers may see on the way, the last of them in the end. `repeat`: what is
    called again, None: `act`.
    """

    act: Callable[[str | Path], Any] = field(default=rollback)
    states: tuple[tuple[list[Row], ...], ...] = ()
    repeat: Callable[[str | Path], Any] | None = None

    def new(self, kit: Kit) -> list[Row]:
        return upserted(*self.states[-1])

    def run(self, path: str | Path, faults: Faults | None = None) -> Any:
        with injected(faults or Faults()):
            return self.act(path)

    def again(self, path: str | Path, committed: bool) -> Any:
        return (self.repeat or self.act)(path)


def upserted(*batches: list[Row]) -> list[Row]:
    model = Model(["id"], ["region"], "ts")
    for batch in batches:
        model.upsert(batch)
    return model.rows()


def scenario(
    name: str,
    make: Callable[[Kit, Path], None],
    act: Callable[[str | Path], Any],
    *states: tuple[list[Row], ...],
    options: Mapping[str, str] = MOR_OPTIONS,
    like: tuple[str, ...] = (),
    repeat: Callable[[str | Path], Any] | None = None,
) -> Undo:
    return Undo(
        name,
        make,
        NO_ROWS,
        lambda kit: upserted(*states[0]),
        options=options,
        like=like,
        act=act,
        states=states,
        repeat=repeat,
    )


TWO, THREE, MANY = (BASE, LOGGED), (BASE, LOGGED, LATER), (BASE, SECOND)
UNDO = {
    item.name: item
    for item in (
        scenario("rollback_commit", cow, rollback, THREE, TWO, options=OPTIONS, like=("upsert",)),
        scenario("rollback_deltas", shared, rollback, (BASE, LOGGED, LAST), TWO, like=("rollback_commit",)),
        scenario("rollback_compaction", compacted, rollback, TWO, TWO, like=("rollback_commit",)),
        scenario(
            "rollback_plan",
            planned_clustering,
            rollback,
            MANY,
            MANY,
            options=NO_PACKING,
            like=("rollback_commit",),
        ),
        scenario(
            "rollback_clustering",
            clustered,
            rollback,
            MANY,
            MANY,
            options=NO_PACKING,
            like=("rollback_commit",),
        ),
        scenario("cancel_compaction", planned_compaction, cancel, TWO, TWO, like=("rollback_compaction",)),
        scenario(
            "cancel_begun_compaction", begun_compaction, cancel, TWO, TWO, like=("rollback_compaction",)
        ),
        scenario(
            "cancel_clustering",
            planned_clustering,
            cancel,
            MANY,
            MANY,
            options=NO_PACKING,
            like=("rollback_plan",),
        ),
        scenario(
            "execute_outdated",
            outdated_clustering,
            execute_outdated,
            (BASE, SECOND, CHANGED),
            (BASE, SECOND, CHANGED),
            options=NO_PACKING,
            like=("rollback_plan",),
            repeat=execute_and_cancel,
        ),
        scenario("savepoint", cow, savepoint, THREE, THREE, options=OPTIONS),
        scenario("delete_savepoint", cow, unsave, THREE, THREE, options=OPTIONS),
        scenario("restore_commits", cow, restore, THREE, TWO, options=OPTIONS, like=("upsert",)),
        scenario(
            "restore_clusterings",
            clustered_since,
            restore,
            (*MANY, LATER),
            MANY,
            options=NO_PACKING,
            like=("restore_commits", "rollback_plan", "rollback_clustering"),
        ),
        scenario(
            "restore_deltas",
            mor,
            restore,
            (*THREE, LAST),
            THREE,
            TWO,
            like=("restore_commits", "rollback_deltas", "rollback_compaction"),
        ),
    )
}
SCENARIOS.update(UNDO)
