"""What a write does, and what it reports."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from hoodie.timeline.tokens import FINGERPRINT_KEY, TOKEN_KEY


class Operation(enum.Enum):
    UPSERT = "upsert"
    INSERT = "insert"
    BULK_INSERT = "bulk_insert"

    @property
    def metadata_name(self) -> str:
        """Hudi's WriteOperationType name, as kept in the commit metadata."""
        return self.name


@dataclass(frozen=True)
class WriteRequest:
    """One write of one frame into one table. `options` are settings by name, as texts or plain values."""

    path: str
    operation: Operation
    options: Mapping[str, Any] = field(default_factory=dict)
    extra_metadata: Mapping[str, str] = field(default_factory=dict)
    #: write although the token in `extra_metadata` (timeline.tokens) has its commit
    force: bool = False

    @property
    def token(self) -> str:
        return self.extra_metadata.get(TOKEN_KEY, "")

    @property
    def fingerprint(self) -> str:
        return self.extra_metadata.get(FINGERPRINT_KEY, "")


@dataclass(frozen=True)
class WriteResult:
    """Totals of one committed write. Rows: `num_writes` counts every row of every file written.

    status: `committed`, or `already_committed` by an earlier write of the same token, whose totals these are.
    """

    status: str
    table: str
    base_path: str
    action: str
    instant: str
    operation: str
    partitions: list[str]
    num_inserts: int
    num_updates: int
    num_deletes: int
    num_writes: int
    num_files: int
    bytes_written: int
    duration_s: float
    warnings: list[str]
    rolled_back: list[str]
    metadata_table_removed: bool

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)
