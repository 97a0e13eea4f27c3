"""The part of a commit's metadata that sensors and pages need, without its files.

A sensor or a page may have to open a thousand commits of a thousand files each. So this module extracts only
the needed keys from the value that hoodie.timeline.commit reads too. It makes no object per file
(CommitMetadata takes seven times as long). Standard library only.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from hoodie.errors import TableError
from hoodie.timeline.commit import ReadValue, json_object
from hoodie.timeline.commit_head import REPLACED, REWRITES, SCHEMA_KEY, CommitHead

#: operation types of table services: they rewrite files and change no row
SERVICE_OPERATIONS = REWRITES | {"INDEX"}

#: what a commit counts; the names are those of a write's result
COUNTS = ("num_inserts", "num_updates", "num_deletes", "num_writes", "num_files", "bytes_written")
_STAT_KEYS = {
    "num_inserts": "numInserts",
    "num_updates": "numUpdateWrites",
    "num_deletes": "numDeletes",
    "num_writes": "numWrites",
    "bytes_written": "totalWriteBytes",
}


#: Hudi's operation type of a bootstrap, whose skeletons have meta columns only
_BOOTSTRAP = re.compile(rb'"operationType"\s*:\s*"BOOTSTRAP"')
_OF_LOG = b'"logVersion"'
_ROWS, _BYTES = (re.compile(rb'"%s"\s*:\s*(\d+)' % name) for name in (b"numWrites", b"totalWriteBytes"))
#: bytes of a commit below which parsing costs nothing
_SMALL = 1 << 15
#: bytes that are decoded of a list at first, and twice as many as long as it is cut; what a commit has to
#: have for each partition that is searched for
_WINDOW = _EACH = 1 << 14
#: bytes between the name of a partition and its statistics
_COLON = 64
#: bytes in which the end of a commit is looked for
_END = 64
_ESCAPE = re.compile(rb"\\[u/]")
#: the beginning of a commit that has no file, or up to the statistics of its first one
_FIRST = re.compile(
    rb'\s*\{\s*"partitionToWriteStats"\s*:\s*\{\s*(?:(\})|"(?:[^"\\]|\\.)*"\s*:\s*\[\s*(?=\{))', re.DOTALL
)
_WRITTEN, _EXTRA = b'"partitionToWriteStats"', b'"extraMetadata"'
_REPLACED = f'"{REPLACED}"'.encode()
_PATH = re.compile(rb'"path"\s*:\s*"([^"]*)"')
#: how commits of layout two begin, which have no such names
_AVRO = b"Obj\x01"
_BACKSLASH = ord("\\")


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


def base_file_totals(data: bytes, value: ReadValue = json_object) -> tuple[int, int]:
    """Rows and bytes that a commit wrote into base files with rows. `value`: as of CommitMetadata.

    The text of a commit of files without logs is searched, not parsed. Raises ValueError, AttributeError or
    TypeError for other content.
    """
    if _BOOTSTRAP.search(data):
        return 0, 0
    if _OF_LOG not in data and not data.startswith(_AVRO):
        return sum(map(int, _ROWS.findall(data))), sum(map(int, _BYTES.findall(data)))
    found = value(data)
    if found.get("operationType") == "BOOTSTRAP":
        return 0, 0
    stats = (found.get("partitionToWriteStats") or {}).values()
    bases = [stat for group in stats for stat in group if stat.get("logVersion") is None]
    rows, size = (sum(stat.get(key) or 0 for stat in bases) for key in ("numWrites", "totalWriteBytes"))
    return rows, size


def stats_of(
    data: bytes, partitions: Collection[str] | None, value: ReadValue = json_object
) -> Mapping[str, list[Mapping[str, Any]]]:
    """The statistics in a commit's file by partition, of these partitions (None: all). `value`: as of
    CommitMetadata.

    Of few partitions only their part of a large commit is parsed. Raises ValueError, AttributeError or
    TypeError for what is no commit, as far as it was looked at.
    """
    if not data.strip():
        return {}
    if partitions is not None and is_searched(data, partitions):
        found = _searched_avro(data, partitions) if data.startswith(_AVRO) else _searched(data, partitions)
        if found is not None:
            return found
    every: Mapping[str, list[Mapping[str, Any]]] = value(data).get("partitionToWriteStats") or {}
    if partitions is None:
        return every
    return {partition: group for partition, group in every.items() if partition in partitions}


def is_searched(data: bytes, partitions: Collection[str]) -> bool:
    """Is a commit searched for the statistics of these partitions, instead of being parsed? One that was torn
    is parsed, which raises.
    """
    if len(data) <= _SMALL or len(data) < len(partitions) * _EACH:
        return False
    return data.startswith(_AVRO) or (data.startswith(b"{") and data[-_END:].rstrip().endswith(b"}"))


def _searched(data: bytes, partitions: Collection[str]) -> dict[str, list[Mapping[str, Any]]] | None:
    """None where the text is not clear: a name has escapes, or seems to be there twice.

    The text is looked through once, for lists, whatever the number of partitions. Inside a text of JSON a
    quote follows a backslash, so that a name between quotes is a key or a value.
    """
    if _ESCAPE.search(data):
        return None
    names = {json.dumps(partition, ensure_ascii=False)[1:-1].encode(): partition for partition in partitions}
    if any(b"\\" in name for name in names):
        return None
    longest = max(map(len, names), default=0) + 1
    found: dict[str, list[Mapping[str, Any]]] = {}
    at = data.find(b"[")
    while at >= 0:
        end = data.rfind(b'"', max(0, at - _COLON), at)
        start = data.rfind(b'"', max(0, end - longest), max(0, end))
        partition = names.get(data[start + 1 : end]) if start >= 0 else None
        if partition is not None and data[end + 1 : at].split() == [b":"] and data[start - 1] != _BACKSLASH:
            group = _value_at(data, at)
            if all(isinstance(stat, dict) for stat in group):  # else ids of file groups that it replaced
                if partition in found:
                    return None
                found[partition] = group
        at = data.find(b"[", at + 1)
    return found


def _value_at(data: bytes, at: int) -> Any:
    """The list or object of JSON that begins there; no more is decoded than is needed. Raises ValueError."""
    size = _WINDOW
    while True:
        end = min(at + size, len(data))
        text = codecs.getincrementaldecoder("utf-8")().decode(data[at:end], end == len(data))
        try:
            found: Any = json.JSONDecoder().raw_decode(text)[0]
        except ValueError:
            if end == len(data):
                raise
            size *= 2
        else:
            return found


def _searched_avro(data: bytes, partitions: Collection[str]) -> dict[str, list[Mapping[str, Any]]] | None:
    """None where the bytes are not clear."""
    from hoodie.codec.avro_search import map_entries

    def is_of(partition: str, group: Any) -> bool:
        return isinstance(group, list) and all(_is_of(partition, stat) for stat in group)

    return map_entries("HoodieCommitMetadataV8", "partitionToWriteStats", data, partitions, is_of)


def _is_of(partition: str, stat: Any) -> bool:
    path = stat.get("path")
    return stat.get("partitionPath") == partition and (not path or path.rpartition("/")[0] == partition)


def paths_of(data: bytes) -> list[str] | None:
    """The paths of files in a commit's text, which is not parsed. None where that has to be: names have
    escapes, or the commit is Avro.
    """
    if data.startswith(_AVRO):
        return None
    found = _PATH.findall(data)
    return None if any(b"\\" in path for path in found) else [path.decode() for path in found]


def head_of(data: bytes) -> CommitHead | None:
    """What a completed commit says beside the statistics of its files, which are not parsed. None where it is
    not clear, or damaged: parse it.
    """
    try:
        return _head_of_avro(data) if data.startswith(_AVRO) else _head_of_text(data)
    except (ValueError, TypeError, AttributeError, LookupError, RecursionError, TableError):
        return None


def _head_of_text(data: bytes) -> CommitHead | None:
    """The text from extra metadata on has to be the end of one object, so that they are the commit's own:
    anything within it would be followed by more ends. The first file has to be at the beginning.
    """
    begin, at = _FIRST.match(data), data.rfind(_EXTRA)
    if begin is None or at < begin.end() or data[at - 1] == _BACKSLASH or data.rfind(_WRITTEN) > begin.end():
        return None
    end = json_object(b"{" + data[at:])
    if "operationType" not in end or (REPLACED not in end and _REPLACED in data):
        return None
    first = None if begin[1] else _value_at(data, begin.end()).get("fileId") or ""
    return replace(CommitHead.of(end), first_file_id=first) if isinstance(first, str | None) else None


def _head_of_avro(data: bytes) -> CommitHead:
    from hoodie.codec.avro_search import first_item, record_without

    head = CommitHead.of(record_without("partitionToWriteStats", data))
    first = first_item("partitionToWriteStats", data)
    return replace(head, first_file_id=None if first is None else first.get("fileId") or "")
