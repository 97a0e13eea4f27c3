"""The states of a table that queries can still read: after cleaning, archiving, and during writes in flight.

The files of a state follow from the active timeline. The module ignores what later cleans record as their
limit: policies change, and cleans are archived. Every state since the first commit of the active timeline
follows from the commits before and after it. Those up to the time name the files that they wrote. Those
after it name what they rewrote or replaced, which therefore existed before. A group that none of them names
was never cleaned.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from hoodie.codec.avro import read_record
from hoodie.config.versions import LayoutVersion
from hoodie.errors import StateUnavailable, TableBusy
from hoodie.format.names import SHARED_BUCKET, BaseFileName, LogFileName, join
from hoodie.read.query import EARLIEST
from hoodie.read.settings import HOLES_POLICY, Holes
from hoodie.storage import FileInfo, Storage
from hoodie.table.handle import Table
from hoodie.table.slicing import LAYOUT_ONE, Slicing, slicing_of
from hoodie.text import argument
from hoodie.timeline.active import Timeline
from hoodie.timeline.commit import CommitMetadata, ReplaceCommitMetadata, WriteStat
from hoodie.timeline.instant import COMMIT_ACTIONS, Action, Instant, Kind, State
from hoodie.timeline.models.clean import CleanPlan
from hoodie.timeline.models.savepoint import SavepointMetadata
from hoodie.timeline.time import NO_TIME, REQUESTED, InstantTime

#: (partition path, file id)
Group = tuple[str, str]
Groups = Collection[Group]
_COMPACT = "COMPACT"


@dataclass(frozen=True)
class Need:
    """What has to be there of a file group: files by name, or a base file of the instant `base`.

    With neither, a file of any slice that is not later than the time: archived commits wrote it.
    """

    names: tuple[str, ...] = ()
    base: InstantTime = NO_TIME

    def missing(
        self, partition: str, file_id: str, time: InstantTime, items: Mapping[str, list[_File]]
    ) -> str:
        """The path, or the file group, that is not among the files of a partition by file id; "" for none."""
        there = items.get(file_id, ())
        names = {item.name for item in there}
        for name in self.names:
            if name not in names:
                return join(partition, name)
        if self.base and not any(item.instant == self.base and not item.log for item in there):
            return f"the file of {join(partition, file_id)} of commit {self.base}"
        if not self.names and not any(REQUESTED.until(item.instant, time) for item in there):
            return f"the file of {join(partition, file_id)}"
        return ""


@dataclass(frozen=True)
class _File:
    """A base or log file; `instant` is its slice's."""

    name: str
    instant: InstantTime
    log: bool


