"""Plans and results of restores as the timeline stores them (format.md 3.4, 13.7).

`X.restore.requested` holds the plan, `X.restore` the result. Importing this module needs the standard library
only; reading and writing bytes needs fastavro.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hoodie.format.instant_time import InstantTime
from hoodie.format.names import instant_time
from hoodie.timeline.plans import AvroFile, InstantInfo, RollbackMetadata

#: of plans; version 1 does not name the savepoint
VERSION = 2


@dataclass(frozen=True)
class RestorePlan(AvroFile):
    """What a restore takes back (HoodieRestorePlan): `instants` in the order of their rollbacks, newest first
    after pending clusterings. `point` is the commit that is the newest afterwards, None in version 1.
    """

    model = "HoodieRestorePlan"

    instants: tuple[InstantInfo, ...] = ()
    point: InstantTime | None = None
    version: int | None = VERSION

    def to_record(self) -> dict[str, Any]:
        return {
            "instantsToRollback": [instant.to_record() for instant in self.instants],
            "version": self.version,
            "savepointToRestoreTimestamp": self.point,
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> RestorePlan:
        return cls(
            tuple(InstantInfo.from_record(item) for item in record["instantsToRollback"]),
            instant_time(record["savepointToRestoreTimestamp"], "savepointToRestoreTimestamp") or None,
            record["version"],
        )


@dataclass(frozen=True)
class RestoreMetadata(AvroFile):
    """What a restore did (HoodieRestoreMetadata): `rollbacks` by the time of the instant taken back."""

    model = "HoodieRestoreMetadata"

    start_time: InstantTime
    duration_ms: int
    instants: tuple[InstantInfo, ...]
    rollbacks: Mapping[str, tuple[RollbackMetadata, ...]] = field(default_factory=dict)
    version: int | None = 1

    @property
    def total_files_deleted(self) -> int:
        return sum(item.total_files_deleted for group in self.rollbacks.values() for item in group)

    def to_record(self) -> dict[str, Any]:
        return {
            "startRestoreTime": self.start_time,
            "timeTakenInMillis": self.duration_ms,
            "instantsToRollback": [instant.time for instant in self.instants],
            "hoodieRestoreMetadata": {
                time: [item.to_record() for item in group] for time, group in self.rollbacks.items()
            },
            "version": self.version,
            "restoreInstantInfo": [instant.to_record() for instant in self.instants],
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> RestoreMetadata:
        rollbacks = {
            time: tuple(RollbackMetadata.from_record(item) for item in group if item is not None)
            for time, group in record["hoodieRestoreMetadata"].items()
        }
        return cls(
            record["startRestoreTime"],
            record["timeTakenInMillis"],
            tuple(InstantInfo.from_record(item) for item in record["restoreInstantInfo"]),
            rollbacks,
            record["version"],
        )
