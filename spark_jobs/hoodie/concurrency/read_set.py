"""What a write reads of the table and does not write. A commit of another writer that changes it conflicts
with the write (concurrency.conflict_resolution): the write is right only while it stays as it was read.

- A replace reads the partitions that it replaces, empty ones included.
- A delete reads the keys that it did not find.
- An insert that leaves out known keys reads those that it found.
- A statement reads the rows of its query.

What a write finds and writes is in the file groups that it writes, which are compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hoodie.concurrency.changes import Change
from hoodie.table.partition import is_matched
from hoodie.timeline.commit import CommitMetadata


@dataclass(frozen=True, kw_only=True)
class ReadSet:
    """Partitions are paths.

    table: rows of the whole table. derived: they are those of a statement, which has to be evaluated again.
    replaced: partitions that are replaced, `patterns` the names with * that were asked for. missed: those in
    which keys were looked for, not found and not written. excluding: those whose stored keys kept rows out.
    new: how many rows the index did not find, by partition. everywhere: keys are looked for in all of them.
    """

    table: bool = False
    derived: bool = False
    replaced: frozenset[str] = frozenset()
    patterns: tuple[str, ...] = ()
    missed: frozenset[str] = frozenset()
    excluding: frozenset[str] = frozenset()
    new: Mapping[str, int] = field(default_factory=dict)
    everywhere: bool = False

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
            if partition in self.replaced or any(is_matched(name, partition) for name in self.patterns):
                return f"rows of partition {partition!r}, which this write replaces"
        missed = self.missed | self._unwritten(metadata)
        if found := self._meets(missed, change.grown):
            return f"keys of partition {found!r}, in which this write did not find some that it looked for"
        if found := self._meets(self.excluding, change.emptied):
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
