"""Plans and results of table services as the timeline stores them (format.md 3.4).

Each value knows its Avro record (`to_record`, `from_record`); the whole files are made and read by
`to_bytes` and `from_bytes`. Importing this module needs the standard library only; reading and writing
bytes needs fastavro.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

from hoodie.format.instant_time import InstantTime
from hoodie.format.names import file_id, file_name, instant_time, relative_path
from hoodie.timeline.instant import Action, Instant
from hoodie.timeline.taken_back import TAKEN_BACK_KEY, TakenBack
from hoodie.timeline.time import NO_TIME

P = TypeVar("P", bound="AvroFile")


class AvroFile:
    """Mixin of a value that is the one record of a timeline file."""

    #: short name of the Avro model
    model: ClassVar[str]

    def to_record(self) -> dict[str, Any]:
        raise NotImplementedError

    @classmethod
    def from_record(cls: type[P], record: Mapping[str, Any]) -> P:
        raise NotImplementedError

    @property
    def header(self) -> Mapping[str, str]:
        """Texts beside the record, which Apache Hudi passes over."""
        return {}

    def to_bytes(self) -> bytes:
        """Content of the timeline file. Raises ValueError when a field has a wrong type."""
        from hoodie.codec.avro import write_record

        return write_record(self.model, self.to_record(), self.header)

    @classmethod
    def from_bytes(cls: type[P], data: bytes) -> P:
        """Raises TableError when `data` is torn or another model's."""
        from hoodie.codec.avro import read_record

        return cls.from_record(read_record(cls.model, data))


@dataclass(frozen=True)
class InstantInfo:
    """HoodieInstantInfo: an instant without its state; the action as the timeline's file names have it."""

    time: InstantTime
    action: str

    @classmethod
    def of(cls, instant: Instant) -> InstantInfo:
        return cls(instant.time, instant.action.value)

    @property
    def known_action(self) -> Action:
        return Action(self.action)

    def to_record(self) -> dict[str, Any]:
        return {"commitTime": self.time, "action": self.action}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> InstantInfo:
        return cls(instant_time(record["commitTime"], "commitTime"), record["action"])


