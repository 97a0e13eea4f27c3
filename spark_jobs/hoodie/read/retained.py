"""What of a table's past can still be read: after cleaning, archiving, and while writes are in flight."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace

from hoodie.codec.avro import read_record
from hoodie.errors import NotRetained, TableBusy
from hoodie.format.names import BaseFileName, LogFileName
from hoodie.read.past import Need, Past, gone, needs_as_of
from hoodie.read.query import EARLIEST
from hoodie.read.settings import HOLES_POLICY, Holes
from hoodie.storage import Storage
from hoodie.table.handle import Table
from hoodie.table.slicing import slicing_of
from hoodie.timeline.active import Timeline
from hoodie.timeline.archived import read_archived
from hoodie.timeline.instant import COMMIT_ACTIONS, Action, Instant, Kind, State
from hoodie.timeline.models.clean import CleanPlan
from hoodie.timeline.models.savepoint import SavepointMetadata
from hoodie.timeline.time import NO_TIME, REQUESTED, InstantTime

#: (partition path, file id)
Groups = Collection[tuple[str, str]]


def retained(table: Table, name: str, time: InstantTime, groups: Groups | None = None) -> Past:
    """The files of the table as of `time`, which have to be there; none for the newest state.

    `name` is the option that asked for it. With `groups` only these file groups have to be whole, which
    commits on the active timeline wrote. A savepoint's state is what the savepoint names, and the commits
    after it where none of them is archived. NotRetained, which says from when on the table is whole, where it
    is known not to be so at that time.
    """
    timeline, storage = table.timeline, table.storage
    past = Past(name, time, slicing=slicing_of(timeline))
    commits = [instant.time for instant in timeline.commits()]
    if not commits or REQUESTED.since(time, commits[-1]):
        return past
    if REQUESTED.before(time, commits[0]):
        raise NotRetained(
            f"{name} {time} is before the table's active timeline, which begins with commit {commits[0]}; "
            "ask for that time or a later one",
            **{name: time, "earliest": commits[0]},
        )
    commit = [instant for instant in commits if REQUESTED.until(instant, time)][-1]
    saved = Instant(commit, Action.SAVEPOINT, State.COMPLETED)
    if saved in timeline.instants:
        _check_hole(table, past, commit)
    if not timeline.filter([Action.CLEAN]):
        return past
    plans = list(_pending_plans(timeline, storage))
    if saved in timeline.instants and groups is None:
        data = timeline.read(saved, storage)
        if data:
            needs = _savepoint_needs(SavepointMetadata.from_bytes(data))
            if not timeline.is_archived(commit):  # what was cleaned before the savepoint is not in it
                needs = {**needs_as_of(timeline, storage, time), **needs}
            return replace(past, needs=needs)
    elif groups is None:
        kept = REQUESTED.last(_kept_since(timeline, storage, plans))
        if kept is not None and REQUESTED.before(time, kept):
            raise gone(
                f"{name} {time} is before what the cleaner kept: files are complete from {kept} on",
                **{name: time, "earliest": kept},
            )
    needs = needs_as_of(timeline, storage, time, groups)
    return replace(past, needs=needs, to_be_cleaned=_planned_names(plans))


def to_be_cleaned(table: Table) -> frozenset[str]:
    """Names of files in pending plans of the cleaner, which may be gone at any moment."""
    return _planned_names(_pending_plans(table.timeline, table.storage))


def _planned_names(plans: Iterable[CleanPlan]) -> frozenset[str]:
    return frozenset(file.name for plan in plans for _, file in plan)


def _check_hole(table: Table, past: Past, commit: InstantTime) -> None:
    """NotRetained where commits between a savepoint's and the time are archived.

    A savepoint keeps its commit on the active timeline, when later ones have left it.
    """
    timeline = table.timeline
    first = timeline.first_time
    if past.time == commit or not timeline.is_archived(commit):
        return
    folder = table.archive_folder
    archived = (entry.instant for entry in read_archived(table.storage, folder))
    if any(item.action in COMMIT_ACTIONS for item in timeline.between(commit, past.time, archived)):
        raise NotRetained(
            f"{past.name} {past.time} is between the savepoint of {commit} and the table's active timeline, "
            f"which begins with commit {first}; ask for {commit}, or for {first} or a later time",
            **{past.name: past.time, "earliest": first},
        )


def _savepoint_needs(savepoint: SavepointMetadata) -> dict[tuple[str, str], Need]:
    needs: dict[tuple[str, str], Need] = {}
    for partition, names in savepoint.files.items():
        for name in names:
            parsed = BaseFileName.parse(name) or LogFileName.parse(name)
            if parsed is not None:
                group = (partition, parsed.file_id)
                needs[group] = Need((*needs.get(group, Need()).names, name))
    return needs


def check_begin(table: Table, begin: InstantTime) -> None:
    """NotRetained when commits later than `begin` are archived: what they wrote isn't known any more."""
    commits = table.timeline.commits()
    if not begin or not commits or not commits[0].is_after(begin):
        return
    folder = table.archive_folder
    if any("archive" in item.name for item in table.storage.list(folder)):
        raise NotRetained(
            f"begin {begin} is before the table's active timeline, which begins with commit "
            f"{commits[0].time}; older commits are archived. Take begin={EARLIEST} for all rows, or a later "
            "instant",
            begin=begin,
            earliest=commits[0].time,
        )


