"""What a process does with the table it has entered, before it begins: failed writes are undone, and what
killed runs left is swept.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hoodie.metadata.index_definitions import INDEX_FOLDER
from hoodie.table import properties
from hoodie.table.heartbeat import HeartbeatFile, heartbeat_folder
from hoodie.table.rolled_back import names_missing_files, published_late
from hoodie.table.version_change import settle
from hoodie.timeline.active import Timeline, meta_path
from hoodie.timeline.instant import Action, Instant
from hoodie.timeline.placement import VERSION_CHANGE
from hoodie.timeline.time import InstantTime
from hoodie.timeline.token_store import swept_folders
from hoodie.write.commit import Commits
from hoodie.write.rollback import executor, unreported_files


class Repair:
    """Of one transaction. `rolled_back`: the instants that were, in this order. `swept`: were files of
    earlier writes deleted: listings made before may show them. `restoring`: failed writes are left to a
    restore that goes on, which all others have to wait for.
    """

    def __init__(self, commits: Commits, utc: bool) -> None:
        self.rolled_back: list[str] = []
        self.swept = False
        self.restoring = False
        self._table = commits.table
        self._gate = commits.gate
        self._beats = commits.gate.heartbeats
        self._commits = commits
        self._utc = utc

    def __call__(self, dead: Sequence[HeartbeatFile]) -> None:
        """Undo failed writes and sweep what killed runs left behind; `dead` are their heartbeats.

        Dead heartbeats go first, unfinished files next, and only then the timeline is read: a writer that
        wakes up finds itself refused, or has published before it is looked at. A killed run has left a
        heartbeat, something beside the heartbeats, a pending instant or an unfinished file; where there is
        none of them, nothing is swept. Raises ConflictError for a writer that was overlooked before.
        """
        table = self._table
        swept = bool(dead) or self._beats.litter
        if swept:
            self._sweep(dead)
        elif self._gate.queue.wait_ms:  # the next one that waits sees what killed ones left in the queue
            self._gate.queue.sweep()
        # a writer that was just changing from one heartbeat to another may have been overlooked: no storage
        # promises that one listing shows a moment
        self._beats.check_no_second_writer()
        timeline = table.refresh()
        if not swept and (self._left(timeline, dead) or timeline.has_partial(beside=True)):
            self._sweep(dead)
            timeline = table.refresh()
        if self._take_back_late(timeline, dead):
            timeline = table.refresh()
        if timeline.holds(properties.BACKUP_NAME):
            properties.recover(table.storage, table.base_path)
            table.read_properties()
        if timeline.holds(VERSION_CHANGE):
            settle(table)
            timeline = table.timeline
        served = self._served(timeline, dead)
        failed = [] if self.restoring else executor.due(timeline, table.storage, served, self._utc)
        for participant in self._commits.participants:
            participant.begin(table)
        for pending in failed:
            self._roll_back(pending)
        if failed:
            timeline = table.refresh()
            self._remove_ended(dead, timeline)
        swept = unreported_files.sweep_attempts(table, timeline)
        self.swept = swept or bool(self.rolled_back)
        for participant in self._commits.participants:
            participant.settled(table)

    def _left(self, timeline: Timeline, dead: Sequence[HeartbeatFile]) -> bool:
        """May a killed run have left a pending instant: one that no live process is known to work on."""
        pending = {instant.time for instant in timeline.pending()}
        if not pending or not self._gate.optimistic:
            return bool(pending)
        return bool(pending - self._served(timeline, dead))

    def late(self) -> bool:
        """Are there commits that were published too late, as far as is known without taking the table."""
        dead = [beat for beat in self._beats.read() if not self._beats.alive(beat)]
        timeline = self._table.refresh()
        return bool(published_late(self._table, timeline) or self._of_dead_successors(timeline, dead))

    def _take_back_late(self, timeline: Timeline, dead: Sequence[HeartbeatFile]) -> bool:
        """Take back commits that were published after another process had taken over; were there any."""
        undone = published_late(self._table, timeline)
        for instant in undone:
            self._commits.undo(instant)
            executor.unpublish(self._table, instant)
        planned = [item for item in self._of_dead_successors(timeline, dead) if item not in undone]
        for instant in planned:  # the plan stays
            self._table.store.delete_states([instant])
            self._commits.undo(instant)
        self.rolled_back += [instant.time for instant in (*undone, *planned)]
        return bool(undone or planned)

    def _of_dead_successors(self, timeline: Timeline, dead: Sequence[HeartbeatFile]) -> list[Instant]:
        """Commits of plans that a successor was executing, which then died, too: they name files that the
        successor deleted. Once a clean came after it, missing files are no sign.
        """
        if self._table.storage.fences:
            return []
        times = {beat.instant for beat in dead if self._beats.of_service(beat)}
        cleaned = timeline.filter([Action.CLEAN], completed=True)
        return [
            instant
            for instant in timeline.commits()
            if instant.time in times
            and not any(clean.is_after(instant.time) for clean in cleaned)
            and names_missing_files(self._table, instant)
        ]

    def forget(self, planned: Iterable[Instant]) -> bool:
        """Roll back pending services, plan and all; those that are not pending any more are left, and False
        returned. Raises ConflictError when one is being executed.
        """
        pending = True
        for instant in planned:
            with self._beats.excluding(instant):
                timeline = self._table.refresh()
                found = ((item.time, item.action) for item in timeline.pending())
                if (instant.time, instant.action) in found:
                    self._roll_back(executor.PendingRollback.new(timeline, instant, self._utc, forget=True))
                else:
                    pending = False
            self._table.refresh()
        return pending

    def _roll_back(self, pending: executor.PendingRollback) -> None:
        executor.execute(self._commits, pending)
        self.rolled_back.append(pending.target.time)

    def _sweep(self, dead: Sequence[HeartbeatFile]) -> None:
        for beat in dead:
            if not self._beats.of_service(beat):
                self._beats.remove(beat.instant)
        base_path = self._table.base_path
        meta = meta_path(base_path)
        own = [meta, self._table.store.folder, f"{meta}/.aux", heartbeat_folder(base_path)]
        if self._table.timeline.holds(INDEX_FOLDER):
            own.append(f"{meta}/{INDEX_FOLDER}")
        for folder in dict.fromkeys((*own, *swept_folders(base_path))):
            self._table.storage.sweep_partial(folder)
        self._gate.queue.sweep()

    def _served(self, timeline: Timeline, dead: Sequence[HeartbeatFile]) -> frozenset[str]:
        """Instants that live services work on; heartbeats of services that died at their very end go."""
        pending = self._remove_ended(dead, timeline)
        gone = {beat.instant for beat in dead}
        beats = self._beats.read() if pending else ()
        return frozenset(beat.instant for beat in beats if beat.instant in pending - gone)

    def _remove_ended(self, dead: Sequence[HeartbeatFile], timeline: Timeline) -> set[InstantTime]:
        """Heartbeats of dead services go of which the plan is done, or was rolled back; what is pending."""
        pending = {instant.time for instant in timeline.pending()}
        for beat in dead:
            if self._beats.of_service(beat) and beat.instant not in pending:
                self._beats.remove(beat.instant)
        return pending
