"""The two engines of the BUCKET index, as far as they are one: a key is placed by its hash.

Apache Hudi 1.x hashes some keys otherwise than 0.15.0 (hashed_values). A table of version 6 may have been
written by both, and one of version 8 or 9 may have been upgraded from there. In such tables the keys that
have two buckets are looked up, no others. A stored key stays in the bucket that it is in, a new one gets that
of the hash of the table's version. A key that both buckets contain is refused.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from hoodie.codec.arrays import Bools, Ints, array, pc
from hoodie.errors import TableError
from hoodie.format.bloom import KeyHashes
from hoodie.index import PlacingIndex
from hoodie.index.hashed_values import HashedValues, Hashing
from hoodie.index.locations import KeySearch, Positions, may_contain
from hoodie.table.commit_keys import logged_keys
from hoodie.table.handle import TableRef
from hoodie.table.skeleton import open_base
from hoodie.table.view import FileSlice, TimelineView, merged_slices

if TYPE_CHECKING:
    from typing import Self


@dataclass(frozen=True)
class HashedIndex(PlacingIndex):
    """`fields` are those of the record key that are hashed. `stored`: where keys of two buckets are looked
    up; None where no key is.
    """

    buckets: int
    fields: tuple[str, ...]
    hashing: Hashing = field(default_factory=Hashing)
    stored: StoredKeys | None = field(default=None, compare=False, repr=False)
    _doubted: set[str] = field(default_factory=set, compare=False, repr=False)

    @abstractmethod
    def _numbers(self, partition: str, hashed: HashedValues) -> Positions:
        """The number of each key's file group by its hash."""

    @property
    def depends_on_files(self) -> bool:
        return bool(self._doubted)

    def for_table(self, properties: Mapping[str, str]) -> Self:
        return replace(self, hashing=Hashing.of(properties), _doubted=set())

    def opened(self, table: TableRef, snapshot: TimelineView, *, replaces: bool) -> Self:
        looks = self.hashing.either and not replaces and snapshot.last_commit is not None
        return replace(self, stored=StoredKeys(table, snapshot) if looks else None, _doubted=set())

    def place(self, partition: str, keys: pa.Array[Any]) -> Positions:
        numbers, places, others = self._both(partition, keys)
        if len(places):
            self._doubted.add(partition)
            if self.stored is not None:
                some = keys.take(array(places))
                numbers[places] = self.stored.choose(self, partition, some, numbers[places], others)
        return numbers

    def belong(self, partition: str, keys: pa.Array[Any], number: int) -> Bools:
        numbers, places, others = self._both(partition, keys)
        found: Bools = numbers == number
        found[places] |= others == number
        return found

    def _both(self, partition: str, keys: pa.Array[Any]) -> tuple[Positions, Ints, Positions]:
        """(numbers, places of the keys that have another one by the other rule, these)."""
        hashed = HashedValues.of(keys, self.fields, self.hashing.rule)
        numbers, places = self._numbers(partition, hashed), hashed.doubtful
        if not self.hashing.either or not len(places):
            return numbers, places[:0], numbers[:0]
        others = self._numbers(partition, hashed.of_doubtful(self.fields, self.hashing.rule.other))
        differ = others != numbers[places]
        return numbers, places[differ], others[differ]


@dataclass(frozen=True)
class StoredKeys:
    """Finds keys in the file groups of a table, as a view of its timeline shows them. The threads of a
    process may share this.
    """

    table: TableRef
    snapshot: TimelineView
    _slices: dict[str, list[FileSlice]] = field(default_factory=dict, compare=False, repr=False)

    def choose(
        self, index: PlacingIndex, partition: str, keys: pa.Array[Any], first: Positions, other: Positions
    ) -> Positions:
        """The number of each key's file group: `other` where that contains the key, else `first`. Raises
        TableError for a key that both contain.
        """
        coded: Any = keys.dictionary_encode()
        codes = coded.indices.to_numpy()
        _, at = np.unique(codes, return_index=True)
        found = self._among(index, partition, coded.dictionary, other[at])
        if found.any():
            away: Any = coded.dictionary.filter(array(found))
            twice = self._among(index, partition, away, first[at][found])
            if twice.any():
                place = np.flatnonzero(found)[twice][0]
                raise _twice(
                    str(coded.dictionary[place].as_py()), partition, first[at[place]], other[at[place]]
                )
        return np.where(found[codes], other, first).astype(np.int32)

    def _among(self, index: PlacingIndex, partition: str, keys: pa.Array[Any], numbers: Positions) -> Bools:
        """Is each of distinct keys in the file group of its number."""
        found = np.zeros(len(keys), dtype=np.bool_)
        for slice_ in self._of(partition):
            mine = np.flatnonzero(numbers == index.number(partition, slice_.file_id))
            if len(mine):
                found[mine] |= self._contains(slice_, keys.take(array(mine)))
        return found

    def _of(self, partition: str) -> Sequence[FileSlice]:
        if partition not in self._slices:
            self._slices[partition] = merged_slices(self.snapshot, self.table.listing().files, partition)
        return self._slices[partition]

    def _contains(self, slice_: FileSlice, keys: pa.Array[Any]) -> Bools:
        """Has the base file, or a log, rows of these keys."""
        found, storage = np.zeros(len(keys), dtype=np.bool_), self.table.storage()
        if slice_.base is not None:
            search = KeySearch(keys)
            with open_base(storage, slice_.base, None) as reader:
                if may_contain(reader, keys, KeyHashes(keys)):
                    search.look(reader, 0)
            found[search.locations().keys] = True
        for logged in logged_keys(storage, slice_, self.snapshot) if slice_.logs else ():
            found |= np.asarray(pc.is_in(keys, value_set=logged), dtype=np.bool_)
        return found


def _twice(key: str, partition: str, first: int, other: int) -> TableError:
    return TableError(
        f"key {key!r} of partition {partition!r} is in bucket {first} and in bucket {other}: Apache Hudi "
        "0.15.0 and 1.x hash it otherwise, and each of them has inserted it. Write the partition anew with "
        "each key once (insert_overwrite)",
        partition=partition,
        key=key,
    )
