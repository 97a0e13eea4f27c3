"""Public names of earlier releases name what they named."""

from __future__ import annotations

from typing import Any

from hoodie.errors import CODES, NotRetained, StateUnavailable
from hoodie.index import Index
from hoodie.table.participant import Commit


class _Earlier(Index):
    @property
    def moves(self) -> bool:
        return False

    def locate(self, *_: Any) -> Any: ...


class _Now(Index):
    @property
    def updates_partition_path(self) -> bool:
        return False

    def locate(self, *_: Any) -> Any: ...


class _Neither(Index):
    def locate(self, *_: Any) -> Any: ...


def test_of_the_error_of_a_state_that_is_gone() -> None:
    assert NotRetained is StateUnavailable is CODES["not_retained"]


def test_of_indexes_that_update_partition_paths() -> None:
    for index, moves in ((_Earlier(), False), (_Now(), False), (_Neither(), True)):
        assert (index.moves, index.updates_partition_path) == (moves, moves)


def test_of_what_a_commit_rolled_back() -> None:
    assert vars(Commit)["undone"] is vars(Commit)["rolled_back"]
