"""Compaction plans as the timeline stores them (format.md 3.4, 13.4; Apache Hudi 0.15.0 and 1.x).

Log compactions have the same plan. Importing this module needs the standard library only; reading and writing
bytes needs fastavro.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hoodie.format.names import instant_time
from hoodie.timeline.models.mapper import AvroFile, AvroRecord, avro
from hoodie.timeline.models.planned_files import PlannedFiles
from hoodie.timeline.time import NO_TIME, InstantTime

#: plans of version 1 hold absolute paths, those of version 2 bare names
PLAN_VERSION = 2

TOTAL_LOG_FILES = "TOTAL_LOG_FILES"
TOTAL_LOG_FILES_SIZE = "TOTAL_LOG_FILES_SIZE"
TOTAL_IO_READ_MB = "TOTAL_IO_READ_MB"
TOTAL_IO_WRITE_MB = "TOTAL_IO_WRITE_MB"
TOTAL_IO_MB = "TOTAL_IO_MB"


@dataclass(frozen=True)
class CompactionOperation(PlannedFiles, AvroRecord):
    """One file slice to be compacted (HoodieCompactionOperation).

    `base_instant` is the slice's; `data_file` is None where it has no base file. `log_files` are in the order
    in which they are read. Use `base_name` and `log_names`: the fields are as the plan has them.
    """

    partition_path: str = field(metadata=avro(null=""))
    file_id: str
    base_instant: InstantTime = field(metadata=avro("baseInstantTime", check=instant_time, null=NO_TIME))
    data_file: str | None = field(default=None, metadata=avro("dataFilePath"))
    log_files: tuple[str, ...] = field(default=(), metadata=avro("deltaFilePaths"))
    metrics: Mapping[str, float] | None = field(default_factory=dict)
    bootstrap_file: str | None = field(default=None, metadata=avro("bootstrapFilePath"))

    def metric(self, name: str) -> float:
        """Zero where the plan does not say."""
        return (self.metrics or {}).get(name, 0.0)


@dataclass(frozen=True)
class PlannedStrategy(AvroRecord):
    """How a plan asks to be executed (HoodieCompactionStrategy): log compactions name their executor."""

    compactor_class: str | None = field(default=None, metadata=avro("compactorClassName"))
    params: Mapping[str, str] | None = field(default=None, metadata=avro("strategyParams"))
    version: int | None = 1


@dataclass(frozen=True)
class CompactionPlan(AvroFile):
    """`C.compaction.requested` (HoodieCompactionPlan). What newer releases add is dropped on reading."""

    model = "HoodieCompactionPlan"

    operations: tuple[CompactionOperation, ...]
    extra_metadata: Mapping[str, str] | None = None
    version: int | None = PLAN_VERSION
    strategy: PlannedStrategy | None = None
    preserve_metadata: bool | None = field(default=False, metadata=avro("preserveHoodieMetadata"))

    @property
    def partitions(self) -> list[str]:
        return sorted({operation.partition_path for operation in self.operations})
