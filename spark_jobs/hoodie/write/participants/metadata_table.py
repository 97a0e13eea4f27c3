"""The metadata table of a table that is written to: updates it, or removes it before any change if the
settings say so. Drops indexes and creates them again, after a restore, or if they are wrong:

1. The table's properties name the indexes as begun, and no longer as ready. Readers do without them.
2. Their folders are deleted.
3. They are created (hoodie.write.participants.metadata.initialization), and named as ready.
4. The properties name none as begun.
After a kill, or with a pending instant, the properties still name them, and the next writer continues. Only
the process that has the table for itself calls this.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from functools import partial

from hoodie.codec.prefetch import prefetch
from hoodie.concurrency.gate import is_optimistic
from hoodie.config.key import Config
from hoodie.errors import AlreadyExists, ConfigError, HoodieError, TableError, TableNotFound
from hoodie.format.names import METADATA_TABLE
from hoodie.metadata.index_definitions import forget_indexes, index_definitions
from hoodie.metadata.partitions import Records
from hoodie.metadata.partitions.files import MetadataListing
from hoodie.metadata.record_spool import RecordSpool
from hoodie.metadata.settings import (
    COLUMN_STATS_ENABLE,
    COMPACT_AFTER,
    EXPRESSION_INDEX_COLUMN,
    METADATA_ENABLE,
    PARTITION_STATS_ENABLE,
    PARTITIONED_RECORD_INDEX_ENABLE,
    RECORD_INDEX_ENABLE,
    SECONDARY_INDEX_COLUMN,
)
from hoodie.metadata.state import begun_indexes, check_under_way, forget_plans, indexes_under_way
from hoodie.metadata.table import DEFINED, MetadataTable, Partition
from hoodie.metadata.writer import MetadataWriter
from hoodie.metadata.written_table import MaintenancePolicy
from hoodie.progress import ProgressCallback
from hoodie.table import properties
from hoodie.table.handle import Table
from hoodie.table.participant import Commit, CommitParticipant
from hoodie.timeline.clock import new_instant_time
from hoodie.timeline.commit import CommitMetadata
from hoodie.timeline.instant import Action, Instant
from hoodie.timeline.models.clean import CleanMetadata
from hoodie.timeline.models.indexing import IndexMetadata
from hoodie.timeline.models.rollback import RollbackMetadata
from hoodie.timeline.models.savepoint import SavepointMetadata
from hoodie.write.participants.metadata import ASKED_TO_GO, CannotFollow, Changed, MetadataPartition
from hoodie.write.participants.metadata.definitions import configured, make_defined, unfollowed
from hoodie.write.participants.metadata.footers import written
from hoodie.write.participants.metadata.initialization import (
    drop_partitions,
    fill_from_footers,
    make_partitions,
    take_out,
)
from hoodie.write.participants.metadata.registry import (
    asks_for_index,
    begun_partitions,
    due_to_go,
    left_out,
    made_of,
    named,
    partitions_of,
    to_make,
)

_FILES = Partition.FILES.value


def begin_rebuild(table: Table, names: Collection[str]) -> None:
    """Steps 1 and 2. With `files` all that the table has go. Those that are not kept here go for good. Plans
    to build one of them are void, and go first.
    """
    props = table.read_properties()
    there, begun = props.metadata_partitions, begun_indexes(props)
    gone = {*names, *there, *begun} if _FILES in names else {*names}
    forget_plans(table, gone)
    again = [kept.partition.value for kept in partitions_of({*begun, *gone})]
    take_out(table, gone, again)


def finish_rebuild(table: Table, config: Config, progress: ProgressCallback) -> bool:
    """Steps 3 and 4, as far as the properties say that something is begun; nothing while instants of the
    table are pending, whose files would be missing. Was there something to do.
    """
    begun = begun_partitions(table)
    if not begun or any(item.action is not Action.INDEXING for item in table.timeline.pending()):
        return False
    ready = table.properties.metadata_partitions
    wanted = [
        kept
        for kept in begun
        if kept.partition.value not in ready
        and kept.asked(config) is not False
        and not kept.unfollowed(table, config)
    ]
    if wanted and (_FILES in ready or wanted[0].partition == Partition.FILES):
        _make_those_followed(table, config, wanted, progress)
    if table.layout.has_completion_time:
        ready = table.properties.metadata_partitions
        forget_indexes(table, {item.partition.value for item in begun if item.partition not in ready})
    left = ",".join(sorted(indexes_under_way(table)))
    done = {properties.METADATA_PARTITIONS_INFLIGHT: left or None}
    properties.update(table.storage, table.base_path, done)
    table.reopen()
    return True


def _with_those_of(table: Table, error: CannotFollow) -> dict[str, str]:
    """What goes with an index that can't be kept, each with the reason."""
    ready, lost = table.properties.metadata_partitions, error.partition.value
    return {name: error.why for name in (lost, *ready) if lost in (name, made_of(name))}


