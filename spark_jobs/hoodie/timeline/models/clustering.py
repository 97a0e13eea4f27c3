"""Clustering plans as the timeline stores them (format.md 3.4, 13.5; Apache Hudi 0.15.0 and 1.x).

A plan is part of the requested file of a replacecommit. Importing this module needs the standard library
only; reading and writing bytes needs fastavro.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from hoodie.timeline.models.mapper import NOT_STORED, AvroFile, AvroRecord, avro
from hoodie.timeline.models.planned_files import PlannedFiles

#: Hudi's WriteOperationType of a clustering
OPERATION = "CLUSTER"


@dataclass(frozen=True)
class SliceInfo(PlannedFiles, AvroRecord):
    """One file slice whose rows are rewritten (HoodieSliceInfo).

    Paths are as the plan has them, absolute, with or without a scheme; use `base_name` and `log_names`, since
    a copied table is elsewhere. `data_file` is "" (or None) where the slice has no base file.
    """

    partition_path: str = field(metadata=avro(null=""))
    file_id: str
    data_file: str | None = field(default="", metadata=avro("dataFilePath"))
    log_files: tuple[str, ...] = field(default=(), metadata=avro("deltaFilePaths"))
    bootstrap_file: str | None = field(default="", metadata=avro("bootstrapFilePath"))
    version: int | None = 1


@dataclass(frozen=True)
class ClusteringGroup(AvroRecord):
    """Slices whose rows are sorted together and cut into `outputs` new files (HoodieClusteringGroup)."""

    slices: tuple[SliceInfo, ...]
    outputs: int = field(default=1, metadata=avro("numOutputFileGroups", null=1))
    metrics: Mapping[str, float] | None = field(default_factory=dict)
    extra_metadata: Mapping[str, str] | None = None
    version: int | None = 1

    def metric(self, name: str) -> float:
        """Zero where the plan does not say."""
        return (self.metrics or {}).get(name, 0.0)


@dataclass(frozen=True)
class ClusteringPlan(AvroRecord):
    """HoodieClusteringPlan. `strategy_class` executes it with `params`; what newer releases add is
    dropped.
    """

    groups: tuple[ClusteringGroup, ...] = field(metadata=avro("inputGroups"))
    strategy_class: str | None = field(default=None, metadata=NOT_STORED)
    params: Mapping[str, str] = field(default_factory=dict, metadata=NOT_STORED)
    preserve_metadata: bool | None = field(default=True, metadata=avro("preserveHoodieMetadata"))
    extra_metadata: Mapping[str, str] | None = field(default_factory=dict)
    version: int | None = 1

    @property
    def slices(self) -> list[SliceInfo]:
        return [item for group in self.groups for item in group.slices]

    @property
    def partitions(self) -> list[str]:
        return sorted({item.partition_path for item in self.slices})

    def to_record(self) -> dict[str, Any]:
        strategy = {
            "strategyClassName": self.strategy_class,
            "strategyParams": dict(self.params),
            "version": 1,
        }
        return {**super().to_record(), "strategy": strategy}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> ClusteringPlan:
        strategy = record["strategy"] or {}
        return replace(
            super().from_record(record),
            strategy_class=strategy.get("strategyClassName"),
            params=dict(strategy.get("strategyParams") or {}),
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
