"""Settings: declared once, typed, validated all at once.

- A `Key` is declared in the `settings` module of the package that uses it. `config[KEY]` is the typed value
  or the default.
- This module names the modules that declare settings. They need the standard library only. A process imports
  them until one declares the name that it looks for.
- `Config` is an immutable view of the texts that a user gave. `Config.of` checks every name and value at
  once. It raises one ConfigError that lists all problems.
- hudi_settings.tsv lists all settings of Apache Hudi 0.15.0 and 1.2.0, those that a Key declares included.
  `python -m scripts.hudi_settings` makes it from Hudi's own classes.
- A name that no Key declares has no effect. If that would lose rows, safety or what other systems get,
  `config.unsupported` refuses the name. Otherwise it is a warning.
"""

from __future__ import annotations

import enum
import importlib
import math
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from hoodie.config.unsupported import SILENT, UNSUPPORTED, refused
from hoodie.errors import ConfigError
from hoodie.text import nearest

#: in the order in which a name is looked for: those that every write of a table names come first
MODULES = (
    "hoodie.storage.settings",
    "hoodie.table.settings",
    "hoodie.keygen.settings",
    "hoodie.merge.settings",
    "hoodie.write.settings",
    "hoodie.aws.settings",
    "hoodie.format.settings",
    "hoodie.lock.settings",
    "hoodie.concurrency.settings",
    "hoodie.index.settings",
    "hoodie.metadata.settings",
    "hoodie.read.settings",
    "hoodie.sync.settings",
    "hoodie.callbacks.settings",
    "hoodie.metrics.settings",
    "hoodie.services.settings",
    "hoodie.services.archive.settings",
    "hoodie.services.clean.settings",
    "hoodie.services.clustering.settings",
    "hoodie.services.compaction.settings",
    "hoodie.services.ttl.settings",
)


_FILE = "hudi_settings.tsv"

#: families whose members can't be listed
PASS_THROUGH = (
    "hoodie.payload.",
    "hoodie.deltastreamer.",
    "hoodie.metrics.",
    "hoodie.record.merge.property.",
    "hoodie.streamer.",
)


@dataclass(frozen=True)
class HudiSetting:
    """`default` is "" where there is none; `releases` are those of both that know the name."""

    default: str
    releases: tuple[str, ...]


@cache
def hudi_settings() -> Mapping[str, HudiSetting]:
    """Every setting by name; read when it is first asked for."""
    data = pkgutil.get_data(__package__, _FILE)
    assert data is not None
    lines = (line.split("\t") for line in data.decode().splitlines())
    return {name: HudiSetting(default, tuple(releases.split(","))) for name, default, releases in lines}


def is_known(name: str) -> bool:
    return name in hudi_settings() or name.startswith(PASS_THROUGH)


T = TypeVar("T")

_TRUE = {"true": True, "false": False}


def parse_bool(text: str) -> bool:
    try:
        return _TRUE[text.strip().lower()]
    except KeyError:
        raise ValueError("expected true or false") from None


def parse_int(text: str) -> int:
    try:
        return int(text.strip())
    except ValueError:
        raise ValueError("expected a whole number") from None


def parse_float(text: str) -> float:
    try:
        value = float(text.strip())
    except ValueError:
        raise ValueError("expected a number") from None
    if not math.isfinite(value):
        raise ValueError("expected a number")
    return value


def parse_fraction(text: str) -> float:
    value = parse_float(text)
    if not 0 < value < 1:
        raise ValueError("must be between 0 and 1")
    return value


def parse_str(text: str) -> str:
    return text.strip()


def parse_fields(text: str) -> tuple[str, ...]:
    """Comma list -> tuple of names; blanks dropped."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def parse_paths(text: str) -> tuple[str, ...]:
    """Comma list -> tuple of partition paths as they are: blanks belong to them."""
    return tuple(part for part in text.split(",") if part)


def parse_enum(cls: type[enum.Enum]) -> Callable[[str], Any]:
    """Parser for an enum by value, case-insensitive."""
    names = {str(member.value).upper(): member for member in cls}

    def parse(text: str) -> Any:
        try:
            return names[text.strip().upper()]
        except KeyError:
            known = ", ".join(sorted(names))
            raise ValueError(f"expected one of {known}{nearest(text.strip(), names)}") from None

    return parse


@dataclass(frozen=True)
class Key(Generic[T]):
    """One setting. `default` is typed (None: unset); `parse` turns the user's text into the typed value."""

    name: str
    default: T
    doc: str
    parse: Callable[[str], T]
    since: str = "0.1"
    aliases: tuple[str, ...] = ()
    minimum: float | None = None
    group: str = "write"

    def __post_init__(self) -> None:
        """Raises AssertionError for a name that another key has."""
        for name in (self.name, *self.aliases):
            if _KEYS.setdefault(name, self).name != self.name:
                raise AssertionError(f"setting {name} declared twice")
        _KEYS[self.name] = self

    def read(self, text: str) -> T:
        value = self.parse(text)
        if self.minimum is not None and isinstance(value, (int, float)) and value < self.minimum:
            raise ValueError(f"must be at least {self.minimum:g}")
        return value