def _make_those_followed(
    table: Table, config: Config, wanted: list[MetadataPartition], progress: ProgressCallback
) -> dict[str, str]:
    """Those that can't be made, with the reason of each."""
    try:
        make_partitions(table, config, wanted, progress)
    except CannotFollow as error:
        progress("metadata", f"{error}; it is not made")
        there, lost = table.read_properties().metadata_partitions, error.partition
        with_it = [kept for kept in wanted if lost in (kept.partition, made_of(kept.partition))]
        if not with_it:
            raise
        left = [kept for kept in wanted if kept not in with_it and kept.partition not in there]
        found = {kept.partition.value: error.why for kept in with_it}
        return {**found, **_make_those_followed(table, config, left, progress)}
    return {}


_KEYS = (properties.METADATA_PARTITIONS, properties.METADATA_PARTITIONS_INFLIGHT)


class MetadataTableParticipant(CommitParticipant):
    """`removed`: there was a metadata table, and it went. `warnings`: what was lost of it, and why, where the
    settings did not ask for that.
    """

    def __init__(self) -> None:
        self.removed = False
        self.warnings: list[str] = []

    @abstractmethod
    def due(self, table: Table) -> bool:
        """Does `begin` change something: for actions that run beside writers."""

    def drop(self, table: Table, why: str = "") -> None:
        """Remove the metadata table: what comes can't be followed."""
        there = bool(table.properties.metadata_partitions)
        self.removed |= drop_metadata_table(table)
        if there and why:
            self.warnings.append(f"the metadata table of {table.base_path} was removed: {why}")

    def suspend(self, table: Table) -> None:
        """Go without the metadata table until `resume`; see hoodie.write.participants.metadata_table."""
        self.drop(table)

    def resume(self, table: Table) -> None:
        """Make what was suspended again. Raises nothing: the next writer finds what is left to do."""


class MetadataTableRemoval(MetadataTableParticipant):
    """Follows a commit by having no metadata table."""

    def due(self, table: Table) -> bool:
        return has_metadata_table(table)

    def begin(self, table: Table) -> None:
        self.drop(table)


