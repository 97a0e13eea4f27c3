"""A metadata table as the process has it that changes it: its timeline, its slices, its instants.

It also decides when the metadata table is compacted, cleaned and archived (format.md 10.7).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TypeVar

import pyarrow as pa

from hoodie.errors import AlreadyExists, TableError
from hoodie.format.hfile_writer import HFileOptions
from hoodie.format.log_block import BlockType, HeaderKey, encode_block
from hoodie.format.log_data import DeleteRecords, encode_delete_block
from hoodie.format.log_file import LogFileWriter
from hoodie.format.names import HFILE, META_FOLDER, LogFileName, join
from hoodie.metadata.index_definitions import index_definitions, is_of_each_partition
from hoodie.metadata.instants import Instants, Own, instants_of, is_indexing
from hoodie.metadata.record_schema import record_schema
from hoodie.metadata.table import DEFINED, Partition
from hoodie.storage import Output
from hoodie.table.handle import Table
from hoodie.table.listing import FileListing, StorageListing
from hoodie.table.view import FileSlice, TimelineView, file_slices
from hoodie.timeline.active import Timeline
from hoodie.timeline.clock import new_instant_time
from hoodie.timeline.instant import Action, Instant
from hoodie.timeline.instant_metadata import Metadata
from hoodie.timeline.placement import Placed
from hoodie.timeline.store import begin_instant, create_alone, create_instant
from hoodie.timeline.time import NO_TIME, REQUESTED, InstantTime

_T = TypeVar("_T")
_R = TypeVar("_R")

#: write token of the log files that begin file groups (format.md 5.5)
_TOKEN = "0-0-0"
#: file groups that are written side by side
THREADS = 4
#: the number of file groups is fixed when a partition is made
_PREFIXES: Mapping[Partition, str] = {
    Partition.FILES: "files-",
    Partition.COLUMN_STATS: "col-stats-",
    Partition.BLOOM_FILTERS: "bloom-filters-",
    Partition.RECORD_INDEX: "record-index-",
    Partition.PARTITION_STATS: "partition-stats-",
}


def group_id(partition: Partition, number: int) -> str:
    """The file id of a file group of a partition."""
    return f"{_prefix(partition)}{number:04d}-0"


def _prefix(partition: str) -> str:
    """With which the file ids of a partition begin; "" of one that is not written here."""
    if partition.startswith(DEFINED):
        return f"{partition.replace('_', '-')}-"
    return _PREFIXES.get(Partition(partition), "")


class WrittenTable(Table):
    """The handle of the metadata table of `data`, to be written."""

    def __init__(self, data: Table) -> None:
        super().__init__(data.ref.metadata_table, data.storage)
        self.data = data

    def take_properties(self, earlier: Table) -> None:
        """Those that another handle of the metadata table has read."""
        self._properties = earlier.properties

    def listed(self) -> FileListing:
        """The files as they are now, and the timeline as it was just before: by one request where a storage
        lists what is below a folder, and there is little.
        """
        found = None if self.storage.fences else StorageListing.of_small(self.storage, self.base_path)
        names = [] if found is None else [item.name for item in found.files(self.layout.folder)]
        if found is None or not names:
            self.refresh(read=False, beside=False)
            return self.listing()
        beside = frozenset(item.name for item in found.files(META_FOLDER))
        utc = self.layout.has_completion_time and self.properties.timeline_utc
        place = Placed(self.layout, frozenset(names), beside, utc)
        timeline = Timeline.load(self.base_path, self.storage, self._timeline, place=place)
        self._timeline, self._view = timeline, None
        return found

    @property
    def instants(self) -> Instants:
        """What its layout has of its own."""
        return instants_of(self.layout)

    @property
    def record_schema(self) -> str:
        """Of its records, with the meta columns."""
        return record_schema(self.layout.version)

    @property
    def partitions(self) -> list[Partition]:
        """Those that readers may use."""
        names = frozenset(self.data.properties.metadata_partitions)
        ordered = sorted(names, key=lambda name: (name != Partition.FILES, name))
        return [Partition(name) for name in ordered if _prefix(name)]

    def data_timeline(self) -> Timeline:
        """That of the table as it is now; its handle keeps what it has listed."""
        return Timeline.load(self.data.base_path, self.storage, self.data.timeline)

    def indexing_view(self) -> TimelineView | None:
        """Also of the file groups that an indexer of Apache Hudi is filling; None where there are none: it
        makes all of them before it begins the deltacommit that fills them.
        """
        filling = frozenset(
            instant.time
            for instant in self.refresh().filter((Action.DELTACOMMIT,))
            if is_indexing(instant.time)
        )
        view = self.view
        return replace(view, committed=view.committed | filling) if filling else None

    def has_groups(self, partition: str, view: TimelineView) -> bool:
        return bool(file_slices(view, self.listing().files, partition, HFILE))

    def blocks(self, view: TimelineView) -> TimelineView:
        """What shows the log blocks that count, by the table's timeline as it is now."""
        return self.instants.shown_blocks(self.data_timeline(), self.timeline, view, self.storage)

    def groups(self, partition: Partition, view: TimelineView, listing: FileListing) -> list[list[FileSlice]]:
        """The slices of each file group, newest first; groups in the order of their numbers."""
        found = file_slices(view, listing.files, partition.value, HFILE)
        wanted = [found[file_id] for file_id in sorted(found) if file_id.startswith(_prefix(partition))]
        if not wanted and not self._grows(partition):
            raise TableError(
                f"partition {partition.value} of the metadata table {self.base_path} has no file groups; "
                "remove the metadata table (a write with hoodie.metadata.enable=false does), and write with "
                "it again",
                path=self.base_path,
                partition=partition.value,
            )
        return wanted

    def _grows(self, partition: Partition) -> bool:
        """Has a partition no file groups before the table has partitions."""
        of_keys = partition == Partition.RECORD_INDEX and self.layout.has_completion_time
        return of_keys and is_of_each_partition(index_definitions(self.data))

    def resume_instant(self, instant: Instant, data: bytes = b"") -> None:
        """Begin what may have been begun."""
        with suppress(AlreadyExists):
            begin_instant(self.store, instant, data)

    def complete(self, instant: Instant, metadata: Metadata, *, sole: bool = False) -> None:
        """Complete an instant of the metadata table. What it shows counts for readers where the table's own
        commit of that time is completed (hoodie.write.commit), which follows. Plans and rollbacks may be
        executed by several processes, which agree on the time. A deltacommit has log files, which belong to a
        slice by that time. So it has the one of its own process, and of two that complete one at least one
        raises AlreadyExists. `sole`: no other process completes the table's instant of that time.
        """
        data = self.store.content(metadata)
        if sole:
            create_instant(self.store, self.completing(instant), data, sole=True)
            return
        if instant.action is Action.DELTACOMMIT:
            create_alone(self.store, self.completing(instant), data)
            return
        completed = self.completing(instant, shared=True)
        try:
            create_instant(self.store, completed, data)
        except AlreadyExists:
            self.settle(completed)
            raise
        self.settle(completed)

    def begin_group(self, partition: str, file_id: str, time: InstantTime) -> None:
        """A log file with an empty delete block, by which a file group is there before it has records. After
        a kill it may be there already.
        """
        nothing = pa.array([], pa.string())
        content = encode_delete_block(DeleteRecords(nothing, nothing))
        block = encode_block(BlockType.DELETE, {HeaderKey.INSTANT_TIME: time}, content)
        path = join(self.base_path, partition, str(LogFileName(file_id, time, 1, _TOKEN)))
        with suppress(AlreadyExists):
            self.storage.create(path, b"".join(map(bytes, block)))

    def write_log(
        self, partition: str, name: LogFileName, write: Callable[[LogFileWriter], object]
    ) -> tuple[LogFileName, int]:
        """(name, bytes) of a new log file, of a later version where another process took the name. A kill
        leaves a file whose last block is torn, which readers pass over.
        """
        while True:
            path = join(self.base_path, partition, str(name))
            try:
                with self.new_file(path, exclusive=True) as sink:
                    log = LogFileWriter(sink)
                    write(log)
                    return name, log.close()
            except AlreadyExists:
                name = name.following

    @contextmanager
    def new_file(self, path: str, *, exclusive: bool = False) -> Iterator[Output]:
        """An output, which is committed inside the block."""
        sink = self.storage.output(path, exclusive=exclusive)
        try:
            yield sink
        except BaseException:
            sink.abandon()
            raise

    def sweep(self, of: InstantTime = NO_TIME) -> None:
        """Delete what killed processes left of unfinished instants, whose times begin with `of`."""
        if self.timeline.has_partial():
            self.storage.sweep_partial(self.store.folder, of)

    def rollback_time(self, of: InstantTime) -> InstantTime:
        """An instant that is free, for a rollback in the metadata table alone."""
        taken = {instant.time for instant in self.timeline}
        return self.instants.rollback_time(of, taken, self.data.properties.timeline_utc)

    def service_time(self, own: Own) -> InstantTime:
        """Of a compaction or a clean, which may be taken already, after the newest deltacommit."""
        newest = self.timeline.filter((Action.DELTACOMMIT,), completed=True)[-1].time
        return self.instants.service_time(own, newest, self._new_time)

    def _new_time(self) -> InstantTime:
        """Later than all on either timeline."""
        last = REQUESTED.last(filter(None, (self.timeline.last_time, self.data_timeline().last_time)))
        return new_instant_time(last, self.data.properties.timeline_utc)

    def deltacommit(self, time: InstantTime) -> Instant | None:
        """The deltacommit of that time, in the state that it has."""
        found = (item for item in self.timeline.filter((Action.DELTACOMMIT,)) if item.time == time)
        return next(found, None)

    def is_shown(self, time: InstantTime) -> bool:
        """Is the table's instant of that time completed now."""
        return any(instant.time == time and instant.completed for instant in self.data_timeline())

    def is_compacted(self, time: InstantTime) -> bool:
        """Do base files have what was written up to an instant, or will they, by a pending plan."""
        return self.instants.is_compacted(self.timeline, time)


def new_options() -> HFileOptions:
    return HFileOptions(created_ms=int(time.time() * 1000))


def at_once(work: Sequence[_T], do: Callable[[_T], _R]) -> list[_R]:
    """What `do` returns of each, in their order."""
    if len(work) < 2:
        return [do(item) for item in work]
    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(do, work))


@dataclass(frozen=True, kw_only=True)
class MaintenancePolicy:
    """`compact_after`: deltacommits since the last compaction. `keep_commits`: those before which old slices
    are cleaned. Of `keep_most` commits on the timeline all but `keep_least` are archived.
    """

    compact_after: int = 10
    keep_commits: int = 20
    keep_least: int = 21
    keep_most: int = 31


#: as Apache Hudi has it
DEFAULT = MaintenancePolicy()
