"""Conflict resolution: does what other writers did between a writer's plan and its commit conflict with the
commit. Optimistic writes use it (hoodie.concurrency.gate.OptimisticGate).

The check begins with the timeline of the plan. It runs when the writer takes its instant, and again under the
lock before the commit is published: no other process publishes then. It compares instants by their place on
the timeline, because clocks differ.

Conflicts, the first two as in Apache Hudi's SimpleConcurrentFileWritesConflictResolutionStrategy:
- another commit wrote or replaced a file group which this one writes or replaces
- a compaction or clustering was planned meanwhile, and its plan has such a file group. Earlier plans of
  compactions are no conflict: the write appends its rows to the logs after that plan. In layout two no
  compaction is one: a log file belongs to the slice that was begun when its write is completed
- both commits inserted the same new key (concurrency.changes), or with BUCKET created the same bucket
- a commit changed what the write has read and does not write (concurrency.read_set)
- a commit has another schema, or the same token (timeline.tokens)
- a commit of the beginning is missing now, or a restore came: the state that the write saw is gone
- a pending compaction was cancelled, in layout one: rows may have gone to the file slice that it was to begin
- the archive may contain commits which completed before the write had an instant, and which it has not seen
- a clean deleted files of a file group before the write listed them, and a commit changed the group
- in layout one, in merge-on-read tables: a pending write with a later instant will append to logs of the
  same file group. Readers of logs stop at an instant later than their own

Of writes that are non-blocking, another commit that only added log files to a file group is no conflict: of
rows with one key the merge mode decides. What replaces the group, writes its base file, or gives its bucket
another file id is one.

A write of Apache Hudi may have an earlier instant without having looked at the table. Its views end at its
own instant, so it would not see a commit with a later one. The check waits for such a write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from time import monotonic, sleep

from hoodie.concurrency.changes import PLAN, Change, Group, groups_of, inserted_by, news, shared_key
from hoodie.concurrency.read_set import ReadSet
from hoodie.concurrency.settings import CONFLICT_RETRIES
from hoodie.errors import CommitConflict, TableError
from hoodie.format.names import BaseFileName, LogFileName
from hoodie.format.schema import from_avro
from hoodie.table.handle import Table
from hoodie.table.heartbeat import read_heartbeats
from hoodie.table.pending import intended_groups, planned_groups
from hoodie.table.slicing import slicing_of
from hoodie.timeline.active import Timeline
from hoodie.timeline.commit import REWRITES, CommitMetadata
from hoodie.timeline.instant import COMMIT_ACTIONS, Action, Instant, State
from hoodie.timeline.models.clean import CleanPlan
from hoodie.timeline.time import NO_TIME, REQUESTED, InstantTime

#: time, action and completion tell one instant of a timeline from others
Key = tuple[str, Action, bool]
_COMPACTIONS = frozenset({Action.COMPACTION, Action.LOGCOMPACTION})
#: how long, and how often, one looks for a write of Apache Hudi to go on
_PATIENCE_S, _PAUSE_S = 60.0, 0.2
#: how coarse times of files are, at most: of an object store, with what its clock is known by, and of others
_SECOND_MS, _TICK_MS = 1500, 20


class ConflictChecker:
    """The check of one attempt at a write.

    planned: the file groups that it is known to change before it writes. listed: those that it found, by
    partition, where it looked for them: id -> instant of the slice's base file. whole: it looked for them in
    all partitions. bucket_number: the number of a file group's bucket by its partition and id, where an index
    places rows by it, else None. new_keys: is the same new key a conflict, where no index places rows. reads:
    what it has read and does not write. non_blocking: it writes log files only, and lets others do so.
    """

    def __init__(
        self,
        table: Table,
        *,
        begin: Timeline,
        planned: Iterable[Group],
        listed: Mapping[str, Mapping[str, str]],
        whole: bool,
        bucket_number: Callable[[str, str], int | None] | None,
        schema: str,
        token: str,
        new_keys: bool,
        reads: ReadSet,
        non_blocking: bool = False,
    ) -> None:
        self._table = table
        self._begin = begin
        self._planned = frozenset(planned)
        self._listed = listed
        self._whole = whole
        self._bucket_number = bucket_number
        self._schema = schema
        self._token = token
        self._new_keys = new_keys and bucket_number is None
        #: of the write, once it is begun
        self.instant = NO_TIME
        self._reads = reads
        self._non_blocking = non_blocking
        #: are slices of log files found by times of completion, which names of instants have
        self._by_completion = begin.layout.has_completion_time
        self._changes: dict[Key, Change] = {}
        #: commits whose keys are other ones
        self._compared: set[Key] = set()
        #: pending writes that were seen, and compactions: rows go to the logs that these begin
        self._pending = _writes(begin)
        self._compactions = {item.time for item in begin.filter(_COMPACTIONS, completed=False)}

    def begin(self, instant: InstantTime) -> None:
        """The write takes this instant. Raises CommitConflict, before anything is written. The table's
        timeline was listed under the lock.
        """
        self.instant = instant
        timeline = self._table.timeline
        self._look(timeline)
        self._check_not_archived(timeline)
        self._check_not_cleaned(timeline)
        self._check_groups(self._planned, None)

    def check(self, metadata: CommitMetadata, *, locked: bool) -> None:
        """Raises CommitConflict. Under the lock the table's timeline is that of then."""
        waits = not locked and not self._non_blocking
        timeline = self._wait() if waits else self._table.timeline if locked else self._table.refresh()
        self._look(timeline)
        self._check_groups(groups_of(metadata), metadata)
        self._check_keys(metadata)
        if not self._by_completion:
            self._check_not_hidden(timeline, metadata)
        unaware = [] if self._non_blocking else unaware_writes(self._table, timeline, self.instant)
        for instant in unaware:
            raise self._conflict(
                instant, f"write {instant.time} of Apache Hudi has not looked at the table yet"
            )
        if locked and not self._by_completion:
            self._keep_order(timeline)

    def _keep_order(self, timeline: Timeline) -> None:
        """Wait until the time of a file is later than that of each commit with a later instant: of two with
        the same time the one with the later instant counts as completed last.
        """
        storage = self._table.storage
        later = timeline.after(self.instant, timeline.commits())
        newest = max((timeline.completion_of(item) or 0 for item in later), default=0)
        ends = newest + (_SECOND_MS if storage.remote else _TICK_MS)
        if newest and (left := min(ends - storage.now_ms(), _SECOND_MS)) > 0:
            sleep(left / 1000)

    def _wait(self) -> Timeline:
        """For writes that would not see this one; the timeline of then."""
        deadline = monotonic() + _PATIENCE_S
        timeline = self._table.refresh()
        while unaware_writes(self._table, timeline, self.instant) and monotonic() < deadline:
            sleep(_PAUSE_S)
            timeline = self._table.refresh()
        return timeline

    def _look(self, timeline: Timeline) -> None:
        """Know what is new on the timeline."""
        for instant in self._gone(timeline):
            raise self._conflict(instant, f"{instant} is not on the timeline any more: it was taken back")
        for instant in news(self._begin, timeline):
            key = _key(instant)
            if key not in self._changes:
                self._changes[key] = self._change(timeline, instant)
        self._pending |= _writes(timeline)

    def _gone(self, timeline: Timeline) -> Iterator[Instant]:
        """Commits that were there, compactions, and writes that may have become ones, and are neither there
        nor archived: the file slice that a compaction begins is no one's once it is cancelled.
        Of a write that is gone, and older than the timeline, it can't be seen what became of it.
        """
        there = {instant.time for instant in timeline}
        for instant in self._begin.commits():
            if instant.time not in there and not timeline.is_archived(instant.time):
                yield instant
        cancelled = set() if self._by_completion else self._compactions - there
        for gone in sorted(cancelled, key=REQUESTED.key):
            if not timeline.is_archived(gone):
                yield Instant(gone, Action.COMPACTION, State.REQUESTED)
        for gone in sorted(self._pending - there, key=REQUESTED.key):
            if timeline.is_archived(gone) and self._has_archive():
                yield Instant(gone, Action.COMMIT, State.INFLIGHT)

    def _check_not_archived(self, timeline: Timeline) -> None:
        """Commits are archived oldest first, but for those with a savepoint: while the newest commit of the
        beginning is there, later ones are. Once the write has its instant, the archiver stops before it.
        """
        there = {instant.time for instant in timeline}
        saved = {instant.time for instant in timeline.filter([Action.SAVEPOINT])}
        known = [instant for instant in self._begin.commits() if instant.time not in saved]
        newest = known[-1] if known else None
        last = timeline.last_commit
        if newest is not None:
            unseen = newest.time not in there
        else:
            unseen = last not in (None, self._begin.last_commit) and self._has_archive()
        if unseen and last is not None:
            raise self._conflict(last, "commits that were made meanwhile may have been archived already")

    def _check_not_cleaned(self, timeline: Timeline) -> None:
        """Files are listed later than the timeline: of a file group that others changed since, a clean may
        have deleted those that the write had to find. Groups that were made since are no such ones. Older
        files may be left, which a savepoint keeps, or which the clean has not come to yet.
        """
        made = frozenset[Group]().union(*(change.made for change in self._changes.values()))
        for change in self._changes.values():
            # log files that begin a file group are no sign of a clean, and nor are those of a slice
            looked = change.groups - change.logged if self._by_completion else change.groups
            for group in sorted(looked - made):
                if self._found(group) is None:
                    raise self._conflict(change.instant, f"{_changed(change, group)}, and a clean ran", group)
        known = {item.time for item in self._begin.filter([Action.CLEAN], completed=True)}
        for clean in timeline.filter([Action.CLEAN]):
            if clean.time not in known:
                self._check_not_older(timeline, clean)

    def _check_not_older(self, timeline: Timeline, clean: Instant) -> None:
        """Raises CommitConflict where a clean deletes a slice that the write should have found, and the one
        that it found is older.
        """
        data = timeline.read(clean.with_state(State.REQUESTED), self._table.storage)
        slicing = slicing_of(timeline)
        for partition, file in CleanPlan.from_bytes(data) if data else ():
            name = BaseFileName.parse(file.name) or LogFileName.parse(file.name)
            if name is None:
                continue
            file_id, instant = name.file_id, name.instant
            found = self._found((partition, file_id))
            if found and isinstance(name, LogFileName):
                instant = slicing.slice_of(name, (InstantTime(found),))
            if found and REQUESTED.before(found, instant) and self._begin.is_committed(instant):
                where = f"file group {file_id} of partition {partition!r}"
                text = f"clean {clean.time} deleted files of {where} meanwhile"
                raise self._conflict(clean, text, (partition, file_id))

    def _found(self, group: Group) -> str | None:
        """The instant of the base file that the write found of a file group; None where it found none, and ""
        where it did not look.
        """
        partition, file_id = group
        if not (self._whole or partition in self._listed):
            return ""
        return self._listed.get(partition, {}).get(file_id)

    def _has_archive(self) -> bool:
        return bool(self._table.archive.files())

    def _change(self, timeline: Timeline, instant: Instant) -> Change:
        storage = self._table.storage
        if instant.action is Action.RESTORE:
            raise self._conflict(instant, f"restore {instant.time} took back commits meanwhile")
        if not instant.completed:
            return Change(
                instant=instant,
                groups=frozenset(planned_groups(timeline, storage, instant)),
                operation=PLAN,
            )
        return Change.of(instant, timeline.commit(instant, storage))

    def _check_groups(self, groups: Iterable[Group], metadata: CommitMetadata | None) -> None:
        own = {self._comparable(group): group for group in groups}
        for change in self._changes.values():
            for group in sorted(change.groups):
                mine = own.get(self._comparable(group))
                if mine is not None and not self._is_shared(change, group, mine):
                    raise self._conflict(change.instant, _changed(change, group), group)
            time = change.instant.time
            if self._token and change.token == self._token:
                raise self._conflict(change.instant, f"commit {time} has the token {self._token}")
            if read := self._reads.changed_by(change, metadata):
                raise self._conflict(
                    change.instant, f"commit {time} changed {read}", derived=self._reads.derived
                )
            if change.schema and not _same(change.schema, self._schema):
                raise self._conflict(change.instant, f"commit {time} changed the schema")

    def _is_shared(self, change: Change, group: Group, mine: Group) -> bool:
        """May both change the file group, `mine` being this write's of the same bucket."""
        if not self._by_completion or group != mine:
            return False
        return change.of_compaction or (self._non_blocking and group in change.logged)

    def _comparable(self, group: Group) -> Group:
        """The same for file groups of one bucket: it has one only."""
        partition, file_id = group
        number = None if self._bucket_number is None else self._bucket_number(partition, file_id)
        return partition, file_id if number is None else f"bucket {number}"

    def _check_keys(self, metadata: CommitMetadata) -> None:
        if not self._new_keys:
            return
        own = inserted_by(metadata)
        for key, change in self._changes.items():
            if change.operation in REWRITES or key in self._compared:
                continue
            try:
                found = shared_key(self._table, own, change.inserted, everywhere=self._reads.everywhere)
            except FileNotFoundError:
                text = f"files of commit {change.instant.time} are gone, so its new keys can't be compared"
                raise self._conflict(change.instant, text) from None
            if found is not None:
                group = (found.partition, found.file_id)
                text = f"commit {change.instant.time} inserted the key {found.key!r}, too, which was new"
                raise self._conflict(change.instant, text, group)
            self._compared.add(key)

    def _check_not_hidden(self, timeline: Timeline, metadata: CommitMetadata) -> None:
        logs = {
            (partition, stat.file_id)
            for partition, stats in metadata.partition_to_write_stats.items()
            for stat in stats
            if stat.log_version is not None
        }
        for instant in timeline.filter({Action.DELTACOMMIT}, completed=False) if logs else ():
            if instant.state is State.INFLIGHT and instant.is_after(self.instant):
                for group in sorted(logs & intended_groups(timeline, self._table.storage, instant)):
                    text = f"write {instant.time} is appending to logs of the same file group"
                    raise self._conflict(instant, text, group)

    def _conflict(
        self, other: Instant, text: str, group: Group | None = None, *, derived: bool = False
    ) -> CommitConflict:
        """`derived`: rows that a statement made of the table have to be made again."""
        path = self._table.base_path
        found: dict[str, str | bool] = {"derived": True} if derived else {}
        if group is not None:
            found |= {"partition": group[0], "file_id": group[1]}
        return CommitConflict(
            f"another process was faster at {path}: {text}. Nothing of this write was published; run it "
            f"again ({CONFLICT_RETRIES.name} does so by itself)",
            path=path,
            instant=other.time,
            action=other.action.value,
            **found,
        )


