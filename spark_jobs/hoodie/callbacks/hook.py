"""The hook that calls the commit callback of the settings."""

from __future__ import annotations

from hoodie.callbacks import CommitCallback, MessageCallback
from hoodie.callbacks.delivery import Outbox, Sender, callback_of, undelivered_text
from hoodie.callbacks.message import message_of
from hoodie.callbacks.settings import ON, SERVICES
from hoodie.config.key import Config
from hoodie.hooks import CommitEvent, HookContext, PostCommitHook, WriteEvent, done_text
from hoodie.timeline.instant import Instant

#: seconds over its own time-out that a callback has to end by itself
_GRACE_S = 1.0


class Callbacks(PostCommitHook):
    """After writes, as Apache Hudi has it, and after what services complete, where the settings ask.

    The message of a `MessageCallback` is noted before its instant is published. Once a delivery has failed,
    the rest of the job adds to the notes only, so that it waits for one time-out.
    """

    name = "the commit callback"

    def __init__(self) -> None:
        self._made: CommitCallback | None = None
        self._noted: set[Instant] = set()
        self._failed = False

    def check(self, config: Config) -> None:
        if config[ON]:
            self._callback(config)

    def wants(self, config: Config, event: CommitEvent) -> bool:
        return bool(config[ON]) and (isinstance(event, WriteEvent) or bool(config[SERVICES]))

    def announce(self, config: Config, event: CommitEvent) -> None:
        if isinstance(self._callback(config), MessageCallback):
            Outbox(event.table).write(event.instant, message_of(event))
            self._noted.add(event.instant)

    def run(self, event: CommitEvent, context: HookContext) -> list[str]:
        callback = self._callback(context.config)
        if not isinstance(callback, MessageCallback):
            callback.call(event)  # type: ignore[arg-type]
            return []
        if event.instant not in self._noted:
            Outbox(event.table).write(event.instant, message_of(event))
        if self._failed:
            return []
        self._failed = True  # also where it hangs, and this is left
        done = Sender(callback=callback, config=context.config).deliver(
            event.table, frozenset((event.instant.time,))
        )
        self._failed = bool(done.problem)
        return [f"{done_text(event)}, but {undelivered_text(done)}"] if done.problem else []

    def timeout(self, config: Config) -> float | None:
        callback = self._callback(config)
        return callback.timeout_s + (_GRACE_S if isinstance(callback, MessageCallback) else 0.0)

    def _callback(self, config: Config) -> CommitCallback:
        """Made once a write."""
        if self._made is None:
            self._made = callback_of(config)
        return self._made
