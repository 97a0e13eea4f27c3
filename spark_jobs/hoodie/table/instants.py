"""The instants of a table as plain values, for people and for programs."""

from __future__ import annotations

from typing import Any

from hoodie.table.handle import Table
from hoodie.timeline.archived import ArchivedEntry, read_archived
from hoodie.timeline.clock import instant_millis
from hoodie.timeline.commit import CommitMetadata
from hoodie.timeline.instant import COMMIT_ACTIONS, Action, Instant
from hoodie.timeline.service_details import service_details
from hoodie.timeline.time import REQUESTED


def active_instants(table: Table) -> list[dict[str, Any]]:
    """Those of the active timeline, oldest first: instant, action, state, changed_ms; of commits operation,
    partitions, inserts, updates, deletes, files, bytes; `service_details` of others. Raises TableError.
    """
    timeline, storage = table.timeline, table.storage
    out: list[dict[str, Any]] = []
    for instant in timeline:
        commit = None
        if instant.completed and instant.action in COMMIT_ACTIONS:
            commit = timeline.commit(instant, storage)
        described = _described(instant, timeline.changed_ms(instant), commit)
        out.append({**described, **service_details(timeline, storage, instant)})
    return out


def archived_instants(table: Table) -> list[dict[str, Any]]:
    """Those of the archived timeline, in the highest state that is there, oldest first. Raises TableError."""
    props = table.properties
    highest: dict[tuple[str, str], ArchivedEntry] = {}
    for entry in read_archived(table.storage, table.archive_folder):
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
