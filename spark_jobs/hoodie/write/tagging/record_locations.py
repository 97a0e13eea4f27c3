"""What the index found among the rows of a blob, on its way from the tasks that asked it to those that place
the rows.

A key that is stored in several file groups, as inserts leave it: a write changes each, as Apache Hudi
does. But for those that a log has deleted since, where the index finds the key in the base file still: such a
row is not there, and would come back.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from hoodie.codec.arrays import Bools, Ints, array, whole
from hoodie.format.base_file import READ_BATCH_ROWS
from hoodie.index.locations import Positions
from hoodie.table.skeleton import open_base
from hoodie.table.view import BaseFile, FileSlice
from hoodie.write.assign.workload import slice_from_json
from hoodie.write.context import WriteContext
from hoodie.write.input.delete_keys import known_keys

_COUNT = struct.Struct("<q")
#: more than there are labels
_LABELS = 1 << 31
_MOVED: dict[str, pa.DataType] = {
    "row": pa.int32(),
    "label": pa.int32(),
    "code": pa.int32(),
    "gone": pa.bool_(),
}
#: hits in another partition than their row's, as `RecordLocations.moved` has them
MOVED_SCHEMA = pa.schema(_MOVED)
#: of `RecordLocations.moved`: a struct of the stored row's columns that the merger compares
STORED_VALUES = "values"


@dataclass(frozen=True)
class RecordLocations:
    """Rows of a blob that the index found, the label of the slice of each (see `Tags`), its row there; a row
    whose key is in several slices once for each.

    `moved` has those found in another partition than their own: row and label, the number of their own
    partition, whether a log has deleted the stored row since, so that they are new rows, and, where the
    merger compares, what it compares of the stored row.
    """

    rows: Positions
    labels: Positions
    stored: Positions
    moved: pa.Table | None = None

    @classmethod
    def none(cls) -> RecordLocations:
        nothing = np.empty(0, dtype=np.int32)
        return cls(nothing, nothing, nothing)

    @classmethod
    def joined(cls, parts: Sequence[RecordLocations]) -> RecordLocations:
        rows, labels, stored = (
            np.concatenate([getattr(part, name) for part in parts]) for name in ("rows", "labels", "stored")
        )
        moved = [part.moved for part in parts if part.moved is not None]
        return cls(rows, labels, stored, pa.concat_tables(moved) if moved else None)

    def to_bytes(self) -> bytes:
        data = np.concatenate([self.rows, self.labels, self.stored]).astype("<i4").tobytes()
        if self.moved is None:
            return _COUNT.pack(len(self.rows)) + data
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, self.moved.schema) as stream:
            stream.write_table(self.moved)
        return _COUNT.pack(len(self.rows)) + data + sink.getvalue().to_pybytes()

    @classmethod
    def from_bytes(cls, data: bytes) -> RecordLocations:
        (count,) = _COUNT.unpack_from(data)
        end = _COUNT.size + 12 * count
        rows, labels, stored = np.frombuffer(data[_COUNT.size : end], dtype="<i4").reshape(3, -1)
        rest = data[end:]
        return cls(rows, labels, stored, pa.ipc.open_stream(rest).read_all() if rest else None)

    def by_row(self) -> RecordLocations:
        """Ordered by row."""
        return self.take(np.argsort(self.rows, kind="stable"), self.moved)

    def by_label(self) -> RecordLocations:
        return self.take(np.lexsort((self.rows, self.labels)), self.moved)

    def between(self, start: int, end: int, rows: Positions) -> RecordLocations:
        """Those of the rows from `start` to before `end`, with other numbers: `rows` has that of each row.

        The hits are ordered by row.
        """
        first, last = np.searchsorted(self.rows, (start, end))
        moved = self.moved
        if moved is not None:
            at = numbers(moved, "row")
            moved = moved.filter(array((at >= start) & (at < end)))
            named = array(rows[numbers(moved, "row")])
            moved = moved.set_column(0, "row", named) if moved.num_rows else None
        mine = slice(first, last)
        return RecordLocations(rows[self.rows[mine]], self.labels[mine], self.stored[mine], moved)

    def in_order(self) -> RecordLocations:
        """Ordered by row and label: of a row in several slices the youngest is the last."""
        moved = self.moved
        if moved is not None:
            moved = moved.take(array(np.lexsort((numbers(moved, "label"), numbers(moved, "row")))))
        return self.take(np.lexsort((self.labels, self.rows)), moved)

    @property
    def followed(self) -> Bools:
        """Which are followed by another one of the same row; the hits are in order."""
        found = np.zeros(len(self.rows), dtype=np.bool_)
        found[:-1] = self.rows[1:] == self.rows[:-1]
        return found

    @property
    def pairs(self) -> Ints:
        """Row and label of each in one number."""
        return paired(self.rows, self.labels)

    def filter(self, mask: Bools) -> RecordLocations:
        """Those where the mask is true, in `moved`, too."""
        moved = self.moved
        if moved is not None:
            pairs = paired(numbers(moved, "row"), numbers(moved, "label"))
            moved = moved.filter(array(np.isin(pairs, self.pairs[mask])))
        return self.take(mask, moved)

    def without(self, rows: Positions) -> RecordLocations:
        """All but those of these rows, and none of `moved`."""
        return self.take(~np.isin(self.rows, rows))

    def take(self, order: Any, moved: pa.Table | None = None) -> RecordLocations:
        """Those at these places, or where a mask is true, with `moved`."""
        kept = moved if moved is not None and moved.num_rows else None
        return RecordLocations(self.rows[order], self.labels[order], self.stored[order], kept)


def paired(rows: Positions, labels: Positions) -> Ints:
    return rows.astype(np.int64) * _LABELS + labels


def numbers(moved: pa.Table, name: str) -> Positions:
    """A column of `RecordLocations.moved`."""
    values: Positions = moved.column(name).to_numpy()
    return values


def gone(moved: pa.Table) -> Bools:
    values: Bools = moved.column("gone").to_numpy()
    return values


@dataclass(frozen=True)
class Copies:
    """`slices`: (partition, slice as JSON) by label."""

    context: WriteContext
    slices: tuple[tuple[str, Any], ...]

    def shown(self, hits: RecordLocations) -> RecordLocations:
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
        return hits.filter(there)

    def _live(self, slice_: FileSlice, base: BaseFile, rows: Positions) -> Bools:
        storage = self.context.table.storage()
        with open_base(storage, base, None) as reader:
            stored = pa.chunked_array(
                [whole(keys) for keys in reader.record_keys(READ_BATCH_ROWS)], pa.string()
            )
        keys: Any = whole(stored.take(array(rows.astype(np.int64))))
        return known_keys(self.context.slices, storage, [slice_], keys, np.zeros(len(rows), dtype=np.int32))


def again(hits: RecordLocations, away: Bools) -> tuple[Bools, Bools]:
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
