"""What rollbacks, restores and savepoints on the timeline are of, for people."""

from __future__ import annotations

import contextlib
from typing import Any

from hoodie.errors import TableError
from hoodie.storage import Storage
from hoodie.timeline.active import Timeline
from hoodie.timeline.instant import Action, Instant, State
from hoodie.timeline.models.restore import RestorePlan
from hoodie.timeline.models.rollback import RollbackPlan
from hoodie.timeline.models.savepoint import SavepointMetadata


def service_details(timeline: Timeline, storage: Storage, instant: Instant) -> dict[str, Any]:
    """`undone`, the instants that a rollback or restore takes back; `restored_to` of a restore; `user` and
    `comments` of a savepoint. Empty for other actions, and for a file that can't be read.
    """
    requested = instant.with_state(State.REQUESTED)
    with contextlib.suppress(FileNotFoundError, TableError):
        if instant.action is Action.ROLLBACK:
            target = RollbackPlan.from_bytes(timeline.read(requested, storage)).instant
            return {"undone": [target.time] if target else []}
        if instant.action is Action.RESTORE:
            plan = RestorePlan.from_bytes(timeline.read(requested, storage))
            return {"undone": [info.time for info in plan.instants], "restored_to": plan.point or ""}
        if instant.action is Action.SAVEPOINT and instant.completed:
            saved = SavepointMetadata.from_bytes(timeline.read(instant, storage))
            return {"user": saved.user, "comments": saved.comments}
    return {}
