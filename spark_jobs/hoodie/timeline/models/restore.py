"""Plans and results of restores as the timeline stores them (format.md 3.4, 13.7).

`X.restore.requested` holds the plan, `X.restore` the result. Importing this module needs the standard library
only; reading and writing bytes needs fastavro.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hoodie.format.names import instant_time
from hoodie.timeline.models.mapper import AvroFile, avro
from hoodie.timeline.models.rollback import InstantInfo, RollbackMetadata
from hoodie.timeline.time import InstantTime

#: of plans; version 1 does not name the savepoint
VERSION = 2


@dataclass(frozen=True)
class RestorePlan(AvroFile):
    """What a restore takes back (HoodieRestorePlan): `instants` in the order of their rollbacks, newest first
    after pending clusterings. `point` is the commit that is the newest afterwards, None in version 1.
    """

    model = "HoodieRestorePlan"

    instants: tuple[InstantInfo, ...] = field(default=(), metadata=avro("instantsToRollback"))
    point: InstantTime | None = field(
        default=None, metadata=avro("savepointToRestoreTimestamp", check=instant_time, null=None)
    )
    version: int | None = VERSION


@dataclass(frozen=True)
class RestoreMetadata(AvroFile):
    """What a restore did (HoodieRestoreMetadata): `rollbacks` by the time of the instant taken back."""

    model = "HoodieRestoreMetadata"

    start_time: InstantTime = field(metadata=avro("startRestoreTime"))
    duration_ms: int = field(metadata=avro("timeTakenInMillis"))
    instants: tuple[InstantInfo, ...] = field(metadata=avro("restoreInstantInfo"))
    rollbacks: Mapping[str, tuple[RollbackMetadata, ...]] = field(
        default_factory=dict, metadata=avro("hoodieRestoreMetadata")
    )
    version: int | None = 1

    @property
    def total_files_deleted(self) -> int:
        return sum(item.total_files_deleted for group in self.rollbacks.values() for item in group)

    def to_record(self) -> dict[str, Any]:
        times = [str(instant.time) for instant in self.instants]
        return {**super().to_record(), "instantsToRollback": times}
