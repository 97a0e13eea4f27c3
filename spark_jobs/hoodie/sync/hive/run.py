"""One sync of a table with a catalog: it compares every entry with the table and corrects it.

- An entry gets the newest commit (`last_commit_time_sync`) after all other changes of it. A sync that ends
  earlier is repeated from where the last one was. Two syncs at once do the same work twice, without harm.
- The sync covers the partitions of the commits since the last one, or all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from hoodie.config.key import Config
from hoodie.errors import ConfigError
from hoodie.progress import ProgressCallback, silent
from hoodie.storage import FileInfo
from hoodie.sync.hive.catalog import (
    Catalog,
    EntryChange,
    PartitionChange,
    Stored,
    adopted,
    catalog,
    check_entry,
    entry_change,
    partition_change,
)
from hoodie.sync.hive.desired_entry import COMMIT_TIME, COMPLETION_TIME, DesiredEntry, Entry, desired_entry_of
from hoodie.sync.settings import CONDITIONAL, CREATE_DATABASE, INCREMENTAL, LOCATION
from hoodie.table.handle import Table
from hoodie.table.partition import PARTITION_FILE
from hoodie.table.table_schema import TableSchema
from hoodie.timeline.active import Timeline
from hoodie.timeline.instant import Action, Instant, in_order
from hoodie.timeline.models.clean import CleanMetadata

_DROPS = "DELETE_PARTITION"


@dataclass(frozen=True, kw_only=True)
class Scope:
    """Partition paths that entries should have, and that they should not; `full`: nor any others."""

    full: bool
    written: frozenset[str]
    dropped: frozenset[str]


def scope(table: Table, timeline: Timeline, commit_time: str | None, completion_time: str | None) -> Scope:
    """Since the newest commit of the last sync, and the time at which the last one of its commits was
    completed. Full where None, where that commit is archived, and where it was undone.
    """
    times = {instant.time for instant in timeline.commits()}
    if commit_time is None or commit_time not in times:
        return _full(table, timeline)
    instants = [
        instant
        for instant in timeline.filter([*_COMMITS, Action.CLEAN], completed=True)
        if instant.is_after(commit_time)
        or (completion_time and str(timeline.completion_time(instant) or "") > completion_time)
    ]
    written, dropped = _followed(table, timeline, instants)
    return Scope(full=False, written=frozenset(written - dropped), dropped=frozenset(dropped))


def _full(table: Table, timeline: Timeline) -> Scope:
    """A partition that was deleted keeps its files until it is cleaned, one that a restore emptied its
    folder.
    """
    instants = timeline.filter(_COMMITS, completed=True)
    deleting = [
        instant
        for instant in instants
        if instant.action is Action.REPLACECOMMIT
        and timeline.commit(instant, table.storage).operation_type == _DROPS
    ]
    dropped: set[str] = set()
    if deleting:
        later = [instant for instant in instants if not instant.is_before(deleting[0].time)]
        _, dropped = _followed(table, timeline, later)
    listing = table.listing()
    folders = listing.many(listing.partitions())
    found = {path for path, items in folders.items() if any(map(_is_data, items))}
    return Scope(full=True, written=frozenset(found - dropped), dropped=frozenset(dropped))


def _is_data(item: FileInfo) -> bool:
    return not item.name.startswith(PARTITION_FILE)


def _followed(table: Table, timeline: Timeline, instants: Iterable[Instant]) -> tuple[set[str], set[str]]:
    """What instants wrote to, and what of all that they dropped last."""
    written: set[str] = set()
    dropped: set[str] = set()
    for instant in in_order(instants):
        if instant.action is Action.CLEAN:
            data = table.storage.read(timeline.path(instant))
            partitions = CleanMetadata.from_bytes(data).partitions if data else {}
            dropped |= {path for path, item in partitions.items() if item.partition_deleted}
            continue
        commit = timeline.commit(instant, table.storage)
        if commit.operation_type == _DROPS:
            dropped |= set(commit.partitions)
        dropped -= set(commit.partition_to_write_stats)
        written |= set(commit.partition_to_write_stats)
    return written, dropped


_COMMITS = (Action.COMMIT, Action.DELTACOMMIT, Action.REPLACECOMMIT)


CREATED, CHANGED, UNCHANGED = "created", "changed", "unchanged"


@dataclass(frozen=True, kw_only=True)
class Synced:
    """What was done, or would be. catalog: its title. entries: of each its `entry` (database.name), `status`
    (created, changed, unchanged), columns and properties that changed, by name, `all_partitions`, whether all
    were compared, and how many partitions were added, moved and dropped. reason: why nothing was done, or "".
    requests: all that the catalog was asked, and those among them that changed something.
    """

    catalog: str
    reason: str = ""
    entries: list[dict[str, Any]] = field(default_factory=list)
    requests: int = 0
    change_requests: int = 0
    warnings: list[str] = field(default_factory=list)


def sync(
    table: Table, config: Config, *, dry_run: bool = False, progress: ProgressCallback = silent
) -> Synced:
    """Sync as the settings say. `config` has what the table persists, too.

    Raises HoodieError: ConfigError, TableMismatch for an entry of something else, SchemaError for a column
    that can't change so, StorageError where the metastore can't be reached or answers with an error. Entries
    that were done before stay so.
    """
    kind = catalog(config)
    timeline = table.refresh()
    schema = TableSchema.load(timeline, table.storage, table.properties)
    columns, commits = schema.columns, timeline.commits()
    if columns is None or schema.avro is None or not commits:
        return Synced(catalog=kind.title, reason="nothing was written to it yet")
    target = desired_entry_of(table.base_path, table.properties, config, columns, schema.avro)
    with kind.opened(config) as metastore:
        target = replace(target, entries=tuple(map(metastore.fitted, target.entries)))
        done = _Sync(table, timeline, config, target, metastore, dry_run)
        there = metastore.has_database(target.database)
        if not there:
            done.create_database()
        entries = []
        for entry in target.entries:
            progress("sync", f"{target.database}.{entry.name}")
            entries.append(done.sync(entry, there))
    changed = any(item["status"] != UNCHANGED for item in entries)
    return Synced(
        catalog=kind.title,
        reason="" if changed else f"{kind.title} has all of it",
        entries=entries,
        requests=metastore.asked,
        change_requests=metastore.changed,
        warnings=done.warnings,
    )


class _Sync:
    def __init__(
        self,
        table: Table,
        timeline: Timeline,
        config: Config,
        target: DesiredEntry,
        metastore: Catalog,
        dry_run: bool,
    ) -> None:
        self._table, self._timeline, self._config = table, timeline, config
        self._target, self._metastore, self._dry_run = target, metastore, dry_run
        self._database = target.database
        self._scopes: dict[tuple[str | None, str | None], Scope] = {}
        self._newest = _newest(timeline)
        self.warnings: list[str] = []

    def create_database(self) -> None:
        if not self._config[CREATE_DATABASE]:
            raise ConfigError(
                f"{self._metastore.title} has no database {self._database}, and "
                f"{CREATE_DATABASE.name}=false; create it, or leave the setting out",
                setting=CREATE_DATABASE.name,
                value=self._database,
            )
        if not self._dry_run:
            self._metastore.create_database(self._database)

    def sync(self, entry: Entry, database_was_there: bool) -> dict[str, Any]:
        stored = self._metastore.entry(self._database, entry.name) if database_was_there else None
        if stored is None:
            return self._create(entry)
        name = f"{self._database}.{entry.name}"
        check_entry(name, entry, stored)
        entry = adopted(entry, stored, self._config.given(LOCATION))
        change = entry_change(name, entry, stored)
        self.warnings += change.warnings
        found = self._scope(stored.parameters)
        partitions = self._partitions(entry, found)
        others = bool(partitions.added or partitions.moved or partitions.dropped)
        at_once = {} if others or change.empty else self._newest
        if not self._dry_run and not change.empty:
            self._metastore.alter(self._database, entry, change, at_once)
        self._apply(entry, partitions)
        changed = others or not change.empty
        noted = not at_once and (changed or not self._config[CONDITIONAL]) and self._note(entry, stored)
        status = CHANGED if changed or noted else UNCHANGED
        return _described(name, status, change, partitions, found)

    def _create(self, entry: Entry) -> dict[str, Any]:
        found = self._scope({})
        written = self._target.values(sorted(found.written)) if self._target.partitioned else {}
        partitions = PartitionChange(added=written, moved={}, dropped=())
        if not self._dry_run:
            more = {} if written else self._newest
            self._metastore.create(self._database, entry, more)
            if written:
                self._metastore.entry(self._database, entry.name)  # as the metastore writes it
                self._apply(entry, partitions)
                self._metastore.alter(self._database, entry, None, self._newest)
        change = EntryChange(added=tuple(item.name for item in entry.columns))
        return _described(f"{self._database}.{entry.name}", CREATED, change, partitions, found)

    def _scope(self, parameters: Mapping[str, str]) -> Scope:
        known = (parameters.get(COMMIT_TIME), parameters.get(COMPLETION_TIME))
        if not self._config[INCREMENTAL]:
            known = (None, None)
        if not self._target.partitioned:
            return Scope(full=False, written=frozenset(), dropped=frozenset())
        if known not in self._scopes:
            self._scopes[known] = scope(self._table, self._timeline, *known)
        return self._scopes[known]

    def _partitions(self, entry: Entry, found: Scope) -> PartitionChange:
        if not self._target.partitioned:
            return PartitionChange(added={}, moved={}, dropped=())
        written = self._target.values(sorted(found.written))
        gone = set(self._target.values(sorted(found.dropped))) - set(written)
        if found.full:
            stored = self._metastore.partitions(self._database, entry)
            gone = set(stored) - set(written)
        else:
            stored = self._metastore.locations(self._database, entry, [*written, *sorted(gone)])
        return partition_change(entry, written, stored, gone)

    def _apply(self, entry: Entry, partitions: PartitionChange) -> None:
        if not self._dry_run:
            self._metastore.add(self._database, entry, partitions.added)
            self._metastore.move(self._database, entry, partitions.moved)
            self._metastore.drop(self._database, entry, partitions.dropped)

    def _note(self, entry: Entry, stored: Stored) -> bool:
        """Whether the entry does not name the newest commit."""
        if all(stored.parameters.get(name) == text for name, text in self._newest.items()):
            return False
        if not self._dry_run:
            self._metastore.alter(self._database, entry, None, self._newest)
        return True


def _newest(timeline: Timeline) -> dict[str, str]:
    commits = timeline.commits()
    moments = [moment for item in commits if (moment := timeline.completion_time(item))]
    found: dict[str, str] = {COMMIT_TIME: commits[-1].time}
    return {**found, COMPLETION_TIME: max(moments, key=str)} if moments else found


def _described(
    name: str, status: str, change: EntryChange, partitions: PartitionChange, found: Scope
) -> dict[str, Any]:
    return {
        "entry": name,
        "status": status,
        "columns_added": list(change.added),
        "columns_retyped": list(change.retyped),
        "columns_dropped": list(change.dropped),
        "columns_commented": list(change.commented),
        "properties": list(change.properties),
        "all_partitions": found.full,
        "partitions_added": len(partitions.added),
        "partitions_moved": len(partitions.moved),
        "partitions_dropped": len(partitions.dropped),
    }
