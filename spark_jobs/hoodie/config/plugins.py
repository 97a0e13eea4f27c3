"""Plugins by name: those of a folder, and a caller's own Python class as `module:Class`.

A folder of plugins has one `Plugins` in its `__init__`, beside the base class of them all. A class is named
as text, so that its module is imported when it is chosen. A `module:Class` comes from the options of a call:
a table that names one is refused where its properties are read (hoodie.table.properties).
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Generic, TypeVar, cast

from hoodie.errors import ConfigError

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Plugins(Generic[T]):
    """The plugins of one folder. `kind` is what messages call one, `base` the class that they derive from.

    `places`: the name of a plugin, and its class as `module:Class`. `aliases`: its other names. Case does not
    matter in names.
    """

    kind: str
    base: type[T]
    places: Mapping[str, str]
    aliases: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @cached_property
    def _names(self) -> dict[str, str]:
        every = [(name, (name, *self.aliases.get(name, ()))) for name in self.places]
        return {other.lower(): name for name, others in every for other in others}

    def name(self, text: str) -> str:
        """The name of the plugin with this name or alias; any other text as it is."""
        return self._names.get(text.lower(), text)

    def includes(self, cls: type) -> bool:
        """Is the class a plugin of the folder, and none of a caller's own?"""
        return f"{cls.__module__}:{cls.__qualname__}" in self.places.values()

    def load(self, setting: str, text: str) -> Callable[..., T]:
        """What makes the plugin that the value of a setting names: called with keyword arguments only.

        That is the `make` of a class of the folder, and a class of the caller's own itself.

        Raises ConfigError for a name that no plugin has, and for a class of the caller's own that can't be
        imported or lacks something.
        """
        found = self.find(setting, text)
        if ":" in text:
            return found
        make: Callable[..., T] = cast("Any", found).make
        return make

    def find(self, setting: str, text: str) -> type[T]:
        """The class that the value of a setting names. Raises ConfigError as `load` does."""
        if ":" in text:
            return self._own(setting, text)
        if self.name(text) not in self.places:
            known = ", ".join(sorted(self.places))
            raise ConfigError(
                f"{setting}={text!r} is no {self.kind} known here; use one of {known}, "
                "or your own Python class as module:Class.",
                setting=setting,
                value=text,
            )
        found: type[T] = _imported(self.places[self.name(text)])
        return found

    def classes(self) -> Iterator[type[T]]:
        """The classes of the folder, imported one after the other."""
        for place in self.places.values():
            yield _imported(place)

    def _own(self, setting: str, text: str) -> type[T]:
        try:
            found = _imported(text)
        except (ImportError, AttributeError, ValueError) as error:
            raise ConfigError(
                f"{setting}={text!r} can't be imported ({error}); ship its module to driver and executors "
                "(--py-files).",
                setting=setting,
                value=text,
            ) from error
        wanted = f"{self.base.__module__}.{self.base.__qualname__}"
        if not (isinstance(found, type) and issubclass(found, self.base)):
            problem = f"derive it from {wanted}"
        elif inspect.isabstract(found):
            problem = f"it lacks {', '.join(sorted(_missing(found)))}; see {wanted}"
        else:
            return found
        raise ConfigError(f"{setting}={text!r} is no {self.kind}: {problem}.", setting=setting, value=text)


def _missing(cls: Any) -> frozenset[str]:
    missing: frozenset[str] = cls.__abstractmethods__
    return missing


def _imported(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)
