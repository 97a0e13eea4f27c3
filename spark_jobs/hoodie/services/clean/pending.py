"""The files that pending cleans will delete."""

from __future__ import annotations

from collections.abc import Iterator

from hoodie.errors import TableError
from hoodie.storage import Storage
from hoodie.timeline.active import Timeline
from hoodie.timeline.instant import Action, Instant, State
from hoodie.timeline.models.clean import CleanPlan


def pending_plans(timeline: Timeline, storage: Storage) -> Iterator[tuple[Instant, CleanPlan]]:
    """The plans of pending cleans; without those that were cut while they were written, which do nothing."""
    for instant in timeline.filter([Action.CLEAN], completed=False):
        try:
            yield instant, CleanPlan.from_bytes(timeline.plan(instant, storage))
        except (FileNotFoundError, TableError):
            if instant.state is not State.REQUESTED:
                raise


def pending_files(timeline: Timeline, storage: Storage) -> Iterator[tuple[str, str, str]]:
    """(partition, file name, time of the clean) of every file that a pending clean will delete."""
    for instant, plan in pending_plans(timeline, storage):
        for partition, file in plan:
            yield partition, file.name, instant.time
