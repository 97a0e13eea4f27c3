"""Which partitions a sync looks at: those of the commits since the last one, or all."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hoodie.storage import FileInfo
from hoodie.table.handle import Table
from hoodie.table.partition import PARTITION_FILE
from hoodie.timeline.active import Timeline
from hoodie.timeline.clock import format_millis
from hoodie.timeline.instant import Action, Instant, in_order
from hoodie.timeline.models.clean import CleanMetadata
from hoodie.timeline.time import InstantTime

_DROPS = "DELETE_PARTITION"


@dataclass(frozen=True, kw_only=True)
class Scope:
    """Partition paths that entries should have, and that they should not; `full`: nor any others."""

    full: bool
    written: frozenset[str]
    dropped: frozenset[str]


def scope(table: Table, timeline: Timeline, commit_time: str | None, completion_time: str | None) -> Scope:
    """Since the newest commit of the last sync, and the time at which the last one of its commits was
    completed. Full where None, where that commit is archived, and where it was undone.
    """
    times = {instant.time for instant in timeline.commits()}
    if commit_time is None or commit_time not in times:
        return _full(table, timeline)
    instants = [
        instant
        for instant in timeline.filter([*_COMMITS, Action.CLEAN], completed=True)
        if instant.is_after(commit_time)
        or (completion_time and str(completed_at(timeline, instant) or "") > completion_time)
    ]
    written, dropped = _followed(table, timeline, instants)
    return Scope(full=False, written=frozenset(written - dropped), dropped=frozenset(dropped))


def completed_at(timeline: Timeline, instant: Instant) -> InstantTime | None:
    """When an instant was completed, in the form of an instant."""
    moment = timeline.completion_of(instant)
    return None if moment is None else format_millis(moment, timeline.utc)


def _full(table: Table, timeline: Timeline) -> Scope:
    """A partition that was deleted keeps its files until it is cleaned, one that a restore emptied its
    folder.
    """
    instants = timeline.filter(_COMMITS, completed=True)
    deleting = [
        instant
        for instant in instants
        if instant.action is Action.REPLACECOMMIT
        and timeline.commit(instant, table.storage).operation_type == _DROPS
    ]
    dropped: set[str] = set()
    if deleting:
        later = [instant for instant in instants if not instant.is_before(deleting[0].time)]
        _, dropped = _followed(table, timeline, later)
    listing = table.listing()
    folders = listing.many(listing.partitions())
    found = {path for path, items in folders.items() if any(map(_is_data, items))}
    return Scope(full=True, written=frozenset(found - dropped), dropped=frozenset(dropped))


def _is_data(item: FileInfo) -> bool:
    return not item.name.startswith(PARTITION_FILE)


def _followed(table: Table, timeline: Timeline, instants: Iterable[Instant]) -> tuple[set[str], set[str]]:
    """What instants wrote to, and what of all that they dropped last."""
    written: set[str] = set()
    dropped: set[str] = set()
    for instant in in_order(instants):
        if instant.action is Action.CLEAN:
            data = table.storage.read(timeline.path(instant))
            partitions = CleanMetadata.from_bytes(data).partitions if data else {}
            dropped |= {path for path, item in partitions.items() if item.partition_deleted}
            continue
        commit = timeline.commit(instant, table.storage)
        if commit.operation_type == _DROPS:
            dropped |= set(commit.partitions)
        dropped -= set(commit.partition_to_write_stats)
        written |= set(commit.partition_to_write_stats)
    return written, dropped


_COMMITS = (Action.COMMIT, Action.DELTACOMMIT, Action.REPLACECOMMIT)
