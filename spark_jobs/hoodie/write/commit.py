"""THE order of a commit. Every step survives a kill before, inside and after it.

reconcile   delete the files that markers name and no task reports: late, retried and speculative attempts
validate    the caller's look at the state that the commit makes; it may refuse
prepare     the participants write what follows the commit: a second table, an index outside
publish     the completed instant, through the gate. It alone shows the files, and what was prepared
tidy        the markers go; then the heartbeats (the transaction), and the hooks run (hoodie.hooks)

An error before `publish` is done withdraws the attempt: nothing was shown. A kill leaves a pending instant,
which the next writer rolls back, participants included; after `publish` a kill leaves markers and a
heartbeat, which it sweeps. Clean, rollback, restore and savepoint complete instants of their own, which show
no files and have no participants yet.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hoodie.concurrency.gate import attempt as tried
from hoodie.errors import CommitUnknown, Fenced, StorageError
from hoodie.table.handle import Table
from hoodie.table.markers import delete_markers
from hoodie.timeline.active import instant_path
from hoodie.timeline.commit import CommitMetadata
from hoodie.timeline.instant import Instant
from hoodie.timeline.tokens import TOKEN_KEY
from hoodie.write import reconcile

if TYPE_CHECKING:
    from hoodie.write.attempt import Attempt

#: looks at a commit before it is published, and raises what refuses it
Validate = Callable[[CommitMetadata], None]


@dataclass(frozen=True, kw_only=True)
class Commit:
    """An instant about to be completed. `data` is the content of the completed file; `metadata` what it says
    of a write, compaction or clustering, None of the other actions.
    """

    table: Table
    instant: Instant
    data: bytes
    metadata: CommitMetadata | None = None


class CommitParticipant:
    """Something that has to be as the table is: what it prepares counts once the commit is published.

    Crash safety is its own: a process may die between any two calls and inside each of them. What `prepare`
    has written must be without effect for readers until the instant is completed, and `undo` must find it
    by the instant alone: another process calls it, whether or not anything was prepared, and again where it
    died in between.
    """

    def begin(self, table: Table) -> None:
        """The table is this process's. Called before failed writes are rolled back and anything is changed;
        there may be no commit afterwards.
        """

    def prepare(self, commit: Commit) -> None:
        """The files of the commit are there, and no others under its instant. What is raised withdraws the
        commit. For a service's plan it may be called once more, by the next process that executes it.
        """

    def undo(self, table: Table, instant: Instant) -> None:
        """The instant is withdrawn, or about to be rolled back, which goes on until it is done."""


Participants = Sequence[CommitParticipant]


def commit(
    made: Commit, attempt: Attempt, participants: Participants, validate: Validate | None = None
) -> None:
    """Commit an attempt. Raises Fenced where another process took this one for dead, and CommitUnknown where
    the storage failed so that it can't be seen whether the commit is there. After any other error nothing is
    shown once the transaction is left. What fails after the publishing is no error: the next writer sweeps.
    """
    assert made.metadata is not None
    table, time = made.table, made.instant.time
    attempt.check_reconcile()
    reconcile.delete_unreported(table.storage, table.base_path, time, reconcile.paths(made.metadata))
    if validate is not None:
        attempt.check()
        validate(made.metadata)
    attempt.prepared = participants
    for participant in participants:
        participant.prepare(made)
    with attempt.gate.publishing():
        _publish(made, attempt)
        _check_published(made, attempt)
    tried(lambda: delete_markers(table.storage, table.base_path, time))


def _publish(made: Commit, attempt: Attempt) -> None:
    """Create the completed file; after a failure the storage is asked whether it is there after all."""
    attempt.open = False
    try:
        attempt.create_completed(made.data)
    except BaseException as error:
        # should this look fail too, nothing is withdrawn: the next writer sees what became of the instant
        try:
            path = instant_path(made.table.base_path, made.instant)
            attempt.published = made.table.storage.exists(path)
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


def _unknown(made: Commit, attempt: Attempt, error: BaseException) -> CommitUnknown:
    assert made.metadata is not None
    path, time = made.table.base_path, made.instant.time
    repeatable = attempt.repeatable or TOKEN_KEY in made.metadata.extra_metadata
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
        f"commit {time} of {path} was published, and {happened}. {look}",
        path=path,
        instant=time,
        repeatable=repeatable,
    )
