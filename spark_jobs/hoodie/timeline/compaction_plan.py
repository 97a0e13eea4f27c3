"""Compaction plans as the timeline stores them (format.md 3.4, 13.4; Apache Hudi 0.15.0 and 1.x).

Log compactions have the same plan. Importing this module needs the standard library only; reading and writing
bytes needs fastavro.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hoodie.format.instant_time import InstantTime
from hoodie.format.names import instant_time
from hoodie.timeline.plans import AvroFile, PlannedFiles

#: plans of version 1 hold absolute paths, those of version 2 bare names
PLAN_VERSION = 2

TOTAL_LOG_FILES = "TOTAL_LOG_FILES"
TOTAL_LOG_FILES_SIZE = "TOTAL_LOG_FILES_SIZE"
TOTAL_IO_READ_MB = "TOTAL_IO_READ_MB"
TOTAL_IO_WRITE_MB = "TOTAL_IO_WRITE_MB"
TOTAL_IO_MB = "TOTAL_IO_MB"


@dataclass(frozen=True)
class CompactionOperation(PlannedFiles):
    """One file slice to be compacted (HoodieCompactionOperation).

    `base_instant` is the slice's; `data_file` is None where it has no base file. `log_files` are in the order
    in which they are read. Use `base_name` and `log_names`: the fields are as the plan has them.
    """

    partition_path: str
    file_id: str
    base_instant: InstantTime
    data_file: str | None = None
    log_files: tuple[str, ...] = ()
    metrics: Mapping[str, float] | None = field(default_factory=dict)
    bootstrap_file: str | None = None

    def metric(self, name: str) -> float:
        """Zero where the plan does not say."""
        return (self.metrics or {}).get(name, 0.0)

    def to_record(self) -> dict[str, Any]:
        return {
            "baseInstantTime": self.base_instant,
            "deltaFilePaths": list(self.log_files),
            "dataFilePath": self.data_file,
            "fileId": self.file_id,
            "partitionPath": self.partition_path,
            "metrics": None if self.metrics is None else dict(self.metrics),
            "bootstrapFilePath": self.bootstrap_file,
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> CompactionOperation:
        return cls(
            partition_path=record["partitionPath"] or "",
            file_id=record["fileId"],
            base_instant=instant_time(record["baseInstantTime"], "baseInstantTime"),
            data_file=record["dataFilePath"],
            log_files=tuple(record["deltaFilePaths"] or ()),
            metrics=record["metrics"],
            bootstrap_file=record["bootstrapFilePath"],
        )


@dataclass(frozen=True)
class PlannedStrategy:
    """How a plan asks to be executed (HoodieCompactionStrategy): log compactions name their executor."""

    compactor_class: str | None = None
    params: Mapping[str, str] | None = None
    version: int | None = 1

    def to_record(self) -> dict[str, Any]:
        return {
            "compactorClassName": self.compactor_class,
            "strategyParams": None if self.params is None else dict(self.params),
            "version": self.version,
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> PlannedStrategy:
        return cls(record["compactorClassName"], record["strategyParams"], record["version"])


@dataclass(frozen=True)
class CompactionPlan(AvroFile):
    """`C.compaction.requested` (HoodieCompactionPlan). What newer releases add is dropped on reading."""

    model = "HoodieCompactionPlan"

    operations: tuple[CompactionOperation, ...]
    extra_metadata: Mapping[str, str] | None = None
    version: int | None = PLAN_VERSION
    strategy: PlannedStrategy | None = None
    preserve_metadata: bool | None = False

    @property
    def partitions(self) -> list[str]:
        return sorted({operation.partition_path for operation in self.operations})

    def to_record(self) -> dict[str, Any]:
        return {
            "operations": [operation.to_record() for operation in self.operations],
            "extraMetadata": None if self.extra_metadata is None else dict(self.extra_metadata),
            "version": self.version,
            "strategy": None if self.strategy is None else self.strategy.to_record(),
            "preserveHoodieMetadata": self.preserve_metadata,
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> CompactionPlan:
        strategy = record["strategy"]
        return cls(
            tuple(CompactionOperation.from_record(item) for item in record["operations"] or ()),
            record["extraMetadata"],
            record["version"],
            None if strategy is None else PlannedStrategy.from_record(strategy),
            record["preserveHoodieMetadata"],
        )
