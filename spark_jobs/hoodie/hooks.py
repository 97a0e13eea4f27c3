"""The hooks: what happens after a commit, and in which order. The commit stays, even if they fail.

Every completed instant makes an event: of writes, services, rollbacks, restores and savepoints. A hook says
which events it follows. The hooks here follow writes, as Apache Hudi's do. A setting makes callbacks follow
the other events too.

services    the inline services of the settings: clean, archive, compaction, clustering
sync        the table's entries in Hive's metastore (hoodie.sync)
callbacks   messages to other systems, and code of the user's own (hoodie.callbacks)
metrics     figures for Prometheus (hoodie.metrics)
- Hooks run after the transaction is left, so that they may begin one of their own.
- An error of a hook is a warning of the result. Only a ServiceError, which a setting requests, is raised,
  after all hooks have run.
- Hooks do not run for the commits of a job that died or failed later. A hook that must not miss an instant
  records it right before it is published (`announce`).
"""

from __future__ import annotations

import contextlib
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from hoodie.config.key import Config
from hoodie.config.plugins import Plugins
from hoodie.engine import Engine
from hoodie.errors import ServiceError
from hoodie.progress import ProgressCallback
from hoodie.table.handle import Table
from hoodie.timeline.commit import CommitMetadata
from hoodie.timeline.instant import Instant
from hoodie.timeline.instant_metadata import Metadata


@dataclass(frozen=True, kw_only=True)
class CommitEvent:
    """An instant that was completed. `operation`: Hudi's name, as in the metadata of a write, a compaction or
    a clustering; of others the action's. `seconds`: since the transaction was made; of a write, that it took.
    """

    table: Table
    instant: Instant
    operation: str
    metadata: Metadata
    seconds: float


@dataclass(frozen=True, kw_only=True)
class WriteEvent(CommitEvent):
    """A write that was committed."""

    metadata: CommitMetadata


@dataclass(frozen=True, kw_only=True)
class HookContext:
    """What hooks are given of the job in which the commit was made; `engine` for writes."""

    config: Config
    engine: Engine | None
    progress: ProgressCallback


class PostCommitHook(ABC):
    """One kind of thing to do after a commit; one of a job. `name` is for people."""

    name: ClassVar[str]

    @classmethod
    def make(cls) -> PostCommitHook:
        return cls()

    def check(self, config: Config) -> None:  # noqa: B027  most have nothing to refuse
        """Called before anything is written. Raises ConfigError for settings that the hook can't follow."""

    @abstractmethod
    def wants(self, config: Config, event: CommitEvent) -> bool:
        """Is there something to do after this commit."""

    def announce(self, config: Config, event: CommitEvent) -> None:  # noqa: B027  most note nothing
        """Called right before the instant of the event is published; it may be withdrawn all the same. What
        this raises is ignored: `run` follows.
        """

    @abstractmethod
    def run(self, event: CommitEvent, context: HookContext) -> list[str]:
        """Do it; returns warnings. A process may die inside: nothing calls it again for this commit."""

    def timeout(self, config: Config) -> float | None:
        """Seconds after which the job goes on without it; it runs in a thread of its own then."""
        return None


#: in the order in which they run
HOOKS = Plugins(
    kind="hook",
    base=PostCommitHook,  # type: ignore[type-abstract]
    places={
        "services": "hoodie.services.inline:InlineServices",
        "sync": "hoodie.sync.hive.hook:HiveSync",
        "callbacks": "hoodie.callbacks.hook:Callbacks",
        "metrics": "hoodie.metrics.hook:Metrics",
    },
)


class Hooks:
    """The hooks of one job, in the order in which they run; each is made once."""

    @cached_property
    def _all(self) -> list[PostCommitHook]:
        return [HOOKS.load("hook", name)() for name in HOOKS.places]

    def check(self, config: Config) -> None:
        """Raises ConfigError for settings of hooks that can't be followed: before anything is written."""
        for hook in self._all:
            hook.check(config)

    def announcer(self, config: Config) -> Callable[[CommitEvent], None]:
        """What has each hook note an instant that is about to be published."""

        def announce(event: CommitEvent) -> None:
            for hook in self._all:
                with contextlib.suppress(Exception):
                    if hook.wants(config, event):
                        hook.announce(config, event)

        return announce

    def run(self, events: Sequence[CommitEvent], context: HookContext) -> list[str]:
        """Run the hooks for one instant after the other; returns their warnings. Raises the ServiceError of
        one, once all have run.
        """
        warnings: list[str] = []
        failure: ServiceError | None = None
        for event in events:
            for hook in self._all:
                if not hook.wants(context.config, event):
                    continue
                try:
                    warnings += _run(hook, event, context)
                except ServiceError as error:
                    failure = failure or error
                except Exception as error:  # noqa: BLE001  whatever it is, the instant is completed
                    warnings.append(_failed(hook, event, error))
        if failure is not None:
            raise failure
        return warnings


def _run(hook: PostCommitHook, event: CommitEvent, context: HookContext) -> list[str]:
    seconds = hook.timeout(context.config)
    if seconds is None:
        return hook.run(event, context)
    call = _Call(lambda: hook.run(event, context))
    thread = threading.Thread(target=call, name=f"hoodie-{hook.name}", daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        return [f"{done_text(event)}, but {hook.name} did not end within {seconds:g} s"]
    return call.warnings if call.error is None else [_failed(hook, event, call.error)]


def _failed(hook: PostCommitHook, event: CommitEvent, error: BaseException) -> str:
    return f"{done_text(event)}, but {hook.name} failed: {type(error).__name__}: {error}"


def done_text(event: CommitEvent) -> str:
    """The beginning of a warning: what stays."""
    if isinstance(event, WriteEvent):
        return "the rows are committed"
    return f"{event.instant.action.value} {event.instant.time} is completed"


class _Call:
    """Keeps what a call in a thread returned or raised."""

    def __init__(self, run: Callable[[], list[str]]) -> None:
        self._run = run
        self.warnings: list[str] = []
        self.error: BaseException | None = None

    def __call__(self) -> None:
        try:
            self.warnings = self._run()
        except BaseException as error:  # noqa: BLE001  its end, too, is the thread's own
            self.error = error
