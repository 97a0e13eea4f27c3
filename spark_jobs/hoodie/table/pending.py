"""File groups that a pending clustering or compaction is about to replace (format.md 13.4, 13.5).

Until such a plan is executed, or rolled back by its writer, rows written after the plan are not in what it
makes. A compaction begins a new slice, to whose logs updates go; a clustering replaces its file groups, so
that changes to them would be lost. Apache Hudi 0.15.0 refuses those, and packs no inserts into any of the
groups (SparkRejectUpdateStrategy, UpsertPartitioner); so do we.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import replace
from typing import Any, TypeVar

from hoodie.codec.avro import read_record
from hoodie.errors import CommitConflict, TableError
from hoodie.storage import Storage
from hoodie.timeline.active import Timeline
from hoodie.timeline.instant import COMMIT_ACTIONS, Action, Instant, State, in_order
from hoodie.timeline.models.mapper import AvroFile
from hoodie.timeline.time import InstantTime

#: (partition path, file id) -> the pending instant
BusyGroups = Mapping[tuple[str, str], Instant]

_P = TypeVar("_P", bound=AvroFile)
_COMPACTIONS = frozenset({Action.COMPACTION, Action.LOGCOMPACTION})


def whole_plan(
    timeline: Timeline, storage: Storage, instant: Instant, model: type[_P], remove: bool = False
) -> _P | None:
    """The plan of a pending instant; None where it was cut while it was written, so that nothing was done by
    it. `remove` deletes that one, as Apache Hudi does.

    Raises TableError for a damaged plan whose execution has begun, and FileNotFoundError as `Timeline.plan`.
    """
    try:
        return model.from_bytes(timeline.plan(instant, storage))
    except TableError:
        if instant.state is not State.REQUESTED:
            raise
        if remove:
            storage.delete(timeline.path(instant))
        return None


def busy_groups(timeline: Timeline, storage: Storage) -> BusyGroups:
    """All file groups in pending clustering and compaction plans. Reads one small file for each plan."""
    found: dict[tuple[str, str], Instant] = {}
    for instant in timeline.pending():
        for partition, file_id in planned_groups(timeline, storage, instant):
            found.setdefault((partition, file_id), instant)
    return found


def writers_busy_groups(timeline: Timeline, storage: Storage) -> BusyGroups:
    """Those of them that are in a writer's way. Log compactions are not in layout two: a log file belongs to
    a slice by its time of completion, and readers put what they make in the place of what they took.
    """
    by_completion = timeline.layout.has_completion_time
    return busy_groups(without_log_compactions(timeline) if by_completion else timeline, storage)


def without_log_compactions(timeline: Timeline) -> Timeline:
    instants = (instant for instant in timeline if instant.action is not Action.LOGCOMPACTION)
    return replace(timeline, instants=tuple(instants))


def compacting_groups(timeline: Timeline, storage: Storage) -> BusyGroups:
    """The file groups of pending compactions (not log compactions): each is at most in one."""
    return {
        group: instant
        for instant in timeline.filter([Action.COMPACTION], completed=False)
        for group in planned_groups(timeline, storage, instant)
    }


def clusterings_of(busy: BusyGroups, groups: Iterable[tuple[str, str]]) -> list[Instant]:
    """The pending clusterings that have one of these (partition path, file id), oldest first."""
    found = {busy[group] for group in groups if group in busy}
    return in_order(instant for instant in found if instant.replaces)


def check_no_updates(busy: BusyGroups, updated: Iterable[tuple[str, str]]) -> None:
    """Raises ConflictError when one of the (partition path, file id) is busy.

    Pending compactions are no hindrance: updates go to the logs of the slice that they begin.
    """
    for group in updated:
        instant = busy.get(group)
        if instant is not None and instant.action is not Action.COMPACTION:
            what, remedy = "clustering", "Run `hoodie cluster --mode execute`"
            if instant.action is Action.LOGCOMPACTION:
                what, remedy = "log compaction", "Run that log compaction with Apache Hudi"
            raise CommitConflict(
                f"rows to update are in file group {group[1]} of partition {group[0]!r}, which pending "
                f"{what} {instant.time} is going to replace. {remedy}, or cancel it "
                f"(`hoodie cancel --instant {instant.time}`), then write again",
                instant=instant.time,
                action=instant.action.value,
                partition=group[0],
                file_id=group[1],
            )


def earlier_write(timeline: Timeline, time: InstantTime) -> Instant | None:
    """A pending write, or clustering, that was requested before that."""
    pending = timeline.before(time, timeline.filter(COMMIT_ACTIONS, completed=False))
    return pending[0] if pending else None


def changing_groups(timeline: Timeline, storage: Storage) -> BusyGroups:
    """The file groups whose records live writers change, as far as their inflight files say: a plan that has
    one would make the writer fail. Reads one small file for each writer.
    """
    found: dict[tuple[str, str], Instant] = {}
    for instant in timeline.filter(COMMIT_ACTIONS, completed=False):
        if instant.state is State.INFLIGHT:
            for group in intended_groups(timeline, storage, instant):
                found.setdefault(group, instant)
    return found


def intended_groups(timeline: Timeline, storage: Storage, instant: Instant) -> Set[tuple[str, str]]:
    """Those that a write in flight is going to update, by its inflight file; none where that is gone or says
    nothing.
    """
    with contextlib.suppress(FileNotFoundError, TableError):
        data = storage.read(timeline.path(instant))
        return timeline.parse_state(instant, data).file_groups
    return frozenset()


def planned_groups(timeline: Timeline, storage: Storage, instant: Instant) -> Iterator[tuple[str, str]]:
    """The file groups in the plan of a pending compaction or clustering; none of another instant."""
    slices: Iterable[Mapping[str, Any]] = ()
    if instant.replaces:
        plan = timeline.clustering_plan(instant, storage)
        groups = (plan or {}).get("inputGroups") or ()
        slices = [item for group in groups for item in group["slices"] or ()]
    elif instant.action in _COMPACTIONS:
        slices = read_record("HoodieCompactionPlan", timeline.plan(instant, storage))["operations"] or ()
    for item in slices:
        yield item["partitionPath"] or "", item["fileId"]
