"""Data files that the commits of the active timeline name, held against what is on storage.

A commit names every file that it wrote, with its size. Of a file group the newest base file and the logs on
top of it are its latest slice; they have to be there, unless the group was replaced. A log file may be longer
than its newest commit says: a writer may have died after it. Base files of archived commits have no name
here, except where a later commit added logs to them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import Any, NamedTuple

from hoodie.errors import TableError
from hoodie.format.names import PARQUET, BaseFileName, LogFileName, join
from hoodie.storage import Storage
from hoodie.table.handle import Table, open_archive
from hoodie.table.properties import TableProperties
from hoodie.table.slicing import LAYOUT_ONE, Slicing, slicing_of
from hoodie.table.view import FileSlice, TimelineView
from hoodie.timeline.active import Timeline
from hoodie.timeline.archive.archive import Archive
from hoodie.timeline.commit_details import is_searched, paths_of, stats_of
from hoodie.timeline.instant import Action, Instant, State
from hoodie.timeline.layout import Layout
from hoodie.timeline.models.clean import CleanMetadata, CleanPlan
from hoodie.timeline.models.restore import RestoreMetadata
from hoodie.timeline.models.rollback import RollbackMetadata, RollbackPlan
from hoodie.timeline.time import NO_TIME, REQUESTED, InstantTime

#: (partition path, file id)
Group = tuple[str, str]
#: (partition path, file name); a name of "" means all of the partition
File = tuple[str, str]

#: bytes of the shortest Parquet file
SMALLEST = 12
UNKNOWN = -1
#: of a commit whose files are remembered
_KNOWN_BYTES = 1 << 14
_NAMED = 3


class CommittedFile(NamedTuple):
    """A file as a commit names it. `instant` is the commit's, `slice` the base instant of the file's slice.

    `size` is the base file's, or the least that a log file has; UNKNOWN where the commit with its size
    is archived. `offset` is where the commit's part of a log file begins.
    """

    partition: str
    file_id: str
    path: str
    name: str
    instant: InstantTime
    slice: InstantTime
    log: bool
    size: int
    offset: int

    @property
    def group(self) -> Group:
        return self.partition, self.file_id

    def is_among(self, names: Collection[File]) -> bool:
        """Do the names have this one, or all of its partition."""
        return (self.partition, self.name) in names or (self.partition, "") in names


class FileMismatch(NamedTuple):
    """A file that is missing, or shorter or longer than its commit says (`size`, None: missing)."""

    file: CommittedFile
    size: int | None

    def __str__(self) -> str:
        file = self.file
        kind = "log file" if file.log else "base file"
        if self.size is None:
            return f"{kind} of {file.instant}: {file.path} is missing"
        instead = "" if file.size == UNKNOWN else f" instead of {file.size}"
        return f"{kind} of {file.instant}: {file.path} has {self.size} bytes{instead}"


def files_of_commit(
    timeline: Timeline, slicing: Slicing, instant: Instant, data: bytes, partitions: Collection[str] | None
) -> Iterator[CommittedFile]:
    """The files that a completed commit names in these partitions (None: all). Raises TableError."""
    try:
        known = _known_bases(timeline.layout, instant, data) if len(data) <= _KNOWN_BYTES else None
        if known is not None:
            yield from (file for file in known if partitions is None or file.partition in partitions)
            return
        for partition, group in stats_of(data, partitions, timeline.value_of(instant)).items():
            for stat in group:
                yield from _files(instant.time, partition, stat, slicing)
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise TableError(
            f"{instant} can't be read ({error}); restore its file in .hoodie from a copy, or roll it back",
            instant=instant.time,
        ) from None


@lru_cache(128)
def _known_bases(layout: Layout, instant: Instant, data: bytes) -> Sequence[CommittedFile] | None:
    """The files of a commit that names base files alone, by its content: each write looks at the commits of
    the timeline. None for others, whose files belong to slices.
    """
    groups = stats_of(data, None, partial(layout.commit_value, instant.action))
    found = [(partition, stat) for partition, group in groups.items() for stat in group if stat.get("path")]
    names = [BaseFileName.parse(stat["path"].rpartition("/")[2]) for _, stat in found]
    if None in names:
        return None
    return [file for partition, stat in found for file in _files(instant.time, partition, stat, LAYOUT_ONE)]


def _files(
    time: InstantTime, partition: str, stat: Mapping[str, Any], slicing: Slicing
) -> Iterator[CommittedFile]:
    path = stat.get("path")
    if not path:
        return
    name = path.rpartition("/")[2]
    size = stat.get("fileSizeInBytes") or UNKNOWN
    if base := BaseFileName.parse(name):
        yield CommittedFile(partition, base.file_id, path, name, time, base.instant, False, size, 0)
    elif log := LogFileName.parse(name):
        under = BaseFileName.parse(stat.get("baseFile") or "")
        slice_ = slicing.slice_of(log, () if under is None else (under.instant,))
        if under is not None and under.instant == slice_:
            base_path = path[: -len(name)] + str(under)
            yield CommittedFile(
                partition, log.file_id, base_path, str(under), under.instant, under.instant, False, UNKNOWN, 0
            )
        offset = stat.get("logOffset") or 0
        yield CommittedFile(partition, log.file_id, path, name, time, slice_, True, size, offset)


def _adds_files(
    data: bytes, begun: Mapping[Group, str], snapshot: TimelineView, partitions: Collection[str] | None
) -> bool:
    """Does a commit name more than base files that were superseded later? Parsing takes ten times longer."""
    if partitions is not None and is_searched(data, partitions):
        return True
    paths = paths_of(data)
    if paths is None:
        return True
    for path in paths:
        partition, _, name = path.rpartition("/")
        if partitions is not None and partition not in partitions:
            continue
        group = (partition, name.partition("_")[0])
        if not name.endswith(PARQUET) or not (group in begun or group in snapshot.replaced):
            return True
    return False


@dataclass(frozen=True, kw_only=True)
class CommittedFiles:
    """The files of one state of a timeline, and what deleted those that are gone."""

    timeline: Timeline
    storage: Storage
    properties: TableProperties

    @cached_property
    def _slicing(self) -> Slicing:
        return slicing_of(self.timeline, self.storage)

    @classmethod
    def of(cls, table: Table) -> CommittedFiles:
        """Those of the timeline as the table listed it last."""
        return cls(timeline=table.timeline, storage=table.storage, properties=table.properties)

    @property
    def _archive(self) -> Archive:
        timeline = self.timeline
        return open_archive(self.storage, timeline.layout, timeline.base_path, self.properties)

    def all(self) -> Iterator[CommittedFile]:
        """What all completed commits name, but those that were archived since the timeline was listed."""
        for instant, data in self.timeline.read_each(self.timeline.commits(), self.storage):
            yield from files_of_commit(self.timeline, self._slicing, instant, data, None)

    def by_path(self) -> dict[str, CommittedFile]:
        """Every file that commits name; of a log what the commit with its greatest size says."""
        named: dict[str, CommittedFile] = {}
        for file in self.all():
            known = named.get(file.path)
            if known is None or known.size < file.size:
                named[file.path] = file
        return named

    def latest(
        self, snapshot: TimelineView, partitions: Collection[str] | None = None
    ) -> dict[Group, dict[str, CommittedFile]]:
        """The latest slice of every group, file by path, as far as the snapshot's commits say.

        Replaced groups are left out. Of a file that several commits name, the one with the greatest size
        counts. Reads the metadata of every commit, and parses that of those which add something.
        """
        latest: dict[Group, dict[str, CommittedFile]] = {}
        begun: dict[Group, str] = {}
        for instant, data in self._contents(snapshot):
            if not _adds_files(data, begun, snapshot, partitions):
                continue
            for file in files_of_commit(self.timeline, self._slicing, instant, data, partitions):
                group = (file.partition, file.file_id)
                if group in snapshot.replaced or REQUESTED.before(file.slice, begun.get(group, NO_TIME)):
                    continue
                files = latest.setdefault(group, {})
                if not file.log:
                    begun[group] = file.slice
                    for path in [
                        path for path, other in files.items() if REQUESTED.before(other.slice, file.slice)
                    ]:
                        del files[path]
                known = files.get(file.path)
                if known is None or known.size < file.size:
                    files[file.path] = file
        return latest

    def mismatches(
        self,
        latest: Mapping[Group, Mapping[str, CommittedFile]],
        slices: Iterable[FileSlice],
        bases_only: bool = False,
    ) -> Iterator[FileMismatch]:
        """Files of the latest slices that slices found by listing lack, or have in another size."""
        found = {(item.partition, item.file_id): item for item in slices}
        for group, files in latest.items():
            item = found.get(group)
            base = item.base if item else None
            sizes = {} if item is None else {log.name: log.size for log in item.logs}
            floor = base.instant if base else self._named_slice(item)
            for file in files.values():
                superseded = floor is not None and REQUESTED.before(file.slice, floor)
                if superseded or (file.log and bases_only):
                    continue  # superseded by what a commit wrote that is not on the timeline any more
                if not file.log:
                    size = base.size if base and base.name == file.name else None
                    if size is None or (file.size != UNKNOWN and size != file.size):
                        yield FileMismatch(file, size)
                elif (size := sizes.get(file.name)) is None or size < file.size:
                    yield FileMismatch(file, size)

    def _named_slice(self, item: FileSlice | None) -> InstantTime | None:
        """The one that logs without a base file name. Where they are their writes' own they name none: those
        of a base file that is missing seem to begin a later slice.
        """
        if item is None or self._slicing.of_writes:
            return None
        return REQUESTED.first(log.slice for log in item.logs)

    def partitions(self, snapshot: TimelineView) -> set[str]:
        """The partitions of the files that the snapshot's commits name. Raises TableError."""
        found = set[str]()
        for instant, data in self._contents(snapshot):
            paths = paths_of(data)
            if paths is None:
                files = files_of_commit(self.timeline, self._slicing, instant, data, None)
                found.update(file.partition for file in files)
            else:
                found.update(path.rpartition("/")[0] for path in paths)
        return found

    def _contents(self, snapshot: TimelineView) -> Iterator[tuple[Instant, bytes]]:
        """Of the snapshot's commits, the newest first, but those that were archived since the listing."""
        commits = [item for item in reversed(self.timeline.commits()) if item.time in snapshot.committed]
        return self.timeline.read_each(commits, self.storage)

    def have_any(self, names: Collection[str]) -> bool:
        """Has a file that a commit names one of these names."""
        commits = (
            self.timeline.commit(instant, self.storage) for instant in reversed(self.timeline.commits())
        )
        return any(stat.file_name in names for commit in commits for stat in commit.write_stats)

    def confirms(self, item: FileMismatch) -> bool:
        """False for what only seems to be wrong: a second attempt's file was listed in the place of the
        first's, or the commit is kept by a savepoint, while later ones, which may have replaced its files,
        are archived.
        """
        file = item.file
        there = self.storage.info(join(self.timeline.base_path, file.path))
        if there is not None and (there.size == file.size or (file.log and there.size > file.size)):
            return False
        if self.timeline.is_archived(file.instant):
            return not self._archive.files()
        return True

    def undeleted(self, wrong: Iterable[FileMismatch]) -> list[FileMismatch]:
        """Those of the files that nothing deleted. Files that are there in another size were not deleted."""
        left = list(wrong)
        for source in (self._deleted(), self._deleted_before()):
            if not any(item.size is None for item in left):
                break
            gone = set(source)
            left = [item for item in left if item.size is not None or not item.file.is_among(gone)]
        return left

    def _deleted(self) -> Iterator[File]:
        """What cleans, rollbacks and restores deleted, or are going to delete."""
        for instant in self.timeline.filter([Action.CLEAN, Action.ROLLBACK, Action.RESTORE]):
            planned = instant if instant.completed else instant.with_state(State.REQUESTED)
            data = self.storage.read(self.timeline.path(planned))
            if not data:
                continue
            if instant.action is Action.CLEAN:
                if instant.completed:
                    yield from _deleted_by_clean(CleanMetadata.from_bytes(data))
                else:
                    plan = CleanPlan.from_bytes(data)
                    yield from ((partition, file.name) for partition, file in plan)
                    yield from ((partition, "") for partition in plan.delete_partitions)
            elif instant.action is Action.ROLLBACK and not instant.completed:
                for request in RollbackPlan.from_bytes(data).requests:
                    yield from _named(request.partition_path, request.files_to_delete)
            elif instant.action is Action.ROLLBACK:
                yield from _deleted_by_rollback(RollbackMetadata.from_bytes(data))
            elif instant.completed:
                for group in RestoreMetadata.from_bytes(data).rollbacks.values():
                    for done in group:
                        yield from _deleted_by_rollback(done)

    def _deleted_before(self) -> Iterator[File]:
        """The same by the archive. Cleans are archived apart from commits, which may be kept longer."""
        for entry in self._archive.entries():
            if not entry.instant.completed or entry.metadata is None:
                continue
            try:
                if entry.instant.action is Action.CLEAN:
                    yield from _deleted_by_clean(CleanMetadata.from_record(entry.metadata))
                elif entry.instant.action is Action.ROLLBACK:
                    yield from _deleted_by_rollback(RollbackMetadata.from_record(entry.metadata))
            except (KeyError, TypeError) as error:
                raise TableError(
                    f"archived {entry.instant} can't be read ({error}); restore the archive from a copy",
                    instant=entry.instant.time,
                ) from None