class MetadataTableUpdate(MetadataTableParticipant):
    """Follows a commit by a deltacommit of the same instant in the metadata table, before it is published:
    readers count both or none (hoodie.metadata.instants). `hoodie.write.participants.metadata` says what is
    in its partitions. Where the settings say nothing of a metadata table, a table without commits gets one,
    and others stay as they are.

    One process at a time may change more than that of a metadata table: that which has the table for itself
    while no instant is pending. The others have one. Writers at once do all of it under their lock.
    """

    def __init__(self, config: Config, progress: ProgressCallback) -> None:
        super().__init__()
        self._config = config
        self._asked = config.given(METADATA_ENABLE) or bool(asks_for_index(config))
        self._upkeep = MaintenancePolicy(compact_after=config[COMPACT_AFTER])
        self._progress = progress
        self._at_once = is_optimistic(config)
        #: that kept the metadata table when this process took the table
        self._writer: MetadataWriter | None = None

    def due(self, table: Table) -> bool:
        return has_metadata_table(table) and bool(due_to_go(table, self._config))

    def begin(self, table: Table) -> None:
        """Partitions that are not kept up to date here go, the properties first: readers answer without
        them.
        """
        if not has_metadata_table(table):
            return
        whole, gone = table.listed_properties.metadata_partitions, due_to_go(table, self._config)
        if Partition.FILES.value in gone or (gone and not whole):
            self.drop(table, "; ".join(sorted(set(gone.values()))))
        elif not whole and not begun_partitions(table):
            self.drop(table)  # of a making that was killed
        elif whole and not table.timeline.holds(METADATA_TABLE):
            self._restart(table, "its folder is gone")
        elif gone:
            self._drop(table, gone)

    def settled(self, table: Table) -> None:
        """Make what the settings ask for and is not there, or let the metadata table compact, clean and
        archive. None of it while Apache Hudi builds an index: its deltacommit is pending there.
        """
        pending = any(instant.action is not Action.INDEXING for instant in table.timeline.pending())
        if pending and not self._at_once:
            return
        if indexes_under_way(table):
            return
        finish_rebuild(table, self._config, self._progress)
        try:
            self._writer = writer = MetadataWriter.open(table)
            if writer is not None:
                writer.maintain(self._upkeep)
        except TableError as error:
            self._restart(table, error.message)
            finish_rebuild(table, self._config, self._progress)
        if pending:
            return
        new = self._config[METADATA_ENABLE] and not table.timeline.commits()
        if self._asked or new:
            self._make(table)
        if self._config[SECONDARY_INDEX_COLUMN] or self._config[EXPRESSION_INDEX_COLUMN]:
            self._define(table)

    def _make(self, table: Table) -> None:
        """What the settings ask for and is not there; what can't be made is named in the warnings."""
        lost = left_out(table, self._config)
        wanted = to_make(table, self._config)
        if wanted:
            lost.update(_make_those_followed(table, self._config, wanted, self._progress))
        for name, why in lost.items():
            self.warnings.append(f"the index {name} of {table.base_path} is not made: {why}")

    def _define(self, table: Table) -> None:
        """Make the indexes of columns that the settings ask for and that can be kept."""
        for definition in configured(table, self._config):
            there = {*table.properties.metadata_partitions, *begun_indexes(table.properties)}
            base = made_of(definition.name) or _FILES
            if definition.name not in there and base in there and not unfollowed(table, definition):
                make_defined(table, self._config, definition, self._progress)

    def suspend(self, table: Table) -> None:
        if has_metadata_table(table) and named(table.properties):
            begin_rebuild(table, [Partition.FILES.value])

    def resume(self, table: Table) -> None:
        try:
            table.refresh()
            finish_rebuild(table, self._config, self._progress)
        except (HoodieError, OSError) as error:
            self.warnings.append(
                f"the metadata table of {table.base_path} could not be made again ({error}); the next write "
                "makes it"
            )

    def prepare(self, commit: Commit) -> None:
        """A metadata table that is damaged goes, so that it keeps no one from the table."""
        if not commit.table.timeline.holds(METADATA_TABLE):  # it is made while no instant is pending
            return
        try:
            self._prepare(commit)
        except CannotFollow as error:
            self._drop(commit.table, _with_those_of(commit.table, error))
            self.prepare(commit)
        except TableError as error:
            self._restart(commit.table, error.message)

    def _prepare(self, commit: Commit) -> None:
        data = _opened(commit.table)
        writer = MetadataWriter.open(data, self._writer)
        if writer is None or isinstance(commit.metadata, (SavepointMetadata, IndexMetadata)):
            return
        _check_not_done(commit)
        if self._at_once:
            writer.roll_back_killed()
        changed = Changed(
            data=data,
            config=self._config,
            instant=commit.instant.time,
            commit=commit,
            deleted=_deleted(data, commit),
        )
        if _follows_by_rollback(data, commit) and not any(changed.deleted.values()):
            return
        under_way = indexes_under_way(data)
        check_under_way(data, under_way)
        names = {*data.properties.metadata_partitions, *under_way}
        found = {kept: kept.changes(changed) for kept in partitions_of(names)}
        lost = {
            kept.partition.value: "it can't follow this" for kept, given in found.items() if given is None
        }
        if Partition.FILES.value in lost:
            self.drop(commit.table, f"it can't follow the {commit.instant.action.value} {changed.instant}")
            return
        for name, why in lost.items():
            self.warnings.append(
                f"the index {name} of {data.base_path} is made anew by the next write: {why}"
            )
        if lost:
            begin_rebuild(commit.table, lost)
        records = {kept: given for kept, given in found.items() if given is not None}
        partitions = [kept.partition for kept in records]
        try:
            fill = partial(_fill, changed, records)
            writer.write(changed.instant, partitions, fill, changed.room, sole=commit.sole)
        except (FileNotFoundError, TableNotFound):
            if MetadataWriter.open(_opened(commit.table)) is not None:
                raise  # else a writer that does not keep it has removed it meanwhile

    def undo(self, table: Table, instant: Instant) -> None:
        if instant.action is Action.SAVEPOINT:  # the deltacommit of that time is its commit's
            return
        data = _opened(table)
        try:
            writer = MetadataWriter.open(data)
            if writer is not None:
                by = new_instant_time(data.timeline.last_time, data.properties.timeline_utc)
                writer.rollback(instant.time, by)
        except TableError as error:
            self._restart(table, error.message)

    def _drop(self, table: Table, gone: Mapping[str, str]) -> None:
        """`gone`: partitions, and why."""
        drop_partitions(table, gone)
        for name, why in gone.items():
            if why != ASKED_TO_GO:
                self.warnings.append(f"the index {name} of {table.base_path} was dropped: {why}")
            self._progress("metadata", f"dropped the index {name}: {why}")

    def _restart(self, table: Table, why: str) -> None:
        self._progress("metadata", f"the metadata table is damaged, and made anew: {why}")
        self.warnings.append(f"the metadata table of {table.base_path} was damaged, and is made anew: {why}")
        begin_rebuild(table, [Partition.FILES.value])


