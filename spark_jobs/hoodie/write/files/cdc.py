"""Change logs and log files, as a write creates them.

A change log has what a write does to the rows of a base file that it rewrites (format.md 8.9, 12.3). Its name
is `.<fileId>_<instant>.log.1_<token>.cdc`, in the folder of the new base file. `cdcStats` of that file's
statistics names it. New file groups and logs have none: readers infer their changes from them.

Log files of a delta commit have blocks of one instant, and statistics as Hudi's. Every write makes a file of
its own and appends to no existing one (format.md 5.5, 15.5). So a rollback may delete the file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from hoodie.codec.arrays import halved
from hoodie.codec.arrow_avro import encode_records
from hoodie.config.key import Config
from hoodie.config.limits import MAX_BLOCK_BYTES
from hoodie.errors import AlreadyExists
from hoodie.format.cdc import AFTER, BEFORE, KEY, OP, TS_MS, LoggingMode, Op, record_schema
from hoodie.format.log_block import IS_PARTIAL, BlockType, Buffer, HeaderKey
from hoodie.format.log_data import BLOCK_TYPES, records_content
from hoodie.format.log_file import LogFileWriter
from hoodie.format.meta_fields import RECORD_KEY
from hoodie.format.names import BaseFileName, LogFileName, join
from hoodie.format.settings import (
    COMPRESSION_CODEC,
    LOG_BLOCK_FORMAT,
    LOG_BLOCK_MAX_SIZE,
    LOG_FILE_MAX_SIZE,
    RECORD_POSITIONS,
    Codec,
)
from hoodie.metadata.partitions.column_ranges import LogRanges
from hoodie.read.key_join import Merged
from hoodie.read.settings import MERGE_BUDGET
from hoodie.storage import Storage
from hoodie.table.markers import Marker, MarkerType, create_marker, remove_marker
from hoodie.table.view import FileSlice
from hoodie.timeline.commit import WriteStat
from hoodie.timeline.time import InstantTime
from hoodie.write.settings import CDC_ENABLED, CDC_MODE

#: share of the memory of a merge that the rows of a block may take
_SHARE = 4
#: bytes of a record beside its columns: its length, and of what unions they are
_RECORD_BYTES = 16


@dataclass(frozen=True)
class ChangeFormat:
    """How change logs are written; one for all of a write. Picklable. `columns` are those of the images;
    `block_bytes` is what the rows of one block may take in memory; `of_writes` is as in Slicing.
    """

    mode: LoggingMode
    avro_schema: str
    columns: tuple[str, ...]
    block_bytes: int
    of_writes: bool

    @classmethod
    def of(cls, config: Config, schema: pa.Schema, avro_schema: str, of_writes: bool) -> ChangeFormat | None:
        """None where the table keeps no change data."""
        if not config[CDC_ENABLED]:
            return None
        mode = config[CDC_MODE]
        limit = min(config[LOG_BLOCK_MAX_SIZE], config[MERGE_BUDGET] // _SHARE, MAX_BLOCK_BYTES // 2)
        columns = tuple(schema.names)
        return cls(mode, record_schema(mode, avro_schema), columns, max(1, limit), of_writes)

    def records(
        self, op: Op, instant: InstantTime, before: pa.Table | None, after: pa.Table | None
    ) -> pa.Table:
        """Change records of rows that all had the same done to them; one of the images at least is given."""
        rows = before if before is not None else after
        assert rows is not None
        columns: dict[str, Callable[[], Any]] = {
            OP: lambda: pa.repeat(op.value, rows.num_rows),
            TS_MS: lambda: pa.repeat(instant, rows.num_rows),
            KEY: lambda: rows.column(RECORD_KEY),
            BEFORE: lambda: self._image(before, rows),
            AFTER: lambda: self._image(after, rows),
        }
        return pa.table({name: columns[name]() for name in self.mode.columns})

    def _image(self, image: pa.Table | None, rows: pa.Table) -> Any:
        if image is None:
            kind = pa.struct([rows.schema.field(name) for name in self.columns])
            return pa.nulls(rows.num_rows, kind)
        return image.select(list(self.columns)).to_struct_array()


def log_marker(of_writes: bool) -> MarkerType:
    """Of a log file; see Slicing.of_writes."""
    return MarkerType.CREATE if of_writes else MarkerType.APPEND


class ChangeLog:
    """The change log of one base file. It is begun, marker first, once there is a block to write."""

    def __init__(
        self,
        format_: ChangeFormat,
        storage: Storage,
        base_path: str,
        partition: str,
        base_name: BaseFileName,
    ) -> None:
        self._format = format_
        self._storage = storage
        self._base_path = base_path
        self._instant = base_name.instant
        name = LogFileName(base_name.file_id, base_name.instant, 1, base_name.token, cdc=True)
        self._relative = join(partition, str(name))
        self._writer: LogFileWriter | None = None
        #: records of the next block, as bytes; how many, and what they took as rows
        self._held: list[Buffer] = []
        self._count = self._bytes = 0

    def inserted(self, rows: pa.Table) -> None:
        self._add(Op.INSERT, None, rows)

    def merged(self, stored: pa.Table, merged: Merged) -> None:
        """What the merge of a stored batch came to."""
        gone = pa.array(merged.gone)
        if merged.updates:
            fresh = pa.array(merged.fresh)
            kept = stored.filter(pa.array(~merged.gone)) if merged.deletes else stored
            self._add(Op.UPDATE, kept.filter(fresh), merged.rows.filter(fresh))
        if merged.deletes:
            self._add(Op.DELETE, stored.filter(gone), None)

    def close(self) -> dict[str, int]:
        """Finish the file, which has a block even where nothing was changed: size by path in the table."""
        if self._count or self._writer is None:
            self._flush()
        assert self._writer is not None
        return {self._relative: self._writer.close()}

    def abandon(self) -> None:
        """Nothing is kept; does nothing after `close`."""
        self._held = []
        if self._writer is not None:
            self._writer.abandon()

    def _add(self, op: Op, before: pa.Table | None, after: pa.Table | None) -> None:
        limit = self._format.block_bytes
        every = self._format.records(op, self._instant, before, after)
        for records in halved(every, limit, _RECORD_BYTES):
            size = records.nbytes + records.num_rows * _RECORD_BYTES
            if self._count and self._bytes + size > limit:
                self._flush()
            self._held += encode_records(records, self._format.avro_schema)
            self._count += records.num_rows
            self._bytes += size

    def _flush(self) -> None:
        """Write what is held as a block."""
        if self._writer is None:
            self._writer = self._begin()
        schema = self._format.avro_schema
        headers: dict[int, str] = {HeaderKey.INSTANT_TIME: self._instant, HeaderKey.SCHEMA: schema}
        self._writer.append(BlockType.CDC_DATA, headers, records_content(self._count, self._held))
        self._held, self._count, self._bytes = [], 0, 0

    def _begin(self) -> LogFileWriter:
        marker = Marker(self._relative, log_marker(self._format.of_writes))
        create_marker(self._storage, self._base_path, self._instant, marker)
        return LogFileWriter(self._storage.output(join(self._base_path, self._relative)))


@dataclass(frozen=True)
class PartialSchema:
    """The columns of blocks of changed columns, meta columns first; `avro_schema` is theirs."""

    names: tuple[str, ...]
    avro_schema: str

    @property
    def headers(self) -> dict[int, str]:
        return {HeaderKey.SCHEMA: self.avro_schema, IS_PARTIAL: "true"}


@dataclass(frozen=True)
class LogFormat:
    """How log files are written; one for all of a write. Picklable.

    `avro_schema` has the meta columns. `ordering`: the columns by which deletes are compared with rows, none
    where a delete always wins. `ranges_of`: the columns whose ranges tasks report, none for all; None where
    nothing keeps them. `partial`: of stored rows that only get other values in some columns; None where rows
    are logged whole. `positions`: blocks name the rows of the base file, where logs are of writes (Slicing).
    """

    avro_schema: str
    block: BlockType
    codec: Codec
    file_size: int
    block_size: int
    ordering: tuple[str, ...]
    ranges_of: frozenset[str] | None = None
    partial: PartialSchema | None = None
    positions: bool = False

    @classmethod
    def of(
        cls,
        config: Config,
        avro_schema: str,
        ordering: tuple[str, ...],
        ranges_of: frozenset[str] | None = None,
        partial: PartialSchema | None = None,
    ) -> LogFormat:
        return cls(
            avro_schema,
            BLOCK_TYPES[config[LOG_BLOCK_FORMAT]],
            config[COMPRESSION_CODEC],
            config[LOG_FILE_MAX_SIZE],
            config[LOG_BLOCK_MAX_SIZE],
            ordering,
            ranges_of,
            partial,
            config[RECORD_POSITIONS],
        )


class LogFiles:
    """The log files that one task adds to a slice, one after the other: marker first, then blocks. `name` is
    that of the first one.

    A file is begun with its first block, and the next one when it has reached its maximum. `close` gives the
    statistics of all.
    """

    def __init__(
        self,
        storage: Storage,
        base_path: str,
        instant: InstantTime,
        name: LogFileName,
        slice_: FileSlice,
        format_: LogFormat,
        of_writes: bool,
        whole: bool,
        headers: Mapping[int, str] | None = None,
    ) -> None:
        """`whole`: statistics name all of the slice, as the change data of a table is found by them.
        `headers`: of every block, beside those that all blocks have.
        """
        self._storage = storage
        self._marker = log_marker(of_writes)
        self._alone = of_writes and not whole
        self._base_path = base_path
        self._instant = instant
        self._slice = slice_
        self._format = format_
        self._headers: dict[int, str] = {
            HeaderKey.INSTANT_TIME: instant,
            HeaderKey.SCHEMA: format_.avro_schema,
            **(headers or {}),
        }
        self._name = name
        self._writer: LogFileWriter | None = None
        self._updates = self._deletes = 0
        self._stats: list[WriteStat] = []
        self._ranges = None if format_.ranges_of is None else LogRanges(format_.ranges_of or None)
        begun = slice_.base is not None and slice_.base.instant == slice_.instant
        self._base = slice_.base.name if slice_.base and begun and not self._alone else ""
        #: as Apache Hudi lists them: what was there, newest first, then what is new
        self._names = [] if self._alone else [log.name for log in reversed(slice_.own_logs)]

    def append(
        self,
        kind: BlockType,
        content: Sequence[Buffer] | Buffer,
        rows: pa.Table,
        *,
        deletes: int = 0,
        headers: Mapping[int, str] | None = None,
    ) -> None:
        """A block of rows, or of deletes, where there are none, but their schema. `headers`: its own."""
        if self._writer is not None and self._writer.size >= self._format.file_size:
            self._finish()
        if self._writer is None:
            self._writer = self._begin()
        self._writer.append(kind, {**self._headers, **(headers or {})}, content)
        if self._ranges is not None:
            self._ranges.add(rows)
        self._updates += rows.num_rows
        self._deletes += deletes

    def close(self) -> list[WriteStat]:
        if self._writer is not None:
            self._finish()
        return self._stats

    def abandon(self) -> None:
        """Let go of a file that a failure left open; does nothing after `close`."""
        if self._writer is not None:
            self._writer.abandon()

    def _begin(self) -> LogFileWriter:
        """A new file. Another process may have made one of this name: then a later version."""
        while True:
            name = str(self._name)
            relative = join(self._slice.partition, name)
            path = join(self._base_path, relative)
            marker = Marker(relative, self._marker)
            new = create_marker(self._storage, self._base_path, self._instant, marker)
            try:
                self._check_free(path)
                output = self._storage.output(path, exclusive=True)
            except AlreadyExists:
                if new:  # an earlier attempt of this write made none: the file is not this write's to delete
                    remove_marker(self._storage, self._base_path, self._instant, marker)
                self._name = self._name.following
                continue
            self._names.append(name)
            return LogFileWriter(output)

    def _check_free(self, path: str) -> None:
        """Raises AlreadyExists for a name that others may take, too, where the output itself would say it at
        its end.
        """
        if self._marker is MarkerType.APPEND and not self._storage.fences and self._storage.is_file(path):
            raise AlreadyExists(f"{path} exists already", path=path)

    def _finish(self) -> None:
        assert self._writer is not None
        size = self._writer.close()
        self._stats.append(
            WriteStat(
                file_id=self._slice.file_id,
                path=join(self._slice.partition, self._names[-1]),
                partition_path=self._slice.partition,
                prev_commit=str(self._instant if self._alone else self._slice.instant),
                num_writes=self._updates,
                num_update_writes=self._updates,
                num_deletes=self._deletes,
                total_write_bytes=size,
                file_size_in_bytes=size,
                log_version=self._name.version,
                log_offset=0,
                base_file=self._base,
                log_files=tuple(self._names[-1:] if self._alone else self._names),
                extra={"recordsStats": {"val": None}},
                column_stats=() if self._ranges is None else self._ranges.take(),
            )
        )
        self._writer = None
        self._updates = self._deletes = 0
        self._name = self._name.following
