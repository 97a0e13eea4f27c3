"""Which indexes of the metadata table an `indexing` instant builds (format.md 3.4; Apache Hudi 0.15.0).

`T.indexing.requested` has the plan, `T.indexing` what was built; `T.indexing.inflight` is empty. Importing
this module needs the standard library only; reading and writing bytes needs fastavro.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hoodie.format.instant_time import InstantTime
from hoodie.format.names import instant_time, relative_path
from hoodie.timeline.plans import AvroFile


@dataclass(frozen=True)
class IndexTarget:
    """One index: a partition of the metadata table. `upto`: the instant up to which it is, or was, built."""

    index: str
    upto: InstantTime
    version: int | None = 1

    def to_record(self) -> dict[str, Any]:
        return {
            "version": self.version,
            "metadataPartitionPath": self.index,
            "indexUptoInstant": self.upto,
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> IndexTarget:
        return cls(
            relative_path(record["metadataPartitionPath"], "metadataPartitionPath"),
            instant_time(record["indexUptoInstant"], "indexUptoInstant"),
            record["version"],
        )


@dataclass(frozen=True)
class IndexPlan(AvroFile):
    """HoodieIndexPlan."""

    model = "HoodieIndexPlan"

    targets: tuple[IndexTarget, ...] = ()
    version: int | None = 1

    @property
    def indexes(self) -> tuple[str, ...]:
        return tuple(target.index for target in self.targets)

    def to_record(self) -> dict[str, Any]:
        return {
            "version": self.version,
            "indexPartitionInfos": [target.to_record() for target in self.targets],
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> IndexPlan:
        return cls(_targets(record), record["version"])


@dataclass(frozen=True)
class IndexMetadata(AvroFile):
    """HoodieIndexCommitMetadata."""

    model = "HoodieIndexCommitMetadata"

    targets: tuple[IndexTarget, ...] = ()
    operation: str | None = None
    version: int | None = 1

    def to_record(self) -> dict[str, Any]:
        return {
            "version": self.version,
            "operationType": self.operation,
            "indexPartitionInfos": [target.to_record() for target in self.targets],
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> IndexMetadata:
        return cls(_targets(record), record["operationType"], record["version"])


def _targets(record: Mapping[str, Any]) -> tuple[IndexTarget, ...]:
    return tuple(IndexTarget.from_record(item) for item in record["indexPartitionInfos"] or ())
