"""What rollbacks and restores on the timeline say of other instants."""

from __future__ import annotations

import contextlib

from hoodie.errors import TableError
from hoodie.storage import Storage
from hoodie.timeline.active import Timeline
from hoodie.timeline.instant import Action, Instant, State
from hoodie.timeline.layouts.one import ONE
from hoodie.timeline.plans import RollbackPlan
from hoodie.timeline.restore_plan import RestorePlan

_BEGUN = (State.REQUESTED, State.INFLIGHT)
#: types of operation in the commits of services, which complete a plan
_SERVICES = frozenset({"COMPACT", "LOG_COMPACT", "CLUSTER"})


def is_undone(timeline: Timeline, storage: Storage, time: str, completed: bool | None = None) -> bool:
    """Does a later rollback or restore name the instant; one that is `completed`, or not, or either."""
    for instant in timeline.filter([Action.ROLLBACK, Action.RESTORE], completed):
        if instant.is_after(time) and time in _named(timeline, storage, instant):
            return True
    return False


def undone_instants(storage: Storage, timeline: Timeline) -> frozenset[str]:
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


def published_late(timeline: Timeline, storage: Storage) -> list[Instant]:
    """Commits of writers that were rolled back, and published afterwards: they slept in between, and died
    before they could withdraw. Their own pending files are gone, and a completed rollback names them.
    """
    found: list[Instant] = []
    for instant in timeline.commits():
        actions = (instant.action, *ONE.plans_of(instant.action))
        states = (Instant(instant.time, action, state) for action in actions for state in _BEGUN)
        if any(timeline.holds(ONE.name(state)) for state in states):
            continue
        if not is_undone(timeline, storage, instant.time, completed=True):
            continue
        # attempts at a service's plan are rolled back before it is completed, and its plan may be archived
        if timeline.commit(instant, storage).operation_type not in _SERVICES:
            found.append(instant)
    return found
