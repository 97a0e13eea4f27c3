"""Which callback the settings name."""

from __future__ import annotations

from hoodie.callbacks import CALLBACKS, CommitCallback
from hoodie.callbacks.settings import CLASS, HTTP_URL
from hoodie.config.key import Config
from hoodie.errors import ConfigError


def callback_of(config: Config) -> CommitCallback:
    """Raises ConfigError."""
    name = config[CLASS] or ("http" if config[HTTP_URL] else "")
    if ":" not in name and CALLBACKS.name(name) not in CALLBACKS.places:
        raise ConfigError(
            f"a commit callback needs {HTTP_URL.name}, or {CLASS.name}=kafka or pulsar, or a Python class "
            "there as module:Class" + (f", not {name!r}: Java classes don't run here" if name else ""),
            setting=CLASS.name,
            value=name,
        )
    return CALLBACKS.load(CLASS.name, name)(config=config)
