"""Which files a table consisted of at a time, as far as its active timeline shows.

What a clean took is not held against what later cleans say to have kept: policies change, and cleans are
archived. Every state since the first commit of the active timeline follows from the commits before and after
it: those up to the time name the files that they wrote, and those after it name what they rewrote or
replaced, so that it was there before. Of groups that none of them names nothing was ever cleaned.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from hoodie.errors import NotRetained
from hoodie.format.names import BaseFileName, LogFileName, join
from hoodie.storage import FileInfo, Storage
from hoodie.table.slicing import LAYOUT_ONE, Slicing, slicing_of
from hoodie.timeline.active import Timeline
from hoodie.timeline.commit import CommitMetadata, ReplaceCommitMetadata, WriteStat
from hoodie.timeline.time import NO_TIME, REQUESTED, InstantTime

#: (partition path, file id)
Group = tuple[str, str]
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
class Past:
    """The files of a state. `name` is the option that asked for it, `to_be_cleaned` are names of files in
    pending plans of the cleaner, which may be gone at any moment.
    """

    name: str
    time: InstantTime
    needs: Mapping[Group, Need] = field(default_factory=dict)
    to_be_cleaned: frozenset[str] = frozenset()
    slicing: Slicing = LAYOUT_ONE

    @property
    def partitions(self) -> set[str]:
        return {partition for partition, _ in self.needs}

    def check(self, listed: Mapping[str, Sequence[FileInfo]]) -> None:
        """NotRetained where a file is not in the listings by partition; others are not looked at."""
        found = {partition: self._files(items) for partition, items in listed.items()}
        for (partition, file_id), need in self.needs.items():
            if partition not in found:
                continue
            missing = need.missing(partition, file_id, self.time, found[partition])
            if missing:
                raise gone(
                    f"{self.name} {self.time} is before what the cleaner kept: {missing} is gone",
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


def gone(text: str, **values: str) -> NotRetained:
    return NotRetained(f"{text}. Ask for a later time, or keep more next time (hoodie.cleaner.*)", **values)


def needs_as_of(
    timeline: Timeline, storage: Storage, time: InstantTime, groups: Collection[Group] | None = None
) -> dict[Group, Need]:
    """What the state as of `time` consists of; not before the first commit of the active timeline.

    With `groups` only these, which commits up to `time` wrote.
    """
    held: dict[Group, list[str]] = {}
    replaced: set[Group] = set()
    later: dict[Group, Need | None] = {}
    slicing = slicing_of(timeline)
    for instant in timeline.commits():
        if instant.is_after(time) and groups is not None:
            break
        commit = timeline.commit(instant, storage)
        if not instant.is_after(time):
            _apply(commit, held)
            for group in _replaced(commit):
                held.pop(group, None)
                replaced.add(group)
            continue
        for partition, stats in commit.partition_to_write_stats.items():
            for stat in stats:
                group = (partition, stat.file_id)
                if stat.path and group not in later:
                    later[group] = _before(stat, commit, time, slicing)
        for group in _replaced(commit):
            later.setdefault(group, Need())
    needs = {group: Need(tuple(names)) for group, names in held.items() if groups is None or group in groups}
    for group, need in later.items():
        if need is not None and group not in held and group not in replaced:
            needs[group] = need
    return needs


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
    """
    log = LogFileName.parse(_name(stat.path or ""))
    if log is not None:
        base = BaseFileName.parse(_name(stat.base_file or ""))
        if REQUESTED.after(slicing.slice_of(log, (base.instant,) if base else ()), time):
            return None
        return Need((_name(stat.base_file),)) if stat.base_file else Need()
    if stat.is_new_file_group:
        # of logs without a base file
        return Need() if commit.compacted or commit.operation_type == _COMPACT else None
    before = InstantTime(stat.prev_commit or NO_TIME)
    return Need(base=before) if REQUESTED.until(before, time) else None


def _replaced(commit: CommitMetadata) -> set[Group]:
    if not isinstance(commit, ReplaceCommitMetadata):
        return set()
    groups = commit.partition_to_replace_file_ids.items()
    return {(partition, file_id) for partition, ids in groups for file_id in ids}


def _name(path: str) -> str:
    return path.rpartition("/")[2]
