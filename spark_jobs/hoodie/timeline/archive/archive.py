"""What the archived timelines of both layouts have in common: the questions to them, and their entries.

What is archived, and when, is the services' and the metadata table's business. An entry is what the archive
keeps of an instant's file (format.md 11; Apache Hudi 0.15.0 MetadataConversionUtils).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Protocol

from hoodie.errors import TableError
from hoodie.format.names import instant_time
from hoodie.storage import FileInfo
from hoodie.timeline.commit import CommitMetadata, ReplaceCommitMetadata, WriteStat
from hoodie.timeline.instant import COMMIT_ACTIONS, Action, Instant, State
from hoodie.timeline.layout import Layout
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
#: fields of an entry that hold its metadata; at most one is set
_METADATA = (
    "hoodieCommitMetadata",
    "hoodieReplaceCommitMetadata",
    "HoodieInflightReplaceMetadata",
    "hoodieRequestedReplaceMetadata",
    "hoodieCleanMetadata",
    "hoodieCleanerPlan",
    "hoodieCompactionPlan",
    "hoodieCompactionMetadata",
    "hoodieRollbackMetadata",
    "hoodieSavePointMetadata",
    "hoodieIndexCommitMetadata",
)
#: a field of the Avro model that the JSON does not have
_AVRO_ONLY = frozenset({"totalLogFiles"})


#: a state of an instant, the content of its file, and when that was written
ArchivedState = tuple[Instant, bytes, InstantTime]


class Archive(Protocol):
    """An archived timeline. What can't be read is a TableError."""

    def files(self) -> Sequence[FileInfo]:
        """The files that count, the oldest first."""

    def instants(self, after: str | None = None, before: str | None = None) -> Iterable[Instant]:
        """The completed instants that were requested between two times, both exclusive; each once."""

    def entries(self, containing: bytes | None = None) -> Iterator[ArchivedEntry]:
        """Every state of every instant that is archived, once; layout two archives completed ones only.

        `containing`: files without this text may be left out, which is a matter of speed.
        """


class WrittenArchive(Archive, Protocol):
    """An archived timeline as the one process has it that changes it. A kill between any two steps of a
    change leaves the history as it was before, or as it is after.
    """

    folder: str
    #: whatever the settings say
    always_merged: ClassVar[bool] = False

    def newest(self) -> Collection[Instant]:
        """The instants in the newest file."""

    def append(
        self, states: Iterable[ArchivedState], batch: int, attempts: int | None = None
    ) -> tuple[str, int]:
        """One more file with all states of instants, in their order; its name and size.

        `batch`: states in a block, `attempts`: how many names are tried, where the layout has either. Raises
        TableError where a file of the timeline is torn, and where no name is free.
        """

    def is_unmerged(self, limit: int, least: int) -> bool:
        """Whether files are due to be merged; see `merge`."""

    def is_unfinished(self) -> bool:
        """Whether a merge is under way, or was killed."""

    def merge(self, limit: int, least: int) -> list[str]:
        """Make `least` files or more, that are small by the `limit` in bytes, one; the names of what was
        merged.
        """

    def recover(self) -> None:
        """Finish or undo what was killed. The caller keeps other archivers away."""


@dataclass(frozen=True)
class ArchivedEntry:
    """One state of one instant. `record` is the Avro record, `changed` when it was written, if known."""

    instant: Instant
    changed: InstantTime | None
    record: Mapping[str, Any]

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> ArchivedEntry:
        """Raises TableError for an action or a state that no timeline has."""
        try:
            # very old releases archived completed instants only, and did not say so
            state = State[record["actionState"] or State.COMPLETED.name]
            time = instant_time(record["commitTime"], "instant of the archive")
            instant = Instant(time, Action(record["actionType"]), state)
        except (ValueError, KeyError) as error:
            raise TableError(
                f"an archived instant {record.get('commitTime')!r} has an action or a state that is not "
                f"known here ({error}); read the archived timeline with Apache Hudi",
                instant=str(record.get("commitTime")),
            ) from None
        return cls(instant, record["stateTransitionTime"], record)

    @property
    def metadata(self) -> Mapping[str, Any] | None:
        """What the instant's file held, as an Avro record; None for an empty one."""
        return next((self.record[name] for name in _METADATA if self.record.get(name) is not None), None)

    @property
    def commit(self) -> CommitMetadata | None:
        """What a commit wrote; None for other actions, and for a requested replacecommit."""
        names = ("hoodieReplaceCommitMetadata", "HoodieInflightReplaceMetadata", "hoodieCommitMetadata")
        found = next((self.record[name] for name in names if self.record.get(name) is not None), None)
        return None if found is None else _commit(found)


def entry_record(
    instant: Instant, data: bytes, changed: InstantTime | None, layout: Layout = ONE
) -> dict[str, Any]:
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
        record["hoodieCommitMetadata"] = commit_record(_parsed(instant, data, layout))
    elif action is Action.REPLACECOMMIT:
        record |= _replace(instant, data, layout)
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


def _parsed(instant: Instant, data: bytes, layout: Layout) -> CommitMetadata:
    """Of a completed commit a whole one: what it wrote would be forgotten."""
    value = partial(layout.commit_value, instant.action)
    if instant.completed:
        return CommitMetadata.completed(data, layout.name(instant), value)
    return CommitMetadata.parse(data, value)


def _replace(instant: Instant, data: bytes, layout: Layout) -> dict[str, Any]:
    """A clustering has an empty inflight file, an insert overwrite may have an empty requested one."""
    if not data.strip() and not instant.completed:
        return {}
    if instant.state is State.REQUESTED:
        return _avro("hoodieRequestedReplaceMetadata", "HoodieRequestedReplaceMetadata", data)
    commit = _parsed(instant, data, layout)
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


def _commit(record: Mapping[str, Any]) -> CommitMetadata:
    """Avro nulls stand for what the writer's JSON did not have."""
    stats = record.get("partitionToWriteStats") or {}
    value: dict[str, Any] = {
        "partitionToWriteStats": {
            partition: [
                {name: item for name, item in stat.items() if item is not None and name not in _AVRO_ONLY}
                for stat in group
            ]
            for partition, group in stats.items()
        },
        "compacted": record.get("operationType") == "COMPACT",
        "extraMetadata": record.get("extraMetadata") or {},
        "operationType": record.get("operationType"),
    }
    if record.get("partitionToReplaceFileIds") is not None:
        value["partitionToReplaceFileIds"] = record["partitionToReplaceFileIds"]
    return CommitMetadata.of(value)
