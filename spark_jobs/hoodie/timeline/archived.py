"""The archived timeline: instants that were moved out of `.hoodie` into files of their own (format.md 11).

`.hoodie/<archive folder>/.commits_.archive.<n>_1-0-1` are log files of Avro blocks; a record is the file of
one state of one instant (HoodieArchivedMetaEntry). A run of an archiver that was killed leaves some
instants both here and on the active timeline, or here twice: a reader takes one of each.

Importing this module needs the standard library only; reading and writing entries needs fastavro.
"""

from __future__ import annotations

import itertools
import json
import re
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hoodie.errors import TableError
from hoodie.format.log_block import BlockType, HeaderKey, LogBlock, encode_block
from hoodie.format.log_file import LogFileReader
from hoodie.format.names import instant_time
from hoodie.storage import FileInfo, Storage
from hoodie.timeline.commit import CommitMetadata
from hoodie.timeline.instant import Action, Instant, State
from hoodie.timeline.time import InstantTime

MODEL = "HoodieArchivedMetaEntry"
#: transient, beside the archive files: a merge of small ones that is under way
MERGE_PLAN_NAME = "mergeArchivePlan"

_NAME = re.compile(r"^\.commits_\.archive\.(\d+)(_\d+-\d+-\d+)?$")
_INT = struct.Struct(">i")
_CONTENT_VERSION = 3
#: fields of an entry that hold its metadata; at most one is set
_METADATA = (
    "hoodieCommitMetadata",
    "hoodieReplaceCommitMetadata",
    "HoodieInflightReplaceMetadata",
    "hoodieRequestedReplaceMetadata",
    "hoodieCleanMetadata",
    "hoodieCleanerPlan",
    "hoodieCompactionPlan",
    "hoodieCompactionMetadata",
    "hoodieRollbackMetadata",
    "hoodieSavePointMetadata",
    "hoodieIndexCommitMetadata",
)


def archive_name(version: int) -> str:
    return f".commits_.archive.{version}_1-0-1"


def archive_version(name: str) -> int | None:
    """The number in an archive file's name; None for another file's."""
    match = _NAME.match(name)
    return int(match.group(1)) if match else None


def archive_files(storage: Storage, folder: str) -> list[FileInfo]:
    """The archive files, oldest first."""
    found = [(archive_version(item.name), item) for item in storage.list(folder) if not item.is_dir]
    numbered = [(version, item) for version, item in found if version is not None]
    return [item for _, item in sorted(numbered, key=lambda pair: pair[0])]


@dataclass(frozen=True)
class ArchivedEntry:
    """One state of one instant. `record` is the Avro record, `changed` when it was written, if known."""

    instant: Instant
    changed: InstantTime | None
    record: Mapping[str, Any]

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> ArchivedEntry:
        """Raises TableError for an action or a state that no timeline has."""
        try:
            # very old releases archived completed instants only, and did not say so
            state = State[record["actionState"] or State.COMPLETED.name]
            time = instant_time(record["commitTime"], "instant of the archive")
            instant = Instant(time, Action(record["actionType"]), state)
        except (ValueError, KeyError) as error:
            raise TableError(
                f"an archived instant {record.get('commitTime')!r} has an action or a state that is not "
                f"known here ({error}); read the archived timeline with Apache Hudi",
                instant=str(record.get("commitTime")),
            ) from None
        return cls(instant, record["stateTransitionTime"], record)

    @property
    def metadata(self) -> Mapping[str, Any] | None:
        """What the instant's file held, as an Avro record; None for an empty one."""
        return next((self.record[name] for name in _METADATA if self.record.get(name) is not None), None)

    @property
    def commit(self) -> CommitMetadata | None:
        """What a commit wrote; None for other actions, and for a requested replacecommit."""
        names = ("hoodieReplaceCommitMetadata", "HoodieInflightReplaceMetadata", "hoodieCommitMetadata")
        found = next((self.record[name] for name in names if self.record.get(name) is not None), None)
        return None if found is None else _commit(found)


