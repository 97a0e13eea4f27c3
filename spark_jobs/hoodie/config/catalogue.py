"""Every setting by name, whatever was imported before.

Settings are declared in the `settings` module of the package that uses them. These modules need the standard
library only, so that a process knows all of them before it checks the first option. A new one is named here.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hoodie.config.key import Key

MODULES = (
    "hoodie.storage.settings",
    "hoodie.format.settings",
    "hoodie.table.settings",
    "hoodie.index.settings",
    "hoodie.keygen.settings",
    "hoodie.merge.settings",
    "hoodie.read.settings",
    "hoodie.write.settings",
    "hoodie.callbacks.settings",
    "hoodie.services.settings",
    "hoodie.services.archive.settings",
    "hoodie.services.clean.settings",
    "hoodie.services.clustering.settings",
    "hoodie.services.compaction.settings",
)

_KEYS: dict[str, Key[Any]] = {}


def declare(key: Key[Any]) -> None:
    """Called by every Key that is made. Raises AssertionError for a name that another key has."""
    for name in (key.name, *key.aliases):
        if _KEYS.setdefault(name, key).name != key.name:
            raise AssertionError(f"setting {name} declared twice")
    _KEYS[key.name] = key


@cache
def keys() -> Mapping[str, Key[Any]]:
    """The keys by their names and aliases."""
    for module in MODULES:
        importlib.import_module(module)
    return MappingProxyType(_KEYS)


def declared() -> list[Key[Any]]:
    """Every key once, by name."""
    return sorted({key.name: key for key in keys().values()}.values(), key=lambda key: key.name)
