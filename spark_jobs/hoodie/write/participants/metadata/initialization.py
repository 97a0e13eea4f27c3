"""Initialises and drops partitions of the metadata table. The table's properties name the complete ones.

initialise  write the records of the table's files, as of its newest completed instant, then the property.
            Nothing is visible before. After a kill it starts again from the beginning
drop        remove the property, then the folders. Readers that find no entry do without the partition

Only the process that has the table for itself, with no pending instant, calls them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial

from hoodie.codec.prefetch import prefetch
from hoodie.config.key import Config
from hoodie.format.names import BaseFileName, LogFileName, join
from hoodie.metadata.index_definitions import DEFAULT_PATH, define_indexes, forget_indexes
from hoodie.metadata.index_definitions import PATH as DEFINITIONS_PATH
from hoodie.metadata.instants import NEW_TABLE
from hoodie.metadata.partitions import Records
from hoodie.metadata.partitions.files import MetadataListing
from hoodie.metadata.record_spool import RecordSpool
from hoodie.metadata.state import begun_indexes, forget_plans, renew_plans
from hoodie.metadata.table import DEFINED, MetadataTable, Partition
from hoodie.metadata.writer import MetadataWriter
from hoodie.progress import ProgressCallback
from hoodie.storage import FileInfo
from hoodie.table import properties
from hoodie.table.handle import Table
from hoodie.table.listing import FileListing
from hoodie.timeline.active import Timeline
from hoodie.write.participants.metadata import Making, MetadataPartition
from hoodie.write.participants.metadata.footers import DataFile, Files, footers, listed

_FILES = Partition.FILES.value


def make_partitions(
    table: Table, config: Config, wanted: Sequence[MetadataPartition], progress: ProgressCallback
) -> None:
    """Make partitions that are not there. The list of files comes first: other makings read it."""
    making = making_now(table, config)
    rest = [kept for kept in wanted if kept.partition != Partition.FILES]
    if len(rest) < len(wanted):
        listing = table.listing()
        partitions = listing.partitions()
        progress("metadata", f"list the files of {len(partitions)} partitions in a metadata table")
        first = [kept for kept in wanted if kept not in rest]
        _make(table, making, first, files_of(table, listing, partitions))
    if not rest:
        return
    metadata = MetadataTable.open(table)
    assert metadata is not None
    listing = MetadataListing(metadata, table.base_path)
    files = files_of(table, listing, listing.partitions())
    names = ", ".join(kept.partition.value for kept in rest)
    progress("metadata", f"index {sum(map(len, files.values()))} files: {names}")
    _make(table, making, rest, files)


def initial_records(table: Table, config: Config, kept: MetadataPartition, files: Files) -> Iterable[Records]:
    """The records that a partition would begin with, a chunk at a time."""
    making = making_now(table, config)
    if kept.reads_footers:
        for some in footers(table.storage, table.base_path, listed(files)):
            yield kept.of_base_files(making, some)
    yield from kept.initial(making, files)


def drop_partitions(table: Table, gone: Collection[str]) -> None:
    """Drop some partitions; the others stay, `files` among them. Plans to build one of them go last."""
    begun = begun_indexes(table.read_properties())
    take_out(table, gone, [name for name in begun if name not in gone])
    forget_plans(table, gone)


def take_out(table: Table, gone: Collection[str], begun: Collection[str]) -> None:
    """Name partitions no more as ready, and `begun` as begun, then delete their folders: all that there is
    where `files` goes. Definitions of what is not begun go before. The table's properties were read just now.
    """
    later = table.layout.has_completion_time
    if later:  # Apache Hudi's queries go by definitions alone
        forget_indexes(table, {name for name in gone if name.startswith(DEFINED)}, begun)
    left = sorted(set(table.properties.metadata_partitions).difference(gone))
    changes = {
        properties.METADATA_PARTITIONS: ",".join(left) or None,
        properties.METADATA_PARTITIONS_INFLIGHT: ",".join(begun) or None,
    }
    properties.update(table.storage, table.base_path, changes)
    if later:
        there = {*table.properties.metadata_partitions, *gone} if _FILES in gone else {*gone}
        forget_indexes(table, there, begun)
    folder = table.ref.metadata_table.uri
    if Partition.FILES.value in gone:
        table.storage.delete_tree(folder)
    else:
        for name in sorted(set(gone).intersection(table.storage.names(folder))):
            table.storage.delete_tree(join(folder, name))
    table.reopen()


def fill_from_footers(
    making: Making,
    kept: Iterable[MetadataPartition],
    files: Iterable[DataFile],
    spools: Mapping[Partition, RecordSpool],
) -> None:
    """Each footer is read once."""
    readers = [item for item in kept if item.reads_footers]
    if not readers:
        return
    data = making.data
    for some in footers(data.storage, data.base_path, iter(files)):
        for item in readers:
            spools[item.partition].add(item.of_base_files(making, some))


def _make(table: Table, making: Making, wanted: Sequence[MetadataPartition], files: Files) -> None:
    groups = {kept.partition: kept.file_groups(making, files) for kept in wanted}
    fill = partial(fill_all, making, wanted, files)
    MetadataWriter.make(making.data, making.instant, groups, fill, making.room)
    name_ready(table, wanted, making)


def name_ready(table: Table, wanted: Collection[MetadataPartition], making: Making) -> None:
    """Name partitions that were made up to an instant: readers use them from now on. With `files` there are
    no others, and plans to build some start from there.
    """
    there = {kept.partition.value for kept in wanted}
    if _FILES in there:
        renew_plans(table, making.instant)
    else:
        there.update(table.read_properties().metadata_partitions)
    changes = {properties.METADATA_PARTITIONS: ",".join(sorted(there))}
    defined = [kept for kept in wanted if kept.partition != Partition.FILES]
    if table.layout.has_completion_time and defined:
        options = {kept.partition.value: found for kept in defined if (found := kept.options(making))}
        define_indexes(table, {kept.partition.value: kept.columns(making) for kept in defined}, options)
        changes[DEFINITIONS_PATH] = table.properties.get(DEFINITIONS_PATH) or DEFAULT_PATH
    properties.update(table.storage, table.base_path, changes)
    table.reopen()


def fill_all(
    making: Making, wanted: Sequence[MetadataPartition], files: Files, spools: Mapping[Partition, RecordSpool]
) -> None:
    """With all that new partitions begin with."""
    fill_from_footers(making, wanted, listed(files), spools)
    for kept in wanted:
        for records in prefetch(iter(kept.initial(making, files))):
            spools[kept.partition].add(records)


def making_now(table: Table, config: Config) -> Making:
    """As of the newest completed instant."""
    data = Table(table.ref, table.storage)
    upto = data.timeline.last_time or NEW_TABLE
    return Making(data=data, config=config, instant=upto)


def files_of(table: Table, listing: FileListing, partitions: Sequence[str]) -> Files:
    """The data files of the table's commits."""
    return {
        partition: {item.name: item.size for item in items if _counts(table.timeline, item)}
        for partition, items in listing.many(partitions).items()
    }


def _counts(timeline: Timeline, item: FileInfo) -> bool:
    """Is it a data file, and the instant in its name a commit. Empty ones, without rows, are not listed."""
    name = LogFileName.parse(item.name) or BaseFileName.parse(item.name)
    return name is not None and not item.is_dir and item.size > 0 and timeline.is_committed(name.instant)
