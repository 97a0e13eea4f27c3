"""What a commit says beside the statistics of its files, which are nearly all of a large one.

Standard library only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hoodie.format.names import file_id, relative_path

#: extra metadata key of the writer's Avro schema, without meta columns
SCHEMA_KEY = "schema"
#: operations of services that write rows of the table anew
REWRITES = frozenset({"COMPACT", "LOG_COMPACT", "CLUSTER"})
#: operations whose `schema` is not the table's (format.md 3.1)
KEEPS_SCHEMA = REWRITES | {"INDEX"}
#: key of the file groups that a commit replaced
REPLACED = "partitionToReplaceFileIds"
#: what an error calls a partition path
PARTITION = "partition of a commit"


@dataclass(frozen=True)
class CommitHead:
    """What a commit says beside the statistics of its files.

    `replaced` are the file ids that stop being visible, by partition path. `first_file_id` is that of the
    first file that it names, "" of one without; None where it names none.
    """

    operation_type: str = "UNKNOWN"
    extra_metadata: Mapping[str, str | None] = field(default_factory=dict)
    replaced: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    first_file_id: str | None = None

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> CommitHead:
        """An object with Hudi's keys -> all but the first file. Raises TypeError, AttributeError, TableError
        for values of other types.
        """
        groups = value.get(REPLACED) or {}
        return cls(
            operation_type=str(value.get("operationType") or "UNKNOWN"),
            extra_metadata=_texts(value.get("extraMetadata") or {}),
            replaced={relative_path(partition, PARTITION): _ids(ids) for partition, ids in groups.items()},
        )

    @property
    def size(self) -> int:
        """Characters of its texts."""
        texts = (text or "" for text in self.extra_metadata.values())
        return sum(map(len, texts)) + sum(len(text) for ids in self.replaced.values() for text in ids)

    def schema_text(self) -> str | None:
        """The Avro schema this commit gives the table; None when it says nothing about the table's schema.

        May contain meta columns (delete_partition and ALTER of Hudi 0.15 store them).
        """
        if self.operation_type in KEEPS_SCHEMA:
            return None
        return self.extra_metadata.get(SCHEMA_KEY) or None


def _texts(value: Mapping[str, Any]) -> dict[str, str | None]:
    found = dict(value.items())
    for name, text in found.items():
        if not isinstance(text, (str, type(None))):
            raise TypeError(f"extra metadata {name[:100]!r} is no text")
    return found


def _ids(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise TypeError("the replaced file groups of a partition are no list")
    return tuple(file_id(item, "replaced file id") for item in value)
