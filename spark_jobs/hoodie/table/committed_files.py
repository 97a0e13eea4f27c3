"""Data files that the commits of the active timeline name, held against what is on storage.

A commit names every file that it wrote, with its size. Of a file group the newest base file and the logs on
top of it are its latest slice; they have to be there, unless the group was replaced. A log file may be longer
than its newest commit says: a writer may have died after it. Base files of archived commits have no name
here, except where a later commit added logs to them.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from hoodie.errors import TableError
from hoodie.format.names import PARQUET, BaseFileName, LogFileName, join
from hoodie.storage import Storage
from hoodie.table.handle import open_archive
from hoodie.table.properties import TableProperties
from hoodie.table.slicing import Slicing, slicing_of
from hoodie.table.view import FileSlice, TimelineView
from hoodie.timeline.active import Timeline
from hoodie.timeline.commit_details import is_searched, stats_of
from hoodie.timeline.instant import Instant
from hoodie.timeline.time import NO_TIME, REQUESTED, InstantTime

#: (partition path, file id)
Group = tuple[str, str]

#: bytes of the shortest Parquet file
SMALLEST = 12
UNKNOWN = -1
_NAMED = 3
_PATH = re.compile(rb'"path"\s*:\s*"([^"]*)"')


class WrittenFile(NamedTuple):
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


class Wrong(NamedTuple):
    """A file that is missing, or shorter or longer than its commit says (`size`, None: missing)."""

    file: WrittenFile
    size: int | None

    def __str__(self) -> str:
        file = self.file
        kind = "log file" if file.log else "base file"
        if self.size is None:
            return f"{kind} of {file.instant}: {file.path} is missing"
        instead = "" if file.size == UNKNOWN else f" instead of {file.size}"
        return f"{kind} of {file.instant}: {file.path} has {self.size} bytes{instead}"


def written_files(
    timeline: Timeline, instant: Instant, data: bytes, partitions: Collection[str] | None
) -> Iterator[WrittenFile]:
    """The files that a completed commit names in these partitions (None: all). Raises TableError."""
    slicing = slicing_of(timeline)
    try:
        for partition, group in stats_of(data, partitions, timeline.value_of(instant)).items():
            for stat in group:
                yield from _files(instant.time, partition, stat, slicing)
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise TableError(
            f"{instant} can't be read ({error}); restore its file in .hoodie from a copy, or roll it back",
            instant=instant.time,
        ) from None


def all_written(timeline: Timeline, storage: Storage) -> Iterator[WrittenFile]:
    """What all completed commits of the timeline name, but those that were archived since its listing."""
    for instant in timeline.commits():
        with contextlib.suppress(FileNotFoundError):
            yield from written_files(timeline, instant, timeline.read(instant, storage), None)


def _files(
    time: InstantTime, partition: str, stat: Mapping[str, Any], slicing: Slicing
) -> Iterator[WrittenFile]:
    path = stat.get("path")
    if not path:
        return
    name = path.rpartition("/")[2]
    size = stat.get("fileSizeInBytes") or UNKNOWN
    if base := BaseFileName.parse(name):
        yield WrittenFile(partition, base.file_id, path, name, time, base.instant, False, size, 0)
    elif log := LogFileName.parse(name):
        under = BaseFileName.parse(stat.get("baseFile") or "")
        slice_ = slicing.slice_of(log, () if under is None else (under.instant,))
        if under is not None and under.instant == slice_:
            base_path = path[: -len(name)] + str(under)
            yield WrittenFile(
                partition, log.file_id, base_path, str(under), under.instant, under.instant, False, UNKNOWN, 0
            )
        offset = stat.get("logOffset") or 0
        yield WrittenFile(partition, log.file_id, path, name, time, slice_, True, size, offset)


def latest_written(
    timeline: Timeline, storage: Storage, snapshot: TimelineView, partitions: Collection[str] | None = None
) -> dict[Group, dict[str, WrittenFile]]:
    """The latest slice of every group, file by path, as far as the snapshot's commits say.

    Replaced groups are left out. Of a file that several commits name, the one with the greatest size counts.
    Reads the metadata of every commit, and parses that of those which add something.
    """
    latest: dict[Group, dict[str, WrittenFile]] = {}
    begun: dict[Group, str] = {}
    for instant in reversed(timeline.commits()):
        if instant.time not in snapshot.committed:
            continue
        try:
            data = timeline.read(instant, storage)
        except FileNotFoundError:
            continue  # archived since the listing
        if not _adds_files(data, begun, snapshot, partitions):
            continue
        for file in written_files(timeline, instant, data, partitions):
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


def written_partitions(timeline: Timeline, storage: Storage, snapshot: TimelineView) -> set[str]:
    """The partitions of the files that the snapshot's commits name. Raises TableError."""
    found = set[str]()
    for instant in timeline.commits():
        if instant.time not in snapshot.committed:
            continue
        with contextlib.suppress(FileNotFoundError):
            data = timeline.read(instant, storage)
            paths = set(_PATH.findall(data))
            if any(b"\\" in path for path in paths):
                found.update(file.partition for file in written_files(timeline, instant, data, None))
            else:
                found.update(path.decode().rpartition("/")[0] for path in paths)
    return found


