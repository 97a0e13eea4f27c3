"""Log files as a delta commit writes them: new files only, blocks of one instant, statistics as Hudi's.

Every write makes a new version in the slice: nothing is appended to a file that is there (format.md 5.5), so
that a log file of ours holds the blocks of one instant and a rollback may delete it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from hoodie.config.key import Config
from hoodie.errors import AlreadyExists
from hoodie.format.log_block import BlockType, Buffer, HeaderKey
from hoodie.format.log_data import BLOCK_TYPES
from hoodie.format.log_file import LogFileWriter
from hoodie.format.names import LogFileName, join
from hoodie.format.settings import (
    COMPRESSION_CODEC,
    LOG_BLOCK_FORMAT,
    LOG_BLOCK_MAX_SIZE,
    LOG_FILE_MAX_SIZE,
    Codec,
)
from hoodie.metadata.records.log_ranges import LogRanges
from hoodie.storage import Storage
from hoodie.table.markers import Marker, MarkerType, create_marker
from hoodie.table.view import FileSlice
from hoodie.timeline.commit import WriteStat
from hoodie.timeline.time import InstantTime


@dataclass(frozen=True)
class LogFormat:
    """How log files are written; one for all of a write. Picklable.

    `avro_schema` has the meta columns. `ordering` is the column by which deletes are compared with rows, None
    where a delete always wins. `ranges_of`: the columns whose ranges tasks report, none for all; None where
    nothing keeps them.
    """

    avro_schema: str
    block: BlockType
    codec: Codec
    file_size: int
    block_size: int
    ordering: str | None
    ranges_of: frozenset[str] | None = None

    @classmethod
    def of(
        cls, config: Config, avro_schema: str, ordering: str | None, ranges_of: frozenset[str] | None = None
    ) -> LogFormat:
        return cls(
            avro_schema,
            BLOCK_TYPES[config[LOG_BLOCK_FORMAT]],
            config[COMPRESSION_CODEC],
            config[LOG_FILE_MAX_SIZE],
            config[LOG_BLOCK_MAX_SIZE],
            ordering,
            ranges_of,
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
    ) -> None:
        self._storage = storage
        self._base_path = base_path
        self._instant = instant
        self._slice = slice_
        self._format = format_
        self._headers: dict[int, str] = {
            HeaderKey.INSTANT_TIME: instant,
            HeaderKey.SCHEMA: format_.avro_schema,
        }
        self._name = name
        self._writer: LogFileWriter | None = None
        self._updates = self._deletes = 0
        self._stats: list[WriteStat] = []
        self._ranges = None if format_.ranges_of is None else LogRanges(format_.ranges_of or None)
        begun = slice_.base is not None and slice_.base.instant == slice_.instant
        self._base = slice_.base.name if slice_.base and begun else ""
        #: as Apache Hudi lists them: what was there, newest first, then what is new
        self._names = [log.name for log in reversed(slice_.own_logs)]

    def append(
        self, kind: BlockType, content: Sequence[Buffer] | Buffer, rows: pa.Table, *, deletes: int = 0
    ) -> None:
        """A block of rows, or of deletes, where there are none, but their schema."""
        if self._writer is not None and self._writer.size >= self._format.file_size:
            self._finish()
        if self._writer is None:
            self._writer = self._begin()
        self._writer.append(kind, self._headers, content)
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
            create_marker(self._storage, self._base_path, self._instant, Marker(relative, MarkerType.APPEND))
            try:
                output = self._storage.output(path, exclusive=True)
            except AlreadyExists:
                self._name = self._name.following
                continue
            self._names.append(name)
            return LogFileWriter(output)

    def _finish(self) -> None:
        assert self._writer is not None
        size = self._writer.close()
        self._stats.append(
            WriteStat(
                file_id=self._slice.file_id,
                path=join(self._slice.partition, self._names[-1]),
                partition_path=self._slice.partition,
                prev_commit=str(self._slice.instant),
                num_writes=self._updates,
                num_update_writes=self._updates,
                num_deletes=self._deletes,
                total_write_bytes=size,
                file_size_in_bytes=size,
                log_version=self._name.version,
                log_offset=0,
                base_file=self._base,
                log_files=tuple(self._names),
                extra={"recordsStats": {"val": None}},
                column_stats=() if self._ranges is None else self._ranges.take(),
            )
        )
        self._writer = None
        self._updates = self._deletes = 0
        self._name = self._name.following