def metadata_table_participant(config: Config, progress: ProgressCallback) -> MetadataTableParticipant:
    """As the settings ask for it. Raises ConfigError for an index without the metadata table, for two record
    indexes, of which a table has one, and for partition_stats without column_stats.
    """
    if config[RECORD_INDEX_ENABLE] and config[PARTITIONED_RECORD_INDEX_ENABLE]:
        raise ConfigError(
            f"{RECORD_INDEX_ENABLE.name}=true and {PARTITIONED_RECORD_INDEX_ENABLE.name}=true: a table has "
            "one record index, of all partitions or of each; leave one of the two out",
            setting=PARTITIONED_RECORD_INDEX_ENABLE.name,
            value="true",
        )
    asked = asks_for_index(config)
    if config[PARTITION_STATS_ENABLE] and config[COLUMN_STATS_ENABLE] is False:
        raise ConfigError(
            f"{PARTITION_STATS_ENABLE.name}=true and {COLUMN_STATS_ENABLE.name}=false: partition_stats is "
            f"made of column_stats; switch on {COLUMN_STATS_ENABLE.name}, or leave one of the two out",
            setting=PARTITION_STATS_ENABLE.name,
            value="true",
        )
    if config[METADATA_ENABLE] is False and asked:
        raise ConfigError(
            f"{METADATA_ENABLE.name}=false, and the index {asked[0].partition.value} is a part of the "
            "metadata table; switch the index off, too, or leave the setting out",
            setting=METADATA_ENABLE.name,
            value="false",
        )
    return (
        MetadataTableRemoval() if config[METADATA_ENABLE] is False else MetadataTableUpdate(config, progress)
    )


def has_metadata_table(table: Table) -> bool:
    """By the listing of `.hoodie`, or by the properties: those that named none when the table was opened are
    not read again.
    """
    if table.timeline.holds(METADATA_TABLE):
        return True
    return bool(named(table.properties) and named(table.read_properties()))


def drop_metadata_table(table: Table) -> bool:
    """Was there one. Properties first: readers that see the entry gone list the folders themselves. But
    Apache Hudi's queries go by the definitions of indexes of columns alone.
    """
    if not has_metadata_table(table):
        return False
    if table.layout.has_completion_time:
        with suppress(TableError):  # no one reads definitions that are damaged
            forget_indexes(table, [name for name in index_definitions(table) if name.startswith(DEFINED)])
    properties.update(table.storage, table.base_path, dict.fromkeys(_KEYS))
    table.storage.delete_tree(table.ref.metadata_table.uri)
    forget_plans(table, begun=True)
    table.reopen()
    return True


def _check_not_done(commit: Commit) -> None:
    """Raises AlreadyExists for a clean that another process has completed: its records count already."""
    store = commit.table.store
    if isinstance(commit.metadata, CleanMetadata) and store.exists(commit.instant):
        path = store.path(commit.instant)
        raise AlreadyExists(f"{path} is there already", path=path)


def _follows_by_rollback(data: Table, commit: Commit) -> bool:
    """Is all that the instant changes that another one's deltacommit is rolled back, as `undo` has done."""
    return data.layout.has_completion_time and isinstance(commit.metadata, RollbackMetadata)


def _opened(table: Table) -> Table:
    """As it is now: another process may have removed the metadata table, or made it."""
    return Table(table.ref, table.storage)


def _fill(
    changed: Changed,
    found: Mapping[MetadataPartition, Iterable[Records]],
    spools: Mapping[Partition, RecordSpool],
) -> None:
    if isinstance(changed.commit.metadata, CommitMetadata):
        fill_from_footers(changed, found, written(changed.commit.metadata), spools)
    for kept, given in found.items():
        for records in prefetch(iter(given)):
            spools[kept.partition].add(records)


def _deleted(data: Table, commit: Commit) -> dict[str, set[str]]:
    """Of a clean the names that it was to delete, of a rollback those that it deleted and the metadata table
    has: of an instant that was compacted there, so that its records were not taken back.
    """
    metadata = commit.metadata
    if isinstance(metadata, CleanMetadata):
        return {
            path: {file.rpartition("/")[2] for file in item.patterns}
            for path, item in metadata.partitions.items()
        }
    if not isinstance(metadata, RollbackMetadata) or not commit.deleted:
        return {}
    table = MetadataTable.open(data)
    if table is None:
        return {}
    listed = MetadataListing(table, data.base_path).many(commit.deleted)
    there = {path: {item.name for item in items} for path, items in listed.items()}
    return {path: there[path].intersection(names) for path, names in commit.deleted.items()}
