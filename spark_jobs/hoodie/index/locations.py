"""Where keys are stored, and the exact look into base files that indexes end with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.codec.arrays import whole
from hoodie.format.base_file import READ_BATCH_ROWS, BaseFileReader
from hoodie.format.bloom import KeyHashes
from hoodie.format.key_range import in_range
from hoodie.table.handle import TableRef
from hoodie.table.skeleton import open_base
from hoodie.table.view import FileSlice

Positions = npt.NDArray[np.int32]

#: what stands for a slice or a row where a key is not stored; `Locations` have no entry for such a key
NOWHERE = -1
#: a row of `Locations` that the writer looks up by the key: the index does not know it, or there are several
LOOK_UP = -2


@dataclass(frozen=True)
class Locations:
    """The answer of `Index.locate`: entry i says that a key is stored in a slice.

    `keys` and `slices` hold positions in the arguments of `locate`, `rows` the row in the slice's base file
    or LOOK_UP. A key has one entry for every slice that contains it, and none if it is not stored.
    """

    keys: Positions
    slices: Positions
    rows: Positions

    @classmethod
    def of(cls, found: Sequence[tuple[int, Positions, Positions]]) -> Locations:
        """From (slice, keys, rows) of every slice."""
        if not found:
            none = np.empty(0, dtype=np.int32)
            return cls(none, none, none)
        slices = [np.full(len(keys), number, dtype=np.int32) for number, keys, _ in found]
        keys, rows = [item[1] for item in found], [item[2] for item in found]
        return cls(np.concatenate(keys), np.concatenate(slices), np.concatenate(rows))

    def last(self, keys: int) -> tuple[Positions, Positions]:
        """(slice, row) of each key: of several slices the last, NOWHERE for a key that is not stored."""
        slices, rows = np.full(keys, NOWHERE, dtype=np.int32), np.full(keys, NOWHERE, dtype=np.int32)
        order: Any = (
            slice(None) if (np.diff(self.slices) >= 0).all() else np.argsort(self.slices, kind="stable")
        )
        slices[self.keys[order]] = self.slices[order]
        rows[self.keys[order]] = self.rows[order]
        return slices, rows


#: a key column larger than this (bytes, uncompressed) is looked at in batches, smaller ones together
_WHOLE_COLUMN_BYTES = 64 << 20


class KeySearch:
    """The exact look for distinct keys in base files, one after the other.

    Stored keys are compared once there are as many as keys that are looked for: each comparison hashes all of
    those. Memory: twelve bytes a key that is found, and key columns up to 64 MiB, or a batch of one.
    """

    def __init__(self, keys: pa.Array[Any]) -> None:
        self._keys = keys
        self._rows: Positions = np.full(len(keys), NOWHERE, dtype=np.int32)
        self._found: list[tuple[int, Positions, Positions]] = []
        #: stored keys that are not compared yet: number of the slice, row of the first, keys
        self._waiting: list[tuple[int, int, pa.Array[Any]]] = []
        self._waiting_rows = self._waiting_bytes = 0
        #: of the slice that is compared: its number, the keys that its batches have, whether one has two rows
        self._number = NOWHERE
        self._pieces: list[Positions] = []
        self._repeated = False

    def look(self, reader: BaseFileReader, number: int) -> None:
        """Search the base file of the slice `number`; each slice once."""
        size = reader.key_column_bytes()
        if self._waiting_bytes + size > _WHOLE_COLUMN_BYTES:
            self._compare()
        start = 0
        for stored in reader.record_keys(READ_BATCH_ROWS if size > _WHOLE_COLUMN_BYTES else None):
            self._waiting.append((number, start, whole(stored)))
            self._waiting_rows += len(stored)
            start += len(stored)
            if self._waiting_rows >= len(self._keys) or size > _WHOLE_COLUMN_BYTES:
                self._compare()
        self._waiting_bytes += size if self._waiting else 0

    def locations(self) -> Locations:
        self._compare()
        self._finish()
        return Locations.of(self._found)

    def _compare(self) -> None:
        if not self._waiting:
            return
        stored: Any = pa.chunked_array([keys for _, _, keys in self._waiting])
        hits: Any = pc.index_in(stored, value_set=self._keys)
        places, first = whole(hits.fill_null(NOWHERE)).to_numpy(), 0
        for number, start, keys in self._waiting:
            if number != self._number:
                self._finish()
                self._number = number
            self._add(start, places[first : first + len(keys)])
            first += len(keys)
        self._waiting, self._waiting_rows, self._waiting_bytes = [], 0, 0

    def _add(self, start: int, places: Positions) -> None:
        rows = np.flatnonzero(places != NOWHERE)
        found = places[rows]
        again = self._rows[found] != NOWHERE
        self._rows[found] = start + rows
        again |= self._rows[found] != start + rows
        self._rows[found[again]] = LOOK_UP
        self._repeated = self._repeated or bool(again.any())
        self._pieces.append(found)

    def _finish(self) -> None:
        keys = np.concatenate(self._pieces) if self._pieces else np.empty(0, dtype=np.int32)
        keys = np.unique(keys) if self._repeated else keys
        if len(keys):
            self._found.append((self._number, keys, self._rows[keys]))
            self._rows[keys] = NOWHERE
        self._pieces, self._repeated = [], False


def may_contain(
    reader: BaseFileReader, keys: pa.Array[Any], hashes: KeyHashes, by_ranges: bool = True
) -> bool:
    """Whether a base file may contain one of the keys, by its footer: bloom filter and, `by_ranges`, bounds
    of its keys.
    """
    mask = None
    bounds = reader.key_bounds() if by_ranges else None
    if bounds is not None:
        mask = in_range(keys, *bounds)
        if not mask.any():
            return False
    bloom = reader.bloom()
    return bloom is None or bloom.any_might_contain(hashes, mask)


def search_slices(table: TableRef, slices: Sequence[FileSlice], keys: pa.Array[Any]) -> Locations:
    """Where the keys are in the base files of all these slices."""
    storage, search = table.storage(), KeySearch(keys)
    for number, slice_ in enumerate(slices):
        if slice_.base is not None:
            with open_base(storage, slice_.base, None) as reader:
                search.look(reader, number)
    return search.locations()