_KEYS: dict[str, Key[Any]] = {}


@cache
def _load(module: str) -> None:
    importlib.import_module(module)


@cache
def keys() -> Mapping[str, Key[Any]]:
    """Every key by its names and aliases, whatever was imported before."""
    for module in MODULES:
        _load(module)
    return MappingProxyType(_KEYS)


def key_of(name: str) -> Key[Any] | None:
    """The key with this name or alias; modules are imported until one declares it."""
    for module in MODULES:
        if name in _KEYS:
            break
        _load(module)
    return _KEYS.get(name)


def declared() -> list[Key[Any]]:
    """Every key once, by name."""
    return sorted({key.name: key for key in keys().values()}.values(), key=lambda key: key.name)


def bool_key(name: str, default: bool, doc: str, **kw: Any) -> Key[bool]:
    return Key(name, default, doc, parse_bool, **kw)


def int_key(name: str, default: int, doc: str, **kw: Any) -> Key[int]:
    return Key(name, default, doc, parse_int, **kw)


def float_key(name: str, default: float, doc: str, **kw: Any) -> Key[float]:
    return Key(name, default, doc, parse_float, **kw)


def str_key(name: str, default: str | None, doc: str, **kw: Any) -> Key[str | None]:
    return Key(name, default, doc, parse_str, **kw)


def fields_key(name: str, default: tuple[str, ...], doc: str, **kw: Any) -> Key[tuple[str, ...]]:
    return Key(name, default, doc, parse_fields, **kw)


def paths_key(name: str, default: tuple[str, ...], doc: str, **kw: Any) -> Key[tuple[str, ...]]:
    return Key(name, default, doc, parse_paths, **kw)


def enum_key(name: str, default: Any, doc: str, **kw: Any) -> Key[Any]:
    return Key(name, default, doc, parse_enum(type(default)), **kw)


@dataclass(frozen=True)
class Config(Mapping[Any, Any]):
    """Validated settings. Index with a Key; a missing key gives its default. Picklable and immutable."""

    texts: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Config:
        """Check all names and values.

        Raises ConfigError that lists every malformed value, every unknown `hoodie.*` name with the nearest
        known one, and what Hudi has and can't be ignored. Names known to Hudi but without effect here are
        collected in one warning. Names outside `hoodie.` are refused too: nothing here would read them.
        """
        if not isinstance(options, Mapping):
            raise ConfigError(f"options are {options!r}; pass a mapping of hoodie.* settings to values")
        texts: dict[str, str] = {}
        problems: list[str] = []
        idle: list[str] = []
        for name, raw in options.items():
            if not isinstance(name, str):
                problems.append(f"{name!r} is no text and so no setting")
                continue
            if raw is None:
                problems.append(f"{name} has no value; leave it out or give one")
                continue
            text = _text(raw)
            if not is_unicode(text):
                problems.append(f"{name}={text!r} is no valid text")
                continue
            key = key_of(name)
            if key is None:
                texts[name] = text
                if problem := refused(name, text):
                    problems.append(problem)
                elif name not in UNSUPPORTED and name not in SILENT:
                    if is_known(name):
                        idle.append(name)
                    else:
                        near = nearest(name, [*keys(), *hudi_settings()])
                        problems.append(f"unknown setting {name!r}{near}")
                continue
            try:
                key.read(text)
            except ValueError as error:
                problems.append(f"{name}={text!r}: {error}")
                continue
            if texts.setdefault(key.name, text) != text:
                problems.append(f"{name}={text!r} contradicts {key.name}={texts[key.name]!r}")
        if problems:
            raise ConfigError(
                "settings are wrong: " + "; ".join(problems) + " (`hoodie config` lists every setting)",
                problems="; ".join(problems),
            )
        warnings: tuple[str, ...] = ()
        if idle:
            warnings = (f"known to Apache Hudi but without effect here: {', '.join(sorted(idle))}",)
        return cls(texts, warnings)

    def __getitem__(self, key: Key[T]) -> T:
        text = self.texts.get(key.name)
        return key.default if text is None else key.read(text)

    def given(self, key: Key[Any]) -> bool:
        return key.name in self.texts

    def text(self, name: str) -> str | None:
        return self.texts.get(name)

    def merged(self, other: Mapping[str, Any]) -> Config:
        """These settings with `other` over them, validated."""
        return Config.of({**self.texts, **other})

    def __iter__(self) -> Iterator[str]:
        return iter(self.texts)

    def __len__(self) -> int:
        return len(self.texts)


def is_unicode(text: str) -> bool:
    """Can it be stored: bytes that were no UTF-8 become halves of surrogate pairs, which can't."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _text(raw: Any) -> str:
    if isinstance(raw, bool):
        return "true" if raw else "false"
    if isinstance(raw, (list, tuple)):
        return ",".join(str(item) for item in raw)
    return str(raw)
