"""Indexes: which file group contains the record of a key. Base class and registry."""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar

from hoodie.config.key import Config
from hoodie.config.plugins import Plugins
from hoodie.index.settings import BUCKET_ENGINE, INDEX_CLASS, INDEX_TYPE, BucketEngine, IndexType

if TYPE_CHECKING:
    import pyarrow as pa

    from hoodie.codec.arrays import Bools
    from hoodie.index.locations import Locations, Positions
    from hoodie.table.handle import Table, TableRef
    from hoodie.table.participant import CommitParticipant
    from hoodie.table.view import BaseFile, FileSlice, TimelineView
    from hoodie.timeline.active import Timeline
    from hoodie.timeline.commit import CommitMetadata
    from hoodie.timeline.time import InstantTime
    from hoodie.write.operation import Operation


class Scope(enum.Enum):
    """Where a key names one record: in its partition, or in the whole table."""

    PARTITION = "partition"
    TABLE = "table"


class Index(ABC):
    """Made on the driver, pickled, and asked on executors, or in threads of the driver: `locate` keeps
    nothing between calls.

    A caller's own class (`hoodie.index.class`) is called with the keyword argument `config`.
    """

    scope: ClassVar[Scope] = Scope.PARTITION
    #: does `locate` find keys that only log files contain (Apache Hudi: canIndexLogFiles). Where it does not,
    #: the writer refuses partitions that contain such keys, and asks the logs which located keys are deleted
    sees_logs: ClassVar[bool] = False
    #: is what `locate` finds in a slice independent of the other slices: slices of a partition may then be
    #: asked about by several tasks, each with some of them
    by_slice: ClassVar[bool] = False

    @property
    def follows_files(self) -> bool:
        """Is `file_written` called: in the process of the driver, where the local engine's tasks run."""
        return False

    @property
    def updates_partition_path(self) -> bool:
        """With the scope TABLE: does a record move whose partition path has changed? Else its row is written
        where it is stored, whatever the partition path that it brings.
        """
        return True

    #: the earlier name; a class that defines it defines `updates_partition_path`
    moves: Any = property(attrgetter("updates_partition_path"))

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        if "moves" in vars(cls):
            setattr(cls, "updates_partition_path", vars(cls)["moves"])  # noqa: B010  mypy knows a property

    def for_write(self, table: Table, config: Config) -> Index:
        """The index for one write of a table that has commits, before anything else is asked of it: what
        `locate` has to know of the table, it may keep, where it is picklable. Called on the driver, again
        where another writer came before; not for an index that places keys, which is `opened`.
        """
        return self

    def requires_tagging(self, operation: Operation) -> bool:
        """Does the writer bring the operation's records to where their keys are stored? For upserts and
        deletes the answer is yes. Records of other operations are new ones, unless the index says so.
        """
        return operation.tags

    @abstractmethod
    def locate(self, table: TableRef, slices: Sequence[FileSlice], keys: pa.Array[Any]) -> Locations:
        """Where `keys`, which are distinct texts, are stored.

        `slices` are the latest committed ones, oldest base file first: those of the keys' partition or, with
        the scope TABLE, of all partitions. Slices without a base file are among them if the index sees logs.
        Called once a write for each partition (TABLE: once), or, `by_slice`, for parts of its slices; several
        times for keys that do not fit in memory. On the driver where keys are few, else on executors.
        """

    @property
    def key_parts(self) -> int:
        """Into how many parts keys can be cut, so that several tasks are asked, each about all slices and the
        keys of some parts. 1: a task asks about all keys that it has for its slices.
        """
        return 1

    def key_part(self, keys: pa.Array[Any]) -> Positions:
        """The number of the part of each key, where there are several parts. Called on executors."""
        raise NotImplementedError("keys are not cut into parts")

    def behind(self, table: Table, timeline: Timeline) -> bool:
        """Is there an index outside of the table that does not follow it: the writer then takes the table
        before it looks keys up, so that the participant's `begin` can bring the index up to date.

        Called on the driver, before anything else of a write. `timeline` has no instants where the table is
        new. Raises what is wrong with the index.
        """
        return False

    def prefers_driver(self, slices: Sequence[FileSlice]) -> bool:
        """Are few keys looked up on the driver, whatever the size of the slices."""
        return False

    def file_written(  # noqa: B027  most indexes look at committed files alone
        self, table: TableRef, path: str, keys: pa.ChunkedArray[Any], base: BaseFile | None
    ) -> None:
        """A task of the write has written a base file, which is not committed yet: its path below the table,
        the record keys of its rows in their order, and the file whose rows it has first, where none of them
        was deleted. Called where the index `follows_files`, in threads.
        """

    def committed(self, table: TableRef, instant: InstantTime, metadata: CommitMetadata) -> Sequence[str]:
        """The commit of the write is published; returns warnings of its result. Raises nothing. Called on the
        driver, unless the process dies before.
        """
        return ()

    def participant(self, table: Table) -> CommitParticipant | None:
        """What has to change with every commit of the table, such as an index outside; None: nothing.

        Called on the driver, once for every write and table service whose settings name this index.
        """
        return None


