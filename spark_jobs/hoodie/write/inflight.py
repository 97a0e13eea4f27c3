"""The instant of a running transaction: which of its files exist on storage, whether another process has
taken it over, and how it is withdrawn. Writes and executions of a service's plan have a class each.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable
from functools import partial

from hoodie.concurrency.gate import WriterGate
from hoodie.errors import AlreadyExists, Fenced
from hoodie.format.names import join
from hoodie.table.handle import Table
from hoodie.table.log_undo import log_undo
from hoodie.table.markers import delete_markers
from hoodie.table.participant import Participants
from hoodie.table.rolled_back import is_rolled_back, names_missing_files
from hoodie.timeline.commit import CommitMetadata
from hoodie.timeline.instant import Instant, State
from hoodie.timeline.store import again, begin_instant
from hoodie.timeline.time import InstantTime
from hoodie.write.rollback import unreported_files

#: (partition path, file id) of file groups
Groups = Collection[tuple[str, str]]


class Attempt(ABC):
    """`pending`: the instant, as far as it is on storage. `open`: there is something to withdraw.
    `published`: the completed instant was made by this process, as far as it can be seen.
    """

    #: of a service's plan: the process stays known as alive until it has withdrawn, and the same request, run
    #: again, finds its commit if it is there
    of_service = False

    def __init__(self, table: Table, gate: WriterGate, pending: Instant) -> None:
        self.table = table
        self.gate = gate
        self.pending = pending
        self.open = True
        self.published = False
        #: of the completed file, once it is to be published
        self.content = b""
        #: the participants that may have prepared its commit
        self.prepared: Participants = ()

    @property
    def completed(self) -> Instant:
        return self.pending.with_state(State.COMPLETED)

    def lost(self) -> bool:
        """Has another process taken this one for dead?"""
        return not self.gate.held or self.superseded()

    @abstractmethod
    def superseded(self) -> bool:
        """Has another process undone the instant, or begun to?"""

    @abstractmethod
    def fenced(self) -> Fenced:
        """The error of an attempt that is lost."""

    def check(self) -> None:
        """Raises Fenced once this process was taken for dead, or lost the lock that it holds."""
        if self.lost():
            raise self.fenced()
        self.gate.check_lock()

    def check_last(self) -> None:
        """`check`, right before the completed file is made."""
        self.check()

    def check_reconcile(self) -> None:  # noqa: B027  most attempts own all that has their instant
        """Raises Fenced where files that seem to be unreported may be another process's."""

    def publish(self, create: Callable[[], object]) -> None:
        """Create the completed file, which `create` does or raises Fenced."""
        create()

    @abstractmethod
    def withdraw(self, lost: bool) -> None:
        """Undo it in this very process: no rollback instant is needed.

        Files go before the instant, so that a kill in between leaves an instant for the next writer to roll
        back. The completed file goes first of all. Once `lost`, markers are no longer complete.
        """

    def _unpublish(self) -> None:
        """The completed file goes, and what was prepared for it."""
        # a waiting process may take the instant for a dead writer's from here on, so no needless sync
        if self.table.store.exists(self.completed):
            self.table.store.delete_states([self.completed])
        self._undo_prepared()

    def _undo_prepared(self) -> None:
        for participant in reversed(self.prepared):
            participant.undo(self.table, self.pending)


class InflightWrite(Attempt):
    """A write's own instant."""

    #: file groups whose logs the write appends to
    groups: Groups = ()

    def inflight(self, profile: CommitMetadata) -> None:
        self.groups = profile.file_groups
        inflight = self.pending.with_state(State.INFLIGHT)
        begin = partial(begin_instant, self.table.store, inflight, self.table.store.content(profile))
        if self.gate.optimistic:
            again(begin, self.check)
        else:
            begin()
        self.pending = inflight

    def check_last(self) -> None:
        """Where the storage does not fence, the timeline is listed after the publishing, which counts: others
        may undo the instant until then. Who takes this process for dead removes its heartbeat first.
        """
        if self.table.storage.fences:
            self.check()
            return
        if not self.gate.held:
            raise self.fenced()
        self.gate.check_lock()

    def superseded(self) -> bool:
        """Its own files are gone, or a rollback or restore names it. Those of other instants are no sign."""
        timeline = self.table.refresh(read=False, beside=False)
        mine = map(timeline.name, (self.pending, self.pending.with_state(State.REQUESTED)))
        if not all(map(timeline.has_file, mine)):
            return True
        return is_rolled_back(timeline, self.table.storage, self.pending.time)

    def fenced(self) -> Fenced:
        time = self.pending.time
        return Fenced(
            f"write {time} was taken for dead and rolled back by another writer; run it again", instant=time
        )

    def withdraw(self, lost: bool) -> None:
        time = self.pending.time
        self.open = False
        self._unpublish()
        unreported_files.delete_unreported(self.table, time, ())
        if lost:
            _delete_files(self.table, time, self.table.listing().partitions(), logs_of=self.groups)
        self.table.store.delete(self.pending)
        delete_markers(self.table, time)


