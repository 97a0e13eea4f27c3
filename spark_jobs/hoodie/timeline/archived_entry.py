"""What the archive keeps of an instant's file (format.md 11; Apache Hudi 0.15.0 MetadataConversionUtils)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hoodie.timeline.commit import CommitMetadata, ReplaceCommitMetadata, WriteStat
from hoodie.timeline.instant import COMMIT_ACTIONS, Action, Instant, State
from hoodie.timeline.layouts.one import ONE
from hoodie.timeline.time import InstantTime

#: Hudi keeps this key empty where it once held totals; 0.15.0 always writes it
_ROLLING_STAT = "ROLLING_STAT"

#: (action, completed) -> (field of the entry, model of the file)
_AVRO_FILES = {
    (Action.CLEAN, True): ("hoodieCleanMetadata", "HoodieCleanMetadata"),
    (Action.CLEAN, False): ("hoodieCleanerPlan", "HoodieCleanerPlan"),
    (Action.ROLLBACK, True): ("hoodieRollbackMetadata", "HoodieRollbackMetadata"),
    (Action.SAVEPOINT, True): ("hoodieSavePointMetadata", "HoodieSavepointMetadata"),
    (Action.INDEXING, True): ("hoodieIndexCommitMetadata", "HoodieIndexCommitMetadata"),
}
_PLANNED = frozenset({Action.COMPACTION, Action.LOGCOMPACTION})


def entry_record(instant: Instant, data: bytes, changed: InstantTime) -> dict[str, Any]:
    """The HoodieArchivedMetaEntry of the file of one state of an instant.

    `changed` is the file's modification time as an instant. An empty file has no metadata, save requested
    commits, which have empty ones, as in Hudi. Raises TableError when the file is torn.
    """
    record: dict[str, Any] = {
        "commitTime": instant.time,
        "actionType": instant.action.value,
        "actionState": instant.state.name,
        "stateTransitionTime": changed,
        "version": None,
    }
    action = instant.action
    if instant.completed and not data.strip() and action not in COMMIT_ACTIONS:
        return record
    if action in (Action.COMMIT, Action.DELTACOMMIT):
        record["hoodieCommitMetadata"] = commit_record(_parsed(instant, data))
    elif action is Action.REPLACECOMMIT:
        record |= _replace(instant, data)
    elif action in _PLANNED:
        if instant.state is State.REQUESTED:
            record |= _avro("hoodieCompactionPlan", "HoodieCompactionPlan", data)
    elif known := _AVRO_FILES.get((action, instant.completed)):
        record |= _avro(*known, data)
    return record


def commit_record(commit: CommitMetadata) -> dict[str, Any]:
    """HoodieCommitMetadata in Avro, or HoodieReplaceCommitMetadata, of the same in JSON."""
    record: dict[str, Any] = {
        "partitionToWriteStats": {
            partition: [_stat(stat) for stat in stats]
            for partition, stats in commit.partition_to_write_stats.items()
        },
        "extraMetadata": {name: text or "" for name, text in commit.extra_metadata.items()}
        | {_ROLLING_STAT: ""},
        "version": None,
        "operationType": "COMPACT" if commit.compacted else commit.operation_type,
    }
    if isinstance(commit, ReplaceCommitMetadata):
        record["partitionToReplaceFileIds"] = {
            partition: list(ids) for partition, ids in commit.partition_to_replace_file_ids.items()
        }
    return record


def _parsed(instant: Instant, data: bytes) -> CommitMetadata:
    """Of a completed commit a whole one: what it wrote would be forgotten."""
    return (
        CommitMetadata.completed(data, ONE.name(instant)) if instant.completed else CommitMetadata.parse(data)
    )


def _replace(instant: Instant, data: bytes) -> dict[str, Any]:
    """A clustering has an empty inflight file, an insert overwrite may have an empty requested one."""
    if not data.strip() and not instant.completed:
        return {}
    if instant.state is State.REQUESTED:
        return _avro("hoodieRequestedReplaceMetadata", "HoodieRequestedReplaceMetadata", data)
    commit = _parsed(instant, data)
    if instant.state is State.INFLIGHT:
        record = commit_record(commit)
        record.pop("partitionToReplaceFileIds", None)
        return {"HoodieInflightReplaceMetadata": record}
    return {"hoodieReplaceCommitMetadata": {"partitionToReplaceFileIds": {}, **commit_record(commit)}}


def _avro(field: str, model: str, data: bytes) -> dict[str, Any]:
    from hoodie.codec.avro import read_record

    return {field: read_record(model, data)} if data else {}


def _stat(stat: WriteStat) -> Mapping[str, Any]:
    return {
        "fileId": stat.file_id,
        "path": stat.path,
        "prevCommit": stat.prev_commit,
        "numWrites": stat.num_writes,
        "numDeletes": stat.num_deletes,
        "numUpdateWrites": stat.num_update_writes,
        "totalWriteBytes": stat.total_write_bytes,
        "totalWriteErrors": stat.total_write_errors,
        "partitionPath": stat.partition_path,
        "totalLogRecords": stat.total_log_records,
        "totalLogFiles": None,
        "totalUpdatedRecordsCompacted": stat.total_updated_records_compacted,
        "numInserts": stat.num_inserts,
        "totalLogBlocks": stat.total_log_blocks,
        "totalCorruptLogBlock": stat.total_corrupt_log_block,
        "totalRollbackBlocks": stat.total_rollback_blocks,
        "fileSizeInBytes": stat.file_size_in_bytes,
    }