def read_archived(storage: Storage, folder: str) -> Iterator[ArchivedEntry]:
    """All entries of the archive files in `folder`, oldest file first; those that a crash wrote twice, once.

    Raises TableError when a file is damaged. Torn ends, which killed writers of Apache Hudi leave, are passed
    over: the instants in them are still on the active timeline.
    """
    seen: set[Instant] = set()
    for item in archive_files(storage, folder):
        try:
            for entry in read_file(storage, item.path):
                if entry.instant not in seen:
                    seen.add(entry.instant)
                    yield entry
        except FileNotFoundError:
            continue  # merged into a later file since the listing


def read_file(storage: Storage, path: str) -> Iterator[ArchivedEntry]:
    """The entries of one archive file. Raises FileNotFoundError, TableError."""
    with LogFileReader(storage, path) as reader:
        for block in reader.blocks():
            if block.type is BlockType.AVRO_DATA:
                yield from _entries(path, block, reader.content(block))


def encode_archive(records: Iterable[Mapping[str, Any]], batch: int) -> bytes:
    """The bytes of an archive file with these records, `batch` of them in a block.

    Memory: one record, and the bytes.
    """
    pieces, left = list[bytes](), iter(records)
    while datums := [_datum(record) for record in itertools.islice(left, batch)]:
        pieces += map(bytes, _block(datums))
    return b"".join(pieces)


def _datum(record: Mapping[str, Any]) -> bytes:
    from hoodie.codec.avro import write_datum

    return write_datum(MODEL, record)


def _block(datums: Sequence[bytes]) -> list[Any]:
    from hoodie.codec.avro import schema_json

    content: list[bytes] = [_INT.pack(_CONTENT_VERSION) + _INT.pack(len(datums))]
    for datum in datums:
        content += [_INT.pack(len(datum)), datum]
    schema = _text(schema_json(MODEL))
    return encode_block(BlockType.AVRO_DATA, {HeaderKey.SCHEMA: schema}, content)


def _text(schema: Any) -> str:
    return json.dumps(schema, separators=(",", ":"))


def _entries(path: str, block: LogBlock, data: bytes) -> Iterator[ArchivedEntry]:
    from hoodie.codec.avro import read_datum

    schema = block.schema_text
    if schema is None or len(data) < 2 * _INT.size:
        raise _damaged(path, block, "it has no schema or no records")
    (count,) = _INT.unpack_from(data, _INT.size)
    at = 2 * _INT.size
    for _ in range(count):
        if at + _INT.size > len(data):
            raise _damaged(path, block, f"it ends before its {count} records")
        (length,) = _INT.unpack_from(data, at)
        at += _INT.size
        if not 0 <= length <= len(data) - at:
            raise _damaged(path, block, f"a record of {length} bytes")
        yield ArchivedEntry.from_record(read_datum(MODEL, data[at : at + length], schema))
        at += length


def _commit(record: Mapping[str, Any]) -> CommitMetadata:
    """Avro nulls stand for what the writer's JSON did not have."""
    stats = record.get("partitionToWriteStats") or {}
    value: dict[str, Any] = {
        "partitionToWriteStats": {
            partition: [
                {name: item for name, item in stat.items() if item is not None and name not in _AVRO_ONLY}
                for stat in group
            ]
            for partition, group in stats.items()
        },
        "compacted": record.get("operationType") == "COMPACT",
        "extraMetadata": record.get("extraMetadata") or {},
        "operationType": record.get("operationType"),
    }
    if record.get("partitionToReplaceFileIds") is not None:
        value["partitionToReplaceFileIds"] = record["partitionToReplaceFileIds"]
    return CommitMetadata.of(value)


#: a field of the Avro model that the JSON does not have
_AVRO_ONLY = frozenset({"totalLogFiles"})


def _damaged(path: str, block: LogBlock, why: str) -> TableError:
    return TableError(
        f"archive file {path} is damaged in its block at byte {block.offset} ({why}); restore it from a "
        "copy. Rows are not affected, only the history of the table",
        path=path,
        offset=block.offset,
    )
