"""The archived timeline of layout one: log files of Avro blocks (format.md 11).

`.hoodie/<archive folder>/.commits_.archive.<n>_1-0-1`; a record is the file of one state of one instant
(HoodieArchivedMetaEntry). A run of an archiver that was killed leaves some instants both here and on the
active timeline, or here twice: a reader takes one of each.

Importing this module needs the standard library only; reading and writing entries needs fastavro.
"""

from __future__ import annotations

import itertools
import json
import re
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hoodie.errors import AlreadyExists, TableError
from hoodie.format.log_block import BlockType, HeaderKey, LogBlock, encode_block
from hoodie.format.log_file import LogFileReader
from hoodie.storage import FileInfo, Storage
from hoodie.timeline.archive.archive import ArchivedEntry, ArchivedState, WrittenArchive, entry_record
from hoodie.timeline.instant import Instant
from hoodie.timeline.models.mapper import AvroFile, avro

MODEL = "HoodieArchivedMetaEntry"
#: transient, beside the archive files: a merge of small ones that is under way
MERGE_PLAN_NAME = "mergeArchivePlan"

_NAME = re.compile(r"^\.commits_\.archive\.(\d+)(_\d+-\d+-\d+)?$")
_INT = struct.Struct(">i")
_CONTENT_VERSION = 3


def archive_name(version: int) -> str:
    return f".commits_.archive.{version}_1-0-1"


def archive_version(name: str) -> int | None:
    """The number in an archive file's name; None for another file's."""
    match = _NAME.match(name)
    return int(match.group(1)) if match else None


@dataclass(frozen=True)
class MergePlan(AvroFile):
    """`mergeArchivePlan` (HoodieMergeArchiveFilePlan): full paths of the small files, name of the new one."""

    model = "HoodieMergeArchiveFilePlan"

    candidates: tuple[str, ...] = field(metadata=avro("candidate"))
    merged: str = field(metadata=avro("mergedArchiveFileName", null=""))
    version: int | None = 1

    @property
    def names(self) -> list[str]:
        return [path.rpartition("/")[2] for path in self.candidates]

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> MergePlan:
        made = super().from_record(record)
        if odd := [name for name in (*made.names, made.merged) if archive_version(name) is None]:
            raise TableError(
                f"{MERGE_PLAN_NAME} names {odd[0][:200]!r}, which is no archive file; remove the plan",
                name=odd[0],
            )
        return made


@dataclass(frozen=True)
class LogArchive(WrittenArchive):
    """The archive files in `folder`; each question lists them again."""

    storage: Storage
    folder: str

    def files(self) -> list[FileInfo]:
        found = [(archive_version(item.name), item) for item in self.storage.list(self.folder)]
        numbered = [pair for pair in found if pair[0] is not None and not pair[1].is_dir]
        return [item for _, item in sorted(numbered, key=lambda pair: pair[0] or 0)]

    def instants(self, after: str | None = None, before: str | None = None) -> Iterator[Instant]:
        """In the order of the files."""
        for entry in self.entries():
            instant = entry.instant
            if instant.completed and instant.is_after(after) and instant.is_before(before):
                yield instant

    def entries(self, containing: bytes | None = None) -> Iterator[ArchivedEntry]:
        """The oldest file first; entries that a crash wrote twice, once.

        Torn ends, which killed writers of Apache Hudi leave, are passed over: the instants in them are still
        on the active timeline.
        """
        seen, passed, files = set[Instant](), set[str](), self.files()
        while files:
            item = files.pop(0)
            passed.add(item.path)
            try:
                if containing is not None and not self._contains(item.path, containing):
                    continue
                for entry in read_file(self.storage, item.path):
                    if entry.instant not in seen:
                        seen.add(entry.instant)
                        yield entry
            except FileNotFoundError:  # merged into a later file since the listing
                files = [other for other in self.files() if other.path not in passed]

    def newest(self) -> set[Instant]:
        """In all their states."""
        files = self.files()
        return {entry.instant for entry in read_file(self.storage, files[-1].path)} if files else set()

    def append(
        self, states: Iterable[ArchivedState], batch: int, attempts: int | None = None
    ) -> tuple[str, int]:
        """Whole or not at all. `attempts`: None for as many as it takes."""
        data = encode_archive((entry_record(*state) for state in states), batch)
        for version in itertools.islice(itertools.count(_last_version(self.files()) + 1), attempts):
            name = archive_name(version)
            try:
                self.storage.create(f"{self.folder}/{name}", data)
            except AlreadyExists:
                continue
            return name, len(data)
        raise TableError(
            f"no free name for an archive file in {self.folder} after {attempts} tries; run one archiver at "
            "a time",
            path=self.folder,
        )

    def is_unmerged(self, limit: int, least: int) -> bool:
        return bool(_small(self.files(), limit, least))

    def is_unfinished(self) -> bool:
        return MERGE_PLAN_NAME in self.storage.names(self.folder)

    def merge(self, limit: int, least: int) -> list[str]:
        """Make the newest files one, up to the first one above `limit` bytes, if there are enough. Only
        neighbours are merged, so that the files stay in the order of time.

        An archive file is a chain of blocks, so that the merged one is the small ones in their order. The
        order survives a kill: 1. `mergeArchivePlan`, which names the small files and the new one, 2. the new
        file, 3. the small files deleted, 4. the plan deleted. As long as all small files are there, the new
        one is none of the history's; once one of them is gone, the new one holds them all.
        """
        storage, files = self.storage, self.files()
        small = _small(files, limit, least)
        if not small:
            return []
        plan = MergePlan(tuple(item.path for item in small), archive_name(_last_version(files) + 1))
        storage.create(self._plan_path, plan.to_bytes())
        content = b"".join(storage.read(item.path) for item in small)
        storage.create(f"{self.folder}/{plan.merged}", content)
        # so that what is left is read in the order of time
        storage.delete_many([item.path for item in reversed(small)])
        storage.delete(self._plan_path)
        return plan.names

    def recover(self) -> None:
        storage, path = self.storage, self._plan_path
        if not storage.exists(path):
            return
        try:
            plan = MergePlan.from_bytes(storage.read(path))
        except TableError:  # cut while it was written: nothing was done by it yet
            storage.delete(path)
            return
        merged = f"{self.folder}/{plan.merged}"
        paths = [f"{self.folder}/{name}" for name in plan.names]
        if archive_version(plan.merged) is not None and storage.exists(merged):
            if all(map(storage.exists, paths)):
                storage.delete_many([merged])
            else:
                storage.delete_many(reversed(paths))
        storage.delete(path)

    @property
    def _plan_path(self) -> str:
        return f"{self.folder}/{MERGE_PLAN_NAME}"

    def _contains(self, path: str, text: bytes) -> bool:
        with self.storage.open_input(path) as file:
            return text in file.read()


def _last_version(files: Iterable[FileInfo]) -> int:
    return max((archive_version(item.name) or 0 for item in files), default=0)


def _small(files: Sequence[FileInfo], limit: int, least: int) -> list[FileInfo]:
    found = list(itertools.takewhile(lambda item: item.size <= limit, reversed(files)))[::-1]
    return found if len(found) >= least else []


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


def _damaged(path: str, block: LogBlock, why: str) -> TableError:
    return TableError(
        f"archive file {path} is damaged in its block at byte {block.offset} ({why}); restore it from a "
        "copy. Rows are not affected, only the history of the table",
        path=path,
        offset=block.offset,
    )
