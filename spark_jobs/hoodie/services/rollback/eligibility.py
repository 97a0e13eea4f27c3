"""What may be rolled back: a failed instant, or the newest completed commit (format.md 13.6).

The module also checks whether the files of an earlier commit still exist, so that the table can be restored
to it. The metadata of a commit names the slice of each file group that it changed. The slices with which the
oldest changes after a point in time began are those of that point. A group without a change since is as it
was.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hoodie.errors import ConfigError, TableError
from hoodie.format.log_block import DATA_TYPES, BlockType
from hoodie.format.log_file import LogFileReader
from hoodie.format.names import BaseFileName, join
from hoodie.services.archive.policy import archived_commits
from hoodie.services.clean.policy import pending_files
from hoodie.services.service_table import ServiceTable
from hoodie.storage import Storage
from hoodie.table.handle import Table
from hoodie.table.listing import StorageListing
from hoodie.table.slicing import slicing_of
from hoodie.table.view import LogFile, TimelineView, log_files
from hoodie.timeline.active import Timeline
from hoodie.timeline.commit import ReplaceCommitMetadata
from hoodie.timeline.instant import (
    COMMIT_ACTIONS,
    PLAN_ACTIONS,
    WRITE_ACTIONS,
    Action,
    Instant,
    State,
    in_order,
)
from hoodie.timeline.models.rollback import RollbackMetadata
from hoodie.timeline.time import NO_TIME, REQUESTED, InstantTime
from hoodie.write.rollback import executor

#: (partition path, file id)
Group = tuple[str, str]


@dataclass(frozen=True)
class Lost:
    """A slice that is not there any more, or that a pending clean will delete (`clean`, else "")."""

    partition: str
    file_id: str
    instant: str
    clean: str = ""

    def __str__(self) -> str:
        slice_ = f" as of {self.instant}" if self.instant else ""
        return f"file group {self.file_id} of partition {self.partition!r}{slice_}"


def lost_slices(
    table: Table, timeline: Timeline, point: InstantTime, undone: Sequence[Instant]
) -> list[Lost]:
    """Slices of the table as of the commit `point` that are gone; `undone` are the instants after it.

    Reads the metadata of the completed ones, and lists the partitions that they changed.
    """
    needed = _needed(timeline, table.storage, point, undone)
    planned = pending_files(timeline, table.storage)
    to_delete = {(partition, name): clean for partition, name, clean in planned}
    partitions = sorted({partition for partition, _ in needed})
    lost: list[Lost] = []
    for partition in partitions:
        found, to_be_cleaned = _slices(table, partition, to_delete)
        for (place, file_id), instant in sorted(needed.items()):
            if place != partition:
                continue
            key = (file_id, instant)
            times = {time for group, time in found if group == file_id and REQUESTED.until(time, point)}
            if (instant and key not in found) or not times:
                lost.append(Lost(partition, file_id, instant, to_be_cleaned.get(key, "")))
    return lost


def check_nothing_lost(lost: Sequence[Lost], what: str) -> None:
    """Raises TableError that names the first slice that is lost; `what` can't be done then."""
    if not lost:
        return
    first, more = lost[0], f", and {len(lost) - 1} more" if len(lost) > 1 else ""
    if first.clean:
        raise TableError(
            f"{what} needs files that pending clean {first.clean} is going to delete: {first}{more}. Take a "
            "later commit",
            instant=first.clean,
        )
    raise TableError(
        f"{what} needs files that the cleaner has deleted: {first}{more}. Take a later commit, and keep more "
        "next time (a savepoint, or hoodie.cleaner.*)",
        partition=first.partition,
        file_id=first.file_id,
    )


def _needed(
    timeline: Timeline, storage: Storage, point: InstantTime, undone: Sequence[Instant]
) -> dict[Group, str]:
    """File groups that were there at `point` and were changed since -> their slice's instant, where the
    commit has it.
    """
    first: dict[Group, str | None] = {}
    for instant in in_order(undone):
        if not instant.completed:
            continue
        try:
            metadata = timeline.commit(instant, storage)
        except TableError:
            if timeline.after(point, timeline.filter([Action.CLEAN])):
                raise
            continue  # damaged, but nothing that it superseded was cleaned since
        for partition, stats in metadata.partition_to_write_stats.items():
            for stat in stats:
                before = None if stat.is_new_file_group else stat.prev_commit
                first.setdefault((partition, stat.file_id), before)
        if isinstance(metadata, ReplaceCommitMetadata):
            for partition, ids in metadata.partition_to_replace_file_ids.items():
                for file_id in ids:
                    first.setdefault((partition, file_id), "")
    return {group: time for group, time in first.items() if time is not None and REQUESTED.until(time, point)}


def _slices(
    table: Table, partition: str, to_delete: dict[tuple[str, str], str]
) -> tuple[set[tuple[str, str]], dict[tuple[str, str], str]]:
    """(file id, instant) of the slices with files that stay, and, of those that don't, the pending clean."""
    found: set[tuple[str, str]] = set()
    to_be_cleaned: dict[tuple[str, str], str] = {}
    for key, name in _named(table, partition):
        clean = to_delete.get((partition, name))
        if clean is None:
            found.add(key)
        else:
            to_be_cleaned[key] = clean
    return found - to_be_cleaned.keys(), to_be_cleaned


