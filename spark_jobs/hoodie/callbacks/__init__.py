"""Commit callbacks: code of the user that runs after every commit of a write. Base class and registry."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from hoodie.config.plugins import Plugins

if TYPE_CHECKING:
    from hoodie.hooks import WriteEvent


class CommitCallback(ABC):
    """A caller's own class is called with the keyword argument `config`, once a write, before anything is
    written; what it raises then refuses the write.
    """

    #: the job goes on without a callback that takes longer
    timeout_s = 30.0

    @abstractmethod
    def call(self, event: WriteEvent) -> None:
        """After a commit of a write, in the driver. What it raises is a warning of the write's result.

        Not called again where the process dies before or inside, nor for a write that was done before.
        """


CALLBACKS: Plugins[CommitCallback] = Plugins(
    kind="commit callback",
    base=CommitCallback,  # type: ignore[type-abstract]
    places={},
)
