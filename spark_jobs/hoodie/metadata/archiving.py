"""The archive of a metadata table's timeline (format.md 10.7, 11; Apache Hudi 0.15.0 HoodieTimelineArchiver).

1. an archive file, whole or not at all, 2. requested and inflight files, 3. completed files, oldest first.
What a killed run has archived and not deleted is archived again: a reader of the archive takes one of each.
"""

from __future__ import annotations

from collections.abc import Iterator

from hoodie.metadata.written_table import MaintenancePolicy, WrittenTable
from hoodie.timeline.active import Timeline
from hoodie.timeline.clock import format_millis
from hoodie.timeline.instant import Action, Instant, in_order
from hoodie.timeline.time import NO_TIME, REQUESTED

#: records in a block of an archive file
_BATCH = 10


def archive(table: WrittenTable, upkeep: MaintenancePolicy) -> None:
    """Archive what is due."""
    timeline = table.refresh()
    chosen = list(_chosen(table, timeline, upkeep))
    if not chosen:
        return
    files = in_order(timeline.states(chosen))
    utc, archived = table.data.properties.timeline_utc, table.table.log_archive
    states = [
        (item, timeline.read(item, table.storage), format_millis(timeline.changed_ms(item) or 0, utc))
        for item in files
    ]
    table.storage.sweep_partial(archived.folder)
    archived.append(states, _BATCH)
    for done in (False, True):
        wanted = in_order(item for item in files if item.completed is done)
        table.store.delete_states(wanted)
    table.refresh()


def _chosen(table: WrittenTable, timeline: Timeline, upkeep: MaintenancePolicy) -> Iterator[Instant]:
    """Never what the table's own timeline still has, nor the deltacommits that the next compaction counts."""
    data = Timeline.load(table.data.base_path, table.storage, table.data.timeline)
    needed = [instant.time for instant in (*data.commits()[:1], *data.pending()[:1])]
    bound = REQUESTED.first(needed)
    for action in (Action.CLEAN, Action.ROLLBACK):
        done = timeline.filter((action,), completed=True)
        if len(done) > upkeep.keep_most:
            yield from timeline.before(bound, done[: -upkeep.keep_least])
    commits = timeline.commits()
    held = [instant.time for instant in timeline.pending()[:1]]
    held += [table.last_compaction or NO_TIME, *needed]
    if len(commits) > upkeep.keep_most:
        yield from timeline.before(REQUESTED.first(held), commits[: -upkeep.keep_least])