def _named(table: Table, partition: str) -> Iterator[tuple[tuple[str, str], str]]:
    items = table.listing().files(partition)
    for item in items:
        if base := BaseFileName.parse(item.name):
            yield (base.file_id, base.instant), item.name
    for log in log_files(slicing_of(table.timeline), lambda _: items, partition):
        yield (log.file_id, log.slice), log.name


_SHOWN = 5


@dataclass(frozen=True)
class Chosen:
    """The instant to roll back; None where there is nothing to do, for `reason`.

    `forget`: its own plan is deleted, too, see PendingRollback. `failed`: a failed write, or a rollback that
    was begun; the next writer rolls it back in any case.
    """

    instant: Instant | None
    reason: str = ""
    forget: bool = False
    failed: bool = False


def choose(target: ServiceTable, timeline: Timeline, time: InstantTime) -> Chosen:
    """Raises ConfigError, TableError for an instant that can't be rolled back; the text has the next step."""
    executor.check_no_restore(timeline, target.storage)
    begun = executor.begun(timeline, target.storage, remove=False)
    found = [instant for instant in timeline if instant.time == time]
    write = next((item for item in found if item.comparable_action in COMMIT_ACTIONS), None)
    forget = write is not None and write.action is not Action.COMPACTION and _plans(timeline, target, write)
    if time in begun and not forget:
        return Chosen(begun[time].target, failed=True)
    if write is None:
        return _no_write(target, timeline, time, found)
    if write.completed:
        _check_completed(target, timeline, write)
        return Chosen(write)
    if write.action is Action.COMPACTION:
        if write.state is State.REQUESTED:
            text = (
                f"compaction {time} is planned, and nothing of it is written; hoodie compact carries it out, "
                "hoodie cancel drops it"
            )
            return Chosen(None, text)
        return Chosen(write)
    return Chosen(write, forget=forget, failed=not forget)


def choose_plan(target: ServiceTable, timeline: Timeline, time: InstantTime) -> Chosen:
    """A pending compaction, log compaction or clustering, to be rolled back with its plan.

    Raises ConfigError for another instant, and TableError for a compaction that rows were written on top of.
    """
    executor.check_no_restore(timeline, target.storage)
    found = [
        item for item in timeline.filter(PLAN_ACTIONS, completed=False) if _plans(timeline, target, item)
    ]
    plan = next((item for item in found if item.time == time), None)
    if plan is not None:
        if plan.action is Action.COMPACTION:
            check_not_built_upon(target, timeline, plan)
        return Chosen(plan, forget=True)
    begun = executor.begun(timeline, target.storage, remove=False)
    if time in begun:
        return Chosen(begun[time].target, failed=True)
    other = next((item for item in timeline if item.time == time and item.action in WRITE_ACTIONS), None)
    done = None if other else rolled_back_by(timeline, target, time)
    if done is not None:
        return Chosen(None, f"{time} was cancelled by {done.start_time} already")
    is_ = "no instant of the timeline" if other is None else f"{other}, no pending plan"
    if other is not None:
        is_ += "; hoodie rollback is for failed writes and for the newest commit"
    pending = ", ".join(f"{item.action.value} {item.time}" for item in found)
    raise ConfigError(f"{time} is {is_}. Pending are {pending or 'none'}", instant=time)


def check_not_built_upon(target: ServiceTable, timeline: Timeline, compaction: Instant) -> None:
    """Raises TableError when logs that begin with a pending compaction hold committed rows.

    They belong to the slice that it makes. Apache Hudi renames them, and then no commit names them any more:
    its incremental queries miss their rows. In layout two names say nothing of slices: once the compaction is
    gone, the logs belong to the slice before it.
    """
    if timeline.layout.has_completion_time:
        return
    storage, base_path = target.storage, target.base_path
    snapshot = target.table.view
    groups = {group for group, time in snapshot.compacting.items() if time == compaction.time}
    found = [
        log
        for partition in sorted({partition for partition, _ in groups})
        for log in log_files(
            snapshot.slicing,
            StorageListing(storage, base_path).files,
            partition,
            snapshot.compacting_in.get(partition),
        )
        if log.slice == compaction.time
    ]
    kept = [log for log in found if _holds_rows(storage, log, snapshot)]
    if not kept:
        return
    before = next(
        (item.time for item in reversed(timeline.commits()) if item.is_before(compaction.time)), NO_TIME
    )
    back = f", or go back to before it: hoodie restore --instant {before}" if before else ""
    files = f"{len(kept)} log file{'' if len(kept) == 1 else 's'}"
    raise TableError(
        f"compaction {compaction.time} can't be cancelled: {files} with committed rows, such as "
        f"{join(kept[0].partition, kept[0].name)}, were written on top of it and would be lost. Carry "
        f"it out: hoodie compact --mode execute --instant {compaction.time}{back}",
        instant=compaction.time,
        path=kept[0].path,
    )