class InflightService(Attempt):
    """The execution of a service's plan, beside writers. A successor has the same instant, and begins once
    the heartbeat of this one is gone.
    """

    of_service = True

    @property
    def name(self) -> str:
        return f"{self.pending.action.value} {self.pending.time}"

    def begin(self, partitions: Iterable[str], *, again: bool) -> None:
        """Delete what an earlier attempt left in `partitions`, and say that the plan is being executed.

        `again`: there was an earlier attempt. If it sleeps it can't publish from here on: its unfinished file
        goes.
        """
        time = self.pending.time
        if again:
            store = self.table.store
            follows = "_" if store.layout.has_completion_time else "."
            self.table.storage.sweep_partial(store.folder, of=f"{time}{follows}")
        _delete_files(self.table, time, partitions, logs_of=None)
        self.pending = self.pending.with_state(State.INFLIGHT)
        with contextlib.suppress(AlreadyExists):
            begin_instant(self.table.store, self.pending)

    def superseded(self) -> bool:
        """Its plan is gone, or a successor has it. Rollbacks are no sign: writers go on beside it."""
        plan = self.table.store.name(self.pending.with_state(State.REQUESTED))
        return not self.table.refresh(read=False, beside=False).has_file(plan) or not self.gate.held

    def fenced(self) -> Fenced:
        return Fenced(
            f"{self.name} was taken over, done or rolled back by another process", instant=self.pending.time
        )

    def check_reconcile(self) -> None:
        self.check()  # what seems unreported may be its successor's

    def publish(self, create: Callable[[], object]) -> None:
        """Tries again when a writer took the unfinished file away, and where an earlier attempt woke up and
        published, which a storage that does not fence lets it: its commit names files that this one deleted.
        """
        for left in (True, False):
            try:
                again(create, self.check)
                return
            except AlreadyExists:
                late = left and not self.table.storage.fences and not self.lost()
                others = self.completed.completed_at(None)
                if not late or not names_missing_files(self.table, others):
                    raise self.fenced() from None  # the next writer sweeps
                self.table.store.delete_states([others])

    def _unpublish(self) -> None:
        """As far as it is this one's: a successor may have taken it back, and published its own."""
        with contextlib.suppress(FileNotFoundError):
            if self.table.store.read(self.completed) == self.content:
                super()._unpublish()

    def withdraw(self, lost: bool) -> None:
        """The plan stays. Once lost, its files are its successor's to delete. Those of a plan that was rolled
        back are no one's, and readers count them as committed once the timeline begins after its instant.
        """
        self.open = False
        forgotten = lost and self._is_forgotten()
        if self.published:
            self._unpublish()
        elif not lost or forgotten:
            self._undo_prepared()
        if forgotten:
            _delete_files(self.table, self.pending.time, self.table.listing().partitions(), logs_of=None)
        elif not lost:
            _delete_files(self.table, self.pending.time, (), logs_of=None)
            self.table.store.delete_states([self.pending])

    def _is_forgotten(self) -> bool:
        """Was it rolled back, plan and all: no other process can execute it any more, or has done so."""
        timeline = self.table.refresh()
        there = any(item.time == self.pending.time for item in timeline)
        return not there and is_rolled_back(timeline, self.table.storage, self.pending.time, completed=True)


def _delete_files(
    table: Table, instant: InstantTime, partitions: Iterable[str], *, logs_of: Groups | None
) -> None:
    """Delete what an attempt at the instant wrote: what markers name, and what a listing shows.

    `logs_of`: log files go, too, of slices that the instant began and of these file groups. None for a
    service: writers put logs on top of what it makes, under its instant.
    """
    folders = list(partitions)
    unreported_files.delete_unreported(table, instant, ())
    files = list(unreported_files.files_of(table, instant, folders))
    if logs_of is not None:
        files += log_undo(table).logs_of(table, instant, folders, logs_of)
    table.storage.delete_many([join(table.base_path, file) for file in files])
    delete_markers(table, instant)
