"""The hook that calls the commit callback of the settings."""

from __future__ import annotations

from hoodie.callbacks import CALLBACKS, CommitCallback
from hoodie.callbacks.settings import CLASS, ON
from hoodie.config.key import Config
from hoodie.errors import ConfigError
from hoodie.hooks import CommitEvent, HookContext, PostCommitHook


class Callbacks(PostCommitHook):
    name = "the commit callback"

    def check(self, config: Config) -> None:
        if config[ON]:
            _callback(config)

    def wants(self, config: Config, event: CommitEvent) -> bool:
        return bool(config[ON])

    def run(self, event: CommitEvent, context: HookContext) -> list[str]:
        _callback(context.config).call(event)
        return []

    def timeout(self, config: Config) -> float | None:
        return _callback(config).timeout_s


def _callback(config: Config) -> CommitCallback:
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
