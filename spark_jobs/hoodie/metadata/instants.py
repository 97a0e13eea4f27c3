"""Instants of a metadata table: their times, and which log blocks count: one class a layout (format.md 10.4,
10.6, 15.12; Apache Hudi 0.15.0 and 1.2.0 HoodieTableMetadataUtil).

A block is written before the commit of the table that it describes. It counts when both are completed: the
deltacommit of the metadata table, and the instant of the table, of the same time. Instants that the metadata
table has of its own end with three digits more in layout one. In layout two they have times like all.
"""

from __future__ import annotations

import enum
import itertools
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from typing import Protocol

from hoodie.config.versions import LayoutVersion
from hoodie.storage import Storage
from hoodie.table.view import TimelineView
from hoodie.timeline.active import Timeline
from hoodie.timeline.clock import new_instant_time
from hoodie.timeline.instant import COMMIT_ACTIONS, Action, Instant
from hoodie.timeline.layout import Layout
from hoodie.timeline.models.restore import RestoreMetadata
from hoodie.timeline.models.rollback import RollbackMetadata, RollbackPlan
from hoodie.timeline.time import NO_TIME, REQUESTED, InstantTime


class Own(str, enum.Enum):
    """What the metadata table does of its own, by the digits that follow the time."""

    COMPACTION = "001"
    CLEAN = "002"
    RESTORE = "003"
    INDEXING = "004"
    LOG_COMPACTION = "005"
    ROLLBACK = "006"

    def time(self, of: str) -> InstantTime:
        return InstantTime(f"{of}{self.value}")


_DIGITS = 17
_OWN = frozenset(own.value for own in Own)
_CHANGING = (*COMMIT_ACTIONS, Action.CLEAN, Action.ROLLBACK, Action.RESTORE)
#: of the making of the partitions: this, and those after it
_FIRST_MAKING = 10
#: instants of what was made with a new table begin so
NEW_TABLE = InstantTime("0" * 14)


class Instants(Protocol):
    """Of the metadata tables of one layout."""

    def making_time(self, upto: InstantTime, taken: Collection[InstantTime]) -> InstantTime:
        """A free time for the making of a partition, as of an instant of the table."""

    def service_time(self, own: Own, of: InstantTime, new: Callable[[], InstantTime]) -> InstantTime:
        """Of a compaction or a clean after the deltacommit `of`; `new` gives a time after all there are."""

    def rollback_time(self, of: InstantTime, taken: Collection[InstantTime], utc: bool) -> InstantTime:
        """A free time for a rollback at an instant of the table, or one of its own."""

    def shown_blocks(
        self, data: Timeline, metadata: Timeline, view: TimelineView, storage: Storage
    ) -> TimelineView:
        """What shows the blocks that count. `view` is of the metadata table's timeline, and shows its files.

        Raises TableError for a damaged rollback or restore.
        """

    def lacking(self, data: Timeline, metadata: Timeline, storage: Storage) -> InstantTime:
        """The first completed instant of the table that changed its files, and that the metadata table does
        not have; "" for none. Raises TableError for a commit that is damaged.
        """

    def is_compacted(self, metadata: Timeline, time: InstantTime) -> bool:
        """Do base files have what was written at an instant, or will they, by a pending plan."""

    def is_behind(self, data: Timeline, metadata: Timeline, newest: InstantTime) -> bool:
        """Has the table an instant that is not completed, of which a compaction after the deltacommit
        `newest` would leave records out.
        """


