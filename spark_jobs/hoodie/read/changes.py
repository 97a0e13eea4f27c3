"""Change data of a table: which files say what each commit of a span did (format.md 12.3).

Planned commit by commit and file group by file group, from the commits of the active timeline; commits that
only write rows anew (compaction, clustering) change nothing. What files can't tell any more is an error.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import pyarrow as pa

from hoodie.config.key import Config
from hoodie.config.versions import LayoutVersion
from hoodie.errors import ConfigError, TableError
from hoodie.format.cdc import COLUMNS, LOGGING_MODE, LoggingMode
from hoodie.format.meta_fields import without_meta
from hoodie.format.names import BaseFileName, LogFileName, join
from hoodie.read.log_merge import SliceContext
from hoodie.read.log_merger import check_mergeable, table_merger
from hoodie.read.partition_values import PathColumns
from hoodie.read.query import Query, QueryType
from hoodie.read.readable_range import (
    check_known_since,
    commits_in_order,
    gone,
    last_before_pending,
    to_be_cleaned,
)
from hoodie.read.settings import (
    FROM_PATH,
    HOLES_POLICY,
    INCREMENTAL_FORMAT,
    MERGE_BUDGET,
    SPILL_PATH,
    IncrementalFormat,
)
from hoodie.read.table_view import chosen, read_schema
from hoodie.storage import FileInfo
from hoodie.table import properties
from hoodie.table.features import Feature, check_features, keeps_changes
from hoodie.table.handle import Table, TableRef
from hoodie.table.properties import TableProperties
from hoodie.table.table_schema import TableSchema
from hoodie.table.view import BaseFile, FileSlice, LogFile, TimelineView, file_slices, with_input
from hoodie.timeline.commit import KEEPS_SCHEMA, CommitMetadata, ReplaceCommitMetadata, WriteStat
from hoodie.timeline.instant import Instant
from hoodie.timeline.time import NO_TIME, REQUESTED, InstantTime

#: of an answer's rows
SCHEMA = pa.schema([pa.field(name, pa.string()) for name in COLUMNS])
#: (partition path, file id)
Group = tuple[str, str]


def asks_changes(query: Query | None, config: Config) -> bool:
    """Is it a query of change data. Raises ConfigError where the format is asked of another kind of query."""
    if config[INCREMENTAL_FORMAT] is not IncrementalFormat.CDC:
        return False
    if query is None or query.type is not QueryType.INCREMENTAL:
        kind = (query or Query()).type.value
        raise ConfigError(
            f"{INCREMENTAL_FORMAT.name}=cdc is asked of a query of type {kind}; ask incrementally, with "
            "begin (an instant, or 'earliest')",
            query=kind,
        )
    return True


class How(enum.Enum):
    """Where the changes of a commit in a file group are.

    LOGGED: in change log files. INSERTED: all rows of `after`. APPENDED: those rows of `after` that the
    commit wrote. DELETED: all rows of `before`. REWRITTEN: rows of `after` that the commit wrote, and rows
    of `before` that it left out. MERGED: in log files of the slice, `after` that commit and before it.
    """

    LOGGED = "logged"
    INSERTED = "inserted"
    APPENDED = "appended"
    DELETED = "deleted"
    REWRITTEN = "rewritten"
    MERGED = "merged"


@dataclass(frozen=True, kw_only=True)
class Change:
    """What one commit did to one file group. Picklable.

    `logs` are change logs, or the log files that the commit wrote. `count`: rows that it says to have
    inserted.
    """

    instant: InstantTime
    partition: str
    file_id: str
    how: How
    logs: tuple[LogFile, ...] = ()
    before: FileSlice | None = None
    after: FileSlice | None = None
    count: int = 0

    @property
    def size(self) -> int:
        """Bytes to read, about."""
        slices = [item.size for item in (self.before, self.after) if item is not None]
        return sum(slices) + sum(log.size for log in self.logs)


@dataclass(frozen=True)
class ChangeView:
    """The changes of a span of commits, in the order of the commits. Picklable.

    `context` is that of the newest commit of the span; its schema is the table's newest.
    """

    ref: TableRef
    changes: tuple[Change, ...]
    context: SliceContext
    path_columns: PathColumns
    #: when the commits were completed, where changes go by that: of tables of versions 8 and 9
    completed: Mapping[InstantTime, InstantTime] = field(default_factory=dict)

    @classmethod
    def load(cls, table: Table, query: Query, config: Config) -> ChangeView:
        """Lists the partitions that the commits wrote to.

        Raises ConfigError for a table without a change log or without meta columns, StateUnavailable where
        commits of the span are archived or files that they are told by are cleaned, TableBusy as an
        incremental query, TableError for commits that contradict themselves.
        """
        props, timeline, storage = table.properties, table.timeline, table.storage
        check_keeps_changes(props)
        check_features(props, "read", "read", Feature.OTHER_BASE_FILES, Feature.OTHER_FORMAT)
        commits = commits_in_order(table)
        newest = commits[-1][0] if commits else NO_TIME
        end = min(query.end or newest, newest, key=REQUESTED.key)
        by_completion = table.layout.version is not LayoutVersion.ONE
        if not by_completion:
            end = last_before_pending(table, config[HOLES_POLICY], end)
        begin = query.begin or NO_TIME
        check_known_since(table, begin, end)
        table_schema = TableSchema.load(timeline, storage, props)
        snapshot = TimelineView.of(timeline, storage, end, by_completion)
        within = [
            instant for at, instant in commits if REQUESTED.after(at, begin) and REQUESTED.until(at, end)
        ]
        changes = tuple(_planned(table, snapshot, within))
        slices = [item for change in changes for item in (change.before, change.after) if item is not None]
        logs = any(change.how is How.MERGED for change in changes) or any(item.logs for item in slices)
        table_schema.check_read_fields(props, merged=logs)
        schema, path_columns = read_schema(props, table_schema.avro, slices, storage, config[FROM_PATH])
        if logs:
            check_mergeable(table.base_path, props, table_schema.avro)
        context = SliceContext(
            schema=schema,
            snapshot=snapshot,
            merger=table_merger(props, config, without_meta(schema)) if logs else None,
            ordering=props.precombine_field,
            budget=config[MERGE_BUDGET],
            spill_path=config[SPILL_PATH] or "",
            evolution=table_schema.evolution,
        )
        completed = {instant.time: at for at, instant in commits} if by_completion else {}
        return cls(table.ref, changes, context, path_columns, completed)

    def columns(self, columns: Sequence[str] | None) -> list[str]:
        """Names to return, in the order asked for. Raises ConfigError as `TableView.columns`."""
        return list(COLUMNS) if columns is None else chosen(SCHEMA.names, columns, self.ref.uri)

    def before(self, commit: InstantTime) -> SliceContext:
        """How slices are read in the state before a commit."""
        bound = self.completed.get(commit, commit)
        return self._state(just_before(commit), lambda at: REQUESTED.before(at, bound))

    def after(self, commit: InstantTime) -> SliceContext:
        """How slices are read in the state after a commit and those before it."""
        bound = self.completed.get(commit, commit)
        return self._state(commit, lambda at: REQUESTED.until(at, bound))

    def _state(self, as_of: InstantTime, within: Callable[[InstantTime], bool]) -> SliceContext:
        snapshot, completed = self.context.snapshot, self.completed
        committed = frozenset(time for time in snapshot.committed if within(completed.get(time, time)))
        bound = snapshot.as_of if completed else as_of
        return replace(self.context, snapshot=replace(snapshot, committed=committed, as_of=bound))


def just_before(instant: InstantTime) -> InstantTime:
    """A time that no commit before the instant is later than."""
    return InstantTime(str(int(instant) - 1).zfill(len(instant)))


def check_keeps_changes(props: TableProperties) -> None:
    """Raises ConfigError for a table whose changes are not told."""
    if not keeps_changes(props):
        raise ConfigError(
            f"table {props.name} keeps no change log ({properties.CDC_ENABLED}=false), so that it has no "
            f"queries of change data; leave out {INCREMENTAL_FORMAT.name} for the rows that were written",
            table=props.name,
        )
    if not props.populate_meta_fields:
        raise ConfigError(
            f"table {props.name} keeps no meta columns ({properties.POPULATE_META_FIELDS}=false), so that "
            "rows before and after a change can't be matched; it has no queries of change data",
            table=props.name,
        )


def _planned(table: Table, snapshot: TimelineView, within: Iterable[Instant]) -> Iterator[Change]:
    timeline, storage = table.timeline, table.storage
    commits: list[tuple[Instant, CommitMetadata]] = []
    for instant in within:
        commit = timeline.commit(instant, storage)
        if commit.operation_type not in KEEPS_SCHEMA and not timeline.kind(instant, storage).rewrites:
            commits.append((instant, commit))
    partitions = sorted({partition for _, commit in commits for partition in commit.partitions})
    planner = _Planner(
        table=table,
        snapshot=snapshot,
        mode=LoggingMode.of(table.properties.get(LOGGING_MODE)),
        listed=table.listing().many(partitions),
        cleaned=to_be_cleaned(table),
    )
    for instant, commit in commits:
        yield from planner.changes(instant.time, commit)


@dataclass
class _Folder:
    """One partition: its files by name, and all committed slices by file id, newest first."""

    files: Mapping[str, FileInfo]
    slices: Mapping[str, Sequence[FileSlice]]


@dataclass(kw_only=True)
class _Planner:
    """`cleaned` are names of files that a pending clean is going to delete."""

    table: Table
    snapshot: TimelineView
    mode: LoggingMode
    listed: Mapping[str, Sequence[FileInfo]]
    cleaned: frozenset[str]
    _folders: dict[str, _Folder] = field(default_factory=dict)

    def changes(self, instant: InstantTime, commit: CommitMetadata) -> Iterator[Change]:
        """By partition and file id; of a commit that replaces file groups, the rows that are gone first."""
        for group in _gone_by(commit):
            if self._replaced.get(group, instant) == instant:
                yield self._of_replaced(instant, *group)
        for partition, stats in sorted(commit.partition_to_write_stats.items()):
            merged: dict[str, list[WriteStat]] = {}
            for stat in sorted(stats, key=lambda stat: (stat.file_id, stat.path or "")):
                if stat.cdc_stats:
                    yield self._of_log(instant, partition, stat)
                elif LogFileName.parse(stat.file_name) is not None:
                    merged.setdefault(stat.file_id, []).append(stat)
                elif stat.path and (change := self._of_base(instant, partition, stat)) is not None:
                    yield change
            for file_id, written in merged.items():
                yield self._of_merged(instant, partition, file_id, written)

    def _of_log(self, instant: InstantTime, partition: str, stat: WriteStat) -> Change:
        names = sorted(path.rpartition("/")[2] for path in stat.cdc_stats or ())
        change = Change(
            instant=instant,
            partition=partition,
            file_id=stat.file_id,
            how=How.LOGGED,
            logs=tuple(self._log(instant, partition, name) for name in names),
        )
        if self.mode is LoggingMode.DATA_BEFORE_AFTER:
            return change
        before = None
        if self.mode is LoggingMode.OP_KEY_ONLY and not stat.is_new_file_group:
            before = self._previous(instant, partition, stat)
        return replace(change, before=before, after=self._written(instant, partition, stat))

    def _of_base(self, instant: InstantTime, partition: str, stat: WriteStat) -> Change | None:
        """Of a base file without a change log: its rows are all new, or the earlier ones all gone, or both
        files are compared, as where the table did not keep the log yet. Deletes that a new file counts are of
        rows that were not there.
        """
        made = partial(Change, instant=instant, partition=partition, file_id=stat.file_id)
        deletes = stat.num_deletes and not stat.is_new_file_group
        if not stat.num_update_writes and not deletes and stat.num_inserts <= stat.num_writes:
            if not stat.num_inserts:
                return None  # a copy, or a file without rows
            how = How.INSERTED if stat.num_inserts == stat.num_writes else How.APPENDED
            after = self._written(instant, partition, stat)
            return made(how=how, after=after, count=stat.num_inserts)
        if stat.is_new_file_group:
            raise TableError(
                f"commit {instant} says of the new file {stat.path} that it updated rows, so that "
                f"its changes are not known. Ask for changes after it, begin={instant}",
                instant=instant,
                path=stat.path or "",
            )
        before = self._previous(instant, partition, stat)
        if not stat.num_writes:
            return made(how=How.DELETED, before=before)
        return made(how=How.REWRITTEN, before=before, after=self._written(instant, partition, stat))

    def _of_merged(
        self, instant: InstantTime, partition: str, file_id: str, stats: Sequence[WriteStat]
    ) -> Change:
        """Of rows and deletes that were appended to a slice's logs."""
        names = [stat.file_name for stat in stats]
        parsed = [name for name in map(LogFileName.parse, names) if name is not None]
        begun = [item.instant for item in self._folder(partition).slices.get(file_id, ())]
        slice_ = max((self.snapshot.slicing.slice_of(name, begun) for name in parsed), key=REQUESTED.key)
        for stat in stats:
            for name in (stat.file_name, stat.base_file or "", *(stat.log_files or ())):
                if name:
                    self._file(instant, partition, name.rpartition("/")[2])
        after = self._state(partition, file_id, slice_)
        if after is None or after.instant != slice_ or self._lost_base(after):
            raise self._gone(instant, f"the base file of {join(partition, names[0])}")
        return Change(
            instant=instant,
            partition=partition,
            file_id=file_id,
            how=How.MERGED,
            logs=tuple(self._log(instant, partition, name) for name in names),
            after=after,
        )

    def _of_replaced(self, instant: InstantTime, partition: str, file_id: str) -> Change:
        before = self._state(partition, file_id, just_before(instant))
        names = self._last_written.get((partition, file_id), ())
        missing = [name for name in names if name not in self._folder(partition).files]
        if before is None or missing:
            raise self._gone(instant, join(partition, missing[0] if missing else f"a file of {file_id}"))
        return Change(instant=instant, partition=partition, file_id=file_id, how=How.DELETED, before=before)

    def _state(self, partition: str, file_id: str, time: InstantTime) -> FileSlice | None:
        """The slice that a snapshot query as of a time reads; a pending compaction's with its input."""
        every = self._folder(partition).slices.get(file_id, ())
        found = [item for item in every if REQUESTED.until(item.instant, time)]
        if not found:
            return None
        newest, *older = found
        pending = self.snapshot.compacting.get((partition, file_id)) == newest.instant
        if newest.base is None and older and pending:
            return with_input(newest, older[0])
        return newest

    def _lost_base(self, item: FileSlice) -> bool:
        """Is a slice without a base file one of a compaction, whose output is gone."""
        if item.base is not None:
            return False
        timeline = self.table.timeline
        made = [instant for instant in timeline.commits() if instant.time == item.instant]
        return any(timeline.kind(instant, self.table.storage).rewrites for instant in made)

    def _previous(self, instant: InstantTime, partition: str, stat: WriteStat) -> FileSlice:
        """The slice that a base file was made of."""
        found = self._state(partition, stat.file_id, just_before(instant))
        bases = () if found is None else (found.instant, found.base.instant if found.base else "")
        if found is None or stat.prev_commit not in bases:
            raise self._gone(instant, f"the file of {join(partition, stat.file_id)} of {stat.prev_commit}")
        return found

    def _written(self, instant: InstantTime, partition: str, stat: WriteStat) -> FileSlice:
        item = self._file(instant, partition, stat.file_name)
        name = BaseFileName.parse(item.name)
        if name is None:
            raise TableError(f"{item.path} of commit {instant} is no base file", path=item.path)
        base = BaseFile(partition, item.path, item.name, name.file_id, name.instant, item.size)
        return FileSlice(partition, stat.file_id, name.instant, base)

    def _log(self, instant: InstantTime, partition: str, name: str) -> LogFile:
        item, parsed = self._file(instant, partition, name), LogFileName.parse(name)
        if parsed is None:
            raise TableError(f"{item.path} of commit {instant} is no log file", path=item.path)
        slice_ = self.snapshot.slicing.slice_of(parsed)
        return LogFile.of(partition, item.path, parsed, item.size, slice_)

    def _file(self, instant: InstantTime, partition: str, name: str) -> FileInfo:
        found = self._folder(partition).files.get(name)
        if found is None:
            raise self._gone(instant, join(partition, name))
        return found

    def _gone(self, instant: InstantTime, what: str) -> Exception:
        return gone(
            f"the changes of commit {instant} can't be told any more: {what} is gone, which the cleaner did "
            f"not keep, so that begin can't be earlier than {instant}",
            instant=instant,
        )

    def _folder(self, partition: str) -> _Folder:
        if partition not in self._folders:
            items = [item for item in self.listed.get(partition, ()) if item.name not in self.cleaned]
            shown = replace(self.snapshot, replaced=frozenset())
            slices = file_slices(shown, lambda _: items, partition)
            self._folders[partition] = _Folder({item.name: item for item in items}, slices)
        return self._folders[partition]

    @cached_property
    def _replaced(self) -> dict[Group, str]:
        """The first commit that replaced each file group."""
        found: dict[Group, str] = {}
        for time, commit in self._commits():
            for group in _gone_by(commit):
                found.setdefault(group, time)
        return found

    @cached_property
    def _last_written(self) -> dict[Group, tuple[str, ...]]:
        """What the last commit that wrote a file group, before it was replaced, says of its files."""
        found: dict[Group, tuple[str, ...]] = {}
        replaced: set[Group] = set()
        for _, commit in self._commits():
            for partition, stats in commit.partition_to_write_stats.items():
                for stat in stats:
                    if stat.path and (partition, stat.file_id) not in replaced:
                        base = (stat.base_file or "").rpartition("/")[2]
                        names = (stat.file_name, base, *(stat.log_files or ()))
                        found[partition, stat.file_id] = tuple(filter(None, names))
            replaced.update(_gone_by(commit))
        return found

    def _commits(self) -> Iterator[tuple[str, CommitMetadata]]:
        timeline = self.table.timeline
        for instant in timeline.between(None, self.snapshot.as_of, timeline.commits()):
            yield instant.time, timeline.commit(instant, self.table.storage)


def _gone_by(commit: CommitMetadata) -> Iterator[Group]:
    """The file groups that a commit replaced, by partition and file id."""
    if isinstance(commit, ReplaceCommitMetadata):
        for partition, ids in sorted(commit.partition_to_replace_file_ids.items()):
            for file_id in sorted(ids):
                yield partition, file_id
