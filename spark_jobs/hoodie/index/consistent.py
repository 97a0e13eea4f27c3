"""BUCKET, the engine CONSISTENT_HASHING: a hash ring says in which of a partition's file groups a record is.

As Apache Hudi 0.15.0 (HoodieConsistentBucketIndex): the rings are in `.hoodie/.bucket_index`
(table.hash_ring). Unlike numbered buckets they can be split and merged, each partition's by itself, by a
clustering.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from hoodie.config.key import Config
from hoodie.errors import ConfigError
from hoodie.index.hashed import HashedIndex
from hoodie.index.hashed_values import HashedValues, hash_fields, remembered
from hoodie.index.locations import Positions
from hoodie.index.settings import BUCKET_ENGINE, BUCKETS, HASH_FIELDS, BucketEngine
from hoodie.table.handle import TableRef
from hoodie.table.hash_ring import Ring, Rings
from hoodie.table.view import TimelineView

if TYPE_CHECKING:
    from typing import Self

#: with more of them two ranges may end at one hash
_MOST_BUCKETS = 1 << 15


@dataclass(frozen=True)
class ConsistentIndex(HashedIndex):
    """`buckets` is the number of ranges of a partition that has no ring yet. `renews`: the write replaces all
    file groups of its partitions.
    """

    merge_on_read_only = True
    ringed = True
    unknown = (
        "is not in that partition's hash ring. Use the index that the table was made with; a partition that "
        "Apache Hudi has overwritten, which leaves the ring as it was, has to be overwritten here"
    )

    renews: bool = False
    rings: Rings | None = None
    _known: dict[str, Ring] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def make(cls, config: Config) -> ConsistentIndex:
        buckets = config[BUCKETS]
        if buckets > _MOST_BUCKETS:
            raise ConfigError(
                f"{BUCKETS.name}={buckets} is too much for {BUCKET_ENGINE.name}="
                f"{BucketEngine.CONSISTENT_HASHING.value}; set it to at most {_MOST_BUCKETS}",
                value=buckets,
            )
        return cls(buckets, hash_fields(config))

    def opened(self, table: TableRef, snapshot: TimelineView, *, replaces: bool) -> Self:
        made = super().opened(table, snapshot, replaces=replaces)
        return replace(made, rings=Rings(table, snapshot), renews=replaces, _known={})

    @property
    def persisted(self) -> Mapping[str, str]:
        return remembered(BucketEngine.CONSISTENT_HASHING, self.buckets, self.fields)

    def load(self, partitions: Iterable[str]) -> None:
        assert self.rings is not None
        self.rings.load(partition for partition in partitions if partition not in self._known)

    def _numbers(self, partition: str, hashed: HashedValues) -> Positions:
        return self._ring(partition).place(hashed.joined_hashes()).astype(np.int32)

    def number(self, partition: str, file_id: str) -> int | None:
        return self._ring(partition).number(file_id)

    def new_file_id(self, partition: str, number: int) -> str:
        ring = self._ring(partition)
        return (ring.renewed() if self.renews else ring).nodes[number].file_id

    def advice(self, stored: Sequence[tuple[int, pa.Array[Any]]]) -> str:
        return f"set {HASH_FIELDS.name} as when the table was made"

    def _ring(self, partition: str) -> Ring:
        if partition not in self._known:
            assert self.rings is not None
            self._known[partition] = self.rings.of(partition) or Ring.first(partition, self.buckets)
        return self._known[partition]
