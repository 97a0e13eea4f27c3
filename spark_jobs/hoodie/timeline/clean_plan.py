"""Plans and results of the cleaner as the timeline stores them (format.md 3.4, 13.3).

`T.clean.requested` and `T.clean.inflight` hold the plan, `T.clean` the result. Importing this module needs
the standard library only; reading and writing bytes needs fastavro.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from hoodie.format.instant_time import InstantTime
from hoodie.format.names import file_name, instant_time, relative_path
from hoodie.timeline.instant import Instant
from hoodie.timeline.plans import AvroFile
from hoodie.timeline.time import NO_TIME

#: of plans and results; version 1 named files by their paths, and had them in another field
VERSION = 2
#: key of a plan's extra metadata: the savepoints that were there when it was made, with commas
SAVEPOINTED = "savepointed_timestamps"


@dataclass(frozen=True)
class ActionInstant:
    """HoodieActionInstant: an instant whose state is text."""

    time: InstantTime
    action: str
    state: str

    @classmethod
    def of(cls, instant: Instant) -> ActionInstant:
        return cls(instant.time, instant.action.value, instant.state.name)

    def to_record(self) -> dict[str, Any]:
        return {"timestamp": self.time, "action": self.action, "state": self.state}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> ActionInstant:
        return cls(instant_time(record["timestamp"], "timestamp"), record["action"], record["state"])


@dataclass(frozen=True)
class CleanFile:
    """One file to delete (HoodieCleanFileInfo). `path` is absolute, as the planner's storage has it.

    `bootstrap`: the file is not the table's own, but one that it was bootstrapped from.
    """

    path: str
    bootstrap: bool = False

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    def to_record(self) -> dict[str, Any]:
        return {"filePath": self.path, "isBootstrapBaseFile": self.bootstrap}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> CleanFile:
        return cls(record["filePath"] or "", bool(record["isBootstrapBaseFile"]))


@dataclass(frozen=True)
class CleanPlan(AvroFile):
    """What a clean deletes (HoodieCleanerPlan).

    `earliest` is the instant from which on every state of the table can be read afterwards; None for the
    policy KEEP_LATEST_FILE_VERSIONS. `files` are by partition path. `delete_partitions` are the partitions
    whose folders go, too, when nothing is left in them.
    """

    model = "HoodieCleanerPlan"

    policy: str
    files: Mapping[str, tuple[CleanFile, ...]] = field(default_factory=dict)
    earliest: ActionInstant | None = None
    last_completed: InstantTime = NO_TIME
    delete_partitions: tuple[str, ...] = ()
    extra_metadata: Mapping[str, str] | None = field(default_factory=dict)
    version: int | None = VERSION

    @property
    def num_files(self) -> int:
        return sum(len(group) for group in self.files.values())

    @property
    def partitions(self) -> list[str]:
        return sorted(self.files)

    def __iter__(self) -> Iterator[tuple[str, CleanFile]]:
        """(partition path, file) of every file."""
        for partition, group in self.files.items():
            for file in group:
                yield partition, file

    def to_record(self) -> dict[str, Any]:
        return {
            "earliestInstantToRetain": self.earliest.to_record() if self.earliest else None,
            "lastCompletedCommitTimestamp": self.last_completed,
            "policy": self.policy,
            "filesToBeDeletedPerPartition": {},
            "version": self.version,
            "filePathsToBeDeletedPerPartition": {
                partition: [file.to_record() for file in group] for partition, group in self.files.items()
            },
            "partitionsToBeDeleted": list(self.delete_partitions),
            "extraMetadata": None if self.extra_metadata is None else dict(self.extra_metadata),
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> CleanPlan:
        """Plans of version 1, which have names or paths of files only, too."""
        earliest = record["earliestInstantToRetain"]
        folders = tuple(record["partitionsToBeDeleted"] or ())
        files = {
            partition: tuple(CleanFile.from_record(item) for item in group)
            for partition, group in (record["filePathsToBeDeletedPerPartition"] or {}).items()
        }
        for partition, names in (record["filesToBeDeletedPerPartition"] or {}).items():
            files.setdefault(partition, tuple(CleanFile(name) for name in names))
        for partition in (*files, *folders):
            relative_path(partition, "partition of a clean")
        for group in files.values():
            for file in group:
                file_name(file.path, "file of a clean")
        return cls(
            policy=record["policy"],
            files=files,
            earliest=ActionInstant.from_record(earliest) if earliest else None,
            last_completed=record["lastCompletedCommitTimestamp"],
            delete_partitions=folders,
            extra_metadata=record["extraMetadata"],
            version=record["version"],
        )


@dataclass(frozen=True)
class CleanedPartition:
    """What a clean did in one partition (HoodieCleanPartitionMetadata); names of files, without folders."""

    partition_path: str
    policy: str
    patterns: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    partition_deleted: bool | None = False

    def to_record(self) -> dict[str, Any]:
        return {
            "partitionPath": self.partition_path,
            "policy": self.policy,
            "deletePathPatterns": list(self.patterns),
            "successDeleteFiles": list(self.deleted),
            "failedDeleteFiles": list(self.failed),
            "isPartitionDeleted": self.partition_deleted,
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> CleanedPartition:
        return cls(
            record["partitionPath"],
            record["policy"],
            tuple(record["deletePathPatterns"]),
            tuple(record["successDeleteFiles"]),
            tuple(record["failedDeleteFiles"]),
            record["isPartitionDeleted"],
        )


@dataclass(frozen=True)
class CleanMetadata(AvroFile):
    """`T.clean` (HoodieCleanMetadata). `earliest` is "" where the policy knows no such instant."""

    model = "HoodieCleanMetadata"

    start_time: InstantTime
    duration_ms: int
    total_files_deleted: int
    earliest: InstantTime = NO_TIME
    last_completed: InstantTime = NO_TIME
    partitions: Mapping[str, CleanedPartition] = field(default_factory=dict)
    bootstrap_partitions: Mapping[str, CleanedPartition] | None = field(default_factory=dict)
    extra_metadata: Mapping[str, str] | None = field(default_factory=dict)
    version: int | None = VERSION

    @classmethod
    def of(
        cls,
        start_time: InstantTime,
        duration_ms: int,
        plan: CleanPlan,
        partitions: Mapping[str, CleanedPartition],
    ) -> CleanMetadata:
        """The result of a plan that was carried out; the number of deleted files is counted here."""
        return cls(
            start_time=start_time,
            duration_ms=duration_ms,
            total_files_deleted=sum(len(item.deleted) for item in partitions.values()),
            earliest=plan.earliest.time if plan.earliest else NO_TIME,
            last_completed=plan.last_completed,
            partitions=dict(partitions),
            extra_metadata=plan.extra_metadata,
        )

    @property
    def savepoints(self) -> list[str]:
        """The savepoints that were there when the plan was made, where it names them."""
        text = (self.extra_metadata or {}).get(SAVEPOINTED, "")
        return [time for time in text.split(",") if time]

    def to_record(self) -> dict[str, Any]:
        bootstrap = self.bootstrap_partitions
        return {
            "startCleanTime": self.start_time,
            "timeTakenInMillis": self.duration_ms,
            "totalFilesDeleted": self.total_files_deleted,
            "earliestCommitToRetain": self.earliest,
            "lastCompletedCommitTimestamp": self.last_completed,
            "partitionMetadata": {path: item.to_record() for path, item in self.partitions.items()},
            "version": self.version,
            "bootstrapPartitionMetadata": None
            if bootstrap is None
            else {path: item.to_record() for path, item in bootstrap.items()},
            "extraMetadata": None if self.extra_metadata is None else dict(self.extra_metadata),
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> CleanMetadata:
        bootstrap = record["bootstrapPartitionMetadata"]
        return cls(
            start_time=record["startCleanTime"],
            duration_ms=record["timeTakenInMillis"],
            total_files_deleted=record["totalFilesDeleted"],
            earliest=record["earliestCommitToRetain"],
            last_completed=record["lastCompletedCommitTimestamp"],
            partitions=_partitions(record["partitionMetadata"]),
            bootstrap_partitions=None if bootstrap is None else _partitions(bootstrap),
            extra_metadata=record["extraMetadata"],
            version=record["version"],
        )


def _partitions(records: Mapping[str, Mapping[str, Any]]) -> dict[str, CleanedPartition]:
    return {path: CleanedPartition.from_record(item) for path, item in records.items()}