def _deleted_by_clean(done: CleanMetadata) -> Iterator[File]:
    for partition, cleaned in done.partitions.items():
        yield from _named(partition, (*cleaned.deleted, *cleaned.patterns))
        if cleaned.partition_deleted:
            yield partition, ""


def _deleted_by_rollback(done: RollbackMetadata) -> Iterator[File]:
    for partition, item in done.partitions.items():
        yield from _named(partition, item.deleted)


def _named(partition: str, paths: tuple[str, ...]) -> Iterator[File]:
    return ((partition, path.rpartition("/")[2]) for path in paths)


def refuse(base_path: str, wrong: Sequence[FileMismatch], otherwise: str = "") -> None:
    """Raises TableError that names the first files, what wrote them, and what to do; nothing for none.

    `otherwise` is what may be done without the files.
    """
    if not wrong:
        return
    shown = "; ".join(map(str, wrong[:_NAMED]))
    more = f"; and {len(wrong) - _NAMED} more files" if len(wrong) > _NAMED else ""
    first = wrong[0].file
    raise TableError(
        f"files of {base_path} are damaged: {shown}{more}. Restore the files from a copy, or take the table "
        f"back to a state without them (hoodie restore); hoodie doctor lists them all{otherwise}",
        path=f"{base_path}/{first.path}",
        instant=first.instant,
    )
