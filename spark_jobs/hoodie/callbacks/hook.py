"""The hook that calls the commit callback of the settings."""

from __future__ import annotations

from hoodie.callbacks import CALLBACKS, CommitCallback
from hoodie.callbacks.settings import CLASS, ON
from hoodie.config.key import Config
from hoodie.errors import ConfigError
from hoodie.hooks import CommitEvent, HookContext, PostCommitHook, WriteEvent


class Callbacks(PostCommitHook):
    """After writes, as Apache Hudi has it: not after services, rollbacks and savepoints."""

    name = "the commit callback"

    def __init__(self) -> None:
        self._made: CommitCallback | None = None

    def check(self, config: Config) -> None:
        if config[ON]:
            self._callback(config)

    def wants(self, config: Config, event: CommitEvent) -> bool:
        return isinstance(event, WriteEvent) and bool(config[ON])

    def run(self, event: CommitEvent, context: HookContext) -> list[str]:
        assert isinstance(event, WriteEvent)
        self._callback(context.config).call(event)
        return []

    def timeout(self, config: Config) -> float | None:
        return self._callback(config).timeout_s

    def _callback(self, config: Config) -> CommitCallback:
        """Made once a write."""
        if self._made is None:
            self._made = _make(config)
        return self._made


def _make(config: Config) -> CommitCallback:
    name = config[CLASS] or ""
    if ":" not in name and name not in CALLBACKS.places:
        raise ConfigError(
            f"{ON.name}=true needs a Python class as {CLASS.name}=module:Class"
            + (f", not {name!r}: Java classes don't run here" if name else "")
            + ". Or wait for commits with CommitSensor, or start a DAG by the table's asset",
            setting=CLASS.name,
            value=name,
        )
    return CALLBACKS.load(CLASS.name, name)(config=config)