def unaware_writes(table: Table, timeline: Timeline, before: InstantTime = NO_TIME) -> list[Instant]:
    """Live writes of Apache Hudi, with an instant earlier than that, of which only the requested file is
    there: they have not looked at the table yet, and their views end at their own instant.
    """
    begun = [
        item
        for item in timeline.filter(COMMIT_ACTIONS, completed=False)
        if item.state is State.REQUESTED and (not before or item.is_before(before))
    ]
    if not begun:
        return []
    foreign = {beat.instant for beat in read_heartbeats(table) if not beat.host}
    return [item for item in begun if item.time in foreign]


def _key(instant: Instant) -> Key:
    return instant.time, instant.action, instant.completed


def _writes(timeline: Timeline) -> set[InstantTime]:
    """Times of pending writes, and of clusterings."""
    return {instant.time for instant in timeline.filter(COMMIT_ACTIONS, completed=False)}


def _changed(change: Change, group: Group) -> str:
    where = f"file group {group[1]} of partition {group[0]!r}"
    if change.operation == PLAN:
        return f"{change.instant.action.value} {change.instant.time} was planned meanwhile, with {where}"
    return f"commit {change.instant.time} changed {where} meanwhile"


def _same(one: str, other: str) -> bool:
    """Have both schemas, Avro as JSON, the same columns. Names of records and documentation don't count."""
    if one == other:
        return True
    try:
        found, wanted = from_avro(one), from_avro(other)
    except (TableError, ValueError):
        return False
    return found.names == wanted.names and found.types == wanted.types
