"""The making of partitions of a metadata table; `writer` has the order of its steps."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass

import pyarrow as pa

from hoodie.engine.spool import Room
from hoodie.format.hfile_records import write_cells
from hoodie.format.log_block import BlockType, HeaderKey, encode_block
from hoodie.format.log_data import DeleteRecords, encode_delete_block
from hoodie.format.names import HFILE, BaseFileName, LogFileName, join
from hoodie.metadata.deltacommit import Fill, committed
from hoodie.metadata.instants import is_making, making_time
from hoodie.metadata.record_schema import record_schema
from hoodie.metadata.record_spool import RecordSpool
from hoodie.metadata.table import Partition
from hoodie.metadata.written_table import WrittenTable, at_once, group_id, new_options
from hoodie.table import properties
from hoodie.table.partition import ensure_partition
from hoodie.timeline.commit import RuntimeStats, WriteStat
from hoodie.timeline.instant import Action, Instant, State
from hoodie.timeline.time import InstantTime

_OPERATION = "BULK_INSERT_PREPPED"
#: write token of the log files that begin file groups (format.md 5.5)
_TOKEN = "0-0-0"
#: bytes of records that are put in order at a time
_STEP = 4 << 20
#: of the table's name
_SUFFIX = "_metadata"
_PROPERTIES = {
    properties.TYPE: properties.TableType.MERGE_ON_READ.value,
    properties.BASE_FILE_FORMAT: "HFILE",
    properties.RECORD_KEY_FIELDS: "key",
    properties.POPULATE_META_FIELDS: "false",
    properties.KEY_GENERATOR: "org.apache.hudi.metadata.HoodieTableMetadataKeyGenerator",
    properties.PAYLOAD_CLASS: "org.apache.hudi.metadata.HoodieMetadataPayload",
}


@dataclass(frozen=True)
class _Group:
    file_id: str
    number: int
    spool: RecordSpool


def make_partitions(
    table: WrittenTable, upto: InstantTime, groups: Mapping[Partition, int], fill: Fill, room: Room | None
) -> None:
    """`groups`: the number of file groups of each."""
    with ExitStack() as stack:
        spools = {name: stack.enter_context(RecordSpool(count, room)) for name, count in groups.items()}
        fill(spools)
        make_filled(table, upto, spools)


def make_filled(table: WrittenTable, upto: InstantTime, partitions: Mapping[Partition, RecordSpool]) -> None:
    """Partitions whose records are in spools."""
    for spool in partitions.values():
        spool.close()
    if Partition.FILES in partitions:
        table.storage.delete_tree(table.base_path)
        name = f"{table.data.properties.name}{_SUFFIX}"
        properties.create(table.storage, table.base_path, {properties.NAME: name, **_PROPERTIES})
    _forget_killed(table)
    for partition in sorted(partitions, key=lambda item: item is not Partition.FILES):
        _make(table, upto, partition, partitions[partition])


def _forget_killed(table: WrittenTable) -> None:
    """Deltacommits of a making that was killed; what it wrote goes with the partition's folder."""
    for instant in table.refresh().filter((Action.DELTACOMMIT,), completed=False):
        if is_making(instant.time):
            table.store.delete(instant)
    table.refresh()


def _make(table: WrittenTable, upto: InstantTime, partition: Partition, spool: RecordSpool) -> None:
    storage, folder = table.storage, join(table.base_path, partition.value)
    storage.delete_tree(folder)
    taken, number = {instant.time for instant in table.timeline}, 0
    while making_time(upto, number) in taken:
        number += 1
    time = making_time(upto, number)
    ensure_partition(storage, table.base_path, partition.value, time)
    empty = b"".join(
        bytes(part) for part in encode_block(BlockType.DELETE, {HeaderKey.INSTANT_TIME: time}, _no_deletes())
    )
    ids = [group_id(partition, place) for place in range(spool.file_groups)]

    def begin(file_id: str) -> None:
        storage.create(join(folder, str(LogFileName(file_id, time, 1, _TOKEN))), empty)

    at_once(ids, begin)
    requested = Instant(time, Action.DELTACOMMIT, State.REQUESTED)
    inflight = requested.with_state(State.INFLIGHT)
    table.begin(requested)
    table.begin(inflight)
    filled = [_Group(ids[place], place, spool) for place in spool.filled if not spool.is_empty(place)]
    stats = at_once(filled, lambda group: _write(table, partition, time, group))
    table.complete(inflight, committed(stats, _OPERATION))
    table.refresh()


def _no_deletes() -> bytes:
    nothing = pa.array([], pa.string())
    return encode_delete_block(DeleteRecords(nothing, nothing))


def _write(table: WrittenTable, partition: Partition, time: InstantTime, group: _Group) -> WriteStat:
    """The base file of one file group."""
    name = str(BaseFileName(group.file_id, f"{group.number}-0-0", time, HFILE))
    path = join(partition.value, name)
    with table.new_file(join(table.base_path, path)) as sink:
        cells = group.spool.cells(group.number, _STEP)
        count, size = write_cells(sink, cells, record_schema(), new_options())
        sink.commit()
    return WriteStat(
        file_id=group.file_id,
        path=path,
        num_writes=count,
        num_inserts=count,
        total_write_bytes=size,
        partition_path=partition.value,
        file_size_in_bytes=size,
        runtime_stats=RuntimeStats(),
    )
