"""A key that is stored in several file groups, as inserts leave it: a write changes each, as Apache Hudi
does. But for those that a log has deleted since, where the index finds the key in the base file still: such a
row is not there, and would come back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from hoodie.codec.arrays import Bools, Ints, array, whole
from hoodie.format.base_file import READ_BATCH_ROWS
from hoodie.index.locations import Positions
from hoodie.table.skeleton import open_base
from hoodie.table.view import BaseFile, FileSlice
from hoodie.write.context import WriteContext
from hoodie.write.duplicates import known_keys
from hoodie.write.hits import Hits
from hoodie.write.workload import slice_from_json


@dataclass(frozen=True)
class Copies:
    """`slices`: (partition, slice as JSON) by label."""

    context: WriteContext
    slices: tuple[tuple[str, Any], ...]

    def shown(self, hits: Hits) -> Hits:
        """Those of the hits, which are in order, whose rows are there; of a row of which none is, the
        youngest.

        Opens slices with logs that have a key of several. Memory: the keys of one base file, and as
        `read_slice`.
        """
        followed = hits.followed
        if not followed.any():
            return hits
        several: Bools = followed.copy()
        several[1:] |= followed[:-1]
        there: Bools = np.ones(len(hits.rows), dtype=np.bool_)
        asked = several & (hits.stored >= 0) & (hits.labels < len(self.slices))
        for label in np.unique(hits.labels[asked]).tolist():
            partition, value = self.slices[label]
            slice_ = slice_from_json(self.context.base_path, partition, value)
            if slice_.logs and slice_.base is not None:
                mine = np.flatnonzero(asked & (hits.labels == label))
                there[mine] = self._live(slice_, slice_.base, hits.stored[mine])
        if there.all():
            return hits
        lasts = np.flatnonzero(~followed)
        none_left = ~np.logical_or.reduceat(there, np.concatenate([[0], lasts[:-1] + 1]))
        there[lasts[none_left]] = True
        return hits.kept(there)

    def _live(self, slice_: FileSlice, base: BaseFile, rows: Positions) -> Bools:
        storage = self.context.table.storage()
        with open_base(storage, base, None) as reader:
            stored = pa.chunked_array(
                [whole(keys) for keys in reader.record_keys(READ_BATCH_ROWS)], pa.string()
            )
        keys: Any = whole(stored.take(array(rows.astype(np.int64))))
        return known_keys(self.context.slices, storage, [slice_], keys, np.zeros(len(rows), dtype=np.int32))


def again(hits: Hits, away: Bools) -> tuple[Bools, Bools]:
    """Which of the hits, in order, are not the first of their row, among those in the row's own partition,
    and which of those `away` are not the only sign that their row is stored.
    """
    firsts = np.zeros(len(hits.rows), dtype=np.bool_)
    firsts[_first(hits.rows, np.flatnonzero(~away))] = True
    at_home = np.isin(hits.rows, hits.rows[~away])
    lone = np.zeros(len(hits.rows), dtype=np.bool_)
    lone[_first(hits.rows, np.flatnonzero(away & ~at_home))] = True
    return ~away & ~firsts, away & ~lone


def _first(rows: Positions, places: Ints) -> Ints:
    """Those of the places, ascending, that are the first of their row."""
    if not len(places):
        return places
    mine = rows[places]
    found: Ints = places[np.concatenate([[True], mine[1:] != mine[:-1]])]
    return found
