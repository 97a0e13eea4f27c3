"""Which indexes of the metadata table an `indexing` instant builds (format.md 3.4; Apache Hudi 0.15.0).

`T.indexing.requested` has the plan, `T.indexing` what was built; `T.indexing.inflight` is empty. Importing
this module needs the standard library only; reading and writing bytes needs fastavro.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hoodie.format.names import instant_time, relative_path
from hoodie.timeline.models.mapper import AvroFile, AvroRecord, avro
from hoodie.timeline.time import NO_TIME, InstantTime


@dataclass(frozen=True)
class IndexTarget(AvroRecord):
    """One index: a partition of the metadata table. `upto`: the instant up to which it is, or was, built."""

    index: str = field(metadata=avro("metadataPartitionPath", check=relative_path))
    upto: InstantTime = field(metadata=avro("indexUptoInstant", check=instant_time, null=NO_TIME))
    version: int | None = 1


@dataclass(frozen=True)
class IndexPlan(AvroFile):
    """HoodieIndexPlan."""

    model = "HoodieIndexPlan"

    targets: tuple[IndexTarget, ...] = field(default=(), metadata=avro("indexPartitionInfos"))
    version: int | None = 1

    @property
    def indexes(self) -> tuple[str, ...]:
        return tuple(target.index for target in self.targets)


@dataclass(frozen=True)
class IndexMetadata(AvroFile):
    """HoodieIndexCommitMetadata."""

    model = "HoodieIndexCommitMetadata"

    targets: tuple[IndexTarget, ...] = field(default=(), metadata=avro("indexPartitionInfos"))
    operation: str | None = field(default=None, metadata=avro("operationType"))
    version: int | None = 1
