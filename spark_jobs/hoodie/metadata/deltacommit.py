"""A deltacommit of a metadata table: a log file for each file group that gets records."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import pyarrow as pa

from hoodie.codec.arrays import Array
from hoodie.engine.spool import Room
from hoodie.format.hfile_records import write_cells
from hoodie.format.log_block import BlockType, HeaderKey
from hoodie.format.log_data import DeleteRecords, encode_delete_block
from hoodie.format.log_file import LogFileWriter
from hoodie.format.names import join
from hoodie.metadata.index_definitions import hashed_parts
from hoodie.metadata.partition_groups import PartitionGroups
from hoodie.metadata.record_schema import commit_schema
from hoodie.metadata.record_spool import RecordSpool
from hoodie.metadata.table import Partition
from hoodie.metadata.written_table import WrittenTable, at_once, group_id, new_options
from hoodie.table.listing import FileListing
from hoodie.table.slicing import slicing_of
from hoodie.table.view import FileSlice
from hoodie.timeline.commit import (
    SCHEMA_KEY,
    CommitMetadata,
    PlannedFile,
    RuntimeStats,
    WriteStat,
    inflight_metadata,
)
from hoodie.timeline.instant import Action, Instant, State
from hoodie.timeline.store import begin_instant
from hoodie.timeline.time import InstantTime

#: puts the records of partitions into their spools
Fill: TypeAlias = Callable[[Mapping[Partition, RecordSpool]], None]
#: bytes of rows in memory that are one block
_BLOCK_BYTES = 128 << 20
#: what Apache Hudi calls the writing of records that know their file groups
_OPERATION = "UPSERT_PREPPED"
#: statistics that a log of a metadata table has none of
_NO_STATISTICS = {"recordsStats": {"val": None}}


@dataclass(frozen=True)
class _Part:
    """What one file group gets: that of `number` in the spool."""

    slice: FileSlice
    spool: RecordSpool
    number: int

    @property
    def count(self) -> int:
        return self.spool.count(self.number)


def write_deltacommit(
    table: WrittenTable,
    instant: InstantTime,
    partitions: Iterable[Partition],
    fill: Fill,
    room: Room | None,
    listing: FileListing,
    *,
    sole: bool,
) -> None:
    """Raises TableError where a partition has no file groups, with nothing written. `listing`: not older than
    the timeline. `sole`: as of `WrittenTable.complete`.
    """
    shown, ready = table.view, table.partitions
    slices: dict[Partition, list[FileSlice]] = {}
    for name in partitions:
        view = shown if name in ready else table.indexing_view() or shown
        slices[name] = [group[0] for group in table.groups(name, view, listing)]
    with ExitStack() as stack:
        version = table.layout.version
        spools = {
            name: stack.enter_context(
                RecordSpool(
                    _groups(name, found), room, version=version, hashed=hashed_parts(table.data, name)
                )
            )
            for name, found in slices.items()
        }
        fill(spools)
        for spool in spools.values():
            spool.close()
        new = []
        for name, spool in spools.items():
            found = slices[name]
            begun = [FileSlice(name.value, file_id, instant, None) for file_id in spool.ids[len(found) :]]
            known = found if spool.ids and name in ready else []
            new += [*_unfounded(table, known), *begun]
            found += begun
        parts = [
            _Part(slices[name][number], spool, number)
            for name, spool in spools.items()
            for number in spool.filled
        ]
        _write_parts(table, instant, parts, new, sole=sole)


def _unfounded(table: WrittenTable, slices: Sequence[FileSlice]) -> list[FileSlice]:
    """Those that only a write which did not come about has begun: its rollback takes its log files away."""
    bare = [item for item in slices if item.base is None]
    blocks = table.blocks(table.view) if bare else None
    return [item for item in bare if blocks and not any(blocks.shows(log.instant) for log in item.logs)]


def _groups(partition: Partition, slices: Sequence[FileSlice]) -> int | PartitionGroups:
    ids = [item.file_id for item in slices]
    known = [group_id(partition, place) for place in range(len(ids))]
    if partition == Partition.RECORD_INDEX and (not ids or ids != known):
        return PartitionGroups(ids)
    return len(ids)


def _write_parts(
    table: WrittenTable, instant: InstantTime, parts: list[_Part], new: Sequence[FileSlice], *, sole: bool
) -> None:
    """`new` file groups are begun like those of a new partition; their log files go with the instant."""
    requested = Instant(instant, Action.DELTACOMMIT, State.REQUESTED)
    inflight = requested.with_state(State.INFLIGHT)
    begin_instant(table.store, requested)
    begin_instant(table.store, inflight, table.store.content(_intended(parts, new)))
    at_once(new, lambda item: table.begin_group(item.partition, item.file_id, instant))
    stats = at_once(list(enumerate(parts)), partial(_write, table, instant))
    table.complete(inflight, committed(table, stats, _OPERATION), sole=sole)


def committed(
    table: WrittenTable, stats: list[WriteStat], operation: str, compacted: bool = False
) -> CommitMetadata:
    """What a commit of a metadata table says."""
    found: dict[str, tuple[WriteStat, ...]] = {}
    for stat in stats:
        partition = stat.partition_path or ""
        found[partition] = (*found.get(partition, ()), stat)
    extra = {SCHEMA_KEY: commit_schema(table.layout.version)}
    return CommitMetadata(found, compacted, extra, operation)


def _intended(parts: list[_Part], new: Sequence[FileSlice]) -> CommitMetadata:
    files: dict[str, list[PlannedFile]] = {item.partition: [] for item in new}
    for part in parts:
        planned = PlannedFile(part.slice.file_id, part.slice.instant, part.count)
        files.setdefault(part.slice.partition, []).append(planned)
    return inflight_metadata(_OPERATION, {}, files)


def _write(table: WrittenTable, instant: InstantTime, numbered: tuple[int, _Part]) -> WriteStat:
    """The log file of one file group: rows, then deletes."""
    number, part = numbered
    slice_ = part.slice
    slicing = slicing_of(table.timeline)
    wanted = slice_.new_log(slicing, instant, f"{number}-1-1")
    write = partial(_write_blocks, table.record_schema, instant, part)
    name, size = table.write_log(slice_.partition, wanted, write)
    own = [log.name for log in slice_.own_logs]
    begun = slice_.base is not None and slice_.base.instant == slice_.instant
    of_writes = slicing.of_writes
    return WriteStat(
        file_id=slice_.file_id,
        path=join(slice_.partition, str(name)),
        prev_commit=str(instant if of_writes else slice_.instant),
        num_writes=part.count,
        num_update_writes=part.count,
        num_deletes=part.spool.deleted(part.number),
        total_write_bytes=size,
        partition_path=slice_.partition,
        file_size_in_bytes=size,
        runtime_stats=RuntimeStats(),
        log_version=name.version,
        log_offset=0,
        base_file=slice_.base.name if slice_.base is not None and begun and not of_writes else "",
        log_files=(str(name),) if of_writes else (*own, str(name)),
        extra=_NO_STATISTICS,
    )


def _write_blocks(schema: str, instant: InstantTime, part: _Part, log: LogFileWriter) -> None:
    options = new_options()
    headers: dict[int, str] = {HeaderKey.INSTANT_TIME: instant, HeaderKey.SCHEMA: schema}
    for turn in part.spool.blocks(part.number, _BLOCK_BYTES):
        if isinstance(turn, pa.RecordBatch):
            content = io.BytesIO()
            write_cells(content, [turn], schema, options)
            log.append(BlockType.HFILE_DATA, headers, content.getvalue())
        else:
            log.append(BlockType.DELETE, headers, encode_delete_block(_deletes(part.slice.partition, turn)))


def _deletes(partition: str, keys: Array) -> DeleteRecords:
    folder: Any = pa.array([partition]).take(pa.array([0] * len(keys), pa.int8()))
    return DeleteRecords(keys, folder)
