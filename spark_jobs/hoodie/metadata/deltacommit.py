"""A deltacommit of a metadata table: a log file for each file group that gets records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from hoodie.codec.arrays import Array, Ints, pc, rows_of, whole
from hoodie.format.hfile_records import KEY_FIELD, encode_rows
from hoodie.format.log_block import BlockType, HeaderKey
from hoodie.format.log_data import DeleteRecords, encode_delete_block
from hoodie.format.log_file import LogFileWriter
from hoodie.format.names import LogFileName, join
from hoodie.metadata.keys import file_groups
from hoodie.metadata.record_schema import commit_schema, record_schema, whole_records
from hoodie.metadata.records import Records
from hoodie.metadata.table import Partition
from hoodie.metadata.written_table import WrittenTable, at_once, new_options
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

#: bytes of rows in memory that are one block
_BLOCK_BYTES = 128 << 20
#: what Apache Hudi calls the writing of records that know their file groups
_OPERATION = "UPSERT_PREPPED"
#: statistics that a log of a metadata table has none of
_NO_STATISTICS = {"recordsStats": {"val": None}}


@dataclass(frozen=True)
class _Part:
    """What one file group gets."""

    slice: FileSlice
    rows: pa.Table
    deletes: Array


def write_deltacommit(table: WrittenTable, instant: str, records: Mapping[Partition, Records]) -> None:
    """Raises TableError where a partition has no file groups, with nothing written."""
    listing, view = table.listing(), table.view()
    parts: list[_Part] = []
    for partition, given in records.items():
        slices = [group[0] for group in table.groups(partition, view, listing)]
        parts += [_Part(slices[number], *found) for number, found in split(given, len(slices))]
    requested = Instant(instant, Action.DELTACOMMIT, State.REQUESTED)
    inflight = requested.with_state(State.INFLIGHT)
    table.begin(requested)
    table.begin(inflight, _intended(parts).to_json())
    stats = at_once(list(enumerate(parts)), partial(_write, table, instant))
    table.complete(inflight, committed(stats, _OPERATION).to_json())


def committed(stats: list[WriteStat], operation: str, compacted: bool = False) -> CommitMetadata:
    """What a commit of a metadata table says."""
    found: dict[str, tuple[WriteStat, ...]] = {}
    for stat in stats:
        partition = stat.partition_path or ""
        found[partition] = (*found.get(partition, ()), stat)
    extra = {SCHEMA_KEY: commit_schema()}
    return CommitMetadata(found, compacted, extra, operation)


def split(records: Records, groups: int) -> Iterator[tuple[int, tuple[pa.Table, Array]]]:
    """(number of a file group, (its rows, its deletes)) of those that have any."""
    nothing: Any = pa.array([], pa.string())
    keys: Any = whole(records.rows.column(KEY_FIELD))
    deletes: Any = nothing if records.deletes is None else whole(records.deletes)
    if groups == 1:
        if len(keys) or len(deletes):
            yield 0, (records.rows, deletes)
        return
    mine, gone = _places(keys, groups), _places(deletes, groups)
    none: Ints = np.empty(0, np.int64)
    for number in sorted({*mine, *gone}):
        rows = records.rows.take(mine.get(number, none))
        yield number, (rows, deletes.take(pa.array(gone.get(number, none))))


def _places(keys: Any, groups: int) -> dict[int, Ints]:
    """The places of the keys of each file group, in their order."""
    numbers = file_groups(keys, groups)
    order = np.argsort(numbers, kind="stable")
    found, starts = np.unique(numbers[order], return_index=True)
    return dict(zip(found.tolist(), np.split(order, starts[1:]), strict=True)) if len(found) else {}


def _intended(parts: list[_Part]) -> CommitMetadata:
    files: dict[str, list[PlannedFile]] = {}
    for part in parts:
        planned = PlannedFile(part.slice.file_id, part.slice.instant, part.rows.num_rows)
        files.setdefault(part.slice.partition, []).append(planned)
    return inflight_metadata(_OPERATION, {}, files)


def _write(table: WrittenTable, instant: str, numbered: tuple[int, _Part]) -> WriteStat:
    """The log file of one file group: rows, then deletes."""
    number, part = numbered
    slice_ = part.slice
    wanted = LogFileName(slice_.file_id, slice_.instant, slice_.next_version, f"{number}-1-1")
    name, size = table.write_log(slice_.partition, wanted, partial(_write_blocks, instant, part))
    own = [log.name for log in slice_.logs if log.base_instant == slice_.instant]
    begun = slice_.base is not None and slice_.base.instant == slice_.instant
    return WriteStat(
        file_id=slice_.file_id,
        path=join(slice_.partition, str(name)),
        prev_commit=slice_.instant,
        num_writes=part.rows.num_rows,
        num_update_writes=part.rows.num_rows,
        num_deletes=len(part.deletes),
        total_write_bytes=size,
        partition_path=slice_.partition,
        file_size_in_bytes=size,
        runtime_stats=RuntimeStats(),
        log_version=name.version,
        log_offset=0,
        base_file=slice_.base.name if slice_.base is not None and begun else "",
        log_files=(*own, str(name)),
        extra=_NO_STATISTICS,
    )


def _write_blocks(instant: str, part: _Part, log: LogFileWriter) -> None:
    schema, options = record_schema(), new_options()
    headers: dict[int, str] = {HeaderKey.INSTANT_TIME: instant, HeaderKey.SCHEMA: schema}
    rows = whole_records(part.rows)
    step = rows_of(rows, _BLOCK_BYTES)
    for start in range(0, rows.num_rows, step):
        log.append(BlockType.HFILE_DATA, headers, encode_rows(rows.slice(start, step), schema, options))
    if len(part.deletes):
        log.append(BlockType.DELETE, headers, encode_delete_block(_deletes(part)))


def _deletes(part: _Part) -> DeleteRecords:
    folder: Any = pa.array([part.slice.partition]).take(pa.array([0] * len(part.deletes), pa.int8()))
    return DeleteRecords(pc.cast(part.deletes, pa.string()), folder)
