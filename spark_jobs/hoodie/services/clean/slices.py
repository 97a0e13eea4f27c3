"""The file slices of one partition, and which of them can be deleted (format.md 13.3; Apache Hudi 0.15.0
CleanPlanner).

Of a file group that is not replaced always stay: the newest slice; slices that a savepoint names a file of;
slices that a pending compaction, log compaction or clustering will read, and those after them. Of the
others are deleted, with base file, logs and change logs:
  by commits and hours  those older than the earliest instant to retain, but the newest of these, which a
                        query as of that instant reads
  by versions           all but the newest n
Replaced groups are deleted as a whole, where no savepoint and no pending plan needs them: once they were
replaced before the earliest instant to retain; by versions at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from hoodie.format.names import LogFileName
from hoodie.services.clean.policy import Retention
from hoodie.storage import FileInfo
from hoodie.table.partition import PARTITION_FILE
from hoodie.table.view import FileSlice, TimelineView, file_slices
from hoodie.timeline.time import REQUESTED, InstantTime

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
            chosen = list(_superseded(group, retention, earliest, holds, (found.partition, file_id)))
        elif earliest is None or REQUESTED.before(replaced, earliest):
            chosen = [item for item in group if _free(item, holds, (found.partition, file_id))]
        else:
            chosen = []
        deletable += [file for item in chosen for file in item.files]
        left = left or len(chosen) < len(group)
    return PartitionClean(found.partition, tuple(deletable), not left and not found.other_files)


def _superseded(
    group: Sequence[Slice], retention: Retention, earliest: str | None, holds: Holds, key: Group
) -> Iterator[Slice]:
    if earliest is None:
        needed = holds.needed.get(key)
        rest = [item for item in group if needed is None or REQUESTED.before(item.instant, needed)]
        keep = retention.versions - (needed is not None)
        yield from (item for item in rest[max(keep, 0) :] if _free(item, holds, key))
        return
    before = next((item.instant for item in group if REQUESTED.before(item.instant, earliest)), None)
    for item in group[1:]:
        older = REQUESTED.before(item.instant, earliest) and item.instant != before
        if older and _free(item, holds, key):
            yield item


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
