"""The protocol of a catalog that a table is entered in, the catalogs that exist, and the changes that a sync
makes to an entry. The changes are pure.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import ClassVar, TypeVar

from hoodie.config.key import Config
from hoodie.config.plugins import Plugins
from hoodie.errors import ConfigError, SchemaError, TableMismatch
from hoodie.sync.hive.desired_entry import (
    COMMIT_TIME,
    OUTPUT,
    PROVIDER,
    SERDE,
    Column,
    Entry,
    parts_of,
    same_folder,
    widens,
)
from hoodie.sync.settings import HIVE_SYNC, META_SYNC, TOOL, Tool

#: values of partition columns
Values = tuple[str, ...]
_HUDI = ("org.apache.hudi.", "com.uber.hoodie.")


@dataclass(frozen=True, kw_only=True)
class Stored:
    """An entry as a catalog has it; texts are empty for what it lacks. Types have no blanks. `catalog`: its
    title, for messages.
    """

    location: str
    columns: tuple[Column, ...]
    partition_columns: tuple[Column, ...]
    input_format: str
    output_format: str
    serde: str
    parameters: Mapping[str, str]
    serde_parameters: Mapping[str, str]
    catalog: str = "Hive's metastore"


@dataclass(frozen=True, kw_only=True)
class EntryChange:
    """Of the columns, the properties and the formats of an entry. `columns`: all of them, where one changes;
    `properties`: names, with `formats` for those of input, output and serde, and `location`.
    """

    columns: tuple[Column, ...] = ()
    added: tuple[str, ...] = ()
    retyped: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    commented: tuple[str, ...] = ()
    properties: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def empty(self) -> bool:
        return not (self.columns or self.properties)

    @property
    def of_partitions(self) -> bool:
        """Do the columns of partitions change, too."""
        return bool(self.added or self.retyped or self.dropped)


@dataclass(frozen=True, kw_only=True)
class PartitionChange:
    """Paths by values of what is added, and of what is at another place; values of what is dropped."""

    added: Mapping[Values, str]
    moved: Mapping[Values, str]
    dropped: tuple[Values, ...]


def adopted(entry: Entry, stored: Stored, asked: bool) -> Entry:
    """The entry at the location by which the metastore knows the same folder, unless one was `asked` for."""
    if asked or not stored.location:
        return entry
    serde = dict(entry.serde_parameters)
    if "path" in serde:
        serde["path"] = stored.serde_parameters.get("path", stored.location)
    return replace(entry, location=stored.location, serde_parameters=serde)


def check_entry(name: str, entry: Entry, stored: Stored) -> None:
    """Raises TableMismatch for an entry of something else, or with other partition columns."""
    remedy = "set hoodie.datasource.hive_sync.table or .database, or drop that entry"
    hudi = stored.parameters.get(PROVIDER, "").lower() == "hudi" or COMMIT_TIME in stored.parameters
    if not hudi and not stored.input_format.startswith(_HUDI):
        raise TableMismatch(f"{name} in {stored.catalog} is no Hudi table; {remedy}", table=name)
    if not same_folder(stored.location, entry.location):
        raise TableMismatch(
            f"{name} in {stored.catalog} is the table at {stored.location}, not the one at {entry.location}; "
            f"{remedy}",
            table=name,
            location=stored.location,
        )
    has = [item.name.lower() for item in stored.partition_columns]
    if has != [item.name.lower() for item in entry.partition_columns]:
        raise TableMismatch(
            f"{name} in {stored.catalog} is partitioned by {', '.join(has) or 'nothing'}, the table by "
            f"{', '.join(item.name for item in entry.partition_columns) or 'nothing'}; that can't be "
            "changed: drop that entry (its files stay) and sync again",
            table=name,
        )


def entry_change(name: str, entry: Entry, stored: Stored) -> EntryChange:
    """Raises SchemaError for a column that would be narrowed; its message names all of them."""
    has = {item.name.lower(): item for item in stored.columns}
    want = {item.name.lower(): item for item in entry.columns}
    retyped = [
        f"{old.name}: {old.type} -> {new.type}"
        for key, old in has.items()
        if (new := want.get(key)) is not None and old.type != new.type
    ]
    narrowed = [
        f"{old.name} from {old.type} to {want[key].type}"
        for key, old in has.items()
        if key in want and not widens(old.type, want[key].type)
    ]
    if narrowed:
        raise SchemaError(
            f"{name} in {stored.catalog} can't change column {', '.join(narrowed)}, which may lose values; "
            "drop that entry (its files stay) and sync again",
            table=name,
            columns=", ".join(narrowed),
        )
    commented = [
        new.name
        for key, new in want.items()
        if new.comment is not None and key in has and new.comment != (has[key].comment or "")
    ]
    added = [new.name for key, new in want.items() if key not in has]
    dropped = [old.name for key, old in has.items() if key not in want]
    # what is there keeps its place: the metastore compares columns by their places
    order = [*(key for key in has if key in want), *(key for key in want if key not in has)]
    columns = tuple(_column(want[key], has.get(key)) for key in order)
    return EntryChange(
        columns=columns if retyped or commented or added or dropped else (),
        added=tuple(added),
        retyped=tuple(retyped),
        dropped=tuple(dropped),
        commented=tuple(commented),
        properties=tuple(_properties(entry, stored)),
        warnings=tuple(_types_of_catalog(name, entry, stored)),
    )


def _column(new: Column, old: Column | None) -> Column:
    comment = new.comment if new.comment is not None or old is None else old.comment
    return Column(new.name, new.type, comment)


def _properties(entry: Entry, stored: Stored) -> Iterable[str]:
    yield from (name for name, text in entry.parameters.items() if stored.parameters.get(name) != text)
    has = stored.serde_parameters
    yield from (name for name, text in entry.serde_parameters.items() if has.get(name) != text)
    formats = (stored.input_format, stored.output_format, stored.serde)
    if formats != (entry.input_format, OUTPUT, SERDE):
        yield "formats"
    if parts_of(stored.location) != parts_of(entry.location):
        yield "location"


def _types_of_catalog(name: str, entry: Entry, stored: Stored) -> Iterable[str]:
    for old, new in zip(stored.partition_columns, entry.partition_columns, strict=True):
        if old.type != new.type:
            yield (
                f"partition column {new.name} of {name} stays {old.type} in {stored.catalog}, which can't "
                f"make it {new.type}; drop that entry (its files stay) and sync again to change it"
            )


def partition_change(
    entry: Entry,
    written: Mapping[Values, str],
    stored: Mapping[Values, str],
    gone: Collection[Values],
) -> PartitionChange:
    """`written`: paths that the entry should have; `stored`: the locations that it has; `gone`: those that it
    should not have, where it has them. A location outside of the table's folder is someone's own and stays.
    """
    added, moved = {}, {}
    for values, path in written.items():
        location = stored.get(values)
        if location is None:
            added[values] = path
        elif not same_folder(location, entry.location_of(path)):
            moved[values] = path
    dropped = [values for values in gone if values in stored and _is_within(stored[values], entry.location)]
    return PartitionChange(added=added, moved=moved, dropped=tuple(sorted(dropped)))


def _is_within(location: str, folder: str) -> bool:
    path, above = parts_of(location)[2], parts_of(folder)[2]
    return path.startswith(f"{above.rstrip('/')}/")


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
