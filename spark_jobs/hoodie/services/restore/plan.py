"""Which instants a restore takes back, and what stands in its way (format.md 13.7)."""

from __future__ import annotations

from dataclasses import dataclass

from hoodie.errors import ConfigError, TableError
from hoodie.services.archive.commits import archived_commits
from hoodie.services.rollback.eligibility import refuse_savepoints
from hoodie.services.rollback.retained_slices import lost_slices, refuse_lost
from hoodie.services.service_table import ServiceTable
from hoodie.timeline.active import Timeline
from hoodie.timeline.instant import COMMIT_ACTIONS, COMPLETES_AS, Action, Instant, Kind, State
from hoodie.timeline.models.restore import RestoreMetadata, RestorePlan
from hoodie.timeline.models.rollback import InstantInfo
from hoodie.timeline.time import NO_TIME, REQUESTED, InstantTime

_SHOWN = 5
#: what a restore takes back; cleans, savepoints and rollbacks are no part of it
_WRITES = frozenset({*COMMIT_ACTIONS, *COMPLETES_AS})


@dataclass(frozen=True)
class Begun:
    """A restore that was begun and not finished; `point` is None where its plan does not contain it."""

    instant: Instant
    plan: RestorePlan
    point: InstantTime | None


def begun(timeline: Timeline, target: ServiceTable) -> Begun | None:
    """The restore to finish, of this package or of Apache Hudi. One whose plan was cut while it was written
    does not count.

    Raises TableError for a plan that was begun and can't be read.
    """
    for instant in reversed(timeline.filter([Action.RESTORE], completed=False)):
        path = target.table.store.path(instant.with_state(State.REQUESTED))
        try:
            plan = RestorePlan.from_bytes(target.storage.read(path))
        except (FileNotFoundError, TableError) as error:
            if instant.state is State.REQUESTED:
                continue
            raise TableError(
                f"restore {instant.time} was begun and its plan can't be read ({error}); restore {path}",
                instant=instant.time,
            ) from None
        return Begun(instant, plan, plan.point or _savepoint_before(timeline, plan))
    return None


@dataclass(frozen=True)
class Last:
    """The newest completed restore; `point` is "" where its plan does not contain it."""

    time: InstantTime
    point: InstantTime
    partitions: tuple[str, ...]


def last(timeline: Timeline, target: ServiceTable) -> Last | None:
    """The newest completed restore on the active timeline; None without one whose files can be read."""
    done = timeline.filter([Action.RESTORE], completed=True)
    if not done:
        return None
    try:
        plan = RestorePlan.from_bytes(target.table.store.read(done[-1].with_state(State.REQUESTED)))
        metadata = RestoreMetadata.from_bytes(timeline.read(done[-1], target.storage))
    except (FileNotFoundError, TableError):
        return None
    rollbacks = [rollback for group in metadata.rollbacks.values() for rollback in group]
    partitions = sorted({partition for rollback in rollbacks for partition in rollback.partitions})
    return Last(done[-1].time, plan.point or NO_TIME, tuple(partitions))


def make(target: ServiceTable, timeline: Timeline, point: InstantTime) -> RestorePlan:
    """All later writes, newest first, and before them pending clusterings, as Apache Hudi has it.

    An empty plan where there is none. Raises ConfigError where there is no such commit, and TableError where
    the table can't go back to it.
    """
    commits = [instant.time for instant in timeline.commits()]
    if point not in commits:
        raise _no_commit(target, timeline, point, commits)
    later = timeline.after(point, reversed(timeline.filter(_WRITES)))
    refuse_savepoints(timeline, [item.time for item in later], "taken back")
    times = (instant.time for instant in archived_commits(target) if instant.is_after(point))
    archived = sorted(times, key=REQUESTED.key)
    if archived:
        raise TableError(
            f"the table can't go back to {point}: later commits are archived already ({_listed(archived)}). "
            f"Take {archived[-1]} or a later commit",
            instant=point,
        )
    lost = lost_slices(target.table, timeline, point, later)
    refuse_lost(lost, f"going back to {point}")
    clusterings = [item for item in later if _is_pending_clustering(timeline, target, item)]
    ordered = [*clusterings, *(item for item in later if item not in clusterings)]
    return RestorePlan(tuple(InstantInfo.of(item) for item in ordered), point)


def _is_pending_clustering(timeline: Timeline, target: ServiceTable, instant: Instant) -> bool:
    return not instant.completed and timeline.kind(instant, target.storage) is Kind.CLUSTERING


def _savepoint_before(timeline: Timeline, plan: RestorePlan) -> InstantTime | None:
    """The savepoint that a plan of version 1 goes back to: the newest one before all that it takes back."""
    first = REQUESTED.first(info.time for info in plan.instants)
    saved = [item.time for item in timeline.filter([Action.SAVEPOINT]) if item.is_before(first)]
    return saved[-1] if saved else None


def _no_commit(
    target: ServiceTable, timeline: Timeline, point: InstantTime, commits: list[InstantTime]
) -> ConfigError:
    if any(instant.time == point for instant in archived_commits(target)):
        why = f"commit {point} of {target.base_path} is archived"
    else:
        why = f"{point} is no completed commit on the timeline of {target.base_path}"
    saved = [item.time for item in timeline.filter([Action.SAVEPOINT], completed=True)]
    savepoints = f"there are savepoints {_listed(saved[::-1])}; " if saved else ""
    return ConfigError(
        f"{why}; {savepoints}the newest commits are {_listed(commits[::-1]) or 'none'}", instant=point
    )


def _listed(times: list[InstantTime]) -> str:
    more = f", and {len(times) - _SHOWN} more" if len(times) > _SHOWN else ""
    return ", ".join(times[:_SHOWN]) + more
