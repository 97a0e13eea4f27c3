"""Writes to a table with a commit of a process that slept, was rolled back, published after all and died."""

from __future__ import annotations

from pathlib import Path

import hoodie
from hoodie.storage.local import LocalStorage
from hoodie.table.handle import Table
from hoodie.table.participant import Commit
from hoodie.timeline.active import Timeline
from hoodie.timeline.clock import new_instant_time
from hoodie.timeline.commit import CommitMetadata
from hoodie.timeline.instant import Action, Instant, State
from hoodie.timeline.store import begin_instant
from tests.crash.participants import KEPT, kept, rows
from tests.crash.scenarios import (
    CHANGES,
    FEW_CHANGES,
    MOR_OPTIONS,
    NO_ROWS,
    SCENARIOS,
    Kit,
    Scenario,
    compact,
    mor_logs,
    mor_logs_rows,
    run,
)
from tests.support.ledger import Ledger

STORAGE = LocalStorage()


def late_commit(kit: Kit, path: Path) -> None:
    """A participant had prepared it."""
    kept(kit, path)
    time = new_instant_time(Timeline.load(str(path)).last_time, True)
    store = Table.open(str(path)).store
    for state in (State.REQUESTED, State.INFLIGHT):
        begin_instant(store, Instant(time, Action.COMMIT, state))
    assert run(path, NO_ROWS, options=KEPT).rolled_back == [time]
    table = Table.open(str(path))
    completed = table.completing(Instant(time, Action.COMMIT, State.INFLIGHT))
    metadata = CommitMetadata(operation_type="UPSERT")
    Ledger().prepare(Commit(table=table, instant=completed, metadata=metadata))
    table.store.create(completed, table.store.content(metadata))


def late_compaction(kit: Kit, path: Path) -> None:
    """Its plan had been cancelled."""
    mor_logs(kit, path)
    compact(path, "schedule")
    (planned,) = Timeline.load(str(path)).pending()
    begin_instant(Table.open(str(path)).store, planned.with_state(State.INFLIGHT))
    hoodie.cancel_plan(str(path), planned.time)
    run(path, NO_ROWS, options=MOR_OPTIONS)
    table = Table.open(str(path))
    table.store.create(
        table.completing(planned), table.store.content(CommitMetadata(operation_type="COMPACT"))
    )


#: the leftovers of a table name an instant that was rolled back and is a commit
LATE = {
    item.name: item
    for item in (
        Scenario("late_commit", late_commit, FEW_CHANGES, rows, options=KEPT, like=("ledger_upsert",)),
        Scenario(
            "late_compaction",
            late_compaction,
            CHANGES,
            mor_logs_rows,
            options=MOR_OPTIONS,
            like=("mor_upsert", "late_commit"),
        ),
    )
}
SCENARIOS.update(LATE)
