"""A catalog that a table is entered in: what a sync asks of it, and the catalogs that there are."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import ClassVar, TypeVar

from hoodie.config.key import Config
from hoodie.config.plugins import Plugins
from hoodie.errors import ConfigError
from hoodie.sync.hive.changes import EntryChange, Stored, Values
from hoodie.sync.hive.wanted import Entry
from hoodie.sync.settings import HIVE_SYNC, META_SYNC, TOOL, Tool

T = TypeVar("T")


class Catalog(ABC):
    """A connection to a catalog, for one sync. Requests raise StorageError; `transient` is true of one that
    may work later, `kind` is what the catalog calls an error.

    title: what messages call the catalog. asked, changed: requests so far, and those among them that change
    something. Of a database and an entry `entry` is asked before anything else.
    """

    title: ClassVar[str]

    def __init__(self) -> None:
        self.asked = self.changed = 0
        self._counting = threading.Lock()

    @classmethod
    @abstractmethod
    def check(cls, config: Config) -> None:
        """Raises ConfigError for settings that can't be followed, and for a missing package; asks nothing."""

    @classmethod
    @abstractmethod
    def opened(cls, config: Config) -> AbstractContextManager[Catalog]:
        """The connection, closed at the end. Raises ConfigError as `check`, and StorageError."""

    def fitted(self, entry: Entry) -> Entry:
        """The entry as the catalog has it: with what it adds, and leaves out."""
        return entry

    @abstractmethod
    def has_database(self, database: str) -> bool: ...

    @abstractmethod
    def create_database(self, database: str) -> None:
        """No error where it was created meanwhile."""

    @abstractmethod
    def entry(self, database: str, name: str) -> Stored | None: ...

    @abstractmethod
    def create(self, database: str, entry: Entry, more: Mapping[str, str]) -> None:
        """Create it with `more` properties. Raises StorageError where it was created meanwhile."""

    @abstractmethod
    def alter(self, database: str, entry: Entry, change: EntryChange | None, more: Mapping[str, str]) -> None:
        """Make the change, and set `more` properties. Columns of partitions change with the entry's; where
        the process dies in between, the next sync sees the same change again.
        """

    @abstractmethod
    def partitions(self, database: str, entry: Entry) -> dict[Values, str]:
        """Locations by values, of all partitions."""

    @abstractmethod
    def locations(self, database: str, entry: Entry, wanted: Iterable[Values]) -> dict[Values, str]:
        """Locations by values, of those partitions that the catalog has."""

    @abstractmethod
    def add(self, database: str, entry: Entry, partitions: Mapping[Values, str]) -> None:
        """Paths by values. One that was added meanwhile stays as it is."""

    @abstractmethod
    def move(self, database: str, entry: Entry, partitions: Mapping[Values, str]) -> None:
        """Paths by values."""

    @abstractmethod
    def drop(self, database: str, entry: Entry, partitions: Iterable[Values]) -> None:
        """Entries alone: files stay. No error for one that is not there."""

    def count(self, *, changing: bool) -> None:
        """One more request, of any thread."""
        with self._counting:
            self.asked += 1
            self.changed += changing


def batches(items: Sequence[T], size: int) -> Iterator[list[T]]:
    for start in range(0, len(items), size):
        yield list(items[start : start + size])


CATALOGS: Plugins[Catalog] = Plugins(
    kind="catalog",
    base=Catalog,  # type: ignore[type-abstract]
    places={
        Tool.HIVE.value: "hoodie.sync.hive.metastore:HiveMetastore",
        Tool.GLUE.value: "hoodie.sync.hive.glue:GlueCatalog",
    },
)


def catalog(config: Config) -> type[Catalog]:
    """The one that the settings name."""
    return CATALOGS.find(TOOL.name, config[TOOL].value)


def check_catalog(config: Config) -> None:
    """Raises ConfigError for settings of a sync after commits that can't be followed; asks nothing."""
    if config[HIVE_SYNC] and config[TOOL] is not Tool.HIVE:
        raise ConfigError(
            f"{HIVE_SYNC.name}=true asks for Hive's metastore, {TOOL.name}={config.text(TOOL.name)} for "
            f"{catalog(config).title}, and one catalog is synced after a commit; set {META_SYNC.name}=true "
            "instead of the former, and run `hoodie sync` for the other catalog",
            setting=HIVE_SYNC.name,
            value=config.text(TOOL.name),
        )
    catalog(config).check(config)