def check_known_since(table: Table, begin: InstantTime, end: InstantTime) -> None:
    """NotRetained when a commit in (begin, end] is archived: what it changed isn't known any more.

    Reads the archive only where `begin` is before the active timeline.
    """
    timeline = table.timeline
    first = timeline.first_time
    if first is None or REQUESTED.since(begin, first):
        return
    archived = (entry.instant for entry in read_archived(table.storage, table.archive_folder))
    lost = [
        item.time
        for item in timeline.between(begin, end, archived)
        if item.action in COMMIT_ACTIONS and item.completed and item not in timeline.instants
    ]
    newest = REQUESTED.last(lost)
    if newest is not None:
        raise NotRetained(
            f"begin {begin or EARLIEST} is before what is known of the table's changes: commits up to "
            f"{newest} are archived, and the active timeline begins with {first}. Take begin={newest} or a "
            "later instant, or keep more commits next time (hoodie.keep.min.commits)",
            begin=begin or EARLIEST,
            earliest=newest,
        )


def last_before_hole(table: Table, policy: Holes, end: InstantTime) -> InstantTime:
    """`end`, or an earlier commit where a write that began before it is still in flight.

    Raises TableBusy with the policy FAIL. "" when no commit is left. Pending clustering writes no new rows.
    """
    timeline = table.timeline
    hole = next(_in_flight(timeline, table.storage), None)
    if hole is None or REQUESTED.after(hole, end):
        return end
    before = [instant.time for instant in timeline.before(hole, timeline.commits())]
    if policy is Holes.FAIL:
        known = f"commits up to {before[-1]}" if before else "no commit"
        raise TableBusy(
            f"write {hole} is in flight, or failed and was not rolled back yet; rows that it wrote may come "
            f"later, so only {known} can be read. Wait for it, ask for an earlier time, or set "
            f"{HOLES_POLICY.name}={Holes.BLOCK.value}",
            instant=hole,
        )
    return before[-1] if before else NO_TIME


def _in_flight(timeline: Timeline, storage: Storage) -> Iterator[InstantTime]:
    for instant in timeline.filter(COMMIT_ACTIONS, completed=False):
        if timeline.kind(instant, storage) is Kind.WRITE:
            yield instant.time


def _kept_since(timeline: Timeline, storage: Storage, plans: Sequence[CleanPlan]) -> Iterator[InstantTime]:
    """The earliest instants retained by the newest clean and by the pending ones."""
    completed = timeline.filter([Action.CLEAN], completed=True)
    if completed:
        data = timeline.read(completed[-1], storage)
        if data:
            earliest = read_record("HoodieCleanMetadata", data)["earliestCommitToRetain"]
            yield from [earliest] if earliest else []
    yield from (plan.earliest.time for plan in plans if plan.earliest and plan.earliest.time)


def _pending_plans(timeline: Timeline, storage: Storage) -> Iterator[CleanPlan]:
    for instant in timeline.filter([Action.CLEAN], completed=False):
        data = timeline.plan(instant, storage)
        if data:
            yield CleanPlan.from_bytes(data)
