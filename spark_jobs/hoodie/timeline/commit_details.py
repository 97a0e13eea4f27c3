"""The part of a commit's metadata that waiting and looking need, without its files.

A sensor or a page may have to open a thousand commits of a thousand files each, so only the keys that are
wanted are taken out of the value that hoodie.timeline.commit reads, too, and no object is made per file
(CommitMetadata takes seven times as long). Stdlib only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hoodie.timeline.commit import SCHEMA_KEY, ReadValue, json_object

#: operation types of table services: they rewrite files and change no row
SERVICE_OPERATIONS = frozenset({"COMPACT", "LOG_COMPACT", "CLUSTER", "INDEX"})

#: what a commit counts; the names are those of a write's result
COUNTS = ("num_inserts", "num_updates", "num_deletes", "num_writes", "num_files", "bytes_written")
_STAT_KEYS = {
    "num_inserts": "numInserts",
    "num_updates": "numUpdateWrites",
    "num_deletes": "numDeletes",
    "num_writes": "numWrites",
    "bytes_written": "totalWriteBytes",
}


#: above Java's longs, which the sums of a table's commits stay far below
_LONG = 2**63


@dataclass(frozen=True)
class CommitDetails:
    """The part of a commit's metadata that conditions and events look at.

    `operation` is upper case, "" where the commit names none. `partitions` are sorted partition paths as in
    the table, those whose files were replaced included; "" is the one of a table without partitions.
    `dropped` are those of them that have no rows any more: files were replaced, and none was written.
    """

    operation: str = ""
    partitions: tuple[str, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    extra_metadata: Mapping[str, str | None] = field(default_factory=dict)
    dropped: frozenset[str] = frozenset()

    @property
    def is_service(self) -> bool:
        return self.operation in SERVICE_OPERATIONS

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> CommitDetails | None:
        """An object with Hudi's keys -> what it says; None for values of other types."""
        return cls.parse(b"", lambda _: value)

    @classmethod
    def parse(cls, data: bytes, value: ReadValue = json_object) -> CommitDetails | None:
        """A completed commit's file -> what it says; None while it is empty or torn. `value`: as of
        CommitMetadata.
        """
        try:
            found = value(data)
            stats = found.get("partitionToWriteStats") or {}
            written = [stat for group in stats.values() for stat in group]
            counts = {name: sum(stat.get(key) or 0 for stat in written) for name, key in _STAT_KEYS.items()}
            counts["num_files"] = sum(stat.get("path") is not None for stat in written)
            if not all(type(count) is int and abs(count) < _LONG for count in counts.values()):
                return None
            operation = str(found.get("operationType") or "").upper()
            replaced = frozenset(found.get("partitionToReplaceFileIds") or ())
            extra = dict((found.get("extraMetadata") or {}).items())
            extra.pop(SCHEMA_KEY, None)
            if not all(isinstance(text, (str, type(None))) for text in extra.values()):
                return None
            return cls(
                operation="" if operation == "UNKNOWN" else operation,
                partitions=tuple(sorted({*stats, *replaced})),
                counts={name: counts[name] for name in COUNTS},
                extra_metadata=extra,
                dropped=replaced - stats.keys(),
            )
        except (ValueError, TypeError, AttributeError, RecursionError):
            return None
