"""Whether the files of the table as of an earlier commit are still there, so that it can be restored.

The metadata of a commit names, for each file group that it changed, the slice that it changed. The slices
that the oldest changes after a point in time began with are those of that point; a group that was not changed
since is as it was.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hoodie.errors import TableError
from hoodie.format.names import BaseFileName
from hoodie.services.clean.pending import pending_files
from hoodie.storage import Storage
from hoodie.table.handle import Table
from hoodie.table.slicing import slicing_of
from hoodie.table.view import log_files
from hoodie.timeline.active import Timeline
from hoodie.timeline.commit import ReplaceCommitMetadata
from hoodie.timeline.instant import Action, Instant, in_order
from hoodie.timeline.time import REQUESTED, InstantTime

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


def refuse_lost(lost: Sequence[Lost], what: str) -> None:
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
