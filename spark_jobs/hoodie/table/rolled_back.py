"""What rollbacks and restores on the timeline say of other instants."""

from __future__ import annotations

import contextlib

from hoodie.errors import TableBusy, TableError
from hoodie.format.names import join
from hoodie.storage import Storage
from hoodie.table.handle import Table
from hoodie.timeline.active import Timeline
from hoodie.timeline.commit import REWRITES
from hoodie.timeline.instant import Action, Instant, State
from hoodie.timeline.models.restore import RestorePlan
from hoodie.timeline.models.rollback import RollbackPlan
from hoodie.timeline.time import InstantTime

_BEGUN = (State.REQUESTED, State.INFLIGHT)


def is_rolled_back(
    timeline: Timeline, storage: Storage, time: InstantTime, completed: bool | None = None
) -> bool:
    """Does a later rollback or restore name the instant; one that is `completed`, or not, or either."""
    for instant in timeline.filter([Action.ROLLBACK, Action.RESTORE], completed):
        if instant.is_after(time) and time in _named(timeline, storage, instant):
            return True
    return False


def rolled_back_instants(storage: Storage, timeline: Timeline) -> frozenset[str]:
    """What the completed rollbacks and restores of the timeline took back."""
    done = timeline.filter([Action.ROLLBACK, Action.RESTORE], completed=True)
    return frozenset().union(*(_named(timeline, storage, instant) for instant in done))


def _named(timeline: Timeline, storage: Storage, instant: Instant) -> frozenset[str]:
    """Times in a plan; none where it is gone again, or cut: then nothing was done."""
    with contextlib.suppress(FileNotFoundError, TableError):
        data = timeline.plan(instant, storage)
        if instant.action is Action.RESTORE:
            return frozenset(info.time for info in RestorePlan.from_bytes(data).instants)
        found = RollbackPlan.from_bytes(data).instant
        return frozenset() if found is None else frozenset((found.time,))
    return frozenset()


def published_late(table: Table, timeline: Timeline) -> list[Instant]:
    """Commits of processes that were rolled back, and published afterwards: they slept in between, and died
    before they could withdraw. Their own pending files are gone, and a completed rollback names them.
    """
    storage = table.storage
    found: list[Instant] = []
    if not timeline.filter([Action.ROLLBACK, Action.RESTORE], completed=True):
        return found
    for instant in timeline.commits():
        actions = (instant.action, *timeline.layout.plans_of(instant.action))
        states = (Instant(instant.time, action, state) for action in actions for state in _BEGUN)
        if any(timeline.has_file(timeline.name(state)) for state in states):
            continue
        if not is_rolled_back(timeline, storage, instant.time, completed=True):
            continue
        # attempts at a service's plan are rolled back before it is completed, and its plan may be archived
        of_service = timeline.commit(instant, storage).operation_type in REWRITES
        if not of_service or not _archived(table, instant):
            found.append(instant)
    return found


def published_rolled_back(base_path: str, time: InstantTime) -> TableBusy:
    """The error of a table that shows a commit which was rolled back before."""
    return TableBusy(
        f"commit {time} of {base_path} was rolled back before its writer published it: that writer takes it "
        "back when it goes on, or the next write does. Run this again in a moment",
        path=base_path,
        instant=time,
    )


def names_missing_files(table: Table, completed: Instant) -> bool:
    """Does a commit name files that are not there: right after it was published those of an attempt whose
    files another process has deleted.
    """
    try:
        made = table.store.commit(completed)
    except FileNotFoundError:
        return False  # it was taken back meanwhile
    named = (stat.path for stat in made.write_stats) if made is not None else ()
    return not all(table.storage.exists(join(table.base_path, path)) for path in named if path)


def _archived(table: Table, instant: Instant) -> bool:
    """Is the instant in the archive, whose files are written before those of the timeline are deleted; or
    can't that be seen.
    """
    try:
        return any(archived.time == instant.time for archived in table.archive.instants())
    except TableError:
        return True
