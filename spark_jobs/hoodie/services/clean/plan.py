"""A clean's plan, made from a view of the table (format.md 13.3; Apache Hudi 0.15.0 CleanPlanner).

The slices of a file group that is not replaced. These always stay:

- the newest slice,
- slices of which a savepoint names a file,
- slices that a pending compaction, log compaction or clustering will read, and those after them.

Of the others these are deleted, with base file, logs and change logs:

- by commits and hours: those older than the earliest instant to retain, except for the newest of these,
  which a query as of that instant reads,
- by versions: all except for the newest n.

A replaced group is deleted as a whole if no savepoint and no pending plan needs it. It must have been
replaced before the earliest instant to retain; by versions it is deleted at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from hoodie.codec.avro import read_record
from hoodie.config.key import Config
from hoodie.format.names import BaseFileName, LogFileName, join
from hoodie.services.clean.policy import Examined, Retention
from hoodie.services.clean.settings import INCREMENTAL, MAX_COMMITS
from hoodie.services.planned import DuePlan
from hoodie.storage import FileInfo, Storage
from hoodie.table.handle import Table
from hoodie.table.partition import PARTITION_FILE
from hoodie.table.slicing import first_instant
from hoodie.table.view import FileSlice, Listing, TimelineView, file_slices, superseded
from hoodie.timeline.active import Timeline
from hoodie.timeline.instant import Action, Instant
from hoodie.timeline.models.clean import SAVEPOINTED, ActionInstant, CleanFile, CleanMetadata, CleanPlan
from hoodie.timeline.time import NO_TIME, REQUESTED, InstantTime

#: (partition path, file id)
Group = tuple[str, str]


@dataclass(frozen=True)
class Holds:
    """What keeps slices from being deleted. `savepointed` are names of files; `needed` is, by file group, the
    base instant of the oldest slice that a pending plan reads; `replaced` is when groups were replaced.
    """

    savepointed: frozenset[str] = frozenset()
    needed: Mapping[Group, str] = field(default_factory=dict)
    replaced: Mapping[Group, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Slice:
    """All files of one version of a file group."""

    file_id: str
    instant: InstantTime
    files: tuple[FileInfo, ...]


@dataclass(frozen=True)
class PartitionFiles:
    """Slices by file id, newest first. `other_files`: the folder holds something else, too, such as files
    that are not committed; side files of Hadoop and the partition's own metadata don't count.
    """

    partition: str
    groups: Mapping[str, Sequence[Slice]]
    other_files: bool

    @classmethod
    def of(cls, snapshot: TimelineView, items: Sequence[FileInfo], partition: str) -> PartitionFiles:
        """From a listing. `snapshot` must not leave replaced groups out."""
        changes: dict[tuple[str, str], list[FileInfo]] = {}
        by_name = {item.name: item for item in items}
        for item in items:
            name = LogFileName.parse(item.name)
            if name is not None and name.cdc:
                changes.setdefault((name.file_id, name.instant), []).append(item)
        groups = {
            file_id: [_slice(found, by_name, changes) for found in group]
            for file_id, group in file_slices(snapshot, lambda _: items, partition).items()
        }
        known = {file.name for group in groups.values() for item in group for file in item.files}
        other_files = any(item.name not in known and not is_side_file(item.name) for item in items)
        return cls(partition, groups, other_files)


@dataclass(frozen=True)
class PartitionClean:
    """The files of one partition to delete; `folder`: nothing is left in it, and the folder can be deleted,
    too.
    """

    partition: str
    files: tuple[FileInfo, ...] = ()
    folder: bool = False


def choose(found: PartitionFiles, retention: Retention, earliest: str | None, holds: Holds) -> PartitionClean:
    """What can be deleted; `earliest` is the earliest instant to retain, None for the policy by versions."""
    deletable: list[FileInfo] = []
    left = False
    for file_id, group in found.groups.items():
        replaced = holds.replaced.get((found.partition, file_id))
        if replaced is None:
            chosen = list(_deletable(group, retention, earliest, holds, (found.partition, file_id)))
        elif earliest is None or REQUESTED.before(replaced, earliest):
            chosen = [item for item in group if _free(item, holds, (found.partition, file_id))]
        else:
            chosen = []
        deletable += [file for item in chosen for file in item.files]
        left = left or len(chosen) < len(group)
    return PartitionClean(found.partition, tuple(deletable), not left and not found.other_files)


def _deletable(
    group: Sequence[Slice], retention: Retention, earliest: str | None, holds: Holds, key: Group
) -> Iterator[Slice]:
    if earliest is None:
        needed = holds.needed.get(key)
        rest = [item for item in group if needed is None or REQUESTED.before(item.instant, needed)]
        keep = retention.versions - (needed is not None)
        yield from (item for item in rest[max(keep, 0) :] if _free(item, holds, key))
        return
    yield from (item for item in superseded(group, earliest) if _free(item, holds, key))


def _free(item: Slice, holds: Holds, key: Group) -> bool:
    needed = holds.needed.get(key)
    if needed is not None and REQUESTED.since(item.instant, needed):
        return False
    return not any(file.name in holds.savepointed for file in item.files)


def _slice(
    found: FileSlice, by_name: Mapping[str, FileInfo], changes: Mapping[tuple[str, str], Sequence[FileInfo]]
) -> Slice:
    names = [found.base.name] if found.base else []
    names += [log.name for log in found.logs]
    files = [by_name[name] for name in names]
    files += changes.get((found.file_id, found.instant), ())
    return Slice(found.file_id, found.instant, tuple(files))


def is_side_file(name: str) -> bool:
    return name.endswith(".crc") or name.startswith(PARTITION_FILE)


_LISTERS = 8
#: commits since the last clean, up to which it alone says where to look
_RECENT = 5
_COMPACTIONS = frozenset({Action.COMPACTION, Action.LOGCOMPACTION})


@dataclass(frozen=True)
class View:
    """What a plan is made from. `last` is the newest completed clean, None without one, or where its file is
    empty.

    `partitions` lists all partitions, when it must. `failed` are partitions in which that clean left files
    that it wanted to delete.
    """

    timeline: Timeline
    storage: Storage
    snapshot: TimelineView
    holds: Holds
    last: CleanMetadata | None
    listing: Listing
    partitions: Callable[[], list[str]]
    partitioned: bool
    savepoints: tuple[str, ...] = ()
    failed: frozenset[str] = frozenset()

    @classmethod
    def of(cls, table: Table, timeline: Timeline, partitioned: bool) -> View:
        """Reads the metadata of savepoints, replacecommits and pending plans. Raises TableError."""
        storage, listing = table.storage, table.listing()
        last = last_clean(timeline, storage)
        savepoints = [item.time for item in timeline.filter([Action.SAVEPOINT], completed=True)]
        holds = Holds(
            frozenset(savepointed_files(timeline, storage)),
            _oldest(needed_slices(timeline, storage)),
            _oldest(replaced_groups(timeline, storage)),
        )
        return cls(
            timeline,
            storage,
            replace(table.view_of(timeline), replaced=frozenset()),
            holds,
            last,
            listing.files,
            listing.partitions,
            partitioned,
            tuple(savepoints),
            frozenset() if last is None else still_there(last, table),
        )

    @property
    def recent(self) -> bool:
        """Does the last clean, a few commits ago, say where to look, so that the file is not needed?"""
        last, timeline = self.last, self.timeline
        if last is None or not self._is_known(last.earliest, last.savepoints):
            return False
        return len(timeline.after(last.last_completed, timeline.commits())) <= _RECENT

    @cached_property
    def since(self) -> InstantTime | None:
        """The commit from which on commits may have left behind what can be deleted; None: any."""
        known = list[InstantTime]()
        if self.last is not None and self._is_known(self.last.earliest, self.last.savepoints):
            known.append(self.last.earliest)
        found = None if self.recent else Examined.read(self.storage, self.timeline.base_path)
        if found is not None and self._is_noted(found):
            known.append(found.earliest)
        return REQUESTED.last(known)

    def _is_noted(self, found: Examined) -> bool:
        """A note without its commit is of a table that was restored since, or says what no clean found."""
        there = any(item.time == found.earliest for item in self.timeline.commits())
        return there and self._is_known(found.earliest, found.savepoints)

    def _is_known(self, earliest: InstantTime, savepoints: Iterable[str]) -> bool:
        """Where a savepoint was deleted since, files of any partition may be deletable."""
        timeline = self.timeline
        if not earliest or timeline.first_time is None or timeline.is_archived(earliest):
            return False
        return set(savepoints) <= set(self.savepoints)


def why_not_due(view: View, config: Config) -> str:
    """ "" when it is time for a clean. Files that the last clean could not delete make it time, too."""
    wanted = config[MAX_COMMITS]
    since = view.last.last_completed if view.last else NO_TIME
    commits = len(view.timeline.after(since, view.timeline.commits()))
    if commits >= wanted or view.failed:
        return ""
    return f"no clean is due: {commits} of {wanted} commits since the last one ({MAX_COMMITS.name})"


def why_nothing(timeline: Timeline, retention: Retention) -> str:
    """The reason why no file can be old enough, where the timeline alone shows that; else ""."""
    if retention.by_versions or retention.earliest(timeline) is not None:
        return ""
    return f"the table has {len(timeline.commits())} commits, and {retention.text}"


def make(view: View, retention: Retention, config: Config) -> DuePlan[CleanPlan]:
    """A plan with the files that can be deleted now; no plan where there are none."""
    reason = why_nothing(view.timeline, retention)
    if reason:
        return DuePlan(None, reason)
    commits = view.timeline.commits()
    earliest = retention.earliest(view.timeline)
    bound = earliest.time if earliest else None
    cleans = _choose(view, retention, bound, _partitions(view, bound, config[INCREMENTAL]))
    files = {item.partition: item.files for item in cleans if item.files}
    if not files:
        return DuePlan(None, f"no file is older than what is kept: {retention.text}")
    plan = CleanPlan(
        policy=retention.policy.value,
        files={
            partition: tuple(CleanFile(file.path) for file in group) for partition, group in files.items()
        },
        earliest=ActionInstant.of(earliest) if earliest else None,
        last_completed=commits[-1].time if commits else NO_TIME,
        delete_partitions=tuple(item.partition for item in cleans if item.folder and item.partition),
        extra_metadata={SAVEPOINTED: ",".join(view.savepoints)}
        if view.savepoints and view.partitioned
        else {},
    )
    return DuePlan(plan, "", sum(file.size for group in files.values() for file in group))


def examined(view: View, retention: Retention, config: Config) -> Examined | None:
    """What a plan that found nothing shows, where that is not known and the next one needs it."""
    earliest = retention.earliest(view.timeline)
    if earliest is None or not config[INCREMENTAL] or view.failed or view.recent:
        return None
    if view.since is not None and not _between(view, view.since, earliest.time):
        return None
    return Examined(earliest.time, view.savepoints)


def last_clean(timeline: Timeline, storage: Storage) -> CleanMetadata | None:
    """The newest completed clean; None for none, and for the empty file that an old crash of Hudi left."""
    done = timeline.filter([Action.CLEAN], completed=True)
    data = timeline.read(done[-1], storage) if done else b""
    return CleanMetadata.from_bytes(data) if data else None


def still_there(last: CleanMetadata, table: Table) -> frozenset[str]:
    """Partitions with files that a clean could not delete, and that are still there."""
    return frozenset(
        partition
        for partition, done in last.partitions.items()
        if any(table.storage.exists(join(table.base_path, partition, _bare(name))) for name in done.failed)
    )


def savepointed_files(timeline: Timeline, storage: Storage) -> Iterator[str]:
    """Names of the files that savepoints keep."""
    for instant in timeline.filter([Action.SAVEPOINT], completed=True):
        saved = read_record("HoodieSavepointMetadata", timeline.read(instant, storage))
        for partition in saved["partitionMetadata"].values():
            yield from map(_bare, partition["savepointDataFile"])


def replaced_groups(timeline: Timeline, storage: Storage) -> Iterator[tuple[Group, str]]:
    """File groups that completed replacecommits replaced, and when."""
    for instant in timeline.filter([Action.REPLACECOMMIT], completed=True):
        for partition, ids in timeline.head(instant, storage).replaced.items():
            for file_id in ids:
                yield (partition, file_id), instant.time


def needed_slices(timeline: Timeline, storage: Storage) -> Iterator[tuple[Group, str]]:
    """The slices that pending compactions, log compactions and clusterings read: group and base instant.

    Raises TableError for a plan that can't be read: what it needs is unknown.
    """
    for instant in timeline.pending():
        if instant.replaces:
            plan = timeline.clustering_plan(instant, storage) or {}
            for group in plan.get("inputGroups") or ():
                for item in group["slices"] or ():
                    yield (item["partitionPath"] or "", item["fileId"]), _slice_instant(item)
        elif instant.action in _COMPACTIONS:
            plan = read_record("HoodieCompactionPlan", timeline.plan(instant, storage))
            operations = plan["operations"]
            for item in operations or ():
                yield (item["partitionPath"] or "", item["fileId"]), item["baseInstantTime"]


def _oldest(pairs: Iterable[tuple[Group, str]]) -> dict[Group, str]:
    found: dict[Group, str] = {}
    for group, time in pairs:
        found[group] = min(time, found.get(group, time), key=REQUESTED.key)
    return found


def _slice_instant(item: dict[str, Any]) -> InstantTime:
    """The base instant of a HoodieSliceInfo; "", before all others, where no file name has one."""
    base = BaseFileName.parse(_bare(item["dataFilePath"] or ""))
    if base is not None:
        return base.instant
    logs = [LogFileName.parse(_bare(path)) for path in item["deltaFilePaths"] or ()]
    return first_instant(log for log in logs if log is not None) or NO_TIME


def _partitions(view: View, earliest: InstantTime | None, incremental: bool) -> list[str]:
    """Where there can be something to delete.

    What commits before the instant that the last clean kept have left behind is gone, so that the commits
    between it and `earliest` name the partitions.
    """
    if earliest is None or not incremental or view.since is None:
        return view.partitions()
    found = set(view.failed)
    for instant in _between(view, view.since, earliest):
        found |= view.timeline.touched(instant, view.storage)
    return sorted(found)


def _between(view: View, since: InstantTime, earliest: InstantTime) -> list[Instant]:
    commits = view.timeline.commits()
    return [item for item in commits if item.is_before(earliest) and not item.is_before(since)]


def _choose(
    view: View, retention: Retention, earliest: InstantTime | None, partitions: Sequence[str]
) -> list[PartitionClean]:
    def one(partition: str) -> PartitionClean:
        items: Sequence[FileInfo] = view.listing(partition)
        return choose(PartitionFiles.of(view.snapshot, items, partition), retention, earliest, view.holds)

    with ThreadPoolExecutor(_LISTERS) as pool:
        return list(pool.map(one, partitions))


def _bare(path: str) -> str:
    return path.rpartition("/")[2]