@dataclass(frozen=True)
class FileHistory:
    """The files of a state. `name` is the option that asked for it, `to_be_cleaned` are names of files in
    pending plans of the cleaner, which may be gone at any moment. `written`, in layout one: the completed
    deltacommits; `groups`: file groups that are asked for, None for all.
    """

    name: str
    time: InstantTime
    needs: Mapping[Group, Need] = field(default_factory=dict)
    to_be_cleaned: frozenset[str] = frozenset()
    slicing: Slicing = LAYOUT_ONE
    written: frozenset[InstantTime] = frozenset()
    groups: Groups | None = None

    @property
    def partitions(self) -> set[str]:
        return {partition for partition, _ in self.needs}

    def check(self, listed: Mapping[str, Sequence[FileInfo]]) -> None:
        """StateUnavailable where a file is not in the listings by partition; others are not looked at."""
        found = {partition: self._files(items) for partition, items in listed.items()}
        for (partition, file_id), need in self.needs.items():
            if partition not in found:
                continue
            missing = need.missing(partition, file_id, self.time, found[partition])
            if missing:
                raise gone(
                    f"{argument(self.name)} {self.time} is before what the cleaner kept: {missing} is gone",
                    **{self.name: self.time},
                )
        for partition, groups in found.items() if self.written else ():
            for file_id, files in groups.items():
                if self.groups is None or (partition, file_id) in self.groups:
                    self._check_begun(partition, files)

    def _check_begun(self, partition: str, files: Sequence[_File]) -> None:
        """StateUnavailable where log files of a deltacommit seem to be a slice of their own: Apache Hudi took
        the table down to version 6, in which their names do not say that they belong to an earlier slice.
        """
        there = [
            file
            for file in files
            if REQUESTED.until(file.instant, self.time) and not file.name.endswith(".cdc")
        ]
        last = REQUESTED.last({file.instant for file in there})
        newest = [file for file in there if file.instant == last]
        if last in self.written and len(newest) < len(there) and all(file.log for file in newest):
            raise StateUnavailable(
                f"{self.name} {self.time} is before the table was taken down to version 6, in which log file "
                f"{join(partition, newest[0].name)} belongs to no base file. Ask for a later time",
                **{self.name: self.time},
            )

    def _files(self, items: Sequence[FileInfo]) -> dict[str, list[_File]]:
        found: dict[str, list[_File]] = {}
        logs = list[tuple[str, LogFileName]]()
        for item in items:
            if item.name in self.to_be_cleaned:
                continue
            if base := BaseFileName.parse(item.name):
                found.setdefault(base.file_id, []).append(_File(item.name, base.instant, False))
            elif log := LogFileName.parse(item.name):
                logs.append((item.name, log))
        begun = {file_id: [base.instant for base in bases] for file_id, bases in found.items()}
        for name, log in logs:
            instant = self.slicing.slice_of(log, begun.get(log.file_id, ()))
            found.setdefault(log.file_id, []).append(_File(name, instant, True))
        return found


def gone(text: str, **values: str) -> StateUnavailable:
    return StateUnavailable(
        f"{text}. Ask for a later time, or keep more next time (hoodie.cleaner.*)", **values
    )


def needs_as_of(
    timeline: Timeline,
    storage: Storage,
    time: InstantTime,
    groups: Collection[Group] | None = None,
    by_completion: bool = False,
) -> dict[Group, Need]:
    """What the state as of `time` consists of; not before the first commit of the active timeline.

    With `groups` only these, which commits up to `time` wrote. `by_completion`: `time` is one of completion.
    """
    held: dict[Group, list[str]] = {}
    replaced: set[Group] = set()
    later: dict[Group, Need | None] = {}
    logged: set[Group] = set()
    slicing = slicing_of(timeline, storage)
    for at, instant in _commits(timeline, by_completion):
        later_one = REQUESTED.after(at, time)
        if later_one and groups is not None:
            break
        commit = timeline.commit(instant, storage)
        if not later_one:
            _apply(commit, held)
            for group in _replaced(commit):
                held.pop(group, None)
                replaced.add(group)
            continue
        for partition, stats in commit.partition_to_write_stats.items():
            for stat in stats:
                group = (partition, stat.file_id)
                if stat.path and (group not in later or (group in logged and not _is_log(stat))):
                    before = _before(stat, commit, time, slicing)
                    later[group] = before if before and before.base else later.get(group, before)
                    (logged.add if slicing.of_writes and _is_log(stat) else logged.discard)(group)
        for group in _replaced(commit):
            later.setdefault(group, Need())
    needs = {group: Need(tuple(names)) for group, names in held.items() if groups is None or group in groups}
    for group, need in later.items():
        if need is not None and group not in held and group not in replaced:
            needs[group] = need
    return needs


def _commits(timeline: Timeline, by_completion: bool) -> list[tuple[InstantTime, Instant]]:
    """Commits in the order of the times at which they were requested, or completed, with these times."""
    if not by_completion:
        return [(instant.time, instant) for instant in timeline.commits()]
    return [
        (timeline.completion_time(instant) or NO_TIME, instant)
        for instant in timeline.by_completion()
        if instant.action in COMMIT_ACTIONS
    ]


