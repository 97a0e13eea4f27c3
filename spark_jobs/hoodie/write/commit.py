"""THE order of a commit: every action that completes an instant takes it. Every step survives a kill before,
inside and after it.

reconcile   delete the files that markers name and no task reports: late, retried and speculative attempts
validate    the caller checks the state that the commit makes, and may raise
announce    hooks record the commit (hoodie.hooks); the record of a withdrawn commit stays
conflicts   a writer among others checks what they committed since its plan (concurrency). It checks again
            under the lock, which it then holds until the commit is published
prepare     the participants write what follows the commit: a second table, an index outside
publish     the gate creates the completed instant, which alone makes the files and the prepared parts visible
tidy        the participants finish, and the markers are deleted. Afterwards the transaction ends the
            heartbeats, and the hooks run (hoodie.hooks)

`commit` is for the files of a write, a compaction or a clustering. An error before the end of `publish`
withdraws the attempt, of which nothing was visible. A kill leaves a pending instant, which the next writer
rolls back, participants included. A kill after `publish` leaves markers and a heartbeat, which it sweeps.

`complete` is for cleans, rollbacks, restores and savepoints. They have done their work before, so there are
no files to reconcile or to withdraw. An error or a kill before the end of `publish` leaves the pending
instant, and the next run repeats the work and `prepare`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from hoodie.concurrency.conflict_resolution import ConflictChecker
from hoodie.concurrency.gate import WriterGate
from hoodie.concurrency.gate import attempt as tried
from hoodie.errors import AlreadyExists, CommitUnknown, Fenced, StorageError
from hoodie.hooks import CommitEvent, WriteEvent
from hoodie.table.handle import Table
from hoodie.table.markers import delete_markers, known_markers
from hoodie.table.participant import Commit, Participants
from hoodie.timeline.commit import CommitMetadata
from hoodie.timeline.instant import Instant
from hoodie.timeline.instant_metadata import Metadata
from hoodie.timeline.store import again, create_instant
from hoodie.timeline.tokens import TOKEN_KEY
from hoodie.write.inflight import Attempt
from hoodie.write.rollback import unreported_files

#: what hooks do right before an instant is published; raises nothing
Announce = Callable[[CommitEvent], None]
#: looks at a commit before it is published, and raises what refuses it; returns further extra metadata
Validate = Callable[[CommitMetadata], Mapping[str, str]]


class Commits:
    """The commits of one transaction. `events` are those of the instants that were completed, in their order,
    for the hooks.
    """

    def __init__(self, table: Table, gate: WriterGate, participants: Participants) -> None:
        self.table = table
        self.gate = gate
        self.participants = participants
        self.events: list[CommitEvent] = []
        #: called with what is about to be published
        self.announce: Announce | None = None
        #: of a write beside others
        self.conflicts: ConflictChecker | None = None
        #: of a service: raises where what its plan was made from has changed
        self.confirm: Callable[[], None] | None = None
        self._started = time.monotonic()

    def commit(self, attempt: Attempt, metadata: CommitMetadata, validate: Validate | None = None) -> None:
        """Commit an attempt; the last of `events` has what was published. Raises Fenced where another process
        took this one for dead, and CommitUnknown where the storage failed so that it can't be seen whether
        the commit is there. After any other error nothing is shown once the transaction is left. What fails
        after the publishing is no error: the next writer sweeps.
        """
        instant = attempt.completed
        attempt.check_reconcile()
        unreported_files.delete_unreported(self.table, instant.time, unreported_files.paths(metadata))
        if validate is not None:
            attempt.check()
            said = validate(metadata)
            metadata = replace(metadata, extra_metadata={**metadata.extra_metadata, **said})
        sole = not attempt.of_service
        made = Commit(table=self.table, instant=instant, metadata=metadata, sole=sole)
        kind = CommitEvent if attempt.of_service else WriteEvent
        self._announce(self._event(made, metadata.operation_type, kind))
        attempt.prepared = self.participants
        # where the storage fences, whoever takes a plan over sweeps first (InflightService.begin)
        shared = attempt.of_service and not self.table.storage.fences
        optimistic = self.gate.optimistic
        if not optimistic:
            self._confirm(metadata)
            self._prepare(made)
        elif self.conflicts is not None:
            self.conflicts.check(metadata, locked=False)  # what takes long is known before the lock is taken
        with self.gate.publishing():
            if optimistic:  # what others publish or prepare must not come between
                self._confirm(metadata)
                self._prepare(made)
            made = replace(made, instant=self.table.completing(instant, shared=shared))
            attempt.pending = attempt.pending.completed_at(made.instant.completion)
            _publish(made, attempt)
            _check_published(made, attempt)
        self._published(made, shared=shared)
        if (kept := known_markers(self.table.base_path, instant.time)) is not None:
            self.gate.heartbeats.leftovers += kept.files
        else:
            tried(lambda: delete_markers(self.table, instant.time))
        self.events.append(self._event(made, metadata.operation_type, kind))

    def complete(self, instant: Instant, metadata: Metadata, *, beside: bool = False) -> None:
        """Complete an instant whose work is done. `beside`: it runs beside writers, so that one that begins
        may sweep the unfinished file, which is made again then. Raises AlreadyExists where another process
        has completed it, and CommitUnknown where the storage failed so that it can't be seen whether it is.
        """
        made = Commit(table=self.table, instant=instant, metadata=metadata)
        self._announce(self._event(made, instant.action.value))
        check = self.gate.check_lock
        optimistic = self.gate.optimistic
        if not optimistic:
            self._prepare(made)
        with self.gate.publishing():
            if optimistic:
                self._prepare(made)
            made = replace(made, instant=self.table.completing(instant, shared=True))
            create = partial(create_instant, self.table.store, made.instant, made.data, check=check)
            try:
                again(create, check) if beside else create()
            except AlreadyExists:
                tried(lambda: self.table.settle(made.instant))
                raise
            except (OSError, StorageError) as error:
                if not _is_there(made, error):
                    raise
        self._published(made, shared=True)
        self.events.append(self._event(made, instant.action.value))

    def undo(self, instant: Instant) -> None:
        """Undo what was prepared for an instant that is rolled back."""
        for participant in reversed(self.participants):
            participant.undo(self.table, instant)

    def _confirm(self, metadata: CommitMetadata) -> None:
        """What the commit was made from is as it was."""
        self.gate.look()
        if self.conflicts is not None:
            self.conflicts.check(metadata, locked=True)
        if self.confirm is not None:
            self.confirm()

    def _prepare(self, made: Commit) -> None:
        for participant in self.participants:
            participant.prepare(made)

    def _published(self, made: Commit, *, shared: bool) -> None:
        if shared:
            tried(lambda: self.table.settle(made.instant))
        for participant in self.participants:
            tried(partial(participant.published, made))

    def _announce(self, event: CommitEvent) -> None:
        if self.announce is not None:
            self.announce(event)

    def _event(self, made: Commit, operation: str, kind: type[CommitEvent] = CommitEvent) -> CommitEvent:
        return kind(
            table=self.table,
            instant=made.instant,
            operation=operation,
            metadata=made.metadata,
            seconds=time.monotonic() - self._started,
        )


def _publish(made: Commit, attempt: Attempt) -> None:
    """Create the completed file; after a failure the storage is asked whether it is there after all."""
    attempt.open, attempt.content = False, made.data
    try:
        create = partial(create_instant, made.table.store, made.instant, made.data, sole=made.sole)
        attempt.publish(partial(create, check=attempt.check_last))
    except BaseException as error:
        # should this look fail too, nothing is withdrawn: the next writer sees what became of the instant
        try:
            attempt.published = made.table.store.exists(made.instant)
        except (OSError, StorageError):
            raise _unknown(made, attempt, error) from error
        attempt.open = not attempt.published
        if not attempt.published or not isinstance(error, (OSError, StorageError)):
            raise
    attempt.published = True


def _check_published(made: Commit, attempt: Attempt) -> None:
    """A process may sleep between its last look and the publishing, and another may have rolled its instant
    back meanwhile. Then it withdraws at once, the completed file first.

    Where the storage fences (hoodie.storage), one of ours has seen the completed instant, or it was not made.
    Elsewhere a process that was taken for dead can't see whether the other one has.
    """
    if tried(attempt.superseded):
        attempt.open = True
        raise attempt.fenced()
    if not made.table.storage.fences and tried(lambda: attempt.gate.held) is False:
        raise _unknown(made, attempt, attempt.fenced())


def _is_there(made: Commit, error: OSError | StorageError) -> bool:
    """After a failure: was the file of a completed instant made all the same. Raises CommitUnknown."""
    table, instant = made.table, made.instant
    try:
        return table.store.read(instant) == made.data
    except FileNotFoundError:
        return False
    except (OSError, StorageError):
        raise CommitUnknown(
            f"{instant.action.value} {instant.time} of {table.base_path} may be done: the storage failed as "
            f"it was completed ({error}), and that can't be seen. Run it again: it goes on where it stopped, "
            "or finds nothing left to do",
            path=table.base_path,
            instant=instant.time,
            repeatable=True,
        ) from error


def _unknown(made: Commit, attempt: Attempt, error: BaseException) -> CommitUnknown:
    assert isinstance(made.metadata, CommitMetadata)
    path, time_ = made.table.base_path, made.instant.time
    repeatable = attempt.of_service or TOKEN_KEY in made.metadata.extra_metadata
    look = (
        "Run it again: it finds the commit if it is there"
        if repeatable
        else "Look at the timeline (`hoodie timeline`) before the rows are written again"
    )
    happened = (
        f"it can't be seen whether it stays: {error}"
        if isinstance(error, Fenced)
        else f"the storage failed meanwhile ({error}), and it can't be seen whether the commit is there"
    )
    return CommitUnknown(
        f"commit {time_} of {path} was published, and {happened}. {look}",
        path=path,
        instant=time_,
        repeatable=repeatable,
    )