class LayoutOneInstants:
    """Times of the metadata table's own are one of the table with three digits more."""

    def making_time(self, upto: InstantTime, taken: Collection[InstantTime]) -> InstantTime:
        times = (InstantTime(f"{upto}{_FIRST_MAKING + number:03d}") for number in itertools.count())
        return next(time for time in times if time not in taken)

    def service_time(self, own: Own, of: InstantTime, new: Callable[[], InstantTime]) -> InstantTime:
        return own.time(of)

    def rollback_time(self, of: InstantTime, taken: Collection[InstantTime], utc: bool) -> InstantTime:
        wanted = Own.ROLLBACK.time(of)
        while wanted in taken:
            newest = InstantTime(max(time[:_DIGITS] for time in (of, *taken)))
            wanted = Own.ROLLBACK.time(new_instant_time(newest, utc))
        return wanted

    def shown_blocks(
        self, data: Timeline, metadata: Timeline, view: TimelineView, storage: Storage
    ) -> TimelineView:
        valid = {instant.time for instant in data if instant.completed}
        own = metadata.filter((Action.DELTACOMMIT,), completed=True)
        valid.update(instant.time for instant in own if _is_own(instant.time))
        undoing = data.filter((Action.ROLLBACK, Action.RESTORE), completed=True)
        for instant in data.after(REQUESTED.first(valid) or NEW_TABLE, undoing):
            valid.update(_rolled_back(data, instant, storage))
        undone = metadata.filter((Action.ROLLBACK, Action.RESTORE), completed=True)
        valid.update(item.time for item in undone)
        return replace(view, committed=frozenset(filter(view.shows, valid)), first_time=None)

    def lacking(self, data: Timeline, metadata: Timeline, storage: Storage) -> InstantTime:
        """What is older than the metadata table's active timeline, or than its listings of all files (its
        making and restores), counts as there: it may have the deltacommit of an older instant that was
        pending while it was made. Cleans and rollbacks are archived apart, so the oldest deltacommit tells.
        Commits of Apache Hudi that change the schema alone have none. The makings of a metadata table that
        Apache Hudi took down from layout two say nothing of when they were: its next deltacommit tells.
        """
        own = [item.time for item in metadata if item.completed]
        listed = (time[:_DIGITS] for time in own if time[_DIGITS:] == Own.RESTORE.value)
        written = [item.time for item in metadata.filter((Action.DELTACOMMIT,), completed=True)]
        dated = [time[:_DIGITS] for time in written if not time.startswith(NEW_TABLE)]
        makings = [time for time in own if is_making(time)]
        if dated and any(map(_is_of_layout_two, makings)):
            made = dated[0]
        else:
            made = min((time[:_DIGITS] for time in makings), default=str(next(iter(written), "")))
        floor = max([made, *listed])
        there = frozenset(own)
        done = data.after(floor, data.filter(_CHANGING, completed=True))
        missing = (item for item in done if item.time not in there)
        return next((item.time for item in missing if _changes_files(data, item, storage)), NO_TIME)

    def is_compacted(self, metadata: Timeline, time: InstantTime) -> bool:
        planned = metadata.filter((Action.COMPACTION,), completed=False)
        times = [instant.time for instant in planned] + [last_compaction(metadata) or NO_TIME]
        newest = max(times, key=REQUESTED.key).removesuffix(Own.COMPACTION.value)
        return REQUESTED.until(time, newest)

    def is_behind(self, data: Timeline, metadata: Timeline, newest: InstantTime) -> bool:
        """Its deltacommit may still come before the newest."""
        return any(not instant.is_after(newest) for instant in data.pending())


