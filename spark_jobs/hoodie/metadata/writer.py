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
rollback   see `rolling_back`: a command block takes the blocks of a deltacommit back.
maintain   see `compaction`, `cleaning` and `archiving`.

Writes of several instants may overlap, each in a process of its own. The other calls are for the one process
that has the table to itself, or, of writers at once, the lock under which all of them write here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hoodie.engine.spool import Room
from hoodie.metadata.archiving import archive
from hoodie.metadata.cleaning import clean, finish_cleans
from hoodie.metadata.compaction import compact, finish_compactions
from hoodie.metadata.deltacommit import Fill, write_deltacommit
from hoodie.metadata.initialization import make_filled, make_partitions
from hoodie.metadata.record_spool import RecordSpool
from hoodie.metadata.rollback import finish_rollbacks, roll_back, roll_back_pending
from hoodie.metadata.table import Partition
from hoodie.metadata.written_table import DEFAULT, MaintenancePolicy, WrittenTable
from hoodie.table.handle import Table
from hoodie.timeline.time import InstantTime


class MetadataWriter:
    """Of one operation on the table, and of its thread."""

    def __init__(self, table: WrittenTable) -> None:
        self._table = table

    @classmethod
    def open(cls, data: Table) -> MetadataWriter | None:
        """None where the table's properties do not name the list of files. Raises TableError where they do,
        and the metadata table is not there, and UnsupportedVersion for one that Apache Hudi 1.x upgraded.
        """
        if Partition.FILES.value not in data.properties.metadata_partitions:
            return None
        table = WrittenTable(data)
        table.table.read_properties()
        return cls(table)

    @classmethod
    def make(
        cls,
        data: Table,
        upto: InstantTime,
        groups: Mapping[Partition, int],
        fill: Fill,
        room: Room | None = None,
    ) -> None:
        """Make partitions with so many file groups each, as of the instant `upto` of the table (NEW_TABLE for
        one without any); `fill` puts their records into spools, which spill into `room`. Where `files` is
        among them the metadata table itself is made anew; others are added to one that is there.
        """
        make_partitions(WrittenTable(data), upto, groups, fill, room)

    @classmethod
    def make_filled(cls, data: Table, upto: InstantTime, partitions: Mapping[Partition, RecordSpool]) -> None:
        """As `make`, of records that are in spools."""
        make_filled(WrittenTable(data), upto, partitions)

    @property
    def partitions(self) -> list[Partition]:
        """Those that readers may use."""
        return self._table.partitions

    def write(
        self, instant: InstantTime, partitions: Iterable[Partition], fill: Fill, room: Room | None = None
    ) -> None:
        """The deltacommit at an instant of the table, which is not completed yet. `fill` puts records for
        some of the writer's own `partitions`, and of those that Apache Hudi's indexer fills, into spools,
        which spill into `room`, before anything is written; none is a deltacommit, too. Nothing is written
        where another process, at work on the same plan, has completed both instants meanwhile.
        """
        table = self._table
        table.refresh()
        table.sweep(instant)
        finish_rollbacks(table, instant)
        leftover = table.deltacommit(instant)
        if leftover is not None and table.is_shown(instant):
            return
        if leftover is not None:
            roll_back(table, leftover, table.rollback_time(instant))
        write_deltacommit(table, instant, partitions, fill, room)

    def rollback(self, instant: InstantTime, by: InstantTime) -> bool:
        """Take the deltacommit of an instant back, by a later instant of the table. False where there is
        none, or where it `is_compacted`, so that no log block takes its records back: then the caller writes
        records that say the contrary. Again after a kill.
        """
        table = self._table
        table.refresh()
        table.sweep(instant)
        finish_rollbacks(table, instant)
        target = table.deltacommit(instant)
        if target is None or table.is_compacted(instant):
            return False
        roll_back(table, target, table.rollback_time(by))
        return True

    def is_compacted(self, instant: InstantTime) -> bool:
        """Do base files have the records of an instant, or will they, by a pending compaction."""
        self._table.refresh()
        return self._table.is_compacted(instant)

    def roll_back_killed(self) -> None:
        """Roll back what killed processes left unfinished. Apache Hudi's readers stop at the blocks of such a
        deltacommit where its instant is later than the newest that is completed, so that it must not stay
        below others'.
        """
        table = self._table
        table.refresh()
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
