"""A participant in commits: what follows a table's commits, such as a second table or an index outside of it.

`hoodie.write.commit` has the order in which participants are called.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hoodie.table.handle import Table
from hoodie.timeline.commit import CommitMetadata
from hoodie.timeline.instant import Instant


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
