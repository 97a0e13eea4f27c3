"""The writer of a table's metadata table: its files and instants (format.md 10.4, 10.5, 10.7; Apache Hudi
0.15.0 HoodieBackedTableMetadataWriter).

It knows of the table's commits nothing but their instants. Each call survives a kill between any two of its
steps: what is there then shows nothing, and the same call, or the next one, goes on or begins anew.

make       the metadata table's properties; then each partition: what is in its folder goes, a log file with
           an empty delete block for each file group, the requested and the inflight file of a deltacommit,
           base files, the completed deltacommit. Readers use none of it before the table's properties name
           the partition, which is the caller's last step; until then `make` begins from the start.
write      a deltacommit that an earlier attempt left at the same instant is rolled back; then the requested
           file, the inflight file, which names the file groups, a log file for each of them, the completed
           deltacommit. It counts once the table's own instant of that time is completed: without that it is
           void, whether it was completed or not.
rollback   see `rollback`: a command block takes the blocks of a deltacommit back.
maintain   see `services`.

Writes of several instants may overlap, each in a process of its own. The other calls are for the one process
that has the table to itself, or, of writers at once, the lock under which all of them write here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass

from hoodie.config import versions
from hoodie.config.versions import LayoutVersion
from hoodie.engine.spool import Room
from hoodie.format.hfile_records import write_cells
from hoodie.format.names import HFILE, BaseFileName, join
from hoodie.metadata.deltacommit import Fill, committed, write_deltacommit
from hoodie.metadata.index_definitions import hashed_parts
from hoodie.metadata.instants import is_making
from hoodie.metadata.partition_groups import PartitionGroups
from hoodie.metadata.record_spool import RecordSpool
from hoodie.metadata.rollback import finish_rollbacks, roll_back, roll_back_pending
from hoodie.metadata.services import archive, clean, compact, finish_cleans, finish_compactions
from hoodie.metadata.table import Partition
from hoodie.metadata.written_table import (
    DEFAULT,
    MaintenancePolicy,
    WrittenTable,
    at_once,
    group_id,
    new_options,
)
from hoodie.table import later_names, merge_rule, properties
from hoodie.table.handle import Table
from hoodie.table.partition import ensure_partition
from hoodie.timeline.commit import RuntimeStats, WriteStat
from hoodie.timeline.instant import Action, Instant, State
from hoodie.timeline.store import begin_instant
from hoodie.timeline.time import InstantTime

_OPERATION = "BULK_INSERT_PREPPED"
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


#: of tables of versions 8 and 9 (format.md 15.12)
_LATER_PROPERTIES = {
    properties.TYPE: properties.TableType.MERGE_ON_READ.value,
    properties.BASE_FILE_FORMAT: "HFILE",
    properties.RECORD_KEY_FIELDS: "key",
    properties.POPULATE_META_FIELDS: "false",
    later_names.KEY_GENERATOR_TYPE: "HOODIE_TABLE_METADATA",
    properties.PAYLOAD_CLASS: "org.apache.hudi.metadata.HoodieMetadataPayload",
    merge_rule.MERGE_MODE: merge_rule.MergeMode.CUSTOM.value,
    merge_rule.MERGE_STRATEGY: merge_rule.BY_PAYLOAD,
}


def _properties(data: properties.TableProperties) -> dict[str, str]:
    """Of the metadata table of a table, which has its version, or the earliest that tables are made of."""
    name = {properties.NAME: f"{data.name}{_SUFFIX}"}
    if versions.is_of_layout(data.version, LayoutVersion.ONE):
        return {**name, **_PROPERTIES, properties.VERSION: str(versions.EARLIEST.number)}
    return {**name, **_LATER_PROPERTIES, properties.VERSION: str(data.version)}


@dataclass(frozen=True)
class _Group:
    file_id: str
    number: int
    spool: RecordSpool


def make_partitions(
    table: WrittenTable,
    upto: InstantTime,
    groups: Mapping[Partition, int | PartitionGroups],
    fill: Fill,
    room: Room | None,
) -> None:
    """`groups`: the number of file groups of each, or those of each partition of the table."""
    with ExitStack() as stack:
        version = table.data.layout.version
        spools = {
            name: stack.enter_context(
                RecordSpool(count, room, version=version, hashed=hashed_parts(table.data, name))
            )
            for name, count in groups.items()
        }
        fill(spools)
        make_filled(table, upto, spools)


def make_filled(table: WrittenTable, upto: InstantTime, partitions: Mapping[Partition, RecordSpool]) -> None:
    """Partitions whose records are in spools."""
    for spool in partitions.values():
        spool.close()
    if Partition.FILES in partitions:
        table.storage.delete_tree(table.base_path)
        texts = _properties(table.data.properties)
        properties.create(table.storage, table.base_path, texts)
        table.read_properties()
    _forget_killed(table)
    for partition in sorted(partitions, key=lambda item: item != Partition.FILES):
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
    time = table.instants.making_time(upto, {instant.time for instant in table.timeline})
    ensure_partition(storage, table.base_path, partition.value, time)
    ids = spool.ids or [group_id(partition, place) for place in range(spool.file_groups)]
    at_once(ids, lambda file_id: table.begin_group(partition, file_id, time))
    requested = Instant(time, Action.DELTACOMMIT, State.REQUESTED)
    inflight = requested.with_state(State.INFLIGHT)
    begin_instant(table.store, requested)
    begin_instant(table.store, inflight)
    filled = [_Group(ids[place], place, spool) for place in spool.filled if not spool.is_empty(place)]
    stats = at_once(filled, lambda group: _write(table, partition, time, group))
    table.complete(inflight, committed(table, stats, _OPERATION))
    table.refresh()


def _write(table: WrittenTable, partition: Partition, time: InstantTime, group: _Group) -> WriteStat:
    """The base file of one file group."""
    name = str(BaseFileName(group.file_id, f"{group.number}-0-0", time, HFILE))
    path = join(partition.value, name)
    with table.new_file(join(table.base_path, path)) as sink:
        cells = group.spool.cells(group.number, _STEP)
        count, size = write_cells(sink, cells, table.record_schema, new_options())
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


class MetadataWriter:
    """Of one operation on the table, and of its thread."""

    def __init__(self, table: WrittenTable) -> None:
        self._table = table
        self._data_properties = table.data.properties
        self._listed = False

    @classmethod
    def open(cls, data: Table, earlier: MetadataWriter | None = None) -> MetadataWriter | None:
        """None where the table's properties do not name the list of files. Raises TableError where they do,
        and the metadata table is not there, and UnsupportedVersion for one that Apache Hudi 1.x upgraded.

        `earlier`: one that the same process has opened while it had the table, whose properties still hold
        where those of the table are as they were: who makes a metadata table changes both.
        """
        if Partition.FILES.value not in data.properties.metadata_partitions:
            return None
        table = WrittenTable(data)
        if earlier is not None and earlier._data_properties == data.properties:
            table.take_properties(earlier._table)
        else:
            table.read_properties()
        table.for_writing()
        return cls(table)

    @classmethod
    def make(
        cls,
        data: Table,
        upto: InstantTime,
        groups: Mapping[Partition, int | PartitionGroups],
        fill: Fill,
        room: Room | None = None,
    ) -> None:
        """Make partitions with so many file groups each, or those of each partition of the table, as of the
        instant `upto` of the table (NEW_TABLE for one without any); `fill` puts their records into spools,
        which spill into `room`. Where `files` is among them the metadata table itself is made anew; others
        are added to one that is there.
        """
        make_partitions(WrittenTable(data), upto, groups, fill, room)

    @classmethod
    def make_filled(cls, data: Table, upto: InstantTime, partitions: Mapping[Partition, RecordSpool]) -> None:
        """As `make`, of records that are in spools."""
        make_filled(WrittenTable(data), upto, partitions)

    def _refresh(self) -> None:
        """The timeline as it is now; and the properties, but the first time: `open` has just read them."""
        self._table.refresh(read=self._listed, beside=False)
        self._listed = True

    @property
    def partitions(self) -> list[Partition]:
        """Those that readers may use."""
        return self._table.partitions

    def write(
        self,
        instant: InstantTime,
        partitions: Iterable[Partition],
        fill: Fill,
        room: Room | None = None,
        *,
        sole: bool = False,
    ) -> None:
        """The deltacommit at an instant of the table, which is not completed yet. `fill` puts records for
        some of the writer's own `partitions`, and of those that Apache Hudi's indexer fills, into spools,
        which spill into `room`, before anything is written; none is a deltacommit, too. Nothing is written
        where another process, at work on the same plan, has completed both instants meanwhile. `sole`: no
        other process completes the table's instant.
        """
        table = self._table
        listing, self._listed = table.listed(), True
        repaired = bool(table.timeline.pending())
        table.sweep(instant)
        finish_rollbacks(table, instant)
        leftover = table.deltacommit(instant)
        if leftover is not None and table.is_shown(instant):
            return
        if leftover is not None:
            repaired = True
            roll_back(table, leftover, table.rollback_time(instant))
        if repaired:
            listing = table.listing()
        write_deltacommit(table, instant, partitions, fill, room, listing, sole=sole)

    def rollback(self, instant: InstantTime, by: InstantTime) -> bool:
        """Take the deltacommit of an instant back, by a later instant of the table. False where there is
        none, or where it `is_compacted`, so that no log block takes its records back: then the caller writes
        records that say the contrary. Again after a kill.
        """
        table = self._table
        self._refresh()
        table.sweep(instant)
        finish_rollbacks(table, instant)
        target = table.deltacommit(instant)
        if target is None or table.is_compacted(instant):
            return False
        roll_back(table, target, table.rollback_time(by))
        return True

    def is_compacted(self, instant: InstantTime) -> bool:
        """Do base files have the records of an instant, or will they, by a pending compaction."""
        self._refresh()
        return self._table.is_compacted(instant)

    def roll_back_killed(self) -> None:
        """Roll back what killed processes left unfinished. Apache Hudi's readers stop at the blocks of such a
        deltacommit where its instant is later than the newest that is completed, so that it must not stay
        below others'.
        """
        table = self._table
        self._refresh()
        table.sweep()
        finish_rollbacks(table)
        roll_back_pending(table)

    def maintain(self, upkeep: MaintenancePolicy = DEFAULT) -> None:
        """What is due, before a write: what was killed is finished or rolled back; then a clean, a compaction
        and the archiving of instants. Only while no instant of the table is pending whose deltacommit is
        being written; there is no compaction where one may still be written before the newest.
        """
        self.roll_back_killed()
        table = self._table
        finish_compactions(table)
        finish_cleans(table)
        clean(table, upkeep)
        if compact(table, upkeep):
            archive(table, upkeep)
