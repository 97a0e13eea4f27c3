"""Clustering plans as the timeline stores them (format.md 3.4, 13.5; Apache Hudi 0.15.0 and 1.x).

A plan is part of the requested file of a replacecommit (timeline.plans.RequestedReplace). Stdlib only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hoodie.timeline.plans import PlannedFiles

#: Hudi's WriteOperationType of a clustering
OPERATION = "CLUSTER"


@dataclass(frozen=True)
class SliceInfo(PlannedFiles):
    """One file slice whose rows are rewritten (HoodieSliceInfo).

    Paths are as the plan has them, absolute, with or without a scheme; use `base_name` and `log_names`, since
    a copied table is elsewhere. `data_file` is "" (or None) where the slice has no base file.
    """

    partition_path: str
    file_id: str
    data_file: str | None = ""
    log_files: tuple[str, ...] = ()
    bootstrap_file: str | None = ""
    version: int | None = 1

    def to_record(self) -> dict[str, Any]:
        return {
            "dataFilePath": self.data_file,
            "deltaFilePaths": list(self.log_files),
            "fileId": self.file_id,
            "partitionPath": self.partition_path,
            "bootstrapFilePath": self.bootstrap_file,
            "version": self.version,
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> SliceInfo:
        return cls(
            partition_path=record["partitionPath"] or "",
            file_id=record["fileId"],
            data_file=record["dataFilePath"],
            log_files=tuple(record["deltaFilePaths"] or ()),
            bootstrap_file=record["bootstrapFilePath"],
            version=record["version"],
        )


@dataclass(frozen=True)
class ClusteringGroup:
    """Slices whose rows are sorted together and cut into `outputs` new files (HoodieClusteringGroup)."""

    slices: tuple[SliceInfo, ...]
    outputs: int = 1
    metrics: Mapping[str, float] | None = field(default_factory=dict)
    extra_metadata: Mapping[str, str] | None = None
    version: int | None = 1

    def metric(self, name: str) -> float:
        """Zero where the plan does not say."""
        return (self.metrics or {}).get(name, 0.0)

    def to_record(self) -> dict[str, Any]:
        return {
            "slices": [item.to_record() for item in self.slices],
            "metrics": None if self.metrics is None else dict(self.metrics),
            "numOutputFileGroups": self.outputs,
            "extraMetadata": None if self.extra_metadata is None else dict(self.extra_metadata),
            "version": self.version,
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> ClusteringGroup:
        return cls(
            tuple(SliceInfo.from_record(item) for item in record["slices"] or ()),
            record["numOutputFileGroups"] or 1,
            record["metrics"],
            record["extraMetadata"],
            record["version"],
        )


@dataclass(frozen=True)
class ClusteringPlan:
    """HoodieClusteringPlan. `strategy_class` executes it with `params`; what newer releases add is
    dropped.
    """

    groups: tuple[ClusteringGroup, ...]
    strategy_class: str | None
    params: Mapping[str, str] = field(default_factory=dict)
    preserve_metadata: bool | None = True
    extra_metadata: Mapping[str, str] | None = field(default_factory=dict)
    version: int | None = 1

    @property
    def slices(self) -> list[SliceInfo]:
        return [item for group in self.groups for item in group.slices]

    @property
    def partitions(self) -> list[str]:
        return sorted({item.partition_path for item in self.slices})

    def to_record(self) -> dict[str, Any]:
        return {
            "inputGroups": [group.to_record() for group in self.groups],
            "strategy": {
                "strategyClassName": self.strategy_class,
                "strategyParams": dict(self.params),
                "version": 1,
            },
            "extraMetadata": None if self.extra_metadata is None else dict(self.extra_metadata),
            "version": self.version,
            "preserveHoodieMetadata": self.preserve_metadata,
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> ClusteringPlan:
        strategy = record["strategy"] or {}
        return cls(
            tuple(ClusteringGroup.from_record(item) for item in record["inputGroups"] or ()),
            strategy.get("strategyClassName"),
            dict(strategy.get("strategyParams") or {}),
            record["preserveHoodieMetadata"],
            record["extraMetadata"],
            record["version"],
        )
