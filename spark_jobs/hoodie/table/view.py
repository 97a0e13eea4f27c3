"""File groups and slices from a listing and the timeline (format.md 12.1).

`TimelineView` is the small, picklable part of the timeline that decides which files a reader sees; it travels
to executors. Uncommitted files are never shown.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import attrgetter
from typing import Protocol, TypeVar

from hoodie.errors import TableError
from hoodie.format.names import OTHER_FORMATS, PARQUET, BaseFileName, LogFileName, join
from hoodie.storage import FileInfo, Storage
from hoodie.table.pending import compacting_groups
from hoodie.table.slicing import LAYOUT_ONE, Slicing, slicing_of
from hoodie.timeline.active import Timeline
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
    """One log file. `instant` is the one in its name, `slice` the base instant of its slice."""

    partition: str
    path: str
    name: str
    file_id: str
    instant: InstantTime
    slice: InstantTime
    version: int
    token: str
    size: int

    @classmethod
    def of(cls, partition: str, path: str, parsed: LogFileName, size: int, slice_: InstantTime) -> LogFile:
        """The file at a path whose last part was parsed."""
        return cls(
            partition=partition,
            path=path,
            name=path.rpartition("/")[2],
            file_id=parsed.file_id,
            instant=parsed.instant,
            slice=slice_,
            version=parsed.version,
            token=parsed.token or "",
            size=size,
        )

    @property
    def order(self) -> tuple[str, int, str]:
        return REQUESTED.key(self.instant), self.version, self.token


#: logs of a slice are read in it
_ORDER: Callable[[LogFile], tuple[str, int, str]] = attrgetter("order")


@dataclass(frozen=True)
class FileSlice:
    """One version of a file group: at most one base file, and log files in the order they are read.

    `instant` is the slice's base instant: new log files of the group belong to it. In a merged slice of a
    group under compaction it is the compaction's, while base file and first logs are older.
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
    def own_logs(self) -> list[LogFile]:
        """Those that no pending compaction merges."""
        return [log for log in self.logs if log.slice == self.instant]

    def new_log(self, slicing: Slicing, instant: InstantTime, token: str) -> LogFileName:
        """The name of a log file that an instant adds."""
        return slicing.new_log(self.file_id, self.instant, instant, token, self.logs)


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
    slicing: Slicing = LAYOUT_ONE

    @classmethod
    def of(
        cls,
        timeline: Timeline,
        storage: Storage,
        as_of: InstantTime | None = None,
        by_completion: bool = False,
    ) -> TimelineView:
        """The newest state, or that after the last commit at or before the instant `as_of`; `by_completion`:
        that of all commits that were completed until then.
        """

        def known(time: InstantTime | None) -> bool:
            return as_of is None or (time is not None and REQUESTED.until(time, as_of))

        commits = [
            instant
            for instant in timeline.filter(COMMIT_ACTIONS, completed=True)
            if known(timeline.completion_time(instant) if by_completion and as_of else instant.time)
        ]
        replaced: set[tuple[str, str]] = set()
        for instant in commits:
            if instant.action is Action.REPLACECOMMIT:
                try:
                    groups = timeline.head(instant, storage).replaced
                except FileNotFoundError:
                    continue  # archived since the listing, after the files of what it replaced were cleaned
                for partition, ids in groups.items():
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
            slicing_of(timeline, storage),
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
    yet. Raises TableError for a committed base file of another format.
    """
    bases: dict[str, dict[InstantTime, BaseFile]] = {}
    logs: dict[str, list[tuple[LogFileName, FileInfo]]] = {}
    slicing, compacting = snapshot.slicing, snapshot.compacting_in.get(partition, {})
    for item in listing(partition):
        if item.is_dir:
            continue
        if name := BaseFileName.parse(item.name, extension):
            if snapshot.shows(name.instant):
                base = BaseFile(partition, item.path, item.name, name.file_id, name.instant, item.size)
                bases.setdefault(name.file_id, {})[name.instant] = base
        elif (
            (log := LogFileName.parse(item.name))
            and not log.cdc
            and slicing.is_shown(log, snapshot.shows, compacting.get(log.file_id))
        ):
            logs.setdefault(log.file_id, []).append((log, item))
        elif extension == PARQUET and item.name.endswith(OTHER_FORMATS):
            _check_uncommitted(snapshot, item)
    groups: dict[str, list[FileSlice]] = {}
    for file_id in sorted({*bases, *logs, *compacting}):
        if (partition, file_id) in snapshot.replaced:
            continue
        there = bases.get(file_id, {})
        begun = {*there, compacting[file_id]} if file_id in compacting else there.keys()
        found: dict[InstantTime, list[LogFile]] = {instant: [] for instant in begun}
        for file in _sliced(slicing, partition, logs.get(file_id, ()), begun):
            found.setdefault(file.slice, []).append(file)
        groups[file_id] = [
            FileSlice(
                partition, file_id, instant, there.get(instant), tuple(sorted(found[instant], key=_ORDER))
            )
            for instant in sorted(found, key=REQUESTED.key, reverse=True)
        ]
    return groups


def _check_uncommitted(snapshot: TimelineView, item: FileInfo) -> None:
    """Raises TableError for a committed base file of another format."""
    for kind in OTHER_FORMATS:
        name = BaseFileName.parse(item.name, kind)
        if name is not None and snapshot.shows(name.instant):
            raise TableError(
                f"base file {item.path} is {kind}, which is not read here: rows would be missing; read the "
                "table with Apache Hudi",
                path=item.path,
            )


def _sliced(
    slicing: Slicing,
    partition: str,
    logs: Sequence[tuple[LogFileName, FileInfo]],
    begun: Collection[InstantTime],
) -> Iterator[LogFile]:
    """The log files of a file group."""
    for slice_, log, item in slicing.sliced(logs, begun):
        yield LogFile.of(partition, item.path, log, item.size, slice_)


class Begun(Protocol):
    """A slice by its base instant."""

    @property
    def instant(self) -> InstantTime: ...


_B = TypeVar("_B", bound=Begun)


def superseded(group: Sequence[_B], earliest: str) -> Sequence[_B]:
    """The slices of a file group that no query as of an instant from the earliest on reads: those older than
    it, but for the newest of these. `group` is newest first.
    """
    return [item for item in group if REQUESTED.before(item.instant, earliest)][1:]


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
            newest = with_input(newest, older[0])
        if newest.base or newest.logs:
            latest.append(newest)
    return latest


def with_input(compacted: FileSlice, input_: FileSlice) -> FileSlice:
    """The slice of a pending compaction with what is going to be compacted, in the order of reading."""
    logs = tuple(sorted((*input_.logs, *compacted.logs), key=_ORDER))
    return FileSlice(compacted.partition, compacted.file_id, compacted.instant, input_.base, logs)


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


def log_files(
    slicing: Slicing,
    listing: Listing,
    partition: str,
    compacting: Mapping[str, InstantTime] | None = None,
) -> list[LogFile]:
    """All log files of a partition, those of failed writes included; so do base files of such begin slices.

    `compacting`: the pending compactions of its file groups, where it matters whether a file belongs to one.
    """
    begun: dict[str, set[InstantTime]] = {file_id: {time} for file_id, time in (compacting or {}).items()}
    logs: dict[str, list[tuple[LogFileName, FileInfo]]] = {}
    for item in listing(partition):
        if item.is_dir:
            continue
        if (log := LogFileName.parse(item.name)) and not log.cdc:
            logs.setdefault(log.file_id, []).append((log, item))
        elif name := BaseFileName.parse(item.name):
            begun.setdefault(name.file_id, set()).add(name.instant)
    return [
        file
        for file_id, found in logs.items()
        for file in _sliced(slicing, partition, found, begun.get(file_id, ()))
    ]