def _adds_files(
    data: bytes, begun: Mapping[Group, str], snapshot: TimelineView, partitions: Collection[str] | None
) -> bool:
    """Does a commit name more than base files that were superseded later? Parsing takes ten times longer."""
    if partitions is not None and is_searched(data, partitions):
        return True
    for path in _PATH.findall(data):
        if b"\\" in path:
            return True
        partition, _, name = path.decode().rpartition("/")
        if partitions is not None and partition not in partitions:
            continue
        group = (partition, name.partition("_")[0])
        if not name.endswith(PARQUET) or not (group in begun or group in snapshot.replaced):
            return True
    return False


def mismatches_in(
    latest: Mapping[Group, Mapping[str, WrittenFile]], slices: Iterable[FileSlice], bases_only: bool = False
) -> Iterator[Wrong]:
    """Files of the latest slices that a query's slices, found by listing, lack or have in another size."""
    found = {(item.partition, item.file_id): item for item in slices}
    for group, files in latest.items():
        item = found.get(group)
        base = item.base if item else None
        sizes = {} if item is None else {log.name: log.size for log in item.logs}
        floor = base.instant if base else REQUESTED.first(log.slice for log in item.logs) if item else None
        for file in files.values():
            superseded = floor is not None and REQUESTED.before(file.slice, floor)
            if superseded or (file.log and bases_only):
                continue  # superseded by what a commit wrote that is not on the timeline any more
            if not file.log:
                size = base.size if base and base.name == file.name else None
                if size is None or (file.size != UNKNOWN and size != file.size):
                    yield Wrong(file, size)
            elif (size := sizes.get(file.name)) is None or size < file.size:
                yield Wrong(file, size)


def confirmed(timeline: Timeline, storage: Storage, props: TableProperties, item: Wrong) -> bool:
    """False for what only seems to be wrong: a second attempt's file was listed in the place of the first's,
    or the commit is kept by a savepoint, while later ones, which may have replaced its files, are archived.
    """
    file = item.file
    there = storage.info(join(timeline.base_path, file.path))
    if there is not None and (there.size == file.size or (file.log and there.size > file.size)):
        return False
    if timeline.is_archived(file.instant):
        return not open_archive(storage, timeline.layout, timeline.base_path, props).files()
    return True


def is_named(timeline: Timeline, storage: Storage, names: Collection[str]) -> bool:
    """Does a commit on the timeline name a file that has one of these names."""
    commits = (timeline.commit(instant, storage) for instant in reversed(timeline.commits()))
    return any(stat.file_name in names for commit in commits for stat in commit.write_stats)


def refuse(base_path: str, wrong: Sequence[Wrong], otherwise: str = "") -> None:
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
