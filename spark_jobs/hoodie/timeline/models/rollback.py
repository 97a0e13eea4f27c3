"""Plans and results of rollbacks as the timeline stores them (format.md 3.4).

Importing this module needs the standard library only; reading and writing bytes needs fastavro.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hoodie.format.names import file_id, file_name, instant_time, relative_path
from hoodie.timeline.instant import Action, Instant
from hoodie.timeline.models.mapper import NOT_STORED, AvroFile, AvroRecord, avro, each
from hoodie.timeline.rolled_back_commit import TAKEN_BACK_KEY, RolledBackCommit
from hoodie.timeline.time import NO_TIME, InstantTime


@dataclass(frozen=True)
class InstantInfo(AvroRecord):
    """HoodieInstantInfo: an instant without its state; the action as the timeline's file names have it."""

    time: InstantTime = field(metadata=avro("commitTime", check=instant_time))
    action: str

    @classmethod
    def of(cls, instant: Instant) -> InstantInfo:
        return cls(instant.time, instant.action.value)

    @property
    def known_action(self) -> Action:
        return Action(self.action)


@dataclass(frozen=True)
class RollbackRequest(AvroRecord):
    """What a rollback does in one partition (HoodieRollbackRequest).

    `files_to_delete` are full paths. `log_blocks_to_delete` maps a log file's name or URI to its size; a
    command block that voids its blocks goes to the slice (`file_id`, `latest_base_instant`). Texts are ""
    where a plan names nothing; None is what older writers left.
    """

    partition_path: str = field(metadata=avro(check=relative_path))
    file_id: str | None = field(default="", metadata=avro(check=file_id))
    latest_base_instant: InstantTime | None = field(default=NO_TIME, metadata=avro(check=instant_time))
    files_to_delete: tuple[str, ...] = field(
        default=(), metadata=avro("filesToBeDeleted", check=each(file_name))
    )
    log_blocks_to_delete: Mapping[str, int] | None = field(
        default_factory=dict, metadata=avro("logBlocksToBeDeleted", check=each(file_name))
    )


@dataclass(frozen=True)
class RollbackPlan(AvroFile):
    """`X.rollback.requested` (HoodieRollbackPlan): which instant, and what to undo."""

    model = "HoodieRollbackPlan"

    instant: InstantInfo | None = field(metadata=avro("instantToRollback"))
    requests: tuple[RollbackRequest, ...] = field(default=(), metadata=avro("RollbackRequests"))
    version: int | None = 1


@dataclass(frozen=True)
class RollbackPartition(AvroRecord):
    """What a rollback did in one partition (HoodieRollbackPartitionMetadata); log files map to sizes."""

    partition_path: str
    deleted: tuple[str, ...] = field(default=(), metadata=avro("successDeleteFiles"))
    failed: tuple[str, ...] = field(default=(), metadata=avro("failedDeleteFiles"))
    rollback_log_files: Mapping[str, int] | None = field(default_factory=dict)
    failed_commit_log_files: Mapping[str, int] | None = field(
        default_factory=dict, metadata=avro("logFilesFromFailedCommit")
    )


@dataclass(frozen=True)
class RollbackMetadata(AvroFile):
    """`X.rollback` (HoodieRollbackMetadata): what was rolled back, by partition path.

    `lost`: what is known of the rows of the one instant, for people; it is kept beside the record, and not
    read back with it.
    """

    model = "HoodieRollbackMetadata"

    start_time: InstantTime = field(metadata=avro("startRollbackTime"))
    duration_ms: int = field(metadata=avro("timeTakenInMillis"))
    total_files_deleted: int
    instants: tuple[InstantInfo, ...] = field(metadata=avro("instantsRollback"))
    partitions: Mapping[str, RollbackPartition] = field(
        default_factory=dict, metadata=avro("partitionMetadata")
    )
    #: times of `instants`; Hudi writes both
    commits: tuple[InstantTime, ...] = field(default=(), metadata=avro("commitsRollback"))
    version: int | None = 1
    lost: RolledBackCommit | None = field(default=None, compare=False, metadata=NOT_STORED)

    @classmethod
    def of(
        cls,
        start_time: InstantTime,
        duration_ms: int,
        target: InstantInfo,
        partitions: Mapping[str, RollbackPartition],
        lost: RolledBackCommit | None = None,
    ) -> RollbackMetadata:
        """The metadata of a rollback of one instant; the number of deleted files is counted here."""
        deleted = sum(len(item.deleted) for item in partitions.values())
        return cls(start_time, duration_ms, deleted, (target,), dict(partitions), (target.time,), lost=lost)

    @property
    def header(self) -> Mapping[str, str]:
        return {TAKEN_BACK_KEY: self.lost.to_text()} if self.lost else {}
