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

from collections.abc import Callable

from hoodie.concurrency.gate import attempt as tried
from hoodie.errors import CommitUnknown, Fenced, StorageError
from hoodie.table.markers import delete_markers
from hoodie.table.participant import Commit, Participants
from hoodie.timeline.active import instant_path
from hoodie.timeline.commit import CommitMetadata
from hoodie.timeline.tokens import TOKEN_KEY
from hoodie.write import reconcile
from hoodie.write.attempt import Attempt

#: looks at a commit before it is published, and raises what refuses it
Validate = Callable[[CommitMetadata], None]


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
