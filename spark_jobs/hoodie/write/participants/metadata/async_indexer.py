"""Builds indexes while writers run.
1. `begin` lists the table's files, while nothing writes to it.
2. `fill` makes their records, in memory and on local disk. It takes long, and writers continue.
3. `finish` adds the changes since, and creates the partitions and names them as ready. Nothing writes to the
   table meanwhile.
Before the last step the metadata table has no part of it. So a process that dies leaves nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from types import TracebackType

from hoodie.config.key import Config
from hoodie.errors import TableError
from hoodie.metadata.partitions.files import MetadataListing
from hoodie.metadata.record_spool import RecordSpool
from hoodie.metadata.table import MetadataTable, Partition
from hoodie.metadata.writer import MetadataWriter
from hoodie.table.handle import Table
from hoodie.timeline.time import InstantTime
from hoodie.write.participants.metadata import MetadataPartition, Moment
from hoodie.write.participants.metadata.files import FilesPartition
from hoodie.write.participants.metadata.footers import listed
from hoodie.write.participants.metadata.initialization import (
    files_of,
    fill_all,
    fill_from_footers,
    making_now,
    name_ready,
)


class AsyncIndexer:
    """Of partitions but `files`, which is made with them where it is not there. A context manager, which
    frees the disk.
    """

    def __init__(self, table: Table, config: Config, wanted: Sequence[MetadataPartition]) -> None:
        self._table = table
        self._config = config
        self._wanted = [kept for kept in wanted if kept.partition != Partition.FILES]
        self._spools: dict[Partition, RecordSpool] = {}
        self._stack = ExitStack()
        self._then: Moment | None = None

    def __enter__(self) -> AsyncIndexer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def begin(self) -> int:
        """The number of the table's files."""
        self._then = self._moment()
        return sum(map(len, self._then.files.values()))

    def fill(self) -> None:
        """Raises FileNotFoundError where a file was deleted meanwhile, by a clean or a rollback."""
        assert self._then is not None
        making, files = self._then.making, self._then.files
        with self._reading():
            groups = {kept.partition: kept.file_groups(making, files) for kept in self._wanted}
        for partition, count in groups.items():
            self._spools[partition] = self._stack.enter_context(
                RecordSpool(count, making.room, version=making.data.layout.version)
            )
        with self._reading():
            fill_all(making, self._wanted, files, self._spools)

    def finish(self) -> InstantTime:
        """The instant up to which they are made. Raises FileNotFoundError as `fill`, with nothing made."""
        assert self._then is not None
        then, now = self._then, self._moment()
        ready = self._table.read_properties().metadata_partitions
        wanted = [kept for kept in self._wanted if kept.partition.value not in ready]
        spools = {kept.partition: self._spools[kept.partition] for kept in wanted}
        with self._reading():
            for kept in wanted:
                for records in kept.caught_up(then, now):
                    spools[kept.partition].add(records)
        new = {path: dict.fromkeys(names, 0) for path, names in then.lacks(now).items()}
        fill_from_footers(now.making, wanted, listed(new), spools)
        if Partition.FILES.value not in ready:
            version = now.making.data.layout.version
            spool = self._stack.enter_context(RecordSpool(1, now.making.room, version=version))
            for records in FilesPartition().initial(now.making, now.files):
                spool.add(records)
            spools = {Partition.FILES: spool, **spools}
        if spools:
            MetadataWriter.make_filled(now.making.data, now.making.instant, spools)
            made = [FilesPartition()] if Partition.FILES in spools else []
            name_ready(self._table, [*made, *wanted], now.making)
        return now.making.instant

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """What a reader says of a file that was deleted meanwhile is a FileNotFoundError."""
        try:
            yield
        except TableError as error:
            assert self._then is not None
            listing = self._table.listing()
            for path, names in self._then.named():
                if not names <= {item.name for item in listing.files(path)}:
                    raise FileNotFoundError(error.message) from error
            raise

    def _moment(self) -> Moment:
        making = making_now(self._table, self._config)
        data = making.data
        listing = data.listing()
        if Partition.FILES.value in data.properties.metadata_partitions:
            metadata = MetadataTable.open(data)
            assert metadata is not None
            listing = MetadataListing(metadata, data.base_path)
        return Moment(making, files_of(data, listing, listing.partitions()))
