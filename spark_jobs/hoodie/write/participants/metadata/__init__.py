"""The protocol of a partition of the metadata table that writes and services keep up to date.

A module a partition: `registry` names them, `hoodie.write.participants.metadata_table` calls them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

from hoodie.config.key import Config
from hoodie.engine.spool import Room
from hoodie.errors import HoodieError
from hoodie.metadata.index_definitions import IndexDefinition, index_definitions
from hoodie.metadata.partition_groups import PartitionGroups
from hoodie.metadata.partitions import Records
from hoodie.metadata.partitions.column_ranges import ColumnRange
from hoodie.metadata.table import MetadataTable, Partition
from hoodie.read.settings import SPILL_PATH
from hoodie.read.spill import spill_error
from hoodie.table.handle import Table
from hoodie.table.participant import Commit
from hoodie.table.table_schema import TableSchema
from hoodie.timeline.commit import SCHEMA_KEY, CommitMetadata
from hoodie.timeline.time import InstantTime
from hoodie.write.participants.metadata.footers import BaseFooter, Files

#: why a partition goes
ASKED_TO_GO = "the settings say so"


class CannotFollow(HoodieError):
    """A partition of the metadata table can't be kept up to date: `why`."""

    def __init__(self, partition: Partition, why: str) -> None:
        super().__init__(f"the index {partition.value} can't be kept: {why}", index=partition.value)
        self.partition = partition
        self.why = why

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.partition, self.why)


def schema_of(table: Table) -> str | None:
    """The newest Avro schema."""
    return TableSchema.load(table.timeline, table.storage, table.properties).avro


@dataclass(frozen=True, kw_only=True)
class Making:
    """What records are made for. `data` is the table as it is now, `instant` that of the records, or the
    newest one for those that a new partition begins with.
    """

    data: Table
    config: Config
    instant: InstantTime
    #: of columns of new files, by (partition path, name)
    ranges: dict[tuple[str, str], Sequence[ColumnRange]] = field(default_factory=dict, compare=False)
    #: of all columns of log files whose tasks reported none, by the same
    read_back: dict[tuple[str, str], list[ColumnRange]] = field(default_factory=dict, compare=False)

    @cached_property
    def schema(self) -> str | None:
        """The table's Avro schema, maybe without meta columns; None where nothing was written yet."""
        return schema_of(self.data)

    @cached_property
    def definitions(self) -> Mapping[str, IndexDefinition]:
        """Of the table's indexes, which layout one has none of."""
        return index_definitions(self.data) if self.data.layout.has_completion_time else {}

    @property
    def stored(self) -> MetadataTable | None:
        """The metadata table as readers have it; None where there is none."""
        return MetadataTable.open(self.data)

    @property
    def room(self) -> Room:
        """Where records go that memory has no place for."""
        return Room(folder=self.config[SPILL_PATH] or "", refusal=spill_error)


@dataclass(frozen=True, kw_only=True)
class Changed(Making):
    """An instant that is about to be completed. `deleted`: names of files that go with it and that the
    metadata table lists, by partition path.
    """

    commit: Commit
    deleted: Mapping[str, Collection[str]]

    @cached_property
    def schema(self) -> str | None:
        """The commit's own."""
        if isinstance(self.commit.metadata, CommitMetadata):
            return self.commit.metadata.extra_metadata.get(SCHEMA_KEY)
        return schema_of(self.data)

    @cached_property
    def stored(self) -> MetadataTable | None:
        """Opened once: nothing is written to it before the instant's records are all there."""
        return MetadataTable.open(self.data)

    @cached_property
    def previous_schema(self) -> str | None:
        """That of the commits before."""
        return schema_of(self.data)


@dataclass(frozen=True)
class Moment:
    """What a table had at a moment when nothing wrote to it: `files` are those of its commits."""

    making: Making
    files: Files

    def lacks(self, other: Moment) -> dict[str, list[str]]:
        """Names of files that `other` has, and this one has not, by partition path."""
        found = {path: sorted(names - self.files.get(path, {}).keys()) for path, names in other.named()}
        return {path: names for path, names in found.items() if names}

    def named(self) -> Iterable[tuple[str, frozenset[str]]]:
        return ((path, frozenset(sizes)) for path, sizes in self.files.items())


class MetadataPartition(ABC):
    """One for all tables: it holds nothing."""

    partition: Partition
    #: are there records of `of_base_files`
    reads_footers: ClassVar[bool] = False
    #: may it be made while writers run, by `caught_up`
    beside_writers: ClassVar[bool] = True

    @abstractmethod
    def asked(self, config: Config) -> bool | None:
        """True: a write makes it where it is not there; False: a write drops it; None: what is there stays.
        All of them keep up to date what is there.
        """

    def insisted(self, config: Config) -> bool:
        """Do the settings name it, so that a write that can't make it warns."""
        return bool(self.asked(config))

    def unfollowed(self, data: Table, config: Config) -> str:
        """Why it can't be kept for the table, so that it is dropped; "" where it can. Asked at each write."""
        return ""

    def columns(self, making: Making) -> Collection[str]:
        """Those that the definition of a new index names."""
        return ()

    def options(self, making: Making) -> Mapping[str, str]:
        """Those of the definition of a new index; none: what is defined stays."""
        return {}

    @abstractmethod
    def file_groups(self, making: Making, files: Files) -> int | PartitionGroups:
        """Of a new partition of a table with those files: their number, or what `initial` adds some to."""

    def initial(self, making: Making, files: Files) -> Iterable[Records]:
        """What a new partition begins with, but for `of_base_files` of all of the table's: a chunk at a
        time; of several records of a key the last one counts. Readers may read the table, nothing writes
        to it.
        """
        return ()

    @abstractmethod
    def changes(self, changed: Changed) -> Iterable[Records] | None:
        """What the instant changes, but for `of_base_files` of the new ones: a chunk at a time; of several
        records of a key the last one counts. None: it can't be followed, and the partition is dropped before
        the instant is completed.

        It may be called again for the instant, by another process, and then for a clean by two at once.
        """

    def caught_up(self, then: Moment, now: Moment) -> Iterable[Records]:
        """What has changed between two moments, but for `of_base_files` of the new ones: a chunk at a time;
        of several records of a key the last one counts. Raises FileNotFoundError where it needs a file that
        has gone meanwhile.
        """
        return ()

    def of_base_files(self, making: Making, files: Sequence[BaseFooter]) -> Records:
        """The records of some base files; where `reads_footers`."""
        raise NotImplementedError
