"""File groups and slices from a listing and the timeline (format.md 12.1).

`TimelineView` is the small, picklable part of the timeline that decides which files a reader sees; it travels
to executors. Uncommitted files are never shown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from hoodie.format.names import PARQUET, BaseFileName, LogFileName, join
from hoodie.storage import FileInfo, Storage
from hoodie.table.pending import compacting_groups
from hoodie.timeline.active import Timeline
from hoodie.timeline.commit import ReplaceCommitMetadata
from hoodie.timeline.instant import COMMIT_ACTIONS, METADATA_BOOTSTRAP, Action
from hoodie.timeline.time import REQUESTED, InstantTime

Listing = Callable[[str], Sequence[FileInfo]]


@dataclass(frozen=True)
class BaseFile:
    """One base file; `path` is absolute, `size` bytes. What a skeleton lacks is read by `table.skeleton`."""

    partition: str
    path: str
    name: str
    file_id: str
    instant: InstantTime
    size: int

    @property
    def skeleton(self) -> bool:
        """Does it hold meta columns only: the rows lie in a file that the table was bootstrapped from."""
        return self.instant == METADATA_BOOTSTRAP

    @property
    def base_path(self) -> str:
        """That of its table."""
        return self.path.removesuffix(f"/{join(self.partition, self.name)}")


@dataclass(frozen=True, kw_only=True)
class LogFile:
    """One log file; `base_instant` is its slice's, not that of its blocks."""

    partition: str
    path: str
    name: str
    file_id: str
    base_instant: InstantTime
    version: int
    token: str
    size: int

    @classmethod
    def of(cls, partition: str, path: str, parsed: LogFileName, size: int) -> LogFile:
        """The file at a path whose last part was parsed."""
        return cls(
            partition=partition,
            path=path,
            name=path.rpartition("/")[2],
            file_id=parsed.file_id,
            base_instant=parsed.base_instant,
            version=parsed.version,
            token=parsed.token or "",
            size=size,
        )

    @property
    def order(self) -> tuple[str, int, str]:
        return REQUESTED.key(self.base_instant), self.version, self.token


@dataclass(frozen=True)
class FileSlice:
    """One version of a file group: at most one base file, and log files in the order they are read.

    `instant` is the slice's base instant: new log files of the group carry it in their names. In a merged
    slice of a group under compaction it is the compaction's, while base file and first logs are older.
    """

    partition: str
    file_id: str
    instant: InstantTime
    base: BaseFile | None
    logs: tuple[LogFile, ...] = ()

    @property
    def size(self) -> int:
        """Bytes of its files."""
        return (self.base.size if self.base else 0) + sum(log.size for log in self.logs)

    @property
    def plain(self) -> bool:
        """Does one Parquet file have its rows as they are."""
        return not self.logs and not (self.base and self.base.skeleton)

    @property
    def next_version(self) -> int:
        """Version of the next log file."""
        return max((log.version for log in self.logs if log.base_instant == self.instant), default=0) + 1


@dataclass(frozen=True)
class TimelineView:
    """What is committed, as of an instant or now.

    `replaced` holds (partition, file id) hidden by completed replacecommits, `compacting` the pending
    compaction of file groups that have one.
    """

    committed: frozenset[InstantTime]
    first_time: InstantTime | None
    last_commit: InstantTime | None
    replaced: frozenset[tuple[str, str]] = field(default_factory=frozenset)
    compacting: Mapping[tuple[str, str], InstantTime] = field(default_factory=dict)
    as_of: InstantTime | None = None

    @classmethod
    def of(cls, timeline: Timeline, storage: Storage, as_of: InstantTime | None = None) -> TimelineView:
        """The newest state, or that after the last commit at or before the instant `as_of`."""

        def known(time: InstantTime) -> bool:
            return as_of is None or REQUESTED.until(time, as_of)

        commits = [
            instant for instant in timeline.filter(COMMIT_ACTIONS, completed=True) if known(instant.time)
        ]
        replaced: set[tuple[str, str]] = set()
        for instant in commits:
            if instant.action is Action.REPLACECOMMIT:
                try:
                    metadata = timeline.commit(instant, storage)
                except FileNotFoundError:
                    continue  # archived since the listing, after the files of what it replaced were cleaned
                if isinstance(metadata, ReplaceCommitMetadata):
                    for partition, ids in metadata.partition_to_replace_file_ids.items():
                        replaced.update((partition, file_id) for file_id in ids)
        compacting = {
            group: instant.time
            for group, instant in compacting_groups(timeline, storage).items()
            if known(instant.time)
        }
        return cls(
            frozenset(instant.time for instant in commits),
            timeline.first_time,
            commits[-1].time if commits else None,
            frozenset(replaced),
            compacting,
            as_of,
        )

    @cached_property
    def compacting_in(self) -> Mapping[str, Mapping[str, InstantTime]]:
        """`compacting` by partition path, then by file id: asked for each of many partitions."""
        found: dict[str, dict[str, InstantTime]] = {}
        for (partition, file_id), time in self.compacting.items():
            found.setdefault(partition, {})[file_id] = time
        return found

    def shows(self, instant: str) -> bool:
        """Is a file, or a log block, of this instant committed: completed, or older than the timeline."""
        if instant in self.committed:
            return True
        archived = self.first_time is not None and REQUESTED.before(instant, self.first_time)
        return archived and (self.as_of is None or REQUESTED.until(instant, self.as_of))


