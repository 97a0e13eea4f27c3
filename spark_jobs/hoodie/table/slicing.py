"""Which slice of its file group a log file belongs to, and the names of new log files: one class a layout.

A log file's name has an instant. In layout one it is the base instant of the slice, and versions count up; in
layout two it is that of the write which made the file, and the slice is found by the time of its completion
(format.md 5.5, 15.5, 15.6; Apache Hudi HoodieFileGroup). Change logs have their write's instant in both.

Standard library only.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Protocol, TypeVar

from hoodie.config.versions import LayoutVersion
from hoodie.format.names import LogFileName
from hoodie.storage import Storage
from hoodie.timeline.active import Timeline
from hoodie.timeline.instant import COMMIT_ACTIONS
from hoodie.timeline.time import NO_TIME, REQUESTED, InstantTime

T = TypeVar("T")


class Named(Protocol):
    """A log file, or its name. `instant` is the one in the name."""

    @property
    def instant(self) -> InstantTime: ...

    @property
    def version(self) -> int: ...


class Slicing(Protocol):
    """How log files belong to slices; picklable, it travels to executors."""

    @property
    def of_writes(self) -> bool:
        """Whether each log file is its write's own, which creates it; else writes append to a slice."""

    def slice_of(self, log: LogFileName, begun: Collection[InstantTime] = ()) -> InstantTime:
        """The base instant of a log file's slice; `begun` are those of slices of its file group."""

    def sliced(
        self, logs: Sequence[tuple[LogFileName, T]], begun: Collection[InstantTime]
    ) -> Iterable[tuple[InstantTime, LogFileName, T]]:
        """The log files of one file group with the base instants of their slices.

        `begun`: those of the slices that a base file or a pending compaction has begun. A log file may begin
        another one.
        """

    def is_shown(
        self, log: LogFileName, shows: Callable[[str], bool], compaction: InstantTime | None
    ) -> bool:
        """Whether readers look into a log file; `shows` says which instants are committed, `compaction` is
        the pending one of the file group.
        """

    def new_log(
        self, file_id: str, slice_: InstantTime, instant: InstantTime, token: str, there: Iterable[Named]
    ) -> LogFileName:
        """The name of a log file that an instant adds to the slice; `there` are log files of its group."""


@dataclass(frozen=True)
class LayoutOneSlicing:
    """The name of a log file has its slice's base instant."""

    of_writes: ClassVar[bool] = False

    def slice_of(self, log: LogFileName, begun: Collection[InstantTime] = ()) -> InstantTime:
        return log.instant

    def sliced(
        self, logs: Sequence[tuple[LogFileName, T]], begun: Collection[InstantTime]
    ) -> Iterable[tuple[InstantTime, LogFileName, T]]:
        return [(log.instant, log, item) for log, item in logs]

    def is_shown(
        self, log: LogFileName, shows: Callable[[str], bool], compaction: InstantTime | None
    ) -> bool:
        """Its slice is one, whatever is in the file: blocks are checked when they are read."""
        return log.instant == compaction or shows(log.instant)

    def new_log(
        self, file_id: str, slice_: InstantTime, instant: InstantTime, token: str, there: Iterable[Named]
    ) -> LogFileName:
        return _next(file_id, slice_, token, there)


LAYOUT_ONE = LayoutOneSlicing()


class ArchivedTimes:
    """Times of completion of archived instants, read when the first one is asked for. Pickled without those
    that were not read: slices are found where the timeline was read.
    """

    def __init__(self, read: Callable[[], Mapping[InstantTime, InstantTime]]) -> None:
        self._read: Callable[[], Mapping[InstantTime, InstantTime]] | None = read
        self._times: Mapping[InstantTime, InstantTime] | None = None

    def get(self, time: InstantTime) -> InstantTime:
        """ "" where it is unknown. Raises TableError where the archive can't be read."""
        if self._times is None:
            if self._read is None:
                raise RuntimeError("the archived timeline is not read here")
            self._times = self._read()
        return self._times.get(time, NO_TIME)

    def __getstate__(self) -> dict[str, Any]:
        return {"_read": None, "_times": self._times}


