"""The metadata table of a table that is written to: kept up to date where the settings ask for it, else
removed before anything is changed.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping

from hoodie.config.key import Config
from hoodie.errors import AlreadyExists, TableError, TableNotFound
from hoodie.format.names import BaseFileName, LogFileName, join
from hoodie.metadata.files import MetadataListing
from hoodie.metadata.instants import NEW_TABLE
from hoodie.metadata.records import Records
from hoodie.metadata.records.files import of_clean, of_commit, of_listing, of_rollback
from hoodie.metadata.settings import COMPACT_AFTER, METADATA_ENABLE
from hoodie.metadata.table import FOLDER, MetadataTable, Partition
from hoodie.metadata.upkeep import Upkeep
from hoodie.metadata.writer import MetadataWriter
from hoodie.progress import ProgressCallback
from hoodie.storage import FileInfo
from hoodie.table import properties
from hoodie.table.handle import Table
from hoodie.table.participant import Commit, CommitParticipant
from hoodie.timeline.active import Timeline, instant_path, meta_path
from hoodie.timeline.clean_plan import CleanMetadata
from hoodie.timeline.clock import new_instant_time
from hoodie.timeline.commit import CommitMetadata
from hoodie.timeline.instant import Action, Instant
from hoodie.timeline.plans import RollbackMetadata
from hoodie.timeline.savepoint import SavepointMetadata

_KEYS = (properties.METADATA_PARTITIONS, properties.METADATA_PARTITIONS_INFLIGHT)
_KEPT = Partition.FILES.value


class MetadataTableParticipant(CommitParticipant):
    """`removed`: there was a metadata table, and it went."""

    removed = False

    @abstractmethod
    def due(self, table: Table) -> bool:
        """Does `begin` change something: for actions that run beside writers."""

    def drop(self, table: Table) -> None:
        """Remove the metadata table: what comes can't be followed."""
        self.removed |= drop_metadata_table(table)


class MetadataTableRemoval(MetadataTableParticipant):
    """Follows a commit by having no metadata table."""

    def due(self, table: Table) -> bool:
        return has_metadata_table(table)

    def begin(self, table: Table) -> None:
        self.drop(table)


class MetadataTableUpdate(MetadataTableParticipant):
    """Follows a commit by a deltacommit of the same instant in the metadata table, before it is published:
    readers count both or none (hoodie.metadata.instants).

    One process at a time may change more than that of a metadata table: that which has the table for itself
    while no instant is pending. The others have one.
    """

    def __init__(self, config: Config, progress: ProgressCallback) -> None:
        self._upkeep = Upkeep(compact_after=config[COMPACT_AFTER])
        self._progress = progress

    def due(self, table: Table) -> bool:
        return bool(_not_kept(table.properties))

    def begin(self, table: Table) -> None:
        """Indexes that are not kept up to date here go, the properties first: readers answer without them."""
        props = table.read_properties()
        gone, whole = _not_kept(props), props.metadata_partitions
        if (gone and _KEPT not in whole) or (whole and not table.timeline.holds(FOLDER)):
            self.drop(table)
            return
        if not gone:
            return
        changes = {properties.METADATA_PARTITIONS: _KEPT, properties.METADATA_PARTITIONS_INFLIGHT: None}
        properties.update(table.storage, table.base_path, changes)
        folder = join(meta_path(table.base_path), FOLDER)
        for name in sorted(gone.intersection(table.storage.names(folder))):
            table.storage.delete_tree(join(folder, name))
        table.reopen()
        self._progress("metadata", f"dropped the indexes {', '.join(sorted(gone))}, which are not kept here")

    def settled(self, table: Table) -> None:
        """Make the metadata table where there is none, or let it compact, clean and archive."""
        if any(instant.action is not Action.INDEXING for instant in table.timeline.pending()):
            return
        try:
            writer = MetadataWriter.open(table)
            if writer is not None:
                writer.maintain(self._upkeep)
                return
        except TableError as error:
            self._progress("metadata", f"the metadata table is damaged, and made anew: {error}")
            self.drop(table)
        self._make(table)

    def prepare(self, commit: Commit) -> None:
        data = _opened(commit.table)
        writer = MetadataWriter.open(data)
        if writer is None or isinstance(commit.metadata, SavepointMetadata):
            return
        _refuse_done(commit)
        records = _records(data, commit)
        if records is None:
            self.drop(commit.table)
            return
        try:
            writer.write(commit.instant.time, {Partition.FILES: records})
        except (FileNotFoundError, TableNotFound):
            if MetadataWriter.open(_opened(commit.table)) is not None:
                raise  # else a writer that does not keep it has removed it meanwhile

    def undo(self, table: Table, instant: Instant) -> None:
        data = _opened(table)
        writer = MetadataWriter.open(data)
        if writer is not None:
            by = new_instant_time(data.timeline.last_time, data.properties.timeline_utc)
            writer.rollback(instant.time, by)

    def _make(self, table: Table) -> None:
        """The property last: readers don't look at a metadata table without it."""
        listing, timeline = table.listing(), table.timeline
        partitions = listing.partitions()
        self._progress("metadata", f"list the files of {len(partitions)} partitions in a metadata table")
        files = {
            partition: {item.name: item.size for item in items if _counts(timeline, item)}
            for partition, items in listing.many(partitions).items()
        }
        upto = timeline.last_time or NEW_TABLE
        MetadataWriter.make(_opened(table), upto, {Partition.FILES: (of_listing(files), 1)})
        properties.update(table.storage, table.base_path, {properties.METADATA_PARTITIONS: _KEPT})
        table.reopen()


