"""Names of base files, file ids and write tokens (format.md 5.1, 5.2)."""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass

PARQUET = ".parquet"
_BASE = re.compile(r"^([^_]+)_(\d+-\d+-\d+)_(\d+)(\.parquet)$")


@dataclass(frozen=True)
class BaseFileName:
    """`<fileId>_<writeToken>_<instant>.parquet`."""

    file_id: str
    token: str
    instant: str

    @classmethod
    def parse(cls, name: str) -> BaseFileName | None:
        match = _BASE.match(name)
        return cls(match.group(1), match.group(2), match.group(3)) if match else None

    def __str__(self) -> str:
        return f"{self.file_id}_{self.token}_{self.instant}{PARQUET}"


def new_file_id(prefix: str | None = None, index: int = 0) -> str:
    """`<uuid4>-<n>`; files rolled inside one write task share the uuid and count n."""
    return f"{prefix or uuid.uuid4()}-{index}"


def join(*parts: str) -> str:
    """Path parts joined with '/', empty parts dropped (a non-partitioned table's partition is "")."""
    return "/".join(part for part in parts if part)
