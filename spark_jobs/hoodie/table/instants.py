"""The instants of a table as plain values, for people and for programs, with the targets of rollbacks,
restores and savepoints.
"""

from __future__ import annotations

import contextlib
import warnings
from typing import Any

from hoodie.errors import NotInstalled, TableError
from hoodie.storage import Storage
from hoodie.table.handle import Table
from hoodie.timeline.active import Timeline
from hoodie.timeline.archive.archive import ArchivedEntry
from hoodie.timeline.clock import instant_millis
from hoodie.timeline.commit import CommitMetadata
from hoodie.timeline.instant import COMMIT_ACTIONS, Action, Instant, State
from hoodie.timeline.models.restore import RestorePlan
from hoodie.timeline.models.rollback import RollbackPlan
from hoodie.timeline.models.savepoint import SavepointMetadata
from hoodie.timeline.time import REQUESTED


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


class FiguresLeftOut(UserWarning):
    """What instants did is in files of Avro, and fastavro is not installed: they are listed without."""


def active_instants(table: Table) -> list[dict[str, Any]]:
    """Those of the active timeline, oldest first: instant, action, state, changed_ms; of completed ones
    completion, see Instant.incremental_time; of commits operation, partitions, inserts, updates, deletes,
    files, bytes; `service_details` of others. Where fastavro is missing, those that only Avro has are left
    out, with a warning. Raises TableError.
    """
    timeline, storage = table.timeline, table.storage
    out: list[dict[str, Any]] = []
    unread: NotInstalled | None = None
    for instant in timeline:
        commit, details = None, dict[str, Any]()
        try:
            if instant.completed and instant.action in COMMIT_ACTIONS:
                commit = timeline.commit(instant, storage)
            details = service_details(timeline, storage, instant)
        except NotInstalled as error:
            unread = error
        out.append({**_described(instant, timeline.changed_ms(instant), commit), **details})
    if unread is not None:
        warnings.warn(
            FiguresLeftOut(f"instants are listed without what they did: {unread.message}"), stacklevel=2
        )
    return out


def archived_instants(table: Table) -> list[dict[str, Any]]:
    """Those of the archived timeline, in the highest state that is there, oldest first. Raises TableError."""
    props = table.properties
    highest: dict[tuple[str, str], ArchivedEntry] = {}
    for entry in table.archive.entries():
        key = (REQUESTED.key(entry.instant.time), entry.instant.comparable_action.value)
        if key not in highest or highest[key].instant.state < entry.instant.state:
            highest[key] = entry
    return [
        _described(
            entry.instant,
            instant_millis(entry.changed, props.timeline_utc) if entry.changed else None,
            entry.commit if entry.instant.completed else None,
        )
        | _rolled_back(entry)
        for _, entry in sorted(highest.items())
    ]


def _rolled_back(entry: ArchivedEntry) -> dict[str, Any]:
    done = entry.metadata if entry.instant.action is Action.ROLLBACK else None
    return {"undone": list(done["commitsRollback"])} if done and "commitsRollback" in done else {}


def _described(instant: Instant, changed_ms: int | None, commit: CommitMetadata | None) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "instant": instant.time,
        "action": instant.action.value,
        "state": instant.state.name.lower(),
        "changed_ms": changed_ms,
        **({"completion": instant.incremental_time} if instant.completed else {}),
    }
    if commit is not None:
        entry |= {
            "operation": commit.operation_type,
            "partitions": commit.partitions,
            "inserts": commit.num_inserts,
            "updates": commit.num_updates,
            "deletes": commit.num_deletes,
            "files": commit.num_files,
            "bytes": commit.bytes_written,
        }
    return entry
