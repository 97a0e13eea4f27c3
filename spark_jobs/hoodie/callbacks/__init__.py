"""Commit callbacks: what other systems get of every commit. Base classes and registry.

A `MessageCallback` sends Apache Hudi's message; what it could not deliver is kept
(hoodie.callbacks.delivery). Any other class of the user's own is called with the event, once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
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

        Not called again where the process dies before or inside, nor for a write that was done before. With
        hoodie.write.commit.callback.services=true the event may be another CommitEvent.
        """


class MessageCallback(CommitCallback):
    """A callback that sends a message to one place. Messages are sent in the order of their instants. One
    that was not delivered is sent again by the next commit, before its own.
    """

    #: what must not be shown of what this raises, beside the secrets of the settings
    secrets: Collection[str] = ()

    @property
    @abstractmethod
    def place(self) -> str:
        """Where the messages go, in words, without secrets."""

    @abstractmethod
    def send(self, message: str, table: str, seconds: float) -> None:
        """Deliver one message, JSON, of the table of that name, within so many seconds.

        Returns once it is delivered, and raises where it is not, or where that is not known.
        """

    def close(self) -> None:
        """Called when what there was to deliver is delivered, or failed; `send` may be called again."""

    def call(self, event: WriteEvent) -> None:
        """Send the message of one commit, without keeping it."""
        from hoodie.callbacks.message import message_of

        self.send(message_of(event), event.table.properties.name, self.timeout_s)


CALLBACKS: Plugins[CommitCallback] = Plugins(
    kind="commit callback",
    base=CommitCallback,  # type: ignore[type-abstract]
    places={
        "http": "hoodie.callbacks.http:HttpCallback",
        "kafka": "hoodie.callbacks.kafka:KafkaCallback",
        "pulsar": "hoodie.callbacks.pulsar:PulsarCallback",
    },
    aliases={
        "http": ("org.apache.hudi.callback.impl.HoodieWriteCommitHttpCallback",),
        "kafka": ("org.apache.hudi.utilities.callback.kafka.HoodieWriteCommitKafkaCallback",),
        "pulsar": ("org.apache.hudi.utilities.callback.pulsar.HoodieWriteCommitPulsarCallback",),
    },
)
