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
from tests.support.stores import store_at

STORAGE = LocalStorage()


def late_commit(kit: Kit, path: Path) -> None:
    """A participant had prepared it."""
    kept(kit, path)
    time = new_instant_time(Timeline.load(str(path)).last_time, True)
    for state in (State.REQUESTED, State.INFLIGHT):
        begin_instant(store_at(path), Instant(time, Action.COMMIT, state))
    assert run(path, NO_ROWS, options=KEPT).rolled_back == [time]
    completed = Instant(time, Action.COMMIT, State.COMPLETED)
    metadata = CommitMetadata(operation_type="UPSERT")
    Ledger().prepare(Commit(table=Table.open(str(path)), instant=completed, metadata=metadata))
    store_at(path).create(completed, metadata.to_json())


def late_compaction(kit: Kit, path: Path) -> None:
    """Its plan had been cancelled."""
    mor_logs(kit, path)
    compact(path, "schedule")
    (planned,) = Timeline.load(str(path)).pending()
    begin_instant(store_at(path), planned.with_state(State.INFLIGHT))
    hoodie.cancel_plan(str(path), planned.time)
    run(path, NO_ROWS, options=MOR_OPTIONS)
    metadata = CommitMetadata(operation_type="COMPACT")
    store_at(path).create(planned.with_state(State.COMPLETED), metadata.to_json())


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
