"""What happens after a commit: the hooks, in their order. The commit stays, whatever becomes of them.

services    what the settings ask to be done inline: clean, archive, compaction, clustering
callbacks   code of the user's own (hoodie.callbacks)

A hook runs once the transaction is left, so that it may begin one of its own. What one fails at is a warning
of the result; only a ServiceError, which a setting asks for, is raised, once all hooks have run.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from hoodie.config.key import Config
from hoodie.config.plugins import Plugins
from hoodie.engine import Engine
from hoodie.errors import ServiceError
from hoodie.progress import ProgressCallback
from hoodie.table.handle import Table
from hoodie.timeline.commit import CommitMetadata
from hoodie.timeline.instant import Instant


@dataclass(frozen=True, kw_only=True)
class CommitEvent:
    """A write that was committed. `operation`: Hudi's name, as in the metadata. `seconds`: the write took."""

    table: Table
    instant: Instant
    operation: str
    metadata: CommitMetadata
    seconds: float


@dataclass(frozen=True, kw_only=True)
class HookContext:
    """What hooks are given of the job in which the commit was made."""

    config: Config
    engine: Engine
    progress: ProgressCallback


class PostCommitHook(ABC):
    """One kind of thing to do after a commit. `name` is for people."""

    name: ClassVar[str]

    @classmethod
    def make(cls) -> PostCommitHook:
        return cls()

    def check(self, config: Config) -> None:  # noqa: B027  most have nothing to refuse
        """Called before anything is written. Raises ConfigError for settings that the hook can't follow."""

    @abstractmethod
    def wants(self, config: Config, event: CommitEvent) -> bool:
        """Is there something to do after this commit."""

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
        "callbacks": "hoodie.callbacks.hook:Callbacks",
    },
)


def check(config: Config) -> None:
    """Raises ConfigError for settings of hooks that can't be followed: before anything is written."""
    for hook in _hooks():
        hook.check(config)


def after_commit(event: CommitEvent, context: HookContext) -> list[str]:
    """Run the hooks; returns their warnings. Raises the ServiceError of one, once all have run."""
    warnings: list[str] = []
    failure: ServiceError | None = None
    for hook in _hooks():
        if not hook.wants(context.config, event):
            continue
        try:
            warnings += _run(hook, event, context)
        except ServiceError as error:
            failure = failure or error
        except Exception as error:  # noqa: BLE001  whatever it is, the rows are committed
            warnings.append(_failed(hook, error))
    if failure is not None:
        raise failure
    return warnings


def _hooks() -> list[PostCommitHook]:
    return [HOOKS.load("hook", name)() for name in HOOKS.places]


def _run(hook: PostCommitHook, event: CommitEvent, context: HookContext) -> list[str]:
    seconds = hook.timeout(context.config)
    if seconds is None:
        return hook.run(event, context)
    call = _Call(lambda: hook.run(event, context))
    thread = threading.Thread(target=call, name=f"hoodie-{hook.name}", daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        return [f"the rows are committed, but {hook.name} did not end within {seconds:g} s"]
    return call.warnings if call.error is None else [_failed(hook, call.error)]


def _failed(hook: PostCommitHook, error: BaseException) -> str:
    return f"the rows are committed, but {hook.name} failed: {type(error).__name__}: {error}"


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