def _apply(commit: CommitMetadata, held: dict[Group, list[str]]) -> None:
    """The newest slice of each group after a commit; its base file may be an archived commit's."""
    for partition, stats in commit.partition_to_write_stats.items():
        for stat in stats:
            if not stat.path:
                continue
            name = _name(stat.path)
            names = held.setdefault((partition, stat.file_id), [])
            if LogFileName.parse(name) is None:
                names.clear()
            elif not names and stat.base_file:
                names.append(_name(stat.base_file))
            names.append(name)


def _before(stat: WriteStat, commit: CommitMetadata, time: InstantTime, slicing: Slicing) -> Need | None:
    """What a group consisted of as of `time`, by the first write after it; None for a new group.

    A log file whose slice is later belongs to a pending compaction, whose input the cleaner leaves.
    In layout two a log names no slice. The group was there if the log has updates, but for a bucket that
    writers at once begin. A later base file names the one before it.
    """
    log = LogFileName.parse(_name(stat.path or ""))
    if log is not None:
        if slicing.of_writes and not stat.base_file:
            known = stat.num_update_writes and not stat.file_id.endswith(SHARED_BUCKET)
            return Need() if known else None
        base = BaseFileName.parse(_name(stat.base_file or ""))
        if REQUESTED.after(slicing.slice_of(log, (base.instant,) if base else ()), time):
            return None
        return Need((_name(stat.base_file),)) if stat.base_file else Need()
    if stat.is_new_file_group:
        # of logs without a base file
        return Need() if commit.compacted or commit.operation_type == _COMPACT else None
    before = InstantTime(stat.prev_commit or NO_TIME)
    return Need(base=before) if REQUESTED.until(before, time) else None


def _is_log(stat: WriteStat) -> bool:
    return LogFileName.parse(_name(stat.path or "")) is not None


def _replaced(commit: CommitMetadata) -> set[Group]:
    if not isinstance(commit, ReplaceCommitMetadata):
        return set()
    groups = commit.partition_to_replace_file_ids.items()
    return {(partition, file_id) for partition, ids in groups for file_id in ids}


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def file_history(
    table: Table,
    name: str,
    time: InstantTime,
    groups: Groups | None = None,
    by_completion: bool = False,
) -> FileHistory:
    """The files of the table as of `time`, which have to be there; none for the newest state.

    `name` is the option that asked for it. `by_completion`: `time` is one of completion. With `groups` only
    these file groups have to be whole, which commits on the active timeline wrote. A savepoint's state is
    what the savepoint names, and the commits after it where none of them is archived. StateUnavailable, which
    says from when on the table is whole, where it is known not to be so at that time.
    """
    timeline, storage = table.timeline, table.storage
    past = FileHistory(name, time, slicing=slicing_of(timeline, storage))
    commits = [at for at, _ in _commits(timeline, by_completion)]
    if not commits or REQUESTED.since(time, commits[-1]):
        return past
    if REQUESTED.before(time, commits[0]):
        raise StateUnavailable(
            f"{argument(name)} {time} is before the table's active timeline, which begins with commit "
            f"{commits[0]}; ask for that time or a later one",
            **{name: time, "earliest": commits[0]},
        )
    if not past.slicing.of_writes and not by_completion:
        deltas = timeline.filter([Action.DELTACOMMIT], completed=True)
        past = replace(past, written=frozenset(item.time for item in deltas), groups=groups)
    commit = [at for at in commits if REQUESTED.until(at, time)][-1]
    savepoint = Instant(commit, Action.SAVEPOINT, State.COMPLETED)
    saved = next((item for item in timeline if item == savepoint), None)
    if saved is not None:
        _check_hole(table, past, commit)
    if not timeline.filter([Action.CLEAN]):
        return past
    plans = list(_pending_plans(timeline, storage))
    if saved is not None and groups is None:
        data = timeline.read(saved, storage)
        if data:
            needs = _savepoint_needs(SavepointMetadata.from_bytes(data))
            if not timeline.is_archived(commit):  # what was cleaned before the savepoint is not in it
                needs = {**needs_as_of(timeline, storage, time), **needs}
            return replace(past, needs=needs)
    elif groups is None:
        kept = REQUESTED.last(_readable_since(timeline, storage, plans))
        if kept is not None and REQUESTED.before(time, kept):
            raise gone(
                f"{argument(name)} {time} is before what the cleaner kept: files are complete from {kept} on",
                **{name: time, "earliest": kept},
            )
    needs = needs_as_of(timeline, storage, time, groups, by_completion)
    return replace(past, needs=needs, to_be_cleaned=_planned_names(plans))