def file_slices(
    snapshot: TimelineView, listing: Listing, partition: str, extension: str = PARQUET
) -> dict[str, list[FileSlice]]:
    """file id -> its committed slices, newest first; replaced groups left out. Base files have the extension.

    A pending compaction begins a slice, which may still be empty; base files of its instant are no part of it
    yet. Log files are part of a slice whatever is in them: their blocks are checked when they are read.
    """
    bases: dict[tuple[str, InstantTime], BaseFile] = {}
    logs: dict[tuple[str, InstantTime], list[LogFile]] = {}
    compacting = snapshot.compacting_in.get(partition, {})
    for item in listing(partition):
        if item.is_dir:
            continue
        if name := BaseFileName.parse(item.name, extension):
            base = BaseFile(partition, item.path, item.name, name.file_id, name.instant, item.size)
            if snapshot.shows(name.instant):
                bases[name.file_id, name.instant] = base
        elif (log := LogFileName.parse(item.name)) and not log.cdc:
            key = (log.file_id, log.base_instant)
            if snapshot.shows(log.base_instant) or compacting.get(key[0]) == key[1]:
                logs.setdefault(key, []).append(LogFile.of(partition, item.path, log, item.size))
    groups: dict[str, list[FileSlice]] = {}
    every = {*bases, *logs, *compacting.items()}
    for file_id, instant in sorted(every, key=lambda item: REQUESTED.key(item[1]), reverse=True):
        if (partition, file_id) in snapshot.replaced:
            continue
        key = (file_id, instant)
        ordered = tuple(sorted(logs.get(key, ()), key=lambda log: log.order))
        groups.setdefault(file_id, []).append(FileSlice(partition, file_id, instant, bases.get(key), ordered))
    return dict(sorted(groups.items()))


def merged_slices(
    snapshot: TimelineView, listing: Listing, partition: str, extension: str = PARQUET
) -> list[FileSlice]:
    """What a snapshot query reads: the latest slice of every group, by file id.

    Where a compaction is pending, its slice's logs are read on top of the slice that it is going to compact.
    """
    latest: list[FileSlice] = []
    for file_id, group in file_slices(snapshot, listing, partition, extension).items():
        newest, *older = group
        if snapshot.compacting.get((partition, file_id)) == newest.instant and older:
            logs = (*older[0].logs, *newest.logs)
            newest = FileSlice(partition, file_id, newest.instant, older[0].base, logs)
        if newest.base or newest.logs:
            latest.append(newest)
    return latest


def slices(snapshot: TimelineView, listing: Listing, partition: str) -> dict[str, list[BaseFile]]:
    """file id -> its committed base files, newest first; groups without any are left out."""
    groups = {
        file_id: [file_slice.base for file_slice in group if file_slice.base]
        for file_id, group in file_slices(snapshot, listing, partition).items()
    }
    return {file_id: files for file_id, files in groups.items() if files}


def latest_base_files(snapshot: TimelineView, listing: Listing, partition: str) -> list[BaseFile]:
    """What a read-optimized query reads: the newest committed base file of every group, by file id."""
    return [files[0] for files in slices(snapshot, listing, partition).values()]


def log_files(listing: Listing, partition: str) -> list[LogFile]:
    """All log files of a partition, those of failed writes included."""
    found = []
    for item in listing(partition):
        name = None if item.is_dir else LogFileName.parse(item.name)
        if name and not name.cdc:
            found.append(LogFile.of(partition, item.path, name, item.size))
    return found
