"""The changes of one instant to rows and file groups, as far as writers at once compare them.

New keys are among them: two writers at once may insert the same key, and neither finds the other's in the
index.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from hoodie.format.base_file import BaseFileReader
from hoodie.format.names import join
from hoodie.table.handle import Table
from hoodie.timeline.active import Timeline
from hoodie.timeline.commit import REWRITES, SCHEMA_KEY, CommitMetadata, ReplaceCommitMetadata
from hoodie.timeline.instant import COMMIT_ACTIONS, PLAN_ACTIONS, Action, Instant
from hoodie.timeline.tokens import TOKEN_KEY

#: partition path, file id and path in the table of base files with new rows
Inserted = Sequence[tuple[str, str, str]]
_BATCH_ROWS = 1 << 17


@dataclass(frozen=True, kw_only=True)
class SharedKey:
    """A key, and where the other writer has it."""

    key: str
    partition: str
    file_id: str


def shared_key(table: Table, own: Inserted, others: Inserted, *, everywhere: bool) -> SharedKey | None:
    """A key that files of both have, in one partition, or, `everywhere`, in any. The keys of one file of the
    other writer are held at a time. Raises FileNotFoundError where one is gone.
    """
    for partition, file_id, path in others:
        mine = [file for place, _, file in own if everywhere or place == partition]
        found = _first(table, mine, path) if mine else None
        if found is not None:
            return SharedKey(key=found, partition=partition, file_id=file_id)
    return None


def _first(table: Table, own: Sequence[str], other: str) -> str | None:
    if not table.storage.exists(join(table.base_path, other)):
        raise FileNotFoundError(other)
    theirs: Any = pa.chunked_array(list(_keys(table, other)), pa.string())
    for path in own:
        for batch in _keys(table, path):
            same = batch.filter(pc.is_in(batch, value_set=theirs))
            if len(same):
                return str(same[0].as_py())
    return None


def _keys(table: Table, path: str) -> Iterator[pa.Array[Any]]:
    with BaseFileReader(table.storage, join(table.base_path, path)) as reader:
        for batch in reader.record_keys(_BATCH_ROWS):
            for piece in batch.chunks if isinstance(batch, pa.ChunkedArray) else (batch,):
                yield piece.cast(pa.string())


#: (partition path, file id)
Group = tuple[str, str]
#: the operation of a change that is a plan
PLAN = "plan"
_OF_NO_ROWS = REWRITES | {PLAN}


@dataclass(frozen=True, kw_only=True)
class Change:
    """What an instant that came since a write's plan does. `groups`: the file groups that it writes,
    replaces or plans to.
    """

    instant: Instant
    groups: frozenset[Group]
    operation: str = ""
    schema: str = ""
    token: str = ""
    inserted: Inserted = ()
    #: those of `groups` that it made
    made: frozenset[Group] = frozenset()
    #: those of `groups` to which it added log files and nothing else
    logged: frozenset[Group] = frozenset()
    #: partitions in which it inserted rows, and those in which it deleted or replaced some
    grown: frozenset[str] = frozenset()
    emptied: frozenset[str] = frozenset()

    @property
    def of_rows(self) -> bool:
        """Is it a commit that changed rows: no plan, and no service that writes the same rows anew."""
        return self.operation not in _OF_NO_ROWS

    @property
    def of_compaction(self) -> bool:
        """Is it a compaction, or the plan of one, or of a log compaction. Where log files belong to slices by
        the time of their completion, writes to the same file groups are not in its way (Apache Hudi 1.2.0
        SimpleConcurrentFileWritesConflictResolutionStrategy, getCandidateInstantsV8AndAbove, which has
        completed log compactions in their way: no log lies between those that one took).
        """
        if self.operation == PLAN:
            return self.instant.action in (Action.COMPACTION, Action.LOGCOMPACTION)
        return self.operation in ("COMPACT", "LOG_COMPACT")

    @classmethod
    def of(cls, instant: Instant, metadata: CommitMetadata) -> Change:
        stats = [
            (partition, stat)
            for partition, group in metadata.partition_to_write_stats.items()
            for stat in group
        ]
        replaced = isinstance(metadata, ReplaceCommitMetadata) and metadata.partition_to_replace_file_ids
        others = {(partition, stat.file_id) for partition, stat in stats if stat.log_version is None}
        return cls(
            instant=instant,
            groups=frozenset(groups_of(metadata)),
            logged=frozenset((partition, stat.file_id) for partition, stat in stats)
            - others
            - {(partition, file_id) for partition, ids in (replaced or {}).items() for file_id in ids},
            operation=metadata.operation_type or "",
            schema=metadata.extra_metadata.get(SCHEMA_KEY) or "",
            token=metadata.extra_metadata.get(TOKEN_KEY) or "",
            inserted=inserted_by(metadata),
            made=frozenset((partition, stat.file_id) for partition, stat in stats if stat.is_new_file_group),
            grown=frozenset(
                partition for partition, stat in stats if stat.num_inserts or stat.is_new_file_group
            ),
            emptied=frozenset(partition for partition, stat in stats if stat.num_deletes)
            | frozenset(partition for partition, ids in (replaced or {}).items() if ids),
        )


def groups_of(metadata: CommitMetadata) -> Iterator[Group]:
    """The file groups that a commit writes or replaces."""
    yield from metadata.file_groups
    if isinstance(metadata, ReplaceCommitMetadata):
        for partition, ids in metadata.partition_to_replace_file_ids.items():
            for file_id in ids:
                yield partition, file_id


def inserted_by(metadata: CommitMetadata) -> Inserted:
    """Base files with new rows."""
    return tuple(
        (partition, stat.file_id, stat.path)
        for partition, stats in metadata.partition_to_write_stats.items()
        for stat in stats
        if stat.num_inserts and stat.path and stat.log_version is None
    )


def news(begin: Timeline, now: Timeline) -> list[Instant]:
    """What came since: completed commits, plans, and restores in any state. Pure."""
    completed = {(item.time, item.comparable_action) for item in begin if item.completed}
    known = {item.time for item in begin}
    compactions = {item.time for item in begin if item.action is Action.COMPACTION and not item.completed}
    found = []
    for item in now:
        if item.action is Action.RESTORE:
            if item.time not in known:
                found.append(item)
        elif item.completed:
            if (
                item.action in COMMIT_ACTIONS
                and (item.time, item.action) not in completed
                and item.time not in compactions
            ):
                found.append(item)
        elif item.action in PLAN_ACTIONS and item.time not in known:
            found.append(item)
    return found