def _holds_rows(storage: Storage, log: LogFile, snapshot: TimelineView) -> bool:
    """A block that can't be read may hold some."""
    with LogFileReader(storage, log.path) as reader:
        return any(
            block.type is BlockType.CORRUPT
            or (
                (block.type is BlockType.DELETE or block.type in DATA_TYPES)
                and snapshot.shows(block.instant or log.slice)
            )
            for block in reader.blocks()
        )


def rolled_back_by(timeline: Timeline, target: ServiceTable, time: InstantTime) -> RollbackMetadata | None:
    """The newest completed rollback of an instant."""
    for instant in reversed(timeline.filter([Action.ROLLBACK], completed=True)):
        done = RollbackMetadata.from_bytes(timeline.read(instant, target.storage))
        if time in done.commits:
            return done
    return None


def later_plans(timeline: Timeline, target: ServiceTable, time: InstantTime) -> Iterator[Instant]:
    """Pending compactions and clusterings that were planned after a commit."""
    for instant in timeline.filter(PLAN_ACTIONS, completed=False):
        if instant.is_after(time) and _plans(timeline, target, instant):
            yield instant


def _plans(timeline: Timeline, target: ServiceTable, instant: Instant) -> bool:
    """Whether the instant is a pending service, whose plan may name any earlier commit's files."""
    return not instant.completed and timeline.kind(instant, target.storage).rewrites


def _check_completed(target: ServiceTable, timeline: Timeline, instant: Instant) -> None:
    time, commits = instant.time, timeline.commits()
    before = next((item.time for item in reversed(commits) if item.is_before(time)), NO_TIME)
    instead = f"; or go back to {before} at once: hoodie restore --instant {before}" if before else ""
    check_no_savepoints(timeline, [time], "rolled back")
    later = [item.time for item in timeline.after(time, commits)]
    if later:
        raise TableError(
            f"{instant.action.value} {time} can't be rolled back: later commits may depend on it "
            f"({_listed(later)}). Roll those back first, newest first{instead}",
            instant=time,
            later=", ".join(later),
        )
    for plan in later_plans(timeline, target, time):
        what = "clustering" if plan.replaces else plan.action.value
        raise TableError(
            f"{instant.action.value} {time} can't be rolled back: pending {what} {plan.time} was planned on "
            f"top of it. Carry that out{instead}",
            instant=time,
            later=plan.time,
        )
    if not before and next(archived_commits(target), None) is not None:
        raise TableError(
            f"{instant.action.value} {time} can't be rolled back: all commits before it are archived, "
            "and a table without any on its active timeline seems empty. Write something first",
            instant=time,
        )
    undone = [instant] if before else []
    lost = lost_slices(target.table, timeline, before, undone)
    check_nothing_lost(lost, f"the rollback of {instant.action.value} {time}")


def check_no_savepoints(timeline: Timeline, times: list[str], what: str) -> None:
    """Raises TableError where one of the instants has a savepoint."""
    wanted = set(times)
    saved = [item.time for item in timeline.filter([Action.SAVEPOINT]) if item.time in wanted]
    if saved:
        raise TableError(
            f"commits with savepoints can't be {what}: {_listed(saved)}. Delete the savepoints first: "
            f"hoodie savepoint --table {timeline.base_path} --instant {saved[-1]} --delete",
            instant=saved[-1],
        )


def _no_write(target: ServiceTable, timeline: Timeline, time: InstantTime, found: list[Instant]) -> Chosen:
    """Nothing to do, where the instant was rolled back before; else an error."""
    done = None if found else rolled_back_by(timeline, target, time)
    if done is not None:
        return Chosen(None, f"{time} was rolled back by {done.start_time} already")
    if found:
        instant = found[0]
        raise ConfigError(f"{_OTHERS[instant.action].format(time=time)}", instant=time)
    if any(commit.time == time for commit in archived_commits(target)):
        raise ConfigError(
            f"{time} is archived; only a failed instant or the newest commit can be rolled back", instant=time
        )
    last = [item.time for item in timeline if item.comparable_action in COMMIT_ACTIONS][-_SHOWN:]
    raise ConfigError(
        f"no instant {time} on the timeline of {target.base_path}; the newest are "
        f"{', '.join(last) or 'none'}",
        instant=time,
    )


def _listed(times: list[InstantTime]) -> str:
    more = f", and {len(times) - _SHOWN} more" if len(times) > _SHOWN else ""
    return ", ".join(times[:_SHOWN]) + more


_OTHERS = {
    Action.CLEAN: "{time} is a clean: files that it deleted are gone, and a pending one is finished by "
    "hoodie clean --mode execute",
    Action.ROLLBACK: "{time} is a rollback, which can't be taken back; a pending one is finished by the next "
    "write, or by a rollback of the instant that it is of",
    Action.RESTORE: "{time} is a restore, which can't be taken back",
    Action.SAVEPOINT: "{time} is a savepoint; hoodie savepoint --instant {time} --delete removes it",
    Action.INDEXING: "{time} builds indexes of the metadata table; hoodie index drop --indexes takes it back",
}
