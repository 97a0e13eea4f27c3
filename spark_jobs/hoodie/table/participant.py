"""A participant in commits: what follows a table's commits, such as a second table or an index outside of it.

`hoodie.write.commit` has the order in which participants are called.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from hoodie.table.handle import Table
from hoodie.timeline.instant import Instant
from hoodie.timeline.instant_metadata import Metadata, deleted_files, instants_rolled_back
from hoodie.timeline.models.rollback import InstantInfo


@dataclass(frozen=True, kw_only=True)
class Commit:
    """An instant about to be completed. `metadata` is the content of the completed file: CommitMetadata of a
    write, a compaction or a clustering, else the metadata class of the action. A savepoint's instant has the
    time of the commit that it keeps. `sole`: no other process completes it.
    """

    table: Table
    instant: Instant
    metadata: Metadata
    sole: bool = False

    @cached_property
    def data(self) -> bytes:
        """The content of the completed file."""
        return self.table.store.content(self.metadata)

    @property
    def deleted(self) -> dict[str, frozenset[str]]:
        """Names of the data files that a clean, a rollback or a restore deleted, by partition path."""
        return deleted_files(self.metadata)

    @property
    def rolled_back(self) -> tuple[InstantInfo, ...]:
        """The instants that a rollback or a restore took back."""
        return instants_rolled_back(self.metadata)

    #: the earlier name
    undone = rolled_back


class CommitParticipant:
    """Something that has to be as the table is: what it prepares counts once the instant is completed.

    Participants see every instant that is completed: writes, compactions, clusterings, cleans, rollbacks,
    restores and savepoints. Crash safety is their own: a process may die between any two calls and inside
    each of them. What `prepare` has written must be without effect for readers until the instant is
    completed, and `undo` must find it by the instant alone: another process calls it, whether or not anything
    was prepared, and again where it died in between. A completed instant may leave the timeline later, to the
    archive, or a rollback when a restore comes after it: what was prepared for it still counts.
    """

    def begin(self, table: Table) -> None:
        """The table is this process's. Called before failed writes are rolled back and anything is changed;
        there may be no commit afterwards. Not called for actions that run beside writers: cleans, savepoints,
        and plans that are executed.
        """

    def settled(self, table: Table) -> None:
        """Called after `begin`, once failed writes are rolled back and what they left is swept. The timeline
        of `table` is up to date; plans that other processes execute are pending on it.
        """

    def prepare(self, commit: Commit) -> None:
        """The files of the commit are there, and no others under its instant; those that it deletes are
        deleted. What is raised withdraws a write's commit, and leaves other instants pending.

        For anything but a write it may be called again with the same instant, by the next process that does
        the work after a kill or an error, and for a clean by two processes at once: the last one counts.
        """

    def published(self, commit: Commit) -> None:
        """The instant is completed. A kill, or a process that takes over, may come before, and what is raised
        is ignored: the next `begin` has to find what is left to do.
        """

    def undo(self, table: Table, instant: Instant) -> None:
        """The instant is not completed: it was withdrawn, or is being rolled back, which goes on until it is
        done. `instant` is that of the commit, in the state that it had, and may have the action of its plan.
        A savepoint that is deleted has the time of the commit that it saved, which stays.
        """


Participants = Sequence[CommitParticipant]