class PlacingIndex(Index):
    """An index that knows from the key alone which file group of its partition a record belongs to.

    The writer looks nothing up: all rows that come, of any operation, go to the groups that it says. A
    partition has at most one file group of each number. It is not packed, and its base file is as large as
    its rows make it.
    """

    sees_logs = True
    #: can only merge-on-read tables have it
    merge_on_read_only: ClassVar[bool] = False
    #: are the buckets of each partition in a hash ring, which the table keeps
    ringed: ClassVar[bool] = False
    #: what is said of a file group whose number the index does not know
    unknown: ClassVar[str] = (
        "has no bucket's number. Use the index that the table was made with, or write its rows to a new table"
    )

    @property
    def depends_on_files(self) -> bool:
        """Has `place` been asked, in this process, about a key whose number may be another one once the table
        has other files.
        """
        return False

    def for_table(self, properties: Mapping[str, str]) -> PlacingIndex:
        """The index for a table with these properties, before it is `opened`."""
        return self

    def opened(self, table: TableRef, snapshot: TimelineView, *, replaces: bool) -> PlacingIndex:
        """The index for one write of a table, as the snapshot shows it, before anything else is asked of it.
        `replaces`: the write replaces all file groups of the partitions that it touches.
        """
        return self

    def load(self, partitions: Iterable[str]) -> None:
        """Read at once what it has to know of these partitions."""

    def requires_tagging(self, operation: Operation) -> bool:
        return True

    def locate(self, table: TableRef, slices: Sequence[FileSlice], keys: pa.Array[Any]) -> Locations:
        raise NotImplementedError("an index that places keys is not asked where they are")

    @property
    def persisted(self) -> Mapping[str, str]:
        """The properties by which a table that is made with the index remembers it."""
        return {}

    @abstractmethod
    def place(self, partition: str, keys: pa.Array[Any]) -> Positions:
        """The number of each key's file group. Called on executors."""

    def belong(self, partition: str, keys: pa.Array[Any], number: int) -> Bools:
        """May each of the keys be in the file group of that number."""
        found: Bools = self.place(partition, keys) == number
        return found

    @abstractmethod
    def number(self, partition: str, file_id: str) -> int | None:
        """The number of a file group that is there; None: it is none of this index."""

    @abstractmethod
    def new_file_id(self, partition: str, number: int) -> str:
        """The file id of a new file group with the number."""

    def advice(self, stored: Sequence[tuple[int, pa.Array[Any]]]) -> str:
        """What to do where file groups have other keys than the index says: `stored` are keys by number, the
        greatest number of the table first.
        """
        return "use the index that the table was made with"


INDEXES = Plugins(
    kind="index",
    base=Index,  # type: ignore[type-abstract]
    places={
        IndexType.BLOOM.value: "hoodie.index.bloom:BloomIndex",
        IndexType.GLOBAL_BLOOM.value: "hoodie.index.bloom:GlobalBloomIndex",
        IndexType.SIMPLE.value: "hoodie.index.simple:SimpleIndex",
        IndexType.GLOBAL_SIMPLE.value: "hoodie.index.simple:GlobalSimpleIndex",
        IndexType.BUCKET.value: "hoodie.index.bucket:BucketIndex",
        IndexType.HBASE.value: "hoodie.index.hbase.index:HBaseIndex",
        IndexType.INMEMORY.value: "hoodie.index.in_memory.index:InMemoryIndex",
        IndexType.RECORD_INDEX.value: "hoodie.index.record_index:RecordIndex",
        IndexType.RECORD_LEVEL_INDEX.value: "hoodie.index.record_index:RecordLevelIndex",
    },
    aliases={IndexType.RECORD_INDEX.value: (IndexType.GLOBAL_RECORD_LEVEL_INDEX.value,)},
)
#: those of the type BUCKET, by their engine
BUCKET_ENGINES = Plugins(
    kind="engine of the BUCKET index",
    base=PlacingIndex,  # type: ignore[type-abstract]
    places={
        BucketEngine.SIMPLE.value: INDEXES.places[IndexType.BUCKET.value],
        BucketEngine.CONSISTENT_HASHING.value: "hoodie.index.consistent:ConsistentIndex",
    },
)


def index_for(config: Config) -> Index:
    """The index that the settings name. Raises ConfigError."""
    if config[INDEX_CLASS]:
        return INDEXES.load(INDEX_CLASS.name, str(config[INDEX_CLASS]))(config=config)
    kind = config[INDEX_TYPE].value
    if kind == IndexType.BUCKET.value:
        return BUCKET_ENGINES.load(BUCKET_ENGINE.name, config[BUCKET_ENGINE].value)(config=config)
    return INDEXES.load(INDEX_TYPE.name, kind)(config=config)


def index_participants(config: Config, table: Table) -> tuple[CommitParticipant, ...]:
    """What takes part in commits for the index that the settings name."""
    found = index_for(config).participant(table)
    return () if found is None else (found,)


def index_behind(config: Config, table: Table, timeline: Timeline) -> bool:
    """`Index.behind` of the index that the settings name."""
    return index_for(config).behind(table, timeline)
