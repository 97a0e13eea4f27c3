"""Plans and results of the cleaner as the timeline stores them (format.md 3.4, 13.3).

`T.clean.requested` and `T.clean.inflight` hold the plan, `T.clean` the result. Importing this module needs
the standard library only; reading and writing bytes needs fastavro.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from hoodie.format.names import file_name, instant_time, relative_path
from hoodie.timeline.instant import Instant
from hoodie.timeline.models.mapper import AvroFile, AvroRecord, avro, each
from hoodie.timeline.time import NO_TIME, InstantTime

#: of plans and results; version 1 named files by their paths, and had them in another field
VERSION = 2
#: key of a plan's extra metadata: the savepoints that were there when it was made, with commas
SAVEPOINTED = "savepointed_timestamps"


@dataclass(frozen=True)
class ActionInstant(AvroRecord):
    """HoodieActionInstant: an instant whose state is text."""

    time: InstantTime = field(metadata=avro("timestamp", check=instant_time))
    action: str
    state: str

    @classmethod
    def of(cls, instant: Instant) -> ActionInstant:
        return cls(instant.time, instant.action.value, instant.state.name)


@dataclass(frozen=True)
class CleanFile(AvroRecord):
    """One file to delete (HoodieCleanFileInfo). `path` is absolute, as the planner's storage has it.

    `bootstrap`: the file is not the table's own, but one that it was bootstrapped from.
    """

    path: str = field(metadata=avro("filePath", check=file_name))
    bootstrap: bool = field(default=False, metadata=avro("isBootstrapBaseFile", null=False))

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


@dataclass(frozen=True)
class CleanPlan(AvroFile):
    """What a clean deletes (HoodieCleanerPlan).

    `earliest` is the instant from which on every state of the table can be read afterwards; None for the
    policy KEEP_LATEST_FILE_VERSIONS. `files` are by partition path. `delete_partitions` are the partitions
    whose folders go, too, when nothing is left in them.
    """

    model = "HoodieCleanerPlan"

    policy: str
    files: Mapping[str, tuple[CleanFile, ...]] = field(
        default_factory=dict, metadata=avro("filePathsToBeDeletedPerPartition", check=each(relative_path))
    )
    earliest: ActionInstant | None = field(default=None, metadata=avro("earliestInstantToRetain"))
    last_completed: InstantTime = field(default=NO_TIME, metadata=avro("lastCompletedCommitTimestamp"))
    delete_partitions: tuple[str, ...] = field(
        default=(), metadata=avro("partitionsToBeDeleted", check=each(relative_path))
    )
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

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> CleanPlan:
        """Plans of version 1, which have names or paths of files only, too."""
        files = dict(record["filePathsToBeDeletedPerPartition"] or {})
        for partition, names in (record["filesToBeDeletedPerPartition"] or {}).items():
            files.setdefault(partition, [CleanFile(name).to_record() for name in names])
        return super().from_record({**record, "filePathsToBeDeletedPerPartition": files})

    def to_record(self) -> dict[str, Any]:
        return {**super().to_record(), "filesToBeDeletedPerPartition": {}}


@dataclass(frozen=True)
class CleanedPartition(AvroRecord):
    """What a clean did in one partition (HoodieCleanPartitionMetadata); names of files, without folders."""

    partition_path: str
    policy: str
    patterns: tuple[str, ...] = field(default=(), metadata=avro("deletePathPatterns"))
    deleted: tuple[str, ...] = field(default=(), metadata=avro("successDeleteFiles"))
    failed: tuple[str, ...] = field(default=(), metadata=avro("failedDeleteFiles"))
    partition_deleted: bool | None = field(default=False, metadata=avro("isPartitionDeleted"))


@dataclass(frozen=True)
class CleanMetadata(AvroFile):
    """`T.clean` (HoodieCleanMetadata). `earliest` is "" where the policy knows no such instant."""

    model = "HoodieCleanMetadata"

    start_time: InstantTime = field(metadata=avro("startCleanTime"))
    duration_ms: int = field(metadata=avro("timeTakenInMillis"))
    total_files_deleted: int
    earliest: InstantTime = field(default=NO_TIME, metadata=avro("earliestCommitToRetain"))
    last_completed: InstantTime = field(default=NO_TIME, metadata=avro("lastCompletedCommitTimestamp"))
    partitions: Mapping[str, CleanedPartition] = field(
        default_factory=dict, metadata=avro("partitionMetadata")
    )
    bootstrap_partitions: Mapping[str, CleanedPartition] | None = field(
        default_factory=dict, metadata=avro("bootstrapPartitionMetadata")
    )
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
