"""Names of base files, log files, file ids and write tokens (format.md 5.1, 5.2, 5.5).

Names that come out of a table's metadata are untrusted: `relative_path`, `file_name`, `data_file`, `file_id`
and `instant_time` let through what can only mean a place in the table, and are called where metadata is
parsed.
"""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NoReturn

from hoodie.errors import TableError
from hoodie.format.instant_time import InstantTime

PARQUET = ".parquet"
#: of base files of metadata tables
HFILE = ".hfile"
#: those that Apache Hudi has besides
OTHER_FORMATS = (".orc", ".lance", HFILE)
#: a table's folder that holds no data
META_FOLDER = ".hoodie"
#: in it, the folder of its metadata table
METADATA_TABLE = "metadata"
#: the partition of a null or empty text, hive-style or not
DEFAULT_PARTITION = "__HIVE_DEFAULT_PARTITION__"
#: names that are parsed once: an operation lists a partition several times
_KNOWN = 1 << 14
_BASE = re.compile(r"^([^_]+)_(\d+-\d+-\d+)_(\d+)(\.\w+)$")
_LOG = re.compile(r"^\.([^_]+)_([^._]*)\.log\.(\d+)(?:_(\d+-\d+-\d+)(\.cdc)?)?$")


@dataclass(frozen=True)
class BaseFileName:
    """`<fileId>_<writeToken>_<instant>.parquet`, or of another extension."""

    file_id: str
    token: str
    instant: InstantTime
    extension: str = PARQUET

    @classmethod
    def parse(cls, name: str, extension: str = PARQUET) -> BaseFileName | None:
        return _base_file(name, extension)

    @classmethod
    def _parsed(cls, name: str, extension: str) -> BaseFileName | None:
        match = _BASE.match(name)
        if match is None or match.group(4) != extension:
            return None
        file_id, token, instant, _ = match.groups()
        return cls(file_id, token, InstantTime(instant), extension)

    def __str__(self) -> str:
        return f"{self.file_id}_{self.token}_{self.instant}{self.extension}"


_base_file = lru_cache(_KNOWN)(BaseFileName._parsed)


@dataclass(frozen=True)
class LogFileName:
    """`.<fileId>_<instant>.log.<version>_<writeToken>[.cdc]`; very old files have no token.

    `table.slicing` says what the instant of a log file means.
    """

    file_id: str
    instant: InstantTime
    version: int
    token: str | None = None
    cdc: bool = False

    @classmethod
    def parse(cls, name: str) -> LogFileName | None:
        return _log_file(name)

    @classmethod
    def _parsed(cls, name: str) -> LogFileName | None:
        match = _LOG.match(name)
        if match is None:
            return None
        file_id, instant, version, token, cdc = match.groups()
        return cls(file_id, InstantTime(instant), int(version), token, cdc is not None)

    def __str__(self) -> str:
        token = f"_{self.token}" if self.token else ""
        return f".{self.file_id}_{self.instant}.log.{self.version}{token}{'.cdc' if self.cdc else ''}"

    @property
    def order(self) -> tuple[str, int, str]:
        """Blocks of a slice are read file by file in this order."""
        return str(self.instant), self.version, self.token or ""

    @property
    def following(self) -> LogFileName:
        """Of the next version, for where this name is taken."""
        return replace(self, version=self.version + 1)


_log_file = lru_cache(_KNOWN)(LogFileName._parsed)


def new_file_prefix() -> str:
    """A UUID that does not begin with eight decimal digits, as the file ids of the BUCKET index do."""
    while (prefix := str(uuid.uuid4()))[:8].isdecimal():
        pass
    return prefix


#: how file ids of buckets end that each of several writers may begin with a log, as of an update
SHARED_BUCKET = "-0000-0000-0000-000000000000-0"


def new_file_id(prefix: str | None = None, index: int = 0) -> str:
    """`<uuid4>-<n>`; files rolled inside one write task share the uuid and count n."""
    return f"{prefix or new_file_prefix()}-{index}"


def join(*parts: str) -> str:
    """Path parts joined with '/', empty parts dropped (a non-partitioned table's partition is "")."""
    return "/".join(part for part in parts if part)


#: digits: 17, those that the metadata table adds, and some to spare
LONGEST_INSTANT = 23


def relative_path(value: Any, field: str) -> str:
    """A partition, or a file in one, relative to the table. Raises TableError for one that leads elsewhere
    or into `.hoodie`.
    """
    if not isinstance(value, str):
        _refuse(value, field, "is no text")
    if not value.isascii() and any("\ud800" <= letter <= "\udfff" for letter in value):
        _refuse(value, field, "is no UTF-8")
    steps = value.split("/")
    if not (steps[0] or len(steps) == 1) or ".." in steps or "." in steps or "\0" in value:
        _refuse(value, field, "is no path below the table")
    if steps[0].casefold() == META_FOLDER:  # some file systems know no case
        _refuse(value, field, f"lies in {META_FOLDER}, where there is no data")
    return value


def file_name(value: Any, field: str) -> str:
    """The last part of a path, which plans may hold whole; raises TableError where that is no file's name, or
    that of a file by which the table is known.
    """
    if not isinstance(value, str):
        _refuse(value, field, "is no text")
    name = value.rpartition("/")[2]
    if name in ("", ".", "..") or "\0" in name:
        _refuse(value, field, "names no file")
    if name.startswith(META_FOLDER):
        _refuse(value, field, "names a file that has no rows")
    return name


def data_file(value: Any, field: str) -> str:
    """The path of a file with rows, relative to the table. Raises TableError for any other."""
    file_name(value, field)
    return relative_path(value, field)


def file_id(value: Any, field: str) -> str:
    """A file id, "" and None included; raises TableError for one that could not be part of a file's name."""
    if value is None:
        return ""
    if not isinstance(value, str) or "/" in value or "\0" in value:
        _refuse(value, field, "is no file id")
    return value


def instant_time(value: Any, field: str) -> InstantTime:
    """An instant's time, "" and None included; raises TableError for what is no number."""
    if value is None or value == "":
        return InstantTime()
    if (
        not isinstance(value, str)
        or not (value.isascii() and value.isdigit())
        or len(value) > LONGEST_INSTANT
    ):
        _refuse(value, field, "is no instant's time")
    return InstantTime(value)


def _refuse(value: Any, field: str, why: str) -> NoReturn:
    shown = repr(value)[:200]
    raise TableError(
        f"the table's metadata is damaged or forged: {field} {shown} {why}; nothing was done with it. "
        "Restore the file, or remove the instant that it belongs to",
        field=field,
        value=shown,
    )
