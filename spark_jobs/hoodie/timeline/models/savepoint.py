"""`T.savepoint`: which files of the commit T are kept, whatever the cleaner's settings are (format.md 3.4).

Importing this module needs the standard library only; reading and writing bytes needs fastavro.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from hoodie.format.names import relative_path
from hoodie.timeline.models.mapper import NOT_STORED, AvroFile, avro


@dataclass(frozen=True)
class SavepointMetadata(AvroFile):
    """HoodieSavepointMetadata. `files` are names by partition path, of a file slice the base file first and
    then its logs, newest first. `at_ms` is epoch milliseconds.
    """

    model = "HoodieSavepointMetadata"

    user: str = field(metadata=avro("savepointedBy"))
    at_ms: int = field(metadata=avro("savepointedAt"))
    comments: str
    files: Mapping[str, tuple[str, ...]] = field(default_factory=dict, metadata=NOT_STORED)
    version: int | None = 1

    @property
    def num_files(self) -> int:
        return sum(map(len, self.files.values()))

    def to_record(self) -> dict[str, Any]:
        files = {
            partition: {"partitionPath": partition, "savepointDataFile": list(names)}
            for partition, names in self.files.items()
        }
        return {**super().to_record(), "partitionMetadata": files}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> SavepointMetadata:
        files = {
            relative_path(partition, "partition of a savepoint"): tuple(item["savepointDataFile"])
            for partition, item in record["partitionMetadata"].items()
        }
        return replace(super().from_record(record), files=files)