class LayoutTwoInstants:
    """A rollback deletes the log files of an instant. So what is completed counts, but for instants that are
    pending in the table. A rollback of the table is in the metadata table where it took something back there,
    and a restore is a restore of its own.
    """

    def making_time(self, upto: InstantTime, taken: Collection[InstantTime]) -> InstantTime:
        """The makings of all partitions come before all else."""
        times = (InstantTime(f"{number:017d}") for number in itertools.count())
        return next(time for time in times if time not in taken)

    def service_time(self, own: Own, of: InstantTime, new: Callable[[], InstantTime]) -> InstantTime:
        return new()

    def rollback_time(self, of: InstantTime, taken: Collection[InstantTime], utc: bool) -> InstantTime:
        return new_instant_time(REQUESTED.last((of, *taken)), utc)

    def shown_blocks(
        self, data: Timeline, metadata: Timeline, view: TimelineView, storage: Storage
    ) -> TimelineView:
        pending = _pending_changes(data)
        valid = (item.time for item in metadata if item.completed and item.time not in pending)
        return replace(view, committed=frozenset(filter(view.shows, valid)))

    def lacking(self, data: Timeline, metadata: Timeline, storage: Storage) -> InstantTime:
        """What was completed before the metadata table was made counts as there, and what is older than its
        active timeline.
        """
        done = {item.time for item in metadata if item.completed}
        first = next(iter(metadata.filter((Action.DELTACOMMIT,), completed=True)), None)
        made = metadata.completion_of(first) if first is not None and is_making(first.time) else None
        restores = metadata.filter((Action.RESTORE,), completed=True)
        for item in data.filter(_CHANGING, completed=True):
            if item.time in done or (first is not None and item.is_before(first.time)):
                continue
            if made is not None and (data.completion_of(item) or 0) < made:
                continue
            if item.action is Action.ROLLBACK:
                if not done.intersection(_rolled_back(data, item, storage)):
                    continue
            elif item.action is Action.RESTORE:
                end = data.completion_time(item) or item.time
                if any(own.is_after(item.time) and own.is_before(end) for own in restores):
                    continue
            elif not _changes_files(data, item, storage):
                continue
            return item.time
        return NO_TIME

    def is_compacted(self, metadata: Timeline, time: InstantTime) -> bool:
        """A plan has the logs that were completed before its own time."""
        begun = [item.time for item in metadata.filter((Action.COMPACTION,), completed=False)]
        newest = REQUESTED.last([*begun, *filter(None, [last_compaction(metadata)])])
        written = (item for item in metadata.filter((Action.DELTACOMMIT,), completed=True))
        done = next((metadata.completion_time(item) for item in written if item.time == time), None)
        return newest is not None and done is not None and REQUESTED.before(done, newest)

    def is_behind(self, data: Timeline, metadata: Timeline, newest: InstantTime) -> bool:
        """Its deltacommit is there, and counts once it is completed. Later ones are in the next slices."""
        written = {item.time for item in metadata.filter((Action.DELTACOMMIT,))}
        return not written.isdisjoint(_pending_changes(data))


def _pending_changes(data: Timeline) -> set[InstantTime]:
    """Times of instants that are not completed; a savepoint has that of a commit, which is."""
    return {item.time for item in data.pending() if item.action is not Action.SAVEPOINT}


def instants_of(layout: Layout) -> Instants:
    return LayoutOneInstants() if layout.version is LayoutVersion.ONE else LayoutTwoInstants()


def is_making(time: InstantTime) -> bool:
    """Is it the time of the making of a partition."""
    suffix = time[_DIGITS:]
    return time.startswith(NEW_TABLE) or (len(suffix) == 3 and suffix >= f"{_FIRST_MAKING:03d}")


def _is_of_layout_two(time: InstantTime) -> bool:
    """Is it one of the first makings in layout two, where they are numbered from 0."""
    return len(time) == _DIGITS and time.startswith(NEW_TABLE) and int(time) < _FIRST_MAKING


def is_indexing(time: InstantTime) -> bool:
    """Is it the time at which an indexer of Apache Hudi fills a partition."""
    return len(time) > _DIGITS and time[_DIGITS:] == Own.INDEXING.value


def last_compaction(metadata: Timeline) -> InstantTime | None:
    """Time of the newest one of a metadata table that is completed."""
    done = metadata.filter((Action.COMMIT, Action.REPLACECOMMIT), completed=True)
    return done[-1].time if done else None


def _changes_files(timeline: Timeline, instant: Instant, storage: Storage) -> bool:
    if instant.action not in COMMIT_ACTIONS:
        return True
    commit = timeline.commit(instant, storage)
    return commit.num_replaced > 0 or any(commit.partition_to_write_stats.values())


def _is_own(time: InstantTime) -> bool:
    suffix = time[_DIGITS:]
    return suffix in _OWN or is_making(time)


def _rolled_back(timeline: Timeline, instant: Instant, storage: Storage) -> Iterable[InstantTime]:
    """The instants that a rollback or a restore took back; none of one that was archived meanwhile."""
    try:
        found = timeline.read(instant, storage)
        if instant.action is Action.RESTORE:
            groups = RestoreMetadata.from_bytes(found).rollbacks.values()
            return [time for group in groups for item in group for time in item.commits]
        if found:
            return RollbackMetadata.from_bytes(found).commits
        target = RollbackPlan.from_bytes(timeline.plan(instant, storage)).instant
        return [target.time] if target else []
    except FileNotFoundError:
        return []