def metadata_table_participant(config: Config, progress: ProgressCallback) -> MetadataTableParticipant:
    """As the settings ask for it."""
    return MetadataTableUpdate(config, progress) if config[METADATA_ENABLE] else MetadataTableRemoval()


def has_metadata_table(table: Table) -> bool:
    """By the listing of `.hoodie`, or by the properties: those that named none when the table was opened are
    not read again.
    """
    if table.timeline.holds(FOLDER):
        return True
    return _named(table.properties) and _named(table.read_properties())


def drop_metadata_table(table: Table) -> bool:
    """Was there one. Properties first: readers that see the entry gone list the folders themselves."""
    if not has_metadata_table(table):
        return False
    properties.update(table.storage, table.base_path, dict.fromkeys(_KEYS))
    table.storage.delete_tree(join(meta_path(table.base_path), FOLDER))
    table.reopen()
    return True


def _named(props: Mapping[str, str]) -> bool:
    return any(props.get(name) for name in _KEYS)


def _not_kept(props: Mapping[str, str]) -> set[str]:
    """Partitions of the metadata table, finished or not, that nothing here keeps up to date."""
    named = {name.strip() for key in _KEYS for name in props.get(key, "").split(",")}
    found = named - {"", _KEPT}
    whole = {name.strip() for name in props.get(properties.METADATA_PARTITIONS, "").split(",")}
    return found if _KEPT in whole else named - {""}


def _refuse_done(commit: Commit) -> None:
    """Raises AlreadyExists for a clean that another process has completed: its records count already."""
    path = instant_path(commit.table.base_path, commit.instant)
    if isinstance(commit.metadata, CleanMetadata) and commit.table.storage.exists(path):
        raise AlreadyExists(f"{path} is there already", path=path)


def _opened(table: Table) -> Table:
    """As it is now: another process may have removed the metadata table, or made it."""
    return Table(table.ref, table.storage)


def _counts(timeline: Timeline, item: FileInfo) -> bool:
    """Is it a data file, and its slice begun by a commit. Empty ones have no rows, and are not listed."""
    log = LogFileName.parse(item.name)
    base = BaseFileName.parse(item.name)
    began = log.base_instant if log else base.instant if base else None
    return began is not None and not item.is_dir and item.size > 0 and timeline.is_committed(began)


def _records(data: Table, commit: Commit) -> Records | None:
    """None for what is not followed: a restore, before which the metadata table went."""
    metadata = commit.metadata
    if isinstance(metadata, CommitMetadata):
        return of_commit(metadata)
    if isinstance(metadata, CleanMetadata):
        return of_clean(metadata)
    if isinstance(metadata, RollbackMetadata):
        return of_rollback(metadata, _still_listed(data, commit.deleted))
    return None


def _still_listed(data: Table, deleted: Mapping[str, Collection[str]]) -> dict[str, set[str]]:
    """Of the partitions with deleted files, the names that the metadata table has."""
    metadata = MetadataTable.open(data) if deleted else None
    if metadata is None:
        return {}
    listed = MetadataListing(metadata, data.base_path).many(deleted)
    return {partition: {item.name for item in items} for partition, items in listed.items()}
