"""The hash rings of a table of consistent hashing follow its commits (table.hash_ring).

A ring is written before the replacecommit that it belongs to is published, and counts once that is completed.
The first ring of a partition, which whoever makes it makes the same, is there before the first file group of
the partition is seen; one that a failed write left is used by the next.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from hoodie.config.key import Config
from hoodie.errors import AlreadyExists, CommitConflict, TableError
from hoodie.format.names import join, relative_path
from hoodie.index.settings import BUCKETS, is_consistent
from hoodie.storage import PARTIAL_SUFFIX
from hoodie.table.handle import Table
from hoodie.table.hash_ring import (
    FIRST,
    FOLDER,
    Node,
    Ring,
    Rings,
    ring_instant,
    ring_path,
    rings_folder,
)
from hoodie.table.participant import Commit, CommitParticipant
from hoodie.timeline.commit import CommitMetadata, ReplaceCommitMetadata
from hoodie.timeline.instant import Action, Instant
from hoodie.timeline.models.clustering import ClusteringPlan
from hoodie.timeline.time import InstantTime

#: extra metadata of a group in a clustering plan (BaseConsistentHashingBucketClusteringPlanStrategy)
PARTITION_KEY = "clustering.group.partition"
CHANGES_KEY = "clustering.group.child.node"
SEQUENCE_KEY = "clustering.group.sequence.no"
_WRITERS = 16
_T = TypeVar("_T")


@dataclass(frozen=True)
class RingChange:
    """What a group of a clustering plan does to the ring of a partition that was changed `sequence` times."""

    partition: str
    nodes: tuple[Node, ...]
    sequence: int

    def to_metadata(self) -> dict[str, str]:
        return {
            PARTITION_KEY: self.partition,
            CHANGES_KEY: json.dumps([node.to_change() for node in self.nodes]),
            SEQUENCE_KEY: str(self.sequence),
        }

    @classmethod
    def of(cls, metadata: Mapping[str, str] | None) -> RingChange | None:
        """None for a group of another strategy. Raises TableError for what is torn."""
        if not metadata or CHANGES_KEY not in metadata:
            return None
        try:
            nodes = tuple(map(Node.from_record, json.loads(metadata[CHANGES_KEY])))
            partition = relative_path(metadata[PARTITION_KEY], PARTITION_KEY)
            return cls(partition, nodes, int(metadata[SEQUENCE_KEY]))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise TableError(
                f"a group of a clustering plan has no nodes of a hash ring ({error}); roll the plan back "
                "(hoodie cancel), and schedule a new one"
            ) from error


def ring_changes(plan: ClusteringPlan) -> list[RingChange]:
    """Those of all groups; none where the plan is for another table than one of consistent hashing."""
    found = (RingChange.of(group.extra_metadata) for group in plan.groups)
    return [change for change in found if change is not None]


class HashRings(CommitParticipant):
    """Of the rings of all tables: one of another index has none, which costs no request."""

    def __init__(self, config: Config) -> None:
        self._wanted = is_consistent(config)
        self._buckets: int = config[BUCKETS]

    def prepare(self, commit: Commit) -> None:
        for info in commit.rolled_back:
            if info.action in (Action.REPLACECOMMIT.value, Action.CLUSTERING.value):
                _forget(commit.table, info.time)
        metadata, table = commit.metadata, commit.table
        if not isinstance(metadata, CommitMetadata) or not self._ringed(table):
            return
        if not isinstance(metadata, ReplaceCommitMetadata):
            if commit.instant.action is Action.DELTACOMMIT:
                self._begin(table, _new_groups(metadata))
            return
        time, storage = commit.instant.time, table.storage
        plan = table.timeline.clustering_plan(commit.instant, storage)
        if plan is None:
            changed = self._renewed(table, time, metadata)
        else:
            changed = clustered_rings(Rings(table.ref, table.view), ClusteringPlan.from_record(plan), time)
        _at_once(lambda ring: _write(table, ring), changed)

    def undo(self, table: Table, instant: Instant) -> None:
        if instant.action is not Action.SAVEPOINT and self._ringed(table):  # else the ring is its commit's
            _forget(table, instant.time)

    def _ringed(self, table: Table) -> bool:
        return self._wanted or table.timeline.holds(FOLDER.partition("/")[0])

    def _begin(self, table: Table, new: Mapping[str, Sequence[str]]) -> None:
        """Make the first rings of partitions with new file groups that have none."""
        if self._wanted:
            _at_once(lambda partition: self._begin_one(table, partition, new[partition]), new)

    def _begin_one(self, table: Table, partition: str, file_ids: Sequence[str]) -> None:
        storage, ring = table.storage, Ring.first(partition, self._buckets)
        if any(map(ring_instant, storage.names(join(rings_folder(table.base_path), partition)))):
            return
        path = ring_path(table.base_path, partition, FIRST)
        try:
            storage.create(path, ring.to_json())
        except AlreadyExists:
            found = Ring.parse(storage.read(path), partition, path)
            if any(found.number(file_id) is None for file_id in file_ids):
                raise CommitConflict(
                    f"another writer has made the hash ring of partition {partition!r} meanwhile, with "
                    "another number of buckets; run this write again",
                    path=path,
                    partition=partition,
                ) from None

    def _renewed(self, table: Table, time: InstantTime, metadata: ReplaceCommitMetadata) -> list[Ring]:
        """The rings of partitions whose file groups a write replaces, or brings."""
        new, gone = _new_groups(metadata), metadata.partition_to_replace_file_ids
        rings = Rings(table.ref, table.view)
        rings.load({*new, *gone})
        found = []
        for partition in sorted({*new, *gone}):
            ring = rings.of(partition)
            if ring is None and not self._wanted:
                continue
            ring = ring or Ring.first(partition, self._buckets)
            renewed = ring.renewed(time)
            used = any(renewed.number(file_id) is not None for file_id in new.get(partition, ()))
            if used or any(ring.number(file_id) is not None for file_id in gone.get(partition, ())):
                found.append(renewed)
        return found


def clustered_rings(rings: Rings, plan: ClusteringPlan, time: InstantTime) -> list[Ring]:
    """Those of the plan's partitions once it is executed at an instant. Raises CommitConflict where others
    have changed them since the plan was made.
    """
    changes, found = ring_changes(plan), []
    for partition in sorted({change.partition for change in changes}):
        ring = rings.of(partition)
        mine = [change for change in changes if change.partition == partition]
        if ring is None or any(change.sequence != ring.sequence for change in mine):
            raise CommitConflict(
                f"the hash ring of partition {partition!r} was changed since clustering {time} was "
                "scheduled; roll that clustering back and schedule a new one",
                instant=time,
                partition=partition,
            )
        found.append(ring.changed((node for change in mine for node in change.nodes), time))
    return found


def _new_groups(metadata: CommitMetadata) -> dict[str, list[str]]:
    """File ids of new file groups by partition."""
    found: dict[str, list[str]] = {}
    for partition, stats in metadata.partition_to_write_stats.items():
        ids = [stat.file_id for stat in stats if stat.is_new_file_group and stat.file_id]
        if ids:
            found[partition] = ids
    return found


def _write(table: Table, ring: Ring) -> None:
    """Of a service's plan it may be there, whole or unfinished, from an earlier attempt."""
    path = ring_path(table.base_path, ring.partition, ring.instant)
    table.storage.sweep_partial(path.rpartition("/")[0], of=f"{ring.instant}.")
    table.storage.write(path, ring.to_json())


def _forget(table: Table, time: InstantTime) -> None:
    """Delete the rings of an instant that is not completed, or no longer, and what a writer left unfinished:
    a service may be at work beside this.
    """
    storage, files = table.storage, table.storage.tree(rings_folder(table.base_path))
    storage.delete_many([file.path for file in files if ring_instant(file.name) == time])
    unfinished = {file.path.rpartition("/")[0] for file in files if file.name.endswith(PARTIAL_SUFFIX)}
    for folder in unfinished:
        for instant in (time, FIRST):
            storage.sweep_partial(folder, of=f"{instant}.")


def _at_once(work: Callable[[_T], object], items: Iterable[_T]) -> None:
    with ThreadPoolExecutor(_WRITERS) as pool:
        for _ in pool.map(work, items):
            pass
