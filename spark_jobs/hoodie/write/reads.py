"""What a write has read of the table, and does not write: beside other writers it belongs to its window
(write.window), for the write is right only as long as it stays as it was read.

A replace reads the partitions that it replaces, also those that were empty; a delete the keys that it did not
find; an insert that leaves out known keys those that it found; a statement the rows of its query. A commit
that changes these comes before the write in the order of completion, and the write does not have it: a
conflict. What a write finds and writes is in the file groups that it writes, which the window compares.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hoodie.index import PlacingIndex, Scope
from hoodie.timeline.commit import CommitMetadata
from hoodie.write.change import Change
from hoodie.write.operation import Operation
from hoodie.write.plan import WritePlan
from hoodie.write.replace import is_named
from hoodie.write.settings import PARTITIONS_TO_DELETE
from hoodie.write.workload import WorkloadProfile


@dataclass(frozen=True, kw_only=True)
class Reads:
    """Partitions are paths.

    table: rows of the whole table. derived: they are those of a statement, which has to be evaluated again.
    replaced: partitions that are replaced, `patterns` the names with * that were asked for. missed: those in
    which keys were looked for, not found and not written. kept_out: those whose stored keys kept rows out.
    new: how many rows the index did not find, by partition. everywhere: keys are looked for in all of them.
    """

    table: bool = False
    derived: bool = False
    replaced: frozenset[str] = frozenset()
    patterns: tuple[str, ...] = ()
    missed: frozenset[str] = frozenset()
    kept_out: frozenset[str] = frozenset()
    new: Mapping[str, int] = field(default_factory=dict)
    everywhere: bool = False

    @classmethod
    def of(cls, plan: WritePlan, profile: WorkloadProfile) -> Reads:
        context, derived = plan.context, plan.request.derived
        operation = context.operation
        deleted = operation is Operation.DELETE_PARTITION
        asked = (plan.request.partitions or plan.config[PARTITIONS_TO_DELETE] or ()) if deleted else ()
        keys_missed = profile.missing and not isinstance(context.index, PlacingIndex)
        of_statement = derived is not None and derived.read is not None
        return cls(
            table=of_statement or operation is Operation.INSERT_OVERWRITE_TABLE,
            derived=of_statement,
            replaced=frozenset(
                {*profile.replaced, *profile.absent, *profile.partitions} if operation.replaces else ()
            ),
            patterns=tuple(name for name in asked if "*" in name),
            missed=frozenset(profile.listed if keys_missed else ()),
            kept_out=frozenset(profile.dropped_in),
            new={place: rows for (place, file_id), (rows, _) in profile.groups.items() if not file_id}
            if context.tags and context.looks_up
            else {},
            everywhere=context.index is not None and context.index.scope is Scope.TABLE,
        )

    def changed_by(self, change: Change, metadata: CommitMetadata | None) -> str:
        """What a commit changed of it, for people; "" for nothing. `metadata`: of the write, once it is done:
        keys that the index did not find may have been keys to delete.
        """
        if not change.of_rows or not change.groups:
            return ""
        if self.table:
            return "rows of the table, which this write has read"
        touched = {partition for partition, _ in change.groups}
        for partition in sorted(touched):
            if partition in self.replaced or any(is_named(name, partition) for name in self.patterns):
                return f"rows of partition {partition!r}, which this write replaces"
        missed = self.missed | self._unwritten(metadata)
        if found := self._meets(missed, change.grown):
            return f"keys of partition {found!r}, in which this write did not find some that it looked for"
        if found := self._meets(self.kept_out, change.emptied):
            return f"keys of partition {found!r}, of which some kept rows of this write out"
        return ""

    def _meets(self, read: frozenset[str], changed: frozenset[str]) -> str:
        both = changed if self.everywhere and read else changed & read
        return min(both, default="")

    def _unwritten(self, metadata: CommitMetadata | None) -> frozenset[str]:
        """Partitions in which fewer rows were inserted than there were new keys."""
        if metadata is None:
            return frozenset()
        stats = metadata.partition_to_write_stats
        return frozenset(
            partition
            for partition, rows in self.new.items()
            if rows > sum(stat.num_inserts for stat in stats.get(partition, ()))
        )
