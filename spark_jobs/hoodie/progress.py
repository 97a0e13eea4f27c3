"""What a caller is given of an operation's steps while it runs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

#: called with the name of a step and a text for people
ProgressCallback = Callable[[str, str], None]


def silent(step: str, text: str) -> None:
    """The callback of a caller that wants none."""


class ProgressMeter(ABC):
    """A callback that is also told how far a write is, where its tasks run in this process."""

    @abstractmethod
    def __call__(self, step: str, text: str) -> None:
        """As ProgressCallback."""

    @abstractmethod
    def expect(self, files: int, rows: int | None) -> None:
        """A write begins that makes so many files at least. rows: all that it writes; None where these are
        not counted beforehand, as stored rows are written again.
        """

    @abstractmethod
    def advance(self, files: int, rows: int) -> None:
        """So many more files and rows are written. Any thread calls it."""