@dataclass(frozen=True)
class RollbackRequest:
    """What a rollback does in one partition (HoodieRollbackRequest).

    `files_to_delete` are full paths. `log_blocks_to_delete` maps a log file's name or URI to its size; a
    command block that voids its blocks goes to the slice (`file_id`, `latest_base_instant`). Texts are ""
    where a plan names nothing; None is what older writers left.
    """

    partition_path: str
    file_id: str | None = ""
    latest_base_instant: InstantTime | None = NO_TIME
    files_to_delete: tuple[str, ...] = ()
    log_blocks_to_delete: Mapping[str, int] | None = field(default_factory=dict)

    def to_record(self) -> dict[str, Any]:
        return {
            "partitionPath": self.partition_path,
            "fileId": self.file_id,
            "latestBaseInstant": self.latest_base_instant,
            "filesToBeDeleted": list(self.files_to_delete),
            "logBlocksToBeDeleted": _plain(self.log_blocks_to_delete),
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> RollbackRequest:
        deleted, blocks = record["filesToBeDeleted"], record["logBlocksToBeDeleted"]
        for path in (*deleted, *(blocks or ())):
            file_name(path, "file of a rollback")
        file_id(record["fileId"], "fileId")
        base = record["latestBaseInstant"]
        base_instant = instant_time(base, "latestBaseInstant")
        return cls(
            relative_path(record["partitionPath"], "partitionPath"),
            record["fileId"],
            None if base is None else base_instant,
            tuple(deleted),
            _plain(blocks),
        )


@dataclass(frozen=True)
class RollbackPlan(AvroFile):
    """`X.rollback.requested` (HoodieRollbackPlan): which instant, and what to undo."""

    model = "HoodieRollbackPlan"

    instant: InstantInfo | None
    requests: tuple[RollbackRequest, ...] = ()
    version: int | None = 1

    def to_record(self) -> dict[str, Any]:
        return {
            "instantToRollback": self.instant.to_record() if self.instant else None,
            "RollbackRequests": [request.to_record() for request in self.requests],
            "version": self.version,
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> RollbackPlan:
        target = record["instantToRollback"]
        requests = record["RollbackRequests"] or ()
        return cls(
            InstantInfo.from_record(target) if target else None,
            tuple(RollbackRequest.from_record(item) for item in requests),
            record["version"],
        )


@dataclass(frozen=True)
class RollbackPartition:
    """What a rollback did in one partition (HoodieRollbackPartitionMetadata); log files map to sizes."""

    partition_path: str
    deleted: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    rollback_log_files: Mapping[str, int] | None = field(default_factory=dict)
    failed_commit_log_files: Mapping[str, int] | None = field(default_factory=dict)

    def to_record(self) -> dict[str, Any]:
        return {
            "partitionPath": self.partition_path,
            "successDeleteFiles": list(self.deleted),
            "failedDeleteFiles": list(self.failed),
            "rollbackLogFiles": _plain(self.rollback_log_files),
            "logFilesFromFailedCommit": _plain(self.failed_commit_log_files),
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> RollbackPartition:
        return cls(
            record["partitionPath"],
            tuple(record["successDeleteFiles"]),
            tuple(record["failedDeleteFiles"]),
            _plain(record["rollbackLogFiles"]),
            _plain(record["logFilesFromFailedCommit"]),
        )


@dataclass(frozen=True)
class RollbackMetadata(AvroFile):
    """`X.rollback` (HoodieRollbackMetadata): what was rolled back, by partition path.

    `lost`: what is known of the rows of the one instant, for people; it is kept beside the record, and not
    read back with it.
    """

    model = "HoodieRollbackMetadata"

    start_time: InstantTime
    duration_ms: int
    total_files_deleted: int
    instants: tuple[InstantInfo, ...]
    partitions: Mapping[str, RollbackPartition] = field(default_factory=dict)
    #: times of `instants`; Hudi writes both
    commits: tuple[InstantTime, ...] = ()
    version: int | None = 1
    lost: TakenBack | None = field(default=None, compare=False)

    @classmethod
    def of(
        cls,
        start_time: InstantTime,
        duration_ms: int,
        target: InstantInfo,
        partitions: Mapping[str, RollbackPartition],
        lost: TakenBack | None = None,
    ) -> RollbackMetadata:
        """The metadata of a rollback of one instant; the number of deleted files is counted here."""
        deleted = sum(len(item.deleted) for item in partitions.values())
        return cls(start_time, duration_ms, deleted, (target,), dict(partitions), (target.time,), lost=lost)

    @property
    def header(self) -> Mapping[str, str]:
        return {TAKEN_BACK_KEY: self.lost.to_text()} if self.lost else {}

    def to_record(self) -> dict[str, Any]:
        return {
            "startRollbackTime": self.start_time,
            "timeTakenInMillis": self.duration_ms,
            "totalFilesDeleted": self.total_files_deleted,
            "commitsRollback": list(self.commits),
            "partitionMetadata": {path: item.to_record() for path, item in self.partitions.items()},
            "version": self.version,
            "instantsRollback": [instant.to_record() for instant in self.instants],
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> RollbackMetadata:
        partitions = record["partitionMetadata"].items()
        return cls(
            start_time=record["startRollbackTime"],
            duration_ms=record["timeTakenInMillis"],
            total_files_deleted=record["totalFilesDeleted"],
            instants=tuple(InstantInfo.from_record(item) for item in record["instantsRollback"]),
            partitions={path: RollbackPartition.from_record(item) for path, item in partitions},
            commits=tuple(record["commitsRollback"]),
            version=record["version"],
        )


@dataclass(frozen=True)
class RequestedReplace(AvroFile):
    """`T.replacecommit.requested` (HoodieRequestedReplaceMetadata). That of a write holds nothing but nulls,
    as Apache Hudi makes it; a clustering's has the operation type CLUSTER and the plan, a
    HoodieClusteringPlan record.
    """

    model = "HoodieRequestedReplaceMetadata"

    operation_type: str | None = None
    clustering_plan: Mapping[str, Any] | None = None
    extra_metadata: Mapping[str, str] | None = None
    version: int | None = None

    def to_record(self) -> dict[str, Any]:
        return {
            "operationType": self.operation_type,
            "clusteringPlan": self.clustering_plan,
            "extraMetadata": self.extra_metadata,
            "version": self.version,
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> RequestedReplace:
        return cls(
            record["operationType"], record["clusteringPlan"], record["extraMetadata"], record["version"]
        )


def _plain(value: Mapping[str, int] | None) -> dict[str, int] | None:
    return None if value is None else dict(value)


class PlannedFiles:
    """Of a plan's file slice: its names in the partition's folder, where the plan may have whole paths.

    Raises TableError for a slice that is not in the table.
    """

    partition_path: str
    file_id: str
    data_file: str | None
    log_files: tuple[str, ...]

    def __post_init__(self) -> None:
        relative_path(self.partition_path, "partitionPath")
        file_id(self.file_id, "fileId")
        for path in (self.data_file, *self.log_files):
            if path:
                file_name(path, "file of a slice")

    @property
    def group(self) -> tuple[str, str]:
        return self.partition_path, self.file_id

    @property
    def base_name(self) -> str | None:
        return _bare(self.data_file) if self.data_file else None

    @property
    def log_names(self) -> tuple[str, ...]:
        return tuple(map(_bare, self.log_files))


def _bare(path: str) -> str:
    return path.rpartition("/")[2]