def to_be_cleaned(table: Table) -> frozenset[str]:
    """Names of files in pending plans of the cleaner, which may be gone at any moment."""
    return _planned_names(_pending_plans(table.timeline, table.storage))


def _planned_names(plans: Iterable[CleanPlan]) -> frozenset[str]:
    return frozenset(file.name for plan in plans for _, file in plan)


def _check_hole(table: Table, past: FileHistory, commit: InstantTime) -> None:
    """StateUnavailable where commits between a savepoint's and the time are archived.

    A savepoint keeps its commit on the active timeline, when later ones have left it.
    """
    timeline = table.timeline
    first = timeline.first_time
    if past.time == commit or not timeline.is_archived(commit):
        return
    archived = table.archive.instants()
    if any(item.action in COMMIT_ACTIONS for item in timeline.between(commit, past.time, archived)):
        raise StateUnavailable(
            f"{past.name} {past.time} is between the savepoint of {commit} and the table's active timeline, "
            f"which begins with commit {first}; ask for {commit}, or for {first} or a later time",
            **{past.name: past.time, "earliest": first},
        )


def _savepoint_needs(savepoint: SavepointMetadata) -> dict[tuple[str, str], Need]:
    needs: dict[tuple[str, str], Need] = {}
    for partition, names in savepoint.files.items():
        for name in names:
            parsed = BaseFileName.parse(name) or LogFileName.parse(name)
            if parsed is not None:
                group = (partition, parsed.file_id)
                needs[group] = Need((*needs.get(group, Need()).names, name))
    return needs


def commits_in_order(table: Table) -> list[tuple[InstantTime, Instant]]:
    """Completed commits with the times by which queries of a span go: of tables of versions 8 and 9 those of
    their completion, else those of their request; in the order of these.
    """
    return _commits(table.timeline, table.layout.version is not LayoutVersion.ONE)


def completions(timeline: Timeline, begin: InstantTime = NO_TIME) -> list[InstantTime]:
    """When the commits of the active timeline were completed that were completed after `begin`."""
    found = (at for at, _ in _commits(timeline, by_completion=True))
    return [at for at in found if REQUESTED.after(at, begin)]


def was_completed(table: Table, at: InstantTime) -> bool:
    """Was a commit completed at this time, on the active timeline or the archived one."""
    return at in completions(table.timeline) or at in (item.completion for item in table.archive.instants())


def completed_between(
    table: Table, begin: InstantTime, end: InstantTime
) -> tuple[frozenset[InstantTime], bool]:
    """(commits that were completed after `begin` and until `end`, are some of them archived)"""
    timeline = table.timeline

    def within(at: InstantTime | None) -> bool:
        return at is not None and REQUESTED.after(at, begin) and REQUESTED.until(at, end)

    active = {instant.time for at, instant in _commits(timeline, by_completion=True) if within(at)}
    archived = {
        instant.time
        for instant in table.archive.instants()
        if instant.action in COMMIT_ACTIONS and within(instant.completion or instant.time)
    }
    return frozenset(active | archived), not archived <= active