@dataclass(frozen=True)
class LayoutTwoSlicing:
    """A log file belongs to the latest slice that was begun when the file's write was completed.

    `completions`: of completed instants, by the time of the request. Instants before `first_time` are
    archived, and `archived` has their times; where one is unknown, that of the request is taken for it.
    """

    of_writes: ClassVar[bool] = True

    completions: Mapping[InstantTime, InstantTime] = field(default_factory=dict)
    first_time: InstantTime | None = None
    archived: ArchivedTimes = field(default_factory=lambda: ArchivedTimes(dict), compare=False)

    @classmethod
    def of(cls, timeline: Timeline, archived: ArchivedTimes | None = None) -> Slicing:
        completions: dict[InstantTime, InstantTime] = {}
        for instant in timeline.commits():
            completion = timeline.completion_time(instant)
            if completion is not None:
                completions[instant.time] = completion
        return cls(completions, timeline.first_time, archived or ArchivedTimes(dict))

    def slice_of(self, log: LogFileName, begun: Collection[InstantTime] = ()) -> InstantTime:
        newest = REQUESTED.last(begun)
        if newest is None or log.cdc:
            return log.instant
        completion = self.completions.get(log.instant, NO_TIME)
        if not completion and not self._is_archived(log.instant):
            return newest
        if not completion and REQUESTED.after(newest, log.instant):
            completion = self.archived.get(log.instant)
        if len(completion) != len(newest):  # of another form, from before there were milliseconds
            completion = log.instant
        return REQUESTED.last(time for time in begun if REQUESTED.until(time, completion)) or log.instant

    def sliced(
        self, logs: Sequence[tuple[LogFileName, T]], begun: Collection[InstantTime]
    ) -> Iterable[tuple[InstantTime, LogFileName, T]]:
        known, found = set(begun), []
        for log, item in sorted(logs, key=lambda entry: entry[0].order):
            slice_ = self.slice_of(log, known)
            known.add(slice_)
            found.append((slice_, log, item))
        return found

    def is_shown(
        self, log: LogFileName, shows: Callable[[str], bool], compaction: InstantTime | None
    ) -> bool:
        return shows(log.instant)

    def new_log(
        self, file_id: str, slice_: InstantTime, instant: InstantTime, token: str, there: Iterable[Named]
    ) -> LogFileName:
        return _next(file_id, instant, token, there)

    def _is_archived(self, time: InstantTime) -> bool:
        return self.first_time is not None and REQUESTED.before(time, self.first_time)


def slicing_of(timeline: Timeline, storage: Storage | None = None) -> Slicing:
    """That of the timeline's layout. `storage`: where times are read that only the archived timeline has."""
    if timeline.layout.version is LayoutVersion.ONE:
        return LAYOUT_ONE
    if storage is None:
        return LayoutTwoSlicing.of(timeline)
    return LayoutTwoSlicing.of(timeline, ArchivedTimes(partial(_archived_times, storage, timeline)))


def _archived_times(storage: Storage, timeline: Timeline) -> dict[InstantTime, InstantTime]:
    from hoodie.timeline.archive.lsm_archive import LsmArchive

    folder = timeline.layout.archive_folder(timeline.base_path, "")
    found = LsmArchive(storage, folder).instants()
    return {item.time: item.completion for item in found if item.completion and item.action in COMMIT_ACTIONS}


def first_instant(logs: Iterable[Named]) -> InstantTime | None:
    """The base instant of a slice that consists of these logs alone: in both layouts the first in a name."""
    return REQUESTED.first(log.instant for log in logs)


def _next(file_id: str, instant: InstantTime, token: str, there: Iterable[Named]) -> LogFileName:
    versions = (log.version for log in there if log.instant == instant)
    return LogFileName(file_id, instant, max(versions, default=0) + 1, token)
