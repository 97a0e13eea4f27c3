"""Names of base files, log files, file ids and write tokens (format.md 5.1, 5.2, 5.5)."""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass

PARQUET = ".parquet"
#: the partition of a null or empty text, hive-style or not
DEFAULT_PARTITION = "__HIVE_DEFAULT_PARTITION__"
_BASE = re.compile(r"^([^_]+)_(\d+-\d+-\d+)_(\d+)(\.parquet)$")
_LOG = re.compile(r"^\.([^_]+)_([^._]*)\.log\.(\d+)(?:_(\d+-\d+-\d+)(\.cdc)?)?$")


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


@dataclass(frozen=True)
class LogFileName:
    """`.<fileId>_<baseInstant>.log.<version>_<writeToken>[.cdc]`; very old files have no token."""

    file_id: str
    base_instant: str
    version: int
    token: str | None = None
    cdc: bool = False

    @classmethod
    def parse(cls, name: str) -> LogFileName | None:
        match = _LOG.match(name)
        if match is None:
            return None
        file_id, instant, version, token, cdc = match.groups()
        return cls(file_id, instant, int(version), token, cdc is not None)

    def __str__(self) -> str:
        token = f"_{self.token}" if self.token else ""
        return f".{self.file_id}_{self.base_instant}.log.{self.version}{token}{'.cdc' if self.cdc else ''}"

    @property
    def order(self) -> tuple[str, int, str]:
        """Blocks of a slice are read file by file in this order."""
        return self.base_instant, self.version, self.token or ""


def new_file_prefix() -> str:
    """A UUID that does not begin with eight decimal digits, as the file ids of the BUCKET index do."""
    while (prefix := str(uuid.uuid4()))[:8].isdecimal():
        pass
    return prefix


def new_file_id(prefix: str | None = None, index: int = 0) -> str:
    """`<uuid4>-<n>`; files rolled inside one write task share the uuid and count n."""
    return f"{prefix or new_file_prefix()}-{index}"


def join(*parts: str) -> str:
    """Path parts joined with '/', empty parts dropped (a non-partitioned table's partition is "")."""
    return "/".join(part for part in parts if part)