def check_begin(table: Table, begin: InstantTime) -> None:
    """StateUnavailable when commits later than `begin` are archived: what they wrote isn't known any more."""
    commits = table.timeline.commits()
    if not begin or not commits or not commits[0].is_after(begin):
        return
    if table.archive.files():
        raise StateUnavailable(
            f"begin {begin} is before the table's active timeline, which begins with commit "
            f"{commits[0].time}; older commits are archived. Take begin={EARLIEST} for all rows, or a later "
            "instant",
            begin=begin,
            earliest=commits[0].time,
        )


def check_known_since(table: Table, begin: InstantTime, end: InstantTime) -> None:
    """StateUnavailable when a commit in (begin, end] is archived: what it changed isn't known any more.

    Reads the archive only where `begin` is before the active timeline.
    """
    timeline, by_completion = table.timeline, table.layout.version is not LayoutVersion.ONE
    first = next((at for at, _ in commits_in_order(table)), None) if by_completion else timeline.first_time
    if first is None or (not by_completion and REQUESTED.since(begin, first)):
        return
    known = {(item.time, item.comparable_action) for item in timeline if item.completed}
    lost = [
        at
        for item in table.archive.instants()
        if item.action in COMMIT_ACTIONS
        and item.completed
        and (item.time, item.comparable_action) not in known
        and REQUESTED.after(at := (item.completion or item.time) if by_completion else item.time, begin)
        and REQUESTED.until(at, end)
    ]
    newest = REQUESTED.last(lost)
    if newest is not None:
        raise StateUnavailable(
            f"begin {begin or EARLIEST} is before what is known of the table's changes: commits up to "
            f"{newest} are archived, and the active timeline begins with {first}. Take begin={newest} or a "
            "later instant, or keep more commits next time (hoodie.keep.min.commits)",
            begin=begin or EARLIEST,
            earliest=newest,
        )


def last_before_pending(table: Table, policy: Holes, end: InstantTime) -> InstantTime:
    """`end`, or an earlier commit where a write that began before it is still in flight.

    Raises TableBusy with the policy FAIL. "" when no commit is left. Pending clustering writes no new rows.
    """
    timeline = table.timeline
    hole = next(_in_flight(timeline, table.storage), None)
    if hole is None or REQUESTED.after(hole, end):
        return end
    before = [instant.time for instant in timeline.before(hole, timeline.commits())]
    if policy is Holes.FAIL:
        known = f"commits up to {before[-1]}" if before else "no commit"
        raise TableBusy(
            f"write {hole} is in flight, or failed and was not rolled back yet; rows that it wrote may come "
            f"later, so only {known} can be read. Wait for it, ask for an earlier time, or set "
            f"{HOLES_POLICY.name}={Holes.BLOCK.value}",
            instant=hole,
        )
    return before[-1] if before else NO_TIME


def _in_flight(timeline: Timeline, storage: Storage) -> Iterator[InstantTime]:
    for instant in timeline.filter(COMMIT_ACTIONS, completed=False):
        if timeline.kind(instant, storage) is Kind.WRITE:
            yield instant.time


def _readable_since(
    timeline: Timeline, storage: Storage, plans: Sequence[CleanPlan]
) -> Iterator[InstantTime]:
    """The earliest instants retained by the newest clean and by the pending ones."""
    completed = timeline.filter([Action.CLEAN], completed=True)
    if completed:
        data = timeline.read(completed[-1], storage)
        if data:
            earliest = read_record("HoodieCleanMetadata", data)["earliestCommitToRetain"]
            yield from [earliest] if earliest else []
    yield from (plan.earliest.time for plan in plans if plan.earliest and plan.earliest.time)


def _pending_plans(timeline: Timeline, storage: Storage) -> Iterator[CleanPlan]:
    for instant in timeline.filter([Action.CLEAN], completed=False):
        data = timeline.plan(instant, storage)
        if data:
            yield CleanPlan.from_bytes(data)
